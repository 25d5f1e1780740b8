"""Which failures are a training's own, and which are of the machine it ran on."""

import traceback
from collections.abc import Mapping
from typing import Any

import torch

TRACEBACK = 4000  # characters of it that are kept

DEVICE_ERRORS = (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a GPU's memory gave out, for tensors or for what CUDA and its libraries need themselves."""
    own = isinstance(error, RuntimeError) and any(text in str(error) for text in ("out of memory", "ALLOC_FAILED"))
    return isinstance(error, torch.OutOfMemoryError) or own


def is_of_the_machine(error: BaseException) -> bool:
    """Whether the same training may well succeed in another process: files, memory of the host, a GPU that is in disorder."""
    if is_out_of_memory(error):
        return False
    return isinstance(error, (OSError, MemoryError, *DEVICE_ERRORS)) or (isinstance(error, RuntimeError) and "CUDA error" in str(error))


def described(error: BaseException, configuration: Mapping[str, Any], device: str) -> str:
    """What went wrong, in one line that names the setting where that is the cause, and the traceback below it."""
    said = " ".join(str(error).split())
    if is_out_of_memory(error):
        said = f"out of memory: batch_size={configuration['batch_size']} on {device}: {said}"
    else:
        said = f"{type(error).__name__}: {said}"
    return f"{said}\n{''.join(traceback.format_exception(error))[-TRACEBACK:]}".rstrip()
