"""A training's state as bytes or a file, for whoever goes on with it."""

import io
import os
from pathlib import Path

import torch

from trainables.models.weights import load_tensors
from trainables.training.faults import is_of_the_machine, is_out_of_memory
from trainables.training.loop import Training


def dumps(training: Training) -> bytes:
    """The state."""
    buffer = io.BytesIO()
    torch.save(training.state(), buffer)
    return buffer.getvalue()


def loads(training: Training, data: bytes, where: str) -> None:
    """Go on from what `dumps` gave. Raises ValueError naming `where` for what is damaged or belongs to another training."""
    try:
        state = load_tensors(io.BytesIO(data))
    except ValueError as error:
        raise ValueError(f"{where} is not a whole saved training: {error}") from error
    try:
        training.load_state(state)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        if is_out_of_memory(error) or is_of_the_machine(error):
            raise
        raise ValueError(f"{where}: {error}") from error


def save(training: Training, path: Path) -> None:
    """Write the state: the file is either what it was or the whole new one."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.write_bytes(dumps(training))
    os.replace(partial, path)


def load(training: Training, path: Path) -> None:
    """Go on from what `save` wrote; raises as `loads` does."""
    loads(training, path.read_bytes(), str(path))
