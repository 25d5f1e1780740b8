"""Ends a process that exceeds its time limit."""

import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OVERDUE = 70  # the exit status of a process that was ended
CALLBACK_SECONDS = 60  # that `overdue` may take
GRACE = 60  # further seconds after which faulthandler ends a process in which no Python thread runs any more

log = logging.getLogger(__name__)


class Watchdog:
    """Ends the process when a time limit is exceeded: the only way to end a call that never returns.

    overdue: called first, in a thread of its own; then the process exits with OVERDUE. The stacks of all threads go to
    standard error.
    """

    def __init__(self, overdue: Callable[[], None]):
        self._overdue = overdue

    @contextmanager
    def watching(self, seconds: float | None) -> Iterator[None]:
        """A context with a time limit in seconds; None: no limit."""
        if seconds is None:
            yield
            return
        timer = threading.Timer(max(0.0, seconds), self._expire)
        timer.daemon = True
        timer.start()
        hard = hasattr(sys.stderr, "fileno")
        if hard:
            faulthandler.dump_traceback_later(max(0.0, seconds) + CALLBACK_SECONDS + GRACE, exit=True)
        try:
            yield
        finally:
            timer.cancel()
            if hard:
                faulthandler.cancel_dump_traceback_later()

    def _expire(self) -> None:
        log.error("the time limit is over; the process ends")
        if hasattr(sys.stderr, "fileno"):
            faulthandler.dump_traceback()
        callback = threading.Thread(target=self._call, daemon=True)
        callback.start()
        callback.join(CALLBACK_SECONDS)
        os._exit(OVERDUE)

    def _call(self) -> None:
        try:
            self._overdue()
        except Exception:
            log.exception("the callback of the time limit failed")
