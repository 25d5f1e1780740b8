"""A thread that writes rows in order and retries while the store does not answer."""

import atexit
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from tune_cd.results.redaction import redact
from tune_cd.tune.callback.writer import Entry, RowWriter

PAUSES = (1.0, 60.0)
"""Seconds before the first retry, and the longest pause; each pause is twice the previous one."""

logger = logging.getLogger(__name__)


@dataclass
class Waiting:
    item: Entry
    kept: Path | None = None  # where it is kept


class RetryingWriter:
    """Passes items to `write`, one after the other, in its own thread, so that `put` returns at once.

    While `write` raises OSError (the store is away, the disk is full), the item and all behind it wait. They are also
    kept elsewhere, in case this process is killed. An item for which it raises another exception is refused.

    patience: seconds to wait for the store in `close`, or at the end of a program that does not call it.
    """

    def __init__(self, write: RowWriter, patience: float, pauses: tuple[float, float] = PAUSES):
        self._write, self._patience, self._pauses = write, patience, pauses
        self._changed = threading.Condition()
        self._waiting: deque[Waiting] = deque()
        self._refused: list[tuple[Entry, Exception]] = []
        self._problem: Exception | None = None  # error of the first item in the queue
        self._unkept: Exception | None = None  # why items are not kept
        self._deadline: float | None = None  # set by `close`, on time.monotonic's clock
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="results", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def put(self, item: Entry) -> None:
        """Append an item to the queue. Never waits for the store, never raises."""
        with self._changed:
            self._waiting.append(Waiting(item))
            if self._problem is not None:
                self._keep()
            self._changed.notify_all()

    def close(self, patience: float | None = None) -> tuple[list[tuple[Entry, Exception]], str]:
        """End the thread; return (items not written, each with its reason, refused ones first; where they are kept).

        patience: instead of the constructor's [s]. Ctrl-C ends the waiting. The text is empty if none is kept or lost.
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
            self._keep()
            return [*self._refused, *((waiting.item, reason) for waiting in self._waiting)], self._where()

    def _where(self) -> str:
        places = [waiting.kept for waiting in self._waiting if waiting.kept is not None]
        lost = len(self._waiting) - len(places)
        listed = ", ".join(map(str, dict.fromkeys(places)))
        said = f"{len(places)} wait in {listed}, and the next run into these results moves them" if places else ""
        return "; ".join(filter(None, [said, f"{lost} are lost: {redact(str(self._unkept))}" if lost else ""]))

    def _at_exit(self) -> None:
        """Close at the end of the program, and log the rows not written."""
        left, where = self.close()
        if left:
            logger.warning("%d result rows were not written (%s); %s", len(left), redact(str(left[0][1])), where)

    def _work(self) -> None:
        tries, failed = 0, False
        while (item := self._first()) is not None:
            try:
                self._write(item)
            except OSError as problem:
                tries, failed = tries + 1, True
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
                tries, self._problem, self._unkept = 0, None, None
                settles = failed and not self._waiting
            if settles:
                failed = False
                try:
                    self._write.settle()
                except Exception as problem:  # of any kind, since rows to come must be written
                    logger.warning("rows that are stored are kept elsewhere too: %s", redact(str(problem)))

    def _first(self) -> Entry | None:
        """Wait for the first item; None when the queue is empty and closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._deadline is not None)
            return self._waiting[0].item if self._waiting else None

    def _may_retry(self, problem: OSError, tries: int) -> bool:
        """Wait until the next try; False once the time is over."""
        with self._changed:
            if self._closed:
                return False
            self._problem = problem
            self._keep()
            if tries == 1:
                where = self._waiting[0].kept or f"memory alone: {self._unkept}"
                said = "result rows cannot be written and wait: %s; until then they are in %s"
                logger.warning(said, redact(str(problem)), redact(str(where)))
            pause = min(self._pauses[0] * 2 ** min(tries - 1, 30), self._pauses[1])
            if self._deadline is None:  # `close` ends this pause
                self._changed.wait_for(lambda: self._deadline is not None, timeout=pause)
            else:
                self._changed.wait_for(lambda: self._closed, min(pause, max(0.0, self._deadline - time.monotonic())))
            return not self._closed and (self._deadline is None or time.monotonic() < self._deadline)

    def _keep(self) -> None:
        """Keep what waits. An error, e.g. a full disk, ends it, and the next call tries again."""
        for waiting in self._waiting:
            try:
                waiting.kept = waiting.kept or self._write.keep(waiting.item)
            except OSError as problem:
                self._unkept = problem
                return
            except Exception as problem:  # of any kind: the store will refuse it too
                self._unkept = problem
