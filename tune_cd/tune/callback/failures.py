"""Why a trial failed, in a sentence: what Tune says of it, sorted by what one can do about it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOST = "lost: "
"""How the error of a trial begins whose process or node was lost: it says nothing of the configuration."""

OUT_OF_MEMORY = "out of memory: "

LENGTH = 2000  # of an error, in characters
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FAILURE = re.compile(r"^Failure # \d+ \(occurred at .*\)\n", re.MULTILINE)
IDENTITY = re.compile(r"\s*(class_name|actor_id|pid|name|namespace|ip): ")
RAYS_LOSSES = re.compile(
    r"ray\.exceptions\."
    r"(RayActorError|ActorDiedError|ActorUnavailableError|NodeDiedError|WorkerCrashedError|OwnerDiedError|LocalRayletDiedError|OutOfMemoryError)\b"
)


def error_of(trial: Any, params: Mapping[str, float]) -> str:
    """The `error` of a failed trial's row.

    "lost: ..." where its process or node was lost, "out of memory: <params>: ..." where a GPU's memory was too small, else
    the exception and its message.  trial: Tune's.  params: the searched parameters of the training.
    """
    text = _last_failure(trial.error_file)
    if not text:
        return "the trial failed; Ray left no message"
    in_training = text.startswith(
        "ray::"
    )  # a traceback from the trial's process; Ray reports the end of that process in prose
    error = _exception(text) if in_training or "Traceback" in text else _prose(text)
    died = (
        trial.pickled_error_file is not None and not in_training and "Traceback" not in text
    )  # else it failed while it was made
    if died or RAYS_LOSSES.match(error):
        return f"{LOST}{error}"[:LENGTH]
    name = error.partition(":")[0].rpartition(".")[2]
    if name == "OutOfMemoryError" or "CUDA out of memory" in error:
        return f"{OUT_OF_MEMORY}{', '.join(f'{name}={value:g}' for name, value in params.items())}: {error}"[:LENGTH]
    return error[:LENGTH]


def _last_failure(path: str | None) -> str:
    """What Tune wrote of the last failure: it adds to one file with every attempt."""
    if path is None or not os.path.exists(path):
        return ""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    return COLOUR.sub("", FAILURE.split(text)[-1]).strip()


def _exception(traceback: str) -> str:
    """The exception and its message, which may have several lines, on one: what is behind the last frame."""
    lines = traceback.splitlines()
    frames = [n for n, line in enumerate(lines) if line.startswith('  File "')]
    behind = lines[frames[-1] + 1 :] if frames else lines[-1:]
    while len(behind) > 1 and (
        behind[0].startswith("    ") or not behind[0].strip()
    ):  # the frame's source line and its marks
        behind = behind[1:]
    return " ".join(" ".join(behind).split())


def _prose(text: str) -> str:
    return " ".join(" ".join(line for line in text.splitlines() if not IDENTITY.match(line)).split())
