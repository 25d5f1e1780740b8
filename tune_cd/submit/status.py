"""The progress of a study, from its results table, and its ending, from its job."""

import warnings
from dataclasses import dataclass
from datetime import UTC, datetime

from tune_cd import results
from tune_cd.analysis import best_trial
from tune_cd.analysis.runs import runs_of
from tune_cd.submit.jobs import Job

MEANINGS = {
    0: "finished",
    1: "broke off, or no trial completed",
    2: "refused before the first trial",
    127: "no such Python on the cluster's head, see --python",
    130: "interrupted",
    143: "stopped",
}
"""Meanings of the exit statuses of `tune_cd.run`, and of a shell that does not find Python."""

ROUNDING = 1e-6  # of a training

Unreachable = set[str]
"""Results locations that did not answer. Each is asked once, since a store may take seconds to refuse."""


@dataclass(frozen=True)
class Progress:
    """How far a study is. done: full trainings' worth, None if the table cannot be read from here. best: the best
    score."""

    done: int | None = None
    best: str = "-"


def progress_of(job: Job, unreachable: Unreachable) -> Progress:
    """The progress of a study, from its rows. unreachable: extended if the store does not answer."""
    place = job.metadata.get("results", "")
    if place in unreachable:
        return Progress()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged files are for `python -m tune_cd.results verify` to name
            table = results.read(place, job.study)
    except FileNotFoundError:  # before the first row, or a folder that this machine does not mount
        return Progress()
    except (OSError, ValueError):
        unreachable.add(place)
        return Progress()
    best = best_trial(table)
    done = int(runs_of(table)["share"].sum() + ROUNDING)
    return Progress(done, "-" if best is None else f"{best['metric_name']} {best['val_score']:.4f}")


def trials_text(job: Job, progress: Progress) -> str:
    """DONE/TOTAL, with ? for an unknown number. The total is the one at submission."""
    return f"{'?' if progress.done is None else progress.done}/{job.metadata.get('trials') or '?'}"


def ending(job: Job) -> str:
    """How the attempt ended, in a few words; empty while it runs."""
    code = job.exit_status
    if job.alive:
        return ""
    if code is None:
        return _last_error(job) or "lost: the cluster knows no exit status"
    unknown = f"ended by signal {code - 128}" if code > 128 else "no exit status of tune_cd.run"
    reason = _last_error(job) if code in (1, 2) else ""
    return f"{code}: {MEANINGS.get(code, unknown)}{f': {reason}' if reason else ''}"


def _last_error(job: Job) -> str:
    """The last line that names an error in Ray's message about a failed job, else the message's last line."""
    lines = [line.strip() for line in job.message.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")


def moment(seconds: float | None) -> str:
    """A Unix time as date and time of day, UTC."""
    return "-" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


HEADING = ("study", "status", "since (UTC)", "workers", "trials", "best", "user", "how it ended")


def overview(jobs: list[Job]) -> list[tuple[str, ...]]:
    """One row for each job, in the columns of HEADING."""
    unreachable: Unreachable = set()
    lines = []
    for job in jobs:
        progress, said = progress_of(job, unreachable), job.metadata
        since = moment(job.began if job.alive else job.ended or job.began)
        found = (since, said.get("workers", "-"), trials_text(job, progress), progress.best, said.get("user", "-"))
        lines.append((job.study, job.status, *found, ending(job)))
    return lines


def details(jobs: list[Job]) -> list[tuple[str, str]]:
    """(field, value) of a study: its last attempt, jobs[0], and the list of all attempts."""
    job, (line,) = jobs[0], overview(jobs[:1])
    submitted, results_at = (job.metadata.get(name, "-") for name in ("submitted_at", "results"))
    attempts = ", ".join(f"{one.attempt} {one.status}" for one in reversed(jobs))
    more = [("submitted", submitted), ("results", results_at), ("job", job.id), ("attempts", attempts)]
    return [*zip(HEADING, line), *more]


def aligned(lines: list[tuple[str, ...]]) -> str:
    """The lines as text, each column as wide as its widest entry."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(f"{text:<{width}}" for text, width in zip(line, widths)).rstrip() for line in lines)
