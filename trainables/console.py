"""The end of a command, and its device. Ctrl-C and a closed output are a sentence and an exit status, without a
traceback."""

import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

INTERRUPTED = 130  # the exit status after Ctrl-C
CLOSED = 141  # and after `| head`, that of a program that SIGPIPE ends


def run(command: Callable[[], int]) -> int:
    """The exit status of a command, which Ctrl-C interrupts from here on."""
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"  # without a line of our code
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = command()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python's own flush at exit fails again
        print("stopped: the output was closed", file=sys.stderr)
        return CLOSED


def chosen_device(name: str | None) -> "torch.device":
    """The device of this name; None: a GPU, else the CPU. Raises ValueError for a device that is not there."""
    import torch  # takes seconds

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    allowed = ["cpu", *["cuda"][:gpus], *(f"cuda:{index}" for index in range(gpus))]
    if name is None:
        return torch.device("cuda" if gpus else "cpu")
    if name not in allowed:
        raise ValueError(
            f"--device {name!r}: one of {', '.join(allowed)} on this machine, which has {gpus} GPUs for torch"
        )
    return torch.device(name)
