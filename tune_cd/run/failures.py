"""What follows from failures: rows of trainings that did not write their own, and the end of a study whose trials are
all lost, or whose first trainings all raise an error, since the others would tell nothing."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune import Stopper
from ray.tune.experiment import Trial
from ray.tune.utils import flatten_dict

from trainables.trial import PACK, UNSTORED, UnusableData
from tune_cd.results import ConflictingRow
from tune_cd.results.rows import finite
from tune_cd.results.schema import LOST
from tune_cd.results.writing import write_trial
from tune_cd.run.portfolio import ORIGIN
from tune_cd.run.recorder import Recorder
from tune_cd.run.resources import Resources
from tune_cd.run.study_search import Listener, not_done
from tune_cd.tune.callback.row_store import RowStore
from tune_cd.tune.callback.rows import failure_of, machine_of, scores_in

LEAST = 3
"""A study stops after so many failures, and more than run at a time: a node takes its trials with it."""


class DriverRows(Listener):
    """Writes these rows. Trainings record their own failures, so Tune's are the machine's."""

    def __init__(self, results: str | Path, recorder: Recorder):
        self._store, self._recorder = RowStore(results), recorder

    def ended(self, config: Mapping[str, Any], told: Mapping[str, Any], seconds: float) -> None:
        """Store the row and curve that a training reports because it could not store them."""
        if UNSTORED in told:
            self._put(config[ORIGIN]["trial_id"], **told[UNSTORED])

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        """Store a row for each training of a failed trial that was not done."""
        with self._store.noting(trial.trial_id):
            for config, result in not_done(trial):
                kind, error = failure_of(trial, self._recorder.params(config))
                told = {"status": "failed", "val_score": None, "scores": scores_in(flatten_dict(result))}
                told |= {"train_seconds": finite(trial.last_result.get("time_total_s"))}
                told |= {"failure_kind": LOST, "error": error if kind == LOST else f"lost: {error}"}
                began = trial.run_metadata.start_time
                machine = {"started_at": began and datetime.fromtimestamp(began, UTC)}
                machine |= machine_of(trial, share=1 / len(trial.config[PACK]))
                self._put(trial.trial_id, self._recorder.row(config, told, machine))

    def close(self) -> None:
        self._store.close()

    def _put(self, name: str, row: Mapping[str, Any], curve: Sequence[Mapping[str, Any]] = ()) -> None:
        with self._store.noting(name):
            self._store.store(name, partial(_write, row=row, curve=curve))


def _write(location: str | Path, row: dict[str, Any], curve: Sequence[Mapping[str, Any]] = ()) -> None:
    with suppress(ConflictingRow):  # that attempt, or a later one, has a row
        write_trial(location, row, curve, goes_on=True)


class StudyStopper(Listener, Stopper):
    """Ends the Tune run, and says why in `broken`: at once if the data cannot be used, or if `outside` gives a reason;
    after several trials whose process or node was lost, with no result between them; and if all of the first settings
    raised an error. Too little memory and timeouts depend on the setting and do not count.

    worked: whether a training of an earlier call did not fail. outside: the reason why the driver must end, or None.
    """

    def __init__(self, resources: Resources, worked: bool = False, outside: Callable[[], str | None] = lambda: None):
        self._most_lost = max(LEAST, resources.processes + 1)
        self._most_raising = max(LEAST, resources.workers + 1)
        self._worked, self._outside = worked, outside
        self._raising: set[tuple[str, int]] = set()  # settings
        self._lost = 0  # trials since the last result
        self.broken: str | None = None

    def ended(self, config: Mapping[str, Any], told: Mapping[str, Any], seconds: float) -> None:
        """Take the end of a training."""
        self._worked |= told.get("status") != "failed"
        if told.get("failure_kind") == "error":
            self._raising.add((config[ORIGIN]["search"], config[ORIGIN]["trial_index"]))
            if len(self._raising) >= self._most_raising and not self._worked:
                error = told["error"].splitlines()[0]
                self._end(f"the first {len(self._raising)} settings raised errors; the last: {error}")

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        self._lost = 0

    def on_trial_recover(self, iteration, trials, trial, **info) -> None:
        self._failed(trial)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._lost += 1
        self._failed(trial)

    def _failed(self, trial: Trial) -> None:
        if (reason := unusable_data(trial)) is not None:
            self._end(reason)
        elif self._lost >= self._most_lost:
            said = f"{self._lost} trials in a row were lost, and no trial gave a result between them"
            self._end(f"{said}; the last: {failure_of(trial, {})[1]}")

    def __call__(self, trial_id: str, result: dict) -> bool:
        return False

    def stop_all(self) -> bool:
        self._end(self._outside())
        return self.broken is not None

    def _end(self, reason: str | None) -> None:
        self.broken = self.broken or reason


def unusable_data(trial: Trial) -> str | None:
    """Why the data of a trial that failed cannot be used, by Tune's message of it; None: it failed otherwise."""
    began = f"{UnusableData.__module__}.{UnusableData.__qualname__}: "
    error = failure_of(trial, {})[1]
    return error.removeprefix(began) if error.startswith(began) else None
