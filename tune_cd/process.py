"""Runs a command as a process of its own. It ends quietly by Ctrl-C, and when nobody reads its output any longer;
neither the terminal's encoding nor a notebook's environment changes how it ends.

It imports nothing that takes long, since it is at work during the imports of the command.
"""

import io
import os
import signal
import sys
import threading
import warnings
from importlib import import_module
from types import FrameType
from typing import NoReturn

FAILED = 1
INTERRUPTED = 128 + signal.SIGINT
UNREAD = 128 + signal.SIGPIPE  # the exit status if the reader of stdout has gone, as `| head` does


class Output(io.FileIO):
    """stdout or stderr of a command. Text that cannot be written is dropped, as on a full disk or a closed terminal.

    stdout without a reader raises SystemExit(UNREAD) once, in the main thread. failed: the first error.
    """

    failed: OSError | None = None

    def write(self, data) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            unread = self.fileno() == 1 and isinstance(error, BrokenPipeError) and self.failed is None
            if unread and threading.current_thread() is not threading.main_thread():
                return len(data)  # the main thread will find out
            self.failed = self.failed or error
            if unread:
                raise SystemExit(UNREAD) from None
            return len(data)


def run(module: str, first: str = "") -> NoReturn:
    """Import a command's module, call its `main()`, and end the process with the exit status that it returns.

    first: a line to print before the imports, which may take long; left out where the arguments ask for help.
    """
    status: int | str | None = FAILED
    os.environ["MPLBACKEND"] = "agg"  # one that is not installed, as a notebook's, refuses every import of matplotlib
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"  # without a line of our code
    _open_streams()
    if heeded := signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)  # an exception in an import of compiled code would be printed
    try:
        if first and not {"-h", "--help"} & {*sys.argv}:
            print(first, flush=True)
        main = import_module(module).main
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        status = main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = INTERRUPTED
    except SystemExit as end:
        status = end.code
    except ModuleNotFoundError as error:
        command = "" if "pip install" in str(error) else f": pip install {error.name}"
        print(f"error: {error}{command}", file=sys.stderr)
    if heeded:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(status if (lost := _flushed()) == 0 else status or lost)


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """Handler of a signal while the process holds nothing that must be given back: it ends at once."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def _open_streams() -> None:
    """What an encoding lacks is escaped."""
    for number in range(3):  # a closed one would be the number of the next file that is opened
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for number, name in ((1, "stdout"), (2, "stderr")):
        given = getattr(sys, name) or os.fdopen(number, "w", encoding="utf-8", closefd=False)
        given.flush()
        raw = Output(number, "wb", closefd=False)
        stream = io.TextIOWrapper(
            raw if given.write_through else io.BufferedWriter(raw), given.encoding, "backslashreplace",
            line_buffering=given.line_buffering, write_through=given.write_through,
        )  # fmt: skip
        setattr(sys, name, stream)


def _flushed() -> int:
    """The exit status of a command whose output is complete (0), was not read (UNREAD), or was not written (FAILED)."""
    output = sys.stdout.buffer if sys.stdout.write_through else sys.stdout.buffer.raw
    try:
        sys.stdout.flush()
    except SystemExit:
        return UNREAD
    if output.failed is None or isinstance(output.failed, BrokenPipeError):
        return 0
    print(f"error: the output could not be written: {output.failed}", file=sys.stderr)
    return FAILED
