"""Ends a driver in good order: by a signal, or by another of its threads.

Whichever comes first raises KeyboardInterrupt in the main thread, which writes the summary. Of what follows only
another Ctrl-C raises it again, since `timeout` sends two signals, and a closed terminal one to each process.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tune_cd.process import leave

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ending:
    """How this process is to end. number: of the first signal, or None. lost: a sentence on what was lost
    that the study needs, or None."""

    def __init__(self):
        self.number: int | None = None
        self.lost: str | None = None
        self._at_once, self._own, self._deaf = False, False, frozenset[int]()

    @property
    def status(self) -> int:
        """The exit status after the signal."""
        return 128 + (self.number or signal.SIGINT)

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Heed signals while this is held. What is ignored stays so, as SIGINT in the background of a script and SIGHUP
        under nohup; SIGINT has a handler all the same, for `interrupt`."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self._deaf = frozenset(number for number in SIGNALS if before[number] is signal.SIG_IGN)
        self.number, self.lost, self._own = None, None, False
        self.heed()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def heed(self) -> None:
        """Set the handlers, again after Ray has set one of its own."""
        for number in {*SIGNALS} - self._deaf | {signal.SIGINT}:
            signal.signal(number, self._handle)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """End without an exception while nothing is held: it would break into imports of compiled code."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def interrupt(self) -> None:
        """Interrupt the main thread, from any thread; once."""
        if self.number is None:
            self._own = True
            os.kill(os.getpid(), signal.SIGINT)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        own, self._own = self._own, False
        if number in self._deaf and not own:
            return
        if self._at_once:
            leave(number, frame)
        first, self.number = self.number is None, self.number or number
        if first or number == signal.SIGINT:
            raise KeyboardInterrupt


ENDING = Ending()
interrupt = ENDING.interrupt
