"""Studies as jobs of a cluster: at most one job at a time for each study's name, with numbered attempts."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tune_cd.submit.submission import Submission

PREFIX = "tune_cd"
ALIVE = ("PENDING", "RUNNING")
STOPPED_STATUS = 143  # exit status after SIGTERM; Ray keeps none of a job that was stopped
POLL_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class Job:
    """One attempt at a study. began, ended: Unix times in s; code: its exit status, None where Ray does not know it."""

    id: str
    study: str
    attempt: int
    status: str  # PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED
    began: float | None
    ended: float | None
    code: int | None
    message: str  # Ray's; for a failed job it contains the end of the log
    metadata: dict[str, str]

    @property
    def alive(self) -> bool:
        return self.status in ALIVE

    @property
    def exit_status(self) -> int | None:
        return STOPPED_STATUS if self.code is None and self.status == "STOPPED" else self.code

    @property
    def owner(self) -> str:
        user, at, workers = (self.metadata.get(name, "?") for name in ("user", "submitted_at", "workers"))
        return f"{user}, submitted at {at}, {workers} workers, {self.status}"


def submission_id(study: str, attempt: int) -> str:
    """Ray's name of an attempt. It accepts a name once, so one of two simultaneous starts fails. A study's name has no
    ~."""
    return f"{PREFIX}~{study}~{attempt}"


def job_of(details) -> Job | None:
    """Ray's JobDetails as a Job; None if it is not a study."""
    parts = (details.submission_id or "").split("~")
    if len(parts) != 3 or parts[0] != PREFIX or not parts[2].isdecimal():
        return None
    began, ended = (None if at is None else at / 1000 for at in (details.start_time, details.end_time))
    return Job(
        details.submission_id, parts[1], int(parts[2]), str(details.status), began, ended,
        details.driver_exit_code, details.message or "", dict(details.metadata or {}),
    )  # fmt: skip


def all_jobs(client) -> list[Job]:
    """Every attempt at every study, the latest submitted first."""
    found = [job for job in map(job_of, client.list_jobs()) if job is not None]
    return sorted(found, key=lambda job: (job.began or 0.0, job.attempt), reverse=True)


def attempts(client, study: str) -> list[Job]:
    """The attempts at a study, the last one first. Raises ValueError naming the known studies if there is none."""
    jobs = all_jobs(client)
    found = sorted((job for job in jobs if job.study == study), key=lambda job: -job.attempt)
    if not found:
        known = ", ".join(dict.fromkeys(job.study for job in jobs)) or "none"
        raise ValueError(f"no study {study!r} was submitted to this cluster; there are {known}")
    return found


def latest_of_each(jobs: list[Job]) -> list[Job]:
    """The last attempt at each study, in the jobs' order."""
    last = {job.study: job for job in sorted(jobs, key=lambda job: job.attempt)}
    return [job for job in jobs if job is last[job.study]]


def start(client, submission: Submission) -> Job:
    """Submit a study's next attempt. Raises ValueError naming the owner of a running one, RuntimeError if the cluster
    refuses."""
    earlier = _earlier(client, submission.study)
    attempt = 1 + max((job.attempt for job in earlier), default=0)
    name = submission_id(submission.study, attempt)
    options = [option for job in earlier for option in json.loads(job.metadata.get("options", "[]"))]
    try:
        client.submit_job(
            entrypoint=submission.entrypoint, submission_id=name, runtime_env=submission.runtime_env,
            metadata=submission.metadata(attempt, options), entrypoint_num_cpus=0,
        )  # fmt: skip
    except RuntimeError:
        _earlier(client, submission.study)  # another user may have started it meanwhile
        raise
    return job_of(client.get_job_info(name))


def _earlier(client, study: str) -> list[Job]:
    """The attempts at a study in order. Raises ValueError if one has not ended."""
    found = sorted((job for job in all_jobs(client) if job.study == study), key=lambda job: job.attempt)
    for job in found:
        if job.alive:
            raise ValueError(
                f"study {study!r} is running ({job.owner}): `python -m tune_cd.submit logs {study} -f` follows it, "
                "`stop` ends it"
            )
    return found


def wait(
    client, jobs: Sequence[Job], seconds: float = float("inf"), sleep: Callable[[float], None] = time.sleep
) -> dict[Job, tuple[Job, float]]:
    """Wait for all jobs to end: job -> (the ended job, after how many seconds). Raises TimeoutError after `seconds`."""
    began, ended = time.monotonic(), {}
    while True:
        for job in jobs:
            if job not in ended and not (now := job_of(client.get_job_info(job.id))).alive:
                ended[job] = now, time.monotonic() - began
        running = [job.study for job in jobs if job not in ended]
        if not running:
            return ended
        if time.monotonic() - began >= seconds:
            raise TimeoutError(f"study {running[0]!r} has not ended within {seconds:.0f} s")
        sleep(POLL_SECONDS)
