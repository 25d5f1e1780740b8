"""Telling errors of a training from errors of the machine that it runs on."""

import traceback
from collections.abc import Mapping
from typing import Any

import torch

TRACEBACK = 4000  # characters of a traceback that are kept

DEVICE_ERRORS = (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()


NO_MEMORY = ("out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED", "nable to find an engine")
"""Messages of CUDA, cuBLAS and cuDNN when the GPU's memory is too small. The last is cuDNN's, which then finds no
algorithm whose workspace fits."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a GPU ran out of memory, for tensors or for CUDA and its libraries."""
    return isinstance(error, torch.OutOfMemoryError) or _says(error, *NO_MEMORY)


def is_of_recording(error: BaseException) -> bool:
    """Whether a step cannot be recorded as a CUDA graph, because it waits for the GPU or a result; it may still run."""
    return _says(error, "capturing", "capture")


def is_of_the_machine(error: BaseException) -> bool:
    """Whether files, the host's memory or the GPU are at fault, so that the training may succeed in another process."""
    if is_out_of_memory(error) or is_of_recording(error):
        return False
    return isinstance(error, (OSError, MemoryError, *DEVICE_ERRORS)) or _says(
        error, "CUDA error", "CUDA driver error", "EXECUTION_FAILED", "can't allocate memory"
    )


def described(error: BaseException, configuration: Mapping[str, Any], device: str) -> str:
    """Describe an error in one line, with the traceback below. For out of memory the line names the batch size."""
    said = " ".join(str(error).split())
    if is_out_of_memory(error):
        said = f"out of memory: batch_size={configuration['batch_size']} on {device}: {said}"
    else:
        said = f"{type(error).__name__}: {said}"
    text = f"{said}\n{''.join(traceback.format_exception(error))[-TRACEBACK:]}".rstrip()
    return text.encode("utf-8", "replace").decode()  # a lone surrogate could not be stored


def _says(error: BaseException, *texts: str) -> bool:
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
