"""Ends a driver in good order by a signal: the first raises KeyboardInterrupt in the main thread, which writes the
summary. Of what follows only another Ctrl-C raises it again, since `timeout` sends two signals, and a closed terminal
one to each process."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ending:
    """How this process is to end. number: of the first signal; status: the exit status after it."""

    number: int | None = None

    @property
    def status(self) -> int:
        return 128 + (self.number or signal.SIGINT)

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Heed signals while this is held."""
        before, self.number = {number: signal.getsignal(number) for number in SIGNALS}, None
        self.heed()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def heed(self) -> None:
        """Set the handlers. What is ignored stays so, as SIGINT in the background of a script and SIGHUP under
        nohup."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self.number = self.number is None, self.number or number
        if first or number == signal.SIGINT:
            raise KeyboardInterrupt


ENDING = Ending()
