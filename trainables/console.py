"""The end of a command: Ctrl-C and a closed output are a sentence and an exit status, without a traceback."""

import os
import sys
from collections.abc import Callable

INTERRUPTED = 130  # the exit status after Ctrl-C
CLOSED = 141  # and after `| head`, that of a program that SIGPIPE ends


def run(command: Callable[[], int]) -> int:
    """The exit status of a command."""
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
