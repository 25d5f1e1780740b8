"""Converts what Tune says of a trial to the outcome fields of its row in the results table."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tune_cd.results.redaction import redact
from tune_cd.results.rows import finite
from tune_cd.results.schema import LOST
from tune_cd.search.number import number_of
from tune_cd.tune.reports import Reports, Seen, is_score

FRAME = re.compile(r'^  File "', re.MULTILINE)
LENGTH = 2000  # largest length of an error, in characters
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FAILURE = re.compile(r"^Failure # \d+ \(occurred at .*\)\n", re.MULTILINE)
IDENTITY = re.compile(r"\s*(class_name|actor_id|pid|name|namespace|ip): ")
RAYS_LOSSES = re.compile(
    r"ray\.exceptions\.(RayActorError|ActorDiedError|ActorUnavailableError|NodeDiedError|WorkerCrashedError"
    r"|OwnerDiedError|LocalRayletDiedError|OutOfMemoryError)\b"
)


def outcome(
    result: Mapping[str, Any], reports: Reports, seen: Seen, failure: tuple[str, str] | None
) -> dict[str, Any]:  # fmt: skip
    """The outcome of a training, of which `reports` knows what it has `seen`.

    A metric that is NaN or infinite in the end is a divergence; one that was never a number is a failure.
    result: the last result, with flat keys.  failure: (failure_kind, error) of a failed training.
    """
    if failure is None and seen.last is None and not seen.diverged:
        said = f"no {reports.metric}" if seen.refused is None else f"{reports.metric} = {seen.refused}"
        failure = "error", f"it reported {said}{', which is no number' if seen.refused else ''}"
    kind, error = failure or (None, None)
    score = None if failure is not None else reports.value(seen)
    share = reports.share(seen)
    ended = "completed" if share is None or share == 1 else "stopped"
    last: dict[str, float] = {}  # the last report may lack either
    if reports.full_length is not None and seen.length is not None:
        last |= {reports.counter: seen.length}
    if failure is None and seen.last is not None:
        last |= {reports.metric: reports.sign * seen.last}
    return {
        "status": "failed" if failure is not None else "diverged" if score is None else ended,
        "val_score": None if score is None else reports.sign * score,  # as it was reported
        "scores": last | scores_in(result),
        "train_seconds": finite(result.get("time_total_s")),
        "error": error and error.encode("utf-8", "replace").decode(),  # a lone surrogate could not be stored
        "failure_kind": kind,
    }


def scores_in(result: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a result, with flat keys, without those that Tune adds."""
    numbers = {name: number_of(at) for name, at in result.items() if is_score(name)}
    return {name: float(number) for name, number in numbers.items() if number is not None}


def machine_of(trial: Any, share: float = 1.0) -> dict[str, Any]:
    """Where a trial ran, and this share of the GPUs that it reserves, as fields of its row."""
    asked, host = getattr(trial, "placement_group_factory", None), trial.last_result.get("hostname")
    gpus = {} if asked is None else {"gpus": share * float(asked.required_resources.get("GPU", 0.0))}
    return gpus | ({"hostname": host} if isinstance(host, str) else {})


def failure_of(trial: Any, params: Mapping[str, float]) -> tuple[str, str]:
    """(failure_kind, error) of a failed trial's row. The error is the exception and its message, in one line.

    The error begins with "lost: " if the process or node was lost, and with "out of memory: <params>: " if a GPU's
    memory was too small.  trial: Tune's trial.  params: the searched parameters of the training.
    """
    text = redact(_last_failure(trial.error_file))  # before it is cut, which may split a secret
    if not text:
        return "error", "the trial failed; Ray left no message"
    # Ray reports the end of a process in prose, without a traceback.
    raised = text.startswith("ray::") or "Traceback" in text or FRAME.search(text) is not None
    error = _exception(text) if raised else _one_line(line for line in text.splitlines() if not IDENTITY.match(line))
    was_made = trial.pickled_error_file is not None
    if (was_made and not raised) or RAYS_LOSSES.match(error):
        return LOST, f"lost: {error}"[:LENGTH]
    name = error.partition(":")[0].rpartition(".")[2]
    if name == "OutOfMemoryError" or "CUDA out of memory" in error:
        setting = ", ".join(f"{name}={value:g}" for name, value in params.items())
        return "out_of_memory", f"out of memory: {setting}: {error}"[:LENGTH]
    return "error", error[:LENGTH]


def _last_failure(path: str | None) -> str:
    """Tune's message of the last failure; Tune appends one to the same file for each attempt."""
    if path is None or not os.path.exists(path):
        return ""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    return COLOUR.sub("", FAILURE.split(text)[-1]).strip()


def _exception(traceback: str) -> str:
    """The exception and its message, which may span several lines: the text after the last frame."""
    lines = traceback.splitlines()
    frames = [n for n, line in enumerate(lines) if FRAME.match(line)]
    behind = lines[frames[-1] + 1 :] if frames else lines[-1:]
    while len(behind) > 1 and (behind[0].startswith("    ") or not behind[0].strip()):  # the frame's source and carets
        behind = behind[1:]
    return _one_line(behind)


def _one_line(lines: Iterable[str]) -> str:
    return " ".join(" ".join(lines).split())
