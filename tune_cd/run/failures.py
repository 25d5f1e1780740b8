"""Writes the rows of trainings whose trial failed in Tune; trainings write their own rows otherwise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune.utils import flatten_dict

from tune_cd.results.attempts import has_ended
from tune_cd.results.rows import finite, next_run, split, trial_row
from tune_cd.results.schema import LOST
from tune_cd.results.store import store_of
from tune_cd.results.writing import look, write
from tune_cd.run.portfolio import ORIGIN
from tune_cd.tune.callback.failures import failure_of
from tune_cd.tune.callback.row_callback import RowCallback
from tune_cd.tune.callback.rows import machine_of, scores_in
from tune_cd.tune.packs import PACK, SEED, UNTIL, members_of

UNSTORED = "unstored"
"""Key of a training's result for a {"row", "curve"} that it could not store; the callback stores it."""


class FailuresCallback(RowCallback):
    """Writes a row for each training whose trial fails. The trainable writes all others, also of failed trainings, so
    Tune's failures are the machine's.

    results, study: destination of the rows. fields: constant fields of the row. identify: (a training's configuration)
    -> the fields that identify its row, its attempt included.
    """

    def __init__(
        self, results: str | Path, study: str, *, fields: dict[str, Any], identify: Callable[[Mapping], dict]
    ):  # fmt: skip
        self._identify = identify
        self._started: dict[str, datetime] = {}
        super().__init__(results, {"study": study, "search": "cd", "mode": "max", **fields})

    def _begin(self) -> None:
        super()._begin()
        self._taken: set[tuple[str, int]] = set()  # (trial id, index in its pack) of reported rows taken over

    def on_trial_start(self, iteration, trials, trial, **info) -> None:
        self._started.setdefault(trial.trial_id, datetime.now(UTC))

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        """Store rows that trainings report because they could not store them (UNSTORED)."""
        for place, (_, member) in enumerate(members_of(trial.config, result)):
            told = member.get(UNSTORED)
            if isinstance(told, dict) and {"row", "curve"} <= set(told) and (trial.trial_id, place) not in self._taken:
                self._taken.add((trial.trial_id, place))
                with self._noting(trial):
                    self._store(trial, partial(_write, row=told["row"], curve=told["curve"]))

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        self._started.pop(trial.trial_id, None)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        started = self._started.pop(trial.trial_id, None)
        with self._noting(trial):
            for row in self._rows(trial, started):
                self._store(trial, partial(_write, row=row))

    def _rows(self, trial: Any, started: datetime | None) -> Iterator[dict[str, Any]]:
        """The rows of the trainings in a trial's pack that were not done."""
        packed = trial.config[PACK]
        for suggested, (config, result) in zip(packed, members_of(trial.config, trial.last_result)):
            if result.get("done"):
                continue
            searched = {name: value for name, value in suggested.items() if name not in (ORIGIN, SEED, UNTIL)}
            params, choices = split(searched)
            kind, error = failure_of(trial, params)
            told = {"status": "failed", "val_score": None, "scores": scores_in(flatten_dict(result))}
            told |= {"train_seconds": finite(trial.last_result.get("time_total_s"))}
            told |= {"failure_kind": LOST, "error": error if kind == LOST else f"lost: {error}"}
            constants = self._constants | self._identify(config)
            machine = {"started_at": started} | machine_of(trial, share=1 / len(packed))
            asked = {name: value for name, value in config.items() if name != ORIGIN}
            yield trial_row({}, params, asked, told, machine, constants, choices)


def _write(location: str | Path, row: dict[str, Any], curve: Sequence[Mapping[str, Any]] = ()) -> None:
    """Store the row of an attempt and its curve, unless that attempt, or a later one, has a row."""
    held = look(store_of(location), "trials", row["study"], row["trial_id"], row["attempt"])
    if not has_ended(held.row, row["attempt"]):
        write(location, next_run(row, held.row), curve, held)
