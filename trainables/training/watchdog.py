"""Ends a process whose work does not come back."""

import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OVERDUE = 70  # the exit status of a process that was ended
LAST_WORDS = 60  # seconds that what is done about it may take
GRACE = 60  # seconds more until even a process is ended in which no thread of Python's runs any more

log = logging.getLogger(__name__)


class Watchdog:
    """overdue: called in a thread of its own when the time is over; then the process exits with status OVERDUE.

    Nothing else helps against a call that never returns. The stacks of all threads go to standard error.
    """

    def __init__(self, overdue: Callable[[], None]):
        self._overdue = overdue

    @contextmanager
    def watching(self, seconds: float | None) -> Iterator[None]:
        """What runs in here has so many seconds; None: as many as it likes."""
        if seconds is None:
            yield
            return
        timer = threading.Timer(max(0.0, seconds), self._bite)
        timer.daemon = True
        timer.start()
        hard = hasattr(sys.stderr, "fileno")
        if hard:
            faulthandler.dump_traceback_later(max(0.0, seconds) + LAST_WORDS + GRACE, exit=True)
        try:
            yield
        finally:
            timer.cancel()
            if hard:
                faulthandler.cancel_dump_traceback_later()

    def _bite(self) -> None:
        log.error("the time limit is over; the process ends")
        if hasattr(sys.stderr, "fileno"):
            faulthandler.dump_traceback()
        said = threading.Thread(target=self._say, daemon=True)
        said.start()
        said.join(LAST_WORDS)
        os._exit(OVERDUE)

    def _say(self) -> None:
        try:
            self._overdue()
        except Exception:
            log.exception("what was overdue could not be recorded")
