"""How far a study is and how it ended, told from its table where that can be reached from here, else from its job's log."""

import re
import warnings
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tune_cd import results
from tune_cd.analysis import best_trial
from tune_cd.submit.jobs import Job, exit_status
from tune_cd.submit.request import ENDED

ANNOUNCED = re.compile(
    r"^(\d+ \S+(?: \+ (?:up to )?\d+ \S+)*) trials of [\d,]+ images(?: with each of (\d+) seeds)?", re.MULTILINE
)
TRIAL = re.compile(r"^\[(\S+) +(\d+)/\d+\] .*$", re.MULTILINE)
BEST = re.compile(r" (\S+) -?\d+\.\d{4} +best (-?\d+\.\d{4})")

MEANINGS = {
    0: "finished",
    1: "broke off, or no trial completed",
    2: "refused before the first trial",
    127: "no such Python on the cluster's head, see --python",
    130: "interrupted",
    143: "stopped in good order",
}
"""Exit statuses of `tune_cd.run`, and of a shell that does not find it."""


@dataclass(frozen=True)
class Standing:
    """Trainings that have ended, of how many at most, and the best score so far; None for what is not known."""

    done: int | None = None
    total: int | None = None
    metric: str | None = None
    best: float | None = None

    @property
    def trials(self) -> str:
        return "-" if self.done is None else f"{self.done}/{'?' if self.total is None else self.total}"

    @property
    def score(self) -> str:
        return "-" if self.best is None else f"{self.metric} {self.best:.4f}"


def from_log(log: str) -> Standing:
    """What the lines of one attempt say. Trials of an earlier one are counted with those of their search, once that goes on."""
    announced = ANNOUNCED.search(log)
    if announced is None:
        return Standing()
    total = sum(map(int, re.findall(r"(?<!\S)\d+", announced[1]))) * int(announced[2] or 1)
    done: dict[str, int] = {}
    for line in TRIAL.finditer(log):
        done[line[1]] = int(line[2])
    said = [(float(best[2]), best[1]) for line in TRIAL.finditer(log) if (best := BEST.search(line[0]))]
    score, metric = max(said, default=(None, None))
    return Standing(sum(done.values()), total, metric, score)


def has_begun(log: str) -> bool:
    """Whether there is something to go on with: the study's options are stored right after its announcement."""
    return ANNOUNCED.search(log) is not None


def from_table(place: str, study: str, away: set[str]) -> Standing | None:
    """What the study's rows say; None where they cannot be reached from here, and before the first one.

    away: places that did not answer and are not asked again, since a store may take seconds to refuse; grows.
    """
    if place in away:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged files are for `python -m tune_cd.results verify` to name
            table = results.read(place, study)
    except (OSError, ValueError):
        away.add(place)
        return None
    if table.empty:
        return None
    best = best_trial(table)
    return Standing(
        len(table), None, *((None, None) if best is None else (best["metric_name"], float(best["val_score"])))
    )


def standing_of(job: Job, log: str, away: set[str]) -> Standing:
    """From the table, and from the log what a table does not know: how many trials it will have. away: as in `from_table`."""
    logged = from_log(log)
    table = (
        None if job.metadata.get("dry_run") == "True" else from_table(job.metadata.get("results", ""), job.study, away)
    )
    return logged if table is None else replace(table, total=logged.total)


def ending(job: Job, log: str) -> str:
    """How the attempt ended, in a few words; empty while it goes on."""
    if job.alive:
        return ""
    code = exit_status(job, log)
    if code is None:
        return _without_status(job, log)
    if code == 0 and job.metadata.get("dry_run") == "True":
        return "0: dry run, nothing was trained"
    unknown = f"ended by signal {code - 128}" if code > 128 else "no exit status of tune_cd.run"
    return f"{code}: {MEANINGS.get(code, unknown)}{_reason(log) if code in (1, 2) else ''}"


def _reason(log: str) -> str:
    """The last error that the log tells of; of a study that had not begun its last line, as where its Python does not start."""
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith(ENDED)]
    errors = [line.partition("error: ")[2] for line in lines if "error: " in line[:40]]
    last = errors or ([] if has_begun(log) else lines)
    return f": {last[-1]}" if last else ""


def _without_status(job: Job, log: str) -> str:
    if job.status == "STOPPED":
        return "killed, it did not end in time" if has_begun(log) else "stopped before its first trial"
    return next(
        (line for line in job.message.splitlines() if line.strip()),
        "lost: neither its exit status nor a reason is known",
    )


def moment(seconds: float | None) -> str:
    """A Unix time as date and time of day, UTC."""
    return "-" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def rows_of(jobs: list[tuple[Job, str]]) -> list[tuple[str, ...]]:
    """A line a job, under its heading; each with its log."""
    away: set[str] = set()
    lines = [("study", "status", "since (UTC)", "workers", "trials", "best", "user", "how it ended")]
    for job, log in jobs:
        standing = standing_of(job, log, away)
        since = moment(job.began if job.alive else job.ended or job.began)
        workers = job.metadata.get("workers", "-") if job.alive else "-"
        lines.append(
            (
                job.study,
                job.status,
                since,
                workers,
                standing.trials,
                standing.score,
                job.metadata.get("user", "-"),
                ending(job, log),
            )
        )
    return lines


def aligned(lines: list[tuple[str, ...]]) -> str:
    """Columns as wide as their widest text."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(f"{text:<{width}}" for text, width in zip(line, widths)).rstrip() for line in lines)


def card(jobs: list[Job], log: str) -> str:
    """All that is known of a study: its last attempt, jobs[0], with its log, and those before."""
    job, said = jobs[0], jobs[0].metadata
    standing = standing_of(job, log, set())
    lines = [
        ("study", job.study), ("status", job.status), ("submitted", f"{said.get('submitted_at', '-')} by {said.get('user', '-')}"),
        ("ended", "-" if job.alive else f"{moment(job.ended)} UTC, {ending(job, log)}"), ("trials", standing.trials), ("best", standing.score),
        ("workers", said.get("workers", "-")), ("results", said.get("results", "-")), ("job", job.id),
        ("attempts", ", ".join(f"{one.attempt} {one.status}" for one in reversed(jobs))),
    ]  # fmt: skip
    return aligned(lines)
