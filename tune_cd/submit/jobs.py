"""Studies as a cluster's jobs: one name is one job at a time, its attempts are numbered."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tune_cd.submit.request import ENDED, STOP_SECONDS, Request

PREFIX = "tune_cd"
ALIVE = ("PENDING", "RUNNING")
POLL_SECONDS = 1.0
STOP_PATIENCE = STOP_SECONDS + 30.0  # seconds after which Ray must have ended a job one way or the other


@dataclass(frozen=True, eq=False)
class Job:
    """An attempt at a study. began, ended: Unix times in s; code: its exit status, None while it runs and where Ray does not know it."""

    id: str
    study: str
    attempt: int
    status: str  # PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED
    began: float | None
    ended: float | None
    code: int | None
    message: str
    metadata: dict[str, str]

    @property
    def alive(self) -> bool:
        return self.status in ALIVE

    @property
    def who(self) -> str:
        said = self.metadata
        return f"{said.get('user', '?')}, submitted at {said.get('submitted_at', '?')}, {said.get('workers', '?')} workers, {self.status}"


def submission_id(study: str, attempt: int) -> str:
    """Ray has each only once, so two that start a study at the same moment cannot both succeed. No name of a study has a ~."""
    return f"{PREFIX}~{study}~{attempt}"


def job_of(details) -> Job | None:
    """What Ray says of a job (its JobDetails); None for one that is no study."""
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
    """The attempts at a study, the last one first. Raises ValueError naming the studies there are if there is none."""
    jobs = all_jobs(client)
    found = sorted((job for job in jobs if job.study == study), key=lambda job: -job.attempt)
    if not found:
        known = list(dict.fromkeys(job.study for job in jobs))
        raise ValueError(f"no study {study!r} was submitted to this cluster; there are {', '.join(known) or 'none'}")
    return found


def latest_of_each(jobs: list[Job]) -> list[Job]:
    """The last attempt at each study, in the jobs' order."""
    last: dict[str, Job] = {}
    for job in jobs:
        if job.study not in last or job.attempt > last[job.study].attempt:
            last[job.study] = job
    return sorted(last.values(), key=jobs.index)


def start(client, request: Request) -> Job:
    """Queue the study. Raises ValueError naming who runs it already, RuntimeError where the cluster refuses."""
    earlier = [job for job in all_jobs(client) if job.study == request.study]
    _refuse_double(request.study, earlier)
    attempt = 1 + max((job.attempt for job in earlier), default=0)
    name = submission_id(request.study, attempt)
    try:
        client.submit_job(
            entrypoint=request.entrypoint, submission_id=name, runtime_env=request.runtime_env,
            metadata=request.metadata(attempt), entrypoint_num_cpus=0,
        )  # fmt: skip
    except RuntimeError:
        _refuse_double(
            request.study, [job for job in all_jobs(client) if job.study == request.study]
        )  # begun meanwhile by someone else
        raise
    return job_of(client.get_job_info(name))


def _refuse_double(study: str, jobs: list[Job]) -> None:
    for job in jobs:
        if job.alive:
            raise ValueError(
                f"study {study!r} is under way ({job.who}): `python -m tune_cd.submit logs {study} -f` follows it, `stop` ends it"
            )


def stop(client, job: Job) -> None:
    """Ask for an end in good order; does not wait for it."""
    client.stop_job(job.id)


def wait(client, job: Job, seconds: float = float("inf"), sleep: Callable[[float], None] = time.sleep) -> Job:
    """The job as it has ended. Raises TimeoutError if it goes on for longer."""
    deadline = time.monotonic() + seconds
    while True:
        now = job_of(client.get_job_info(job.id))
        if not now.alive:
            return now
        if time.monotonic() >= deadline:
            raise TimeoutError(f"study {job.study!r} has not ended within {seconds:.0f} s")
        sleep(POLL_SECONDS)


def exit_status(job: Job, log: str) -> int | None:
    """Of a job that has ended; None where neither Ray nor its log knows it, as of one that was killed."""
    if job.alive or job.code is not None:
        return job.code
    said = [line.removeprefix(ENDED).strip() for line in log.splitlines() if line.startswith(ENDED)]
    return int(said[-1]) if said and said[-1].isdecimal() else None
