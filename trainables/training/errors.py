"""Which failures are a training's own, and which are of the machine it ran on."""

import traceback
from collections.abc import Mapping
from typing import Any

import torch

TRACEBACK = 4000  # characters of it that are kept

DEVICE_ERRORS = (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a GPU's memory gave out, for tensors or for what CUDA and its libraries need themselves."""
    return isinstance(error, torch.OutOfMemoryError) or _says(error, "out of memory", "ALLOC_FAILED")


def is_of_the_machine(error: BaseException) -> bool:
    """Whether the same training may well succeed in another process: files, memory of the host, a GPU that is in disorder."""
    if is_out_of_memory(error):
        return False
    return isinstance(error, (OSError, MemoryError, *DEVICE_ERRORS)) or _says(
        error, "CUDA error", "CUDA driver error", "EXECUTION_FAILED", "can't allocate memory"
    )


def described(error: BaseException, configuration: Mapping[str, Any], device: str) -> str:
    """What went wrong, in one line that names the setting where that is the cause, and the traceback below it."""
    said = " ".join(str(error).split())
    if is_out_of_memory(error):
        said = f"out of memory: batch_size={configuration['batch_size']} on {device}: {said}"
    else:
        said = f"{type(error).__name__}: {said}"
    text = f"{said}\n{''.join(traceback.format_exception(error))[-TRACEBACK:]}".rstrip()
    return text.encode("utf-8", "replace").decode()  # a lone surrogate could not be stored


def _says(error: BaseException, *texts: str) -> bool:
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
