"""Errors of a training itself, and errors of the machine that it runs on."""

import traceback
from collections.abc import Mapping
from typing import Any

import torch

TRACEBACK = 4000  # characters of it that are kept

DEVICE_ERRORS = (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()


NO_MEMORY = ("out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED", "nable to find an engine")
"""What CUDA, cuBLAS and cuDNN say where the GPU's memory is too small; the last is of cuDNN, which then finds no
algorithm whose workspace fits."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a GPU ran out of memory, for tensors or for CUDA and its libraries."""
    return isinstance(error, torch.OutOfMemoryError) or _says(error, *NO_MEMORY)


def is_of_recording(error: BaseException) -> bool:
    """Whether a step cannot be recorded as a CUDA graph, though it may run: it waits for the GPU, or for its result."""
    return _says(error, "capturing", "capture")


def is_of_the_machine(error: BaseException) -> bool:
    """Whether the training may succeed in another process: an error of files, of the host's memory or of the GPU."""
    if is_out_of_memory(error) or is_of_recording(error):
        return False
    return isinstance(error, (OSError, MemoryError, *DEVICE_ERRORS)) or _says(
        error, "CUDA error", "CUDA driver error", "EXECUTION_FAILED", "can't allocate memory"
    )


def described(error: BaseException, configuration: Mapping[str, Any], device: str) -> str:
    """The error in one line, which names a batch size that does not fit, and the traceback below it."""
    said = " ".join(str(error).split())
    if is_out_of_memory(error):
        said = f"out of memory: batch_size={configuration['batch_size']} on {device}: {said}"
    else:
        said = f"{type(error).__name__}: {said}"
    text = f"{said}\n{''.join(traceback.format_exception(error))[-TRACEBACK:]}".rstrip()
    return text.encode("utf-8", "replace").decode()  # a lone surrogate could not be stored


def _says(error: BaseException, *texts: str) -> bool:
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
