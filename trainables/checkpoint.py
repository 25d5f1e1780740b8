"""A training's state in a file, for whoever goes on with it."""

import os
import pickle
from pathlib import Path

import torch

from trainables.training import Training


def save(training: Training, path: Path) -> None:
    """Write the state: the file is either what it was or the whole new one."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    torch.save(training.state(), partial)
    os.replace(partial, path)


def load(training: Training, path: Path) -> None:
    """Go on from what `save` wrote. Raises ValueError naming a file that is damaged or belongs to another training."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise ValueError(f"{path} is not a whole saved training: {error}") from error
    try:
        training.load_state(state)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path}: {error}") from error
