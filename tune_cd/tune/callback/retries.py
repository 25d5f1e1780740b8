"""A thread that writes rows in order and retries while the store does not answer."""

import atexit
import logging
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from tune_cd.results.redaction import redact

PAUSES = (1.0, 60.0)
"""Seconds before the first retry, and the longest pause; each pause is twice the previous one."""

logger = logging.getLogger(__name__)


class RetryingWriter:
    """Passes items to `write`, one after the other, in its own thread, so that `put` returns at once.

    While `write` raises OSError (the store is away, the disk is full), the item and all behind it wait. They are also
    kept in a local file, in case this process is killed. An item for which it raises another exception is refused.

    text: an item as one line for the file.  patience: seconds to wait for the store in `close`, or at the end of a
    program that does not call it.
    """

    def __init__(
        self,
        write: Callable[[Any], None],
        text: Callable[[Any], str],
        patience: float,
        pauses: tuple[float, float] = PAUSES,
    ):
        self._write, self._text, self._patience, self._pauses = write, text, patience, pauses
        self._changed = threading.Condition()
        self._waiting: deque[Any] = deque()
        self._refused: list[tuple[Any, Exception]] = []
        self._problem: Exception | None = None  # error of the first item in the queue
        self._kept: str | None = None  # the local file
        self._deadline: float | None = None  # set by `close`, on time.monotonic's clock
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="results", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def put(self, item: Any) -> None:
        """Append an item to the queue. Never waits, never raises."""
        with self._changed:
            self._waiting.append(item)
            if self._kept is not None:
                self._keep([item])
            self._changed.notify_all()

    def close(self, patience: float | None = None) -> tuple[list[tuple[Any, Exception]], str | None]:
        """End the thread; return (items not written, each with its reason, refused ones first; the file with them).

        patience: instead of the constructor's [s]. Ctrl-C ends the waiting. The file is None if none was needed or
        possible.
        """
        atexit.unregister(self._at_exit)
        patience = self._patience if patience is None else patience
        with self._changed:
            self._deadline = time.monotonic() + patience
            self._changed.notify_all()
        try:
            self._thread.join(patience + 1)  # a write may hang
        except KeyboardInterrupt:
            logger.warning("interrupted while result rows were waiting to be written")
        with self._changed:
            self._closed = True
            reason = self._problem or TimeoutError(f"no answer in {patience:g} s")
            waiting = [(item, reason) for item in self._waiting]
            left = [*self._refused, *waiting]
            if left:
                self._keep([item for item, _ in (self._refused if self._kept else left)])
            return left, self._kept

    def _at_exit(self) -> None:
        """Close at the end of the program, and log the rows not written."""
        left, kept = self.close()
        if left:
            reason = redact(str(left[0][1]))
            logger.warning("%d result rows were not written (%s); they are in %s", len(left), reason, kept)

    def _work(self) -> None:
        tries = 0
        while (item := self._first()) is not None:
            try:
                self._write(item)
            except OSError as problem:
                tries += 1
                if self._may_retry(problem, tries):
                    continue
                return
            except Exception as problem:  # of any kind, since the next item may be fine
                self._refused.append((item, problem))
            with self._changed:
                if self._closed:
                    return
                self._waiting.popleft()
                if tries:
                    left = len(self._waiting)
                    logger.warning("result rows are written again, after %d tries; %d are left", tries + 1, left)
                tries, self._problem = 0, None
                if not self._waiting:
                    self._drop_file()

    def _first(self) -> Any:
        """Wait for the first item; None when the queue is empty and closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._deadline is not None)
            return self._waiting[0] if self._waiting else None

    def _may_retry(self, problem: OSError, tries: int) -> bool:
        """Wait until the next try; False once the time is over."""
        with self._changed:
            if self._closed:
                return False
            self._problem = problem
            if tries == 1:
                self._keep(self._waiting)
                said = "result rows cannot be written and wait: %s; until then they are in %s as well"
                logger.warning(said, redact(str(problem)), self._kept)
            pause = min(self._pauses[0] * 2 ** min(tries - 1, 30), self._pauses[1])
            if self._deadline is None:  # `close` ends this pause
                self._changed.wait_for(lambda: self._deadline is not None, timeout=pause)
            else:
                self._changed.wait_for(lambda: self._closed, min(pause, max(0.0, self._deadline - time.monotonic())))
            return not self._closed and (self._deadline is None or time.monotonic() < self._deadline)

    def _keep(self, items: Iterable[Any]) -> None:
        """Append items to the local file. An error, e.g. a full disk, is logged, not raised."""
        try:
            if self._kept is None:
                descriptor, self._kept = tempfile.mkstemp(prefix="tune_cd-rows-", suffix=".jsonl")
                os.close(descriptor)
            with open(self._kept, "a", encoding="utf-8") as file:
                file.writelines(f"{self._text(item)}\n" for item in items)
        except OSError as problem:
            logger.warning("rows that wait cannot be kept in a local file: %s", problem)

    def _drop_file(self) -> None:
        if self._kept is not None:
            with suppress(OSError):
                os.unlink(self._kept)
            self._kept = None
