"""Extracts failure_kind and error of a failed trial's row from Tune's messages."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tune_cd.results.redaction import redact
from tune_cd.results.schema import LOST

FRAME = re.compile(r'^  File "', re.MULTILINE)
LENGTH = 2000  # largest length of an error, in characters
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FAILURE = re.compile(r"^Failure # \d+ \(occurred at .*\)\n", re.MULTILINE)
IDENTITY = re.compile(r"\s*(class_name|actor_id|pid|name|namespace|ip): ")
RAYS_LOSSES = re.compile(
    r"ray\.exceptions\.(RayActorError|ActorDiedError|ActorUnavailableError|NodeDiedError|WorkerCrashedError"
    r"|OwnerDiedError|LocalRayletDiedError|OutOfMemoryError)\b"
)


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
