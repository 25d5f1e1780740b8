"""Writes rows of the results table from Tune's events, for trainables that do not write their own."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.result import TRAINING_ITERATION
from ray.tune.search.repeater import TRIAL_INDEX as REPETITION
from ray.tune.utils import flatten_dict

from tune_cd import results as results_table
from tune_cd.results.merging import merge
from tune_cd.results.redaction import redact
from tune_cd.results.rows import (
    DRAWN,
    FULL_LENGTH,
    LENGTHS,
    SPACE,
    TOLD,
    split,
    trial_name,
    trial_row,
    with_own,
)
from tune_cd.results.schema import CUT
from tune_cd.tune.callback.curves import Curves
from tune_cd.tune.callback.row_store import RowStore
from tune_cd.tune.callback.rows import failure_of, machine_of, outcome
from tune_cd.tune.callback.writer import RowWriter
from tune_cd.tune.reports import Reports

if TYPE_CHECKING:
    from tune_cd.tune.searcher import CoordinateDescentSearch


log = logging.getLogger(__name__)

CONSTANT = "dataset task loss search_seed seed Lambda_p Lambda_e batch_size gpus hostname device git_commit"
"""Fields that may be alike in all rows of a study; the others are each trial's own."""


class ResultsCallback(Callback):
    """Writes one row for each trial to RESULTS/trials/<study>/, when it ends and whenever it pauses. Made by
    `CoordinateDescentSearch.callback`.

    results, study: destination of the rows. searcher: the searcher of these trials. Rows have its metric as reported
        and the mode beside it, direction, position and order of asking, and its space in their config. Trials that end
        below its full_length are "stopped", not "completed".
    search: the name of the search method. fields: constant fields of the row, e.g. dataset, task, loss, seed.

    A second run into a study continues the numbering of the stored rows, a restored experiment keeps its numbers, and a
    failed trial that is run again becomes its row's next attempt (`writer`). Trials that have reported the metric but
    were still open when the experiment ended, e.g. by Ctrl-C or Tune's time_budget_s, are "stopped"; others have no
    row. Every report is a point of the trial's learning curve (`curves`), and the study is compacted at the end.

    Raises ValueError for fields that are not allowed, and in another search's Tuner.
    """

    def __init__(
        self,
        results: str | Path,
        study: str,
        searcher: "CoordinateDescentSearch",
        *,
        search: str,
        fields: dict[str, Any],
    ):
        if wrong := sorted(fields.keys() - {*CONSTANT.split()}):
            raise ValueError(f"fields {wrong}: alike in all rows may be {CONSTANT}")
        self._study, self.searcher = study, searcher
        self._constants = {"study": study, "search": search, **fields}
        row = {"trial_id": trial_name(search, 0), "trial_index": 0, "attempt": 0, "params": {}, "status": "failed"}
        row |= {"metric_name": "metric", "scores": {}, "config": "{}", "software": "{}"}
        results_table.check_trial(row | self._constants)
        self.rows = RowStore(results)
        self._begin()

    def _begin(self) -> None:
        """Begin a run. Tune pickles callbacks when the Tuner is made, so a restored one keeps `_since` and recognises
        its own rows."""
        self._since = datetime.now(UTC)
        self._started: dict[str, datetime] = {}
        self._paused: dict[str, Any] = {}  # trial id -> training_iteration at the pause of its last row
        self._writer: RowWriter | None = None
        self._curves = Curves()

    @property
    def _reports(self) -> Reports:
        """The searcher's, so that a row never contradicts the search."""
        return self.searcher.trials.reports

    # Tune's events --------------------------------------------------------------------------------------------

    def setup(self, **info: Any) -> None:
        merge(self.rows.location)
        self._blank = not self.searcher.required().search.trainings  # before it asks

    def on_step_begin(self, iteration, trials, **info) -> None:
        for trial in self.searcher.trials.agree(trials):
            self._write(trials, trial, failed=True)

    def on_trial_start(self, iteration, trials, trial, **info) -> None:
        if not trial.config.get(REPETITION) and trial.trial_id not in self.searcher.trials.configurations:
            raise ValueError("this callback is of another search than the Tuner's search_alg")
        self._started.setdefault(trial.trial_id, datetime.now(UTC))

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        length = self._reports.observe(_name(trial), result).length
        self._curves.observe(trial.trial_id, flatten_dict(result), self._reports.metric, length)

    def on_step_end(self, iteration, trials, **info) -> None:
        for trial in trials if self.searcher.pauses else ():
            if trial.status == Trial.PAUSED and trial.last_result and self._is_news(trial):
                self._paused[trial.trial_id] = trial.last_result.get(TRAINING_ITERATION)
                self._write(trials, trial)

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        if self._is_news(trial):
            self._write(trials, trial)
        self._curves.points.pop(trial.trial_id, None)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._write(trials, trial, failed=True)

    def on_experiment_end(self, trials, **info) -> None:
        for trial in [trial for trial in trials if trial.trial_id in self._started and self._is_news(trial)]:
            if TRAINING_ITERATION in trial.last_result:  # else Tune filled it in before the first report
                self._write(trials, trial, cut=True)
        self.close()
        try:
            results_table.compact(self.rows.location, self._study)
        except (OSError, ValueError) as problem:  # the files stay as they are
            log.info("study %s is not compacted: %s", self._study, redact(str(problem)))

    def close(self) -> None:
        """End the run, see `RowStore.close`."""
        self.rows.close()
        self._begin()  # it may be used for another run

    # ----------------------------------------------------------------------------------------------------------

    def _write(self, trials: list, trial: Any, failed: bool = False, cut: bool = False) -> None:
        """Store the row of a trial, if it has one. cut: the experiment ended before it."""
        with self.rows.noting(trial.trial_id):
            if (row := self._row(trials, trial, failed, cut)) is not None:
                curve = self._curves.rows(trial.trial_id, row.get("seed"))
                self.rows.store(trial.trial_id, lambda place: self._writer_of(place)(row, curve))

    def _writer_of(self, place: str | Path) -> RowWriter:
        """The writer of a results folder; a second one is read anew."""
        if place != self.rows.location:
            return RowWriter(place, self._since)
        self._writer = self._writer or RowWriter(place, self._since, self._blank)
        return self._writer

    def _row(self, trials: list, trial: Any, failed: bool, cut: bool) -> dict[str, Any] | None:
        """The row of a trial; None for one that was cut off without a value."""
        started, result = self._started.pop(trial.trial_id, None), flatten_dict(trial.last_result)
        suggested = {name: value for name, value in trial.evaluated_params.items() if name != REPETITION}
        params, choices = split(suggested, self.searcher.search.space)
        seen = self._reports.end(_name(trial), result, cut or failed)
        share = self._reports.share(seen)
        cut = cut and not result.get("done") and share != 1
        told = outcome(result, self._reports, seen, failure_of(trial, params) if failed else None)
        if cut:
            if told["val_score"] is None:
                return None
            told |= {"status": "stopped", "error": CUT}
        repetition = trial.config.get(REPETITION)
        origin = {} if repetition is not None else self.searcher.trials.origin_of(trial.trial_id)
        number = origin.get("trial_index", trials.index(trial))
        identity = {"trial_id": trial_name(self._constants["search"], number), "trial_index": number, "attempt": 0}
        identity |= {name: origin.get(name) for name in ("direction", "line_position")}
        identity |= {"seed": repetition} if repetition is not None else {}
        own = {name: value for name, value in trial.config.items() if name != REPETITION}
        config = with_own(own, self._knowledge(suggested, failed))
        machine = {"started_at": started} | machine_of(trial)
        goal = {"metric_name": self._reports.metric, "mode": "min" if self._reports.sign < 0 else "max"}
        return trial_row(identity, params, config, told, machine, goal | self._constants, choices)

    def _is_news(self, trial: Any) -> bool:
        """Whether the trial has reported a result since the row of its last pause."""
        paused = self._paused.get(trial.trial_id)
        return paused is None or paused != (trial.last_result or {}).get(TRAINING_ITERATION)

    def _knowledge(self, h: Mapping[str, Any], failed: bool) -> dict[str, Any]:
        """What a row's config says of the search: the space, the length of a whole training, and where trials pause
        what the search was told of this one so far, in the metric's own sign. A failed row keeps what the last held."""
        search, full_length = self.searcher.search, self._reports.full_length
        known: dict[str, Any] = {SPACE: search.space.to_json()}
        known |= {DRAWN: self.searcher.drawn} if self.searcher.drawn else {}
        known |= {FULL_LENGTH: list(full_length)} if full_length else {}
        known |= {LENGTHS: list(search.lengths)} if self.searcher.pauses else {}
        training = search.training(search.space.check(h)) if self.searcher.pauses and not failed else None
        if training is not None:
            curve = training.numbers.items()
            known[TOLD] = [[share * full_length[1], self._reports.sign * value] for share, value in curve]
        return known

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_writer": None}  # Tuner.restore reads it

    def get_state(self) -> dict[str, Any]:
        """What Tune's snapshot keeps: of a trial, Tune itself knows only its last report."""
        return {"curves": self._curves.points}

    def set_state(self, state: dict[str, Any]) -> None:
        """The inverse of `get_state`."""
        self._curves.points = dict(state["curves"])


def _name(trial: Any) -> str:
    """The name of a trial's reports. Within a Repeater the searcher has their means under its id."""
    return f"{trial.trial_id} alone" if REPETITION in trial.config else trial.trial_id
