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


@contextmanager
def time_limit(seconds: float | None, overdue: Callable[[], None]) -> Iterator[None]:
    """A context that ends the process after so many seconds: the only way to end a call that never returns.

    overdue: called first, in a thread of its own; then the process exits with OVERDUE. The stacks of all threads go to
    standard error. seconds None: no limit.
    """
    if seconds is None:
        yield
        return

    def expire() -> None:
        log.error("the time limit is over; the process ends")
        if has_stderr:
            faulthandler.dump_traceback()
        callback = threading.Thread(target=overdue, daemon=True)
        callback.start()
        callback.join(CALLBACK_SECONDS)
        os._exit(OVERDUE)

    has_stderr, seconds = hasattr(sys.stderr, "fileno"), max(0.0, seconds)
    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    if has_stderr:
        faulthandler.dump_traceback_later(seconds + CALLBACK_SECONDS + GRACE, exit=True)
    try:
        yield
    finally:
        timer.cancel()
        if has_stderr:
            faulthandler.cancel_dump_traceback_later()
