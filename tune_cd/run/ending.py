"""Ends a driver in good order: by a signal, or by another of its threads.

Whichever comes first raises KeyboardInterrupt in the main thread, which writes the summary. Of what follows only
another Ctrl-C raises it again, since `timeout` sends two signals, and a closed terminal one to each process.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tune_cd.process import leave

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OWN = signal.SIGUSR1  # of another thread: SIGINT may be ignored


class Ending:
    """How this process is to end. number: of the first signal, or None. reason: a sentence of the thread that ended it,
    or None."""

    def __init__(self):
        self.number: int | None = None
        self.reason: str | None = None
        self._heeded: list[int] = []

    @property
    def status(self) -> int:
        """The exit status after the signal."""
        return 128 + (self.number or signal.SIGINT)

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Heed signals while this is held. What is ignored stays so, as SIGINT in the background of a script and SIGHUP
        under nohup."""
        before = {number: signal.getsignal(number) for number in (*SIGNALS, OWN)}
        self.number = self.reason = None
        self._heeded = [OWN, *(number for number in SIGNALS if before[number] is not signal.SIG_IGN)]
        self.heed()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def heed(self, handler: Callable | None = None) -> None:
        """Set the handlers, again after Ray has set one of its own."""
        for number in self._heeded:
            signal.signal(number, handler or self._handle)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """End without an exception while nothing is held: it would break into imports of compiled code."""
        self.heed(leave)
        try:
            yield
        finally:
            self.heed()

    def interrupt(self, reason: str) -> None:
        """Interrupt the main thread, from any thread; the first reason counts."""
        self.reason = self.reason or reason
        os.kill(os.getpid(), OWN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first = self.number is None
        self.number = self.number or (signal.SIGINT if number == OWN else number)
        if first or number == signal.SIGINT:
            raise KeyboardInterrupt


ENDING = Ending()
