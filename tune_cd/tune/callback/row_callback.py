"""The part of both callbacks that hands rows to the writing thread."""

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ray.tune import Callback

from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.results.redaction import redact
from tune_cd.results.rows import trial_name
from tune_cd.tune.callback.retries import RetryingWriter
from tune_cd.tune.callback.writer import Entry, RowWriter


class RowCallback(Callback):
    """Passes rows to a thread that writes them, so Tune neither stops nor waits. While the store does not answer, rows
    wait in order, in a second results folder too (`results.waiting`); a warning at the end names those not written.

    constants: fields that all rows have. patience: seconds to wait, at the end of the experiment, for a store that does
    not answer. Raises ValueError for constants that are not allowed in a row.
    """

    def __init__(self, location: str | Path, constants: dict[str, Any], patience: float):
        if patience < 0:
            raise ValueError(f"patience {patience!r}: at least 0")
        row = {
            "trial_id": trial_name(constants["search"], 0),
            "trial_index": 0,
            "attempt": 0,
            "params": {},
            "status": "failed",
            "scores": {},
        }
        results.check_trial(row | {"config": "{}", "software": "{}"} | constants)
        self._results, self._constants, self._patience = str(location), constants, patience
        self._writer: RetryingWriter | None = None
        self._begin()

    def _begin(self) -> None:
        """Begin a run. Tune pickles callbacks when the Tuner is made, so a restored one keeps `_since` and recognises
        its own rows."""
        self._since, self._rows = datetime.now(UTC), 0
        self._broken: list[tuple[str, Exception]] = []  # ids of trials whose row could not be made, with the reason

    @property
    def _begins_anew(self) -> bool:
        """Whether rows that the study has already are unknown to the search."""
        return False

    def setup(self, **info: Any) -> None:
        merge(self._results)
        self._writer = RetryingWriter(RowWriter(self._results, self._begins_anew), self._patience)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_writer": None}

    def _write(self, trial: Any, entries: Iterator[Entry]) -> None:
        """Pass on the rows of a trial; an error here would end Tune's experiment."""
        try:
            for entry in entries:
                self._rows += 1
                self._writer.put(entry)
        except Exception as problem:
            self._rows += 1
            self._broken.append((trial.trial_id, problem))

    def on_experiment_end(self, trials, **info) -> None:
        self.close()

    def close(self, patience: float | None = None) -> None:
        """End the run: wait for the last rows, and warn of those that could not be written.

        Called at the end of the experiment. A caller that catches an interrupt of `Tuner.fit` may call it with a
        shorter patience [s].
        """
        if self._writer is None:
            return
        left, where = self._writer.close(patience)
        lost = [(entry.row["trial_id"], reason) for entry, reason in left] + self._broken
        if lost:
            some = ", ".join(name for name, _ in lost[:5]) + (", …" if lost[5:] else "")
            said = f"{len(lost)} of {self._rows} result rows were not written ({some})"
            warnings.warn(f"{said}; the first: {redact(str(lost[0][1]))}{where and f'; {where}'}", stacklevel=2)
        self._writer = None
        self._begin()  # in case the callback is used for another run
