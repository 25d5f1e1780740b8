"""Stores rows, also while the store does not take them."""

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

from tune_cd.results.location import check_location
from tune_cd.results.merging import folders, keep, merge
from tune_cd.results.redaction import redact

PAUSE = 60.0
"""Seconds after which a store that did not take a row is tried again."""

log = logging.getLogger(__name__)


class RowStore:
    """Stores the rows of a run. Rows that the store does not take (OSError) wait in a second results folder
    (`results.merging`): the next row after a minute, the end of the run, or the next run moves them."""

    def __init__(self, location: str | Path):
        check_location(location)
        self.location = str(location)
        self._begin()

    def _begin(self) -> None:
        self._kept: dict[str, Path] = {}  # id of a trial whose row waits in a second folder -> the folder
        self._problem: OSError | None = None  # why the store did not take the last row
        self._tried_at = -inf  # when it did not, on time.monotonic's clock
        self._refused: list[tuple[str, Exception]] = []  # ids of trials without a row, with the reason

    @contextmanager
    def noting(self, trial_id: str) -> Iterator[None]:
        """What makes and stores the row of a trial; an error there would end Tune's experiment."""
        try:
            yield
        except Exception as problem:
            self._refused.append((trial_id, problem))

    def store(self, trial_id: str, write: Callable[[str | Path], None]) -> None:
        """Store a row of a trial. write: writes it into a results folder or store, or raises OSError."""
        try:
            if self._problem is not None and time.monotonic() - self._tried_at < PAUSE:
                raise self._problem
            self._settle()
            write(self.location)
        except OSError as problem:
            where = self._kept[trial_id] = keep(self.location, write)
            if self._problem is None:
                log.warning("result rows cannot be written and wait in %s: %s", where, redact(str(problem)))
            if problem is not self._problem:
                self._problem, self._tried_at = problem, time.monotonic()

    def _settle(self) -> None:
        """Move the rows that wait in a second folder. Raises OSError if the store does not take them."""
        if self._kept:
            merge(self.location)
            if left := folders(self.location):
                raise self._problem or OSError(f"rows still wait in {left[0]}")
            self._kept = {}
        self._problem = None

    def close(self) -> None:
        """End the run, and warn of rows that are not in the store. Also for a caller that catches an interrupt of
        `Tuner.fit`."""
        try:
            self._settle()
        except OSError as problem:
            self._problem = problem
        missing = [*self._refused, *((trial_id, self._problem) for trial_id in self._kept)]
        if missing:
            some = ", ".join(trial_id for trial_id, _ in missing[:5]) + (", …" if missing[5:] else "")
            said = f"{len(missing)} result rows were not written ({some}); the first: {redact(str(missing[0][1]))}"
            if self._kept:
                places = ", ".join(sorted({str(place) for place in self._kept.values()}))
                said += f"; {len(self._kept)} wait in {places}, and the next run into these results moves them"
            warnings.warn(said, stacklevel=2)
        self._begin()  # it may be used for another run
