"""Streams of a GPU and memory of a CPU."""

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch

MMAP_THRESHOLD, TRIM_THRESHOLD = (-3, 32 * 2**20), (-1, 256 * 2**20)  # (parameter of mallopt, bytes)


@contextmanager
def aside(trainings: Sequence[Any]) -> Iterator[None]:
    """Context on the process's stream, whose work runs after the trainings' steps so far and before their next ones."""
    streams = [training.stream for training in trainings if training.stream is not None]
    shared = torch.cuda.current_stream(streams[0].device) if streams else None
    for stream in streams:
        shared.wait_stream(stream)
    try:
        yield
    finally:
        for stream in streams:
            stream.wait_stream(shared)


@lru_cache(maxsize=1)
def keep_freed_memory() -> None:
    """Let glibc keep what a step frees, up to TRIM_THRESHOLD, for the next one. By default it gives tensors of 128 kB
    and more back to the system, whose new pages then take a tenth of the time of a small training on the CPU."""
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(*MMAP_THRESHOLD)
        mallopt(*TRIM_THRESHOLD)
