"""A training's state as bytes or a file, from which it is resumed."""

import io
import os
from pathlib import Path

import torch

from trainables.models.weights import load_tensors
from trainables.training.errors import is_of_the_machine, is_out_of_memory
from trainables.training.loop import Training


def dumps(training: Training) -> bytes:
    """The training's state as bytes."""
    buffer = io.BytesIO()
    torch.save(training.state(), buffer)
    return buffer.getvalue()


def loads(training: Training, data: bytes, where: str) -> None:
    """Resume from the bytes of `dumps`. Raises ValueError naming `where` for a damaged or another training's state."""
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


def put(path: Path, data: bytes) -> None:
    """Write a file atomically: at any time it is the old one or the whole new one. Raises OSError."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(data)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def save(training: Training, path: Path) -> None:
    """Write the state to a file by `put`."""
    put(path, dumps(training))


def load(training: Training, path: Path) -> None:
    """Resume from the file of `save`; raises as `loads` does."""
    loads(training, path.read_bytes(), str(path))
