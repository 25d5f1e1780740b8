"""Writes rows of the results table from Tune's events, for trainables that do not write their own."""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.result import TRAINING_ITERATION
from ray.tune.search.repeater import TRIAL_INDEX as REPETITION
from ray.tune.utils import flatten_dict

from tune_cd import results
from tune_cd.results.redaction import redact
from tune_cd.results.rows import FULL_LENGTH, LENGTHS, SPACE, split, trial_name, trial_row, with_own
from tune_cd.results.schema import CUT
from tune_cd.tune.callback.curves import Curves
from tune_cd.tune.callback.failures import failure_of
from tune_cd.tune.callback.row_callback import RowCallback
from tune_cd.tune.callback.rows import machine_of, outcome
from tune_cd.tune.callback.writer import RowWriter
from tune_cd.tune.reports import Reports

if TYPE_CHECKING:
    from tune_cd.tune.searcher import CoordinateDescentSearch


log = logging.getLogger(__name__)


class ResultsCallback(RowCallback):
    """Writes one row for each trial to RESULTS/trials/<study>/, when it ends and whenever it pauses. Made by
    `CoordinateDescentSearch.callback`.

    results, study: destination of the rows. searcher: the searcher of these trials. Rows have direction, position and
        order of asking from it, and their config has the space under "space".
    reports: the metric, full_length and use_result of these trials, without any report. Rows have the metric as it was
        reported, and the mode beside it; trials that end below full_length are "stopped", not "completed".
    search: the name of the search method. fields: constant fields of the row, e.g. dataset, task, loss, seed.

    A second run into a study continues the numbering of the stored rows, a restored experiment keeps its numbers, and a
    failed trial that is run again becomes its row's next attempt (`writer`). Trials that have reported the metric but
    were still open when the experiment ended, e.g. by Ctrl-C or Tune's time_budget_s, are "stopped"; others have no
    row. Every report is a point of the trial's learning curve (`curves`), and the study is compacted at the end.

    Raises ValueError for fields that are not allowed.
    """

    def __init__(
        self,
        results: str | Path,
        study: str,
        searcher: "CoordinateDescentSearch",
        reports: Reports,
        *,
        search: str = "cd",
        fields: dict[str, Any] | None = None,
    ):
        self._search, self.searcher, self._study, self._resumed = search, searcher, study, False
        self._no_reports = reports
        mode = "max" if reports.sign > 0 else "min"
        constants = {"study": study, "search": search, "metric_name": reports.metric, "mode": mode, **(fields or {})}
        super().__init__(results, constants)

    def _begin(self) -> None:
        super()._begin()
        self._started: dict[str, datetime] = {}
        self._paused: dict[str, Any] = {}  # trial id -> training_iteration at the pause of its last row
        self._writer: RowWriter | None = None
        self._reports = replace(self._no_reports, seen={})
        self._curves = Curves(self._reports.metric, self._reports.full_length and self._reports.counter)

    # Tune's events --------------------------------------------------------------------------------------------

    def on_step_begin(self, iteration, trials, **info) -> None:
        self.searcher.agree(trials)

    def on_trial_start(self, iteration, trials, trial, **info) -> None:
        self._started.setdefault(trial.trial_id, datetime.now(UTC))

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        self._reports.observe(trial.trial_id, result)
        self._curves.observe(trial.trial_id, flatten_dict(result))

    def on_step_end(self, iteration, trials, **info) -> None:
        for trial in trials if self.searcher.pauses else ():
            if trial.status == Trial.PAUSED and trial.last_result and self._is_news(trial):
                self._paused[trial.trial_id] = trial.last_result.get(TRAINING_ITERATION)
                self._write(trials, trial)

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        if self._is_news(trial):
            self._write(trials, trial)
        self._reports.forget(trial.trial_id)
        self._curves.points.pop(trial.trial_id, None)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._write(trials, trial, failed=True)

    def on_experiment_end(self, trials, **info) -> None:
        for trial in [trial for trial in trials if trial.trial_id in self._started and self._is_news(trial)]:
            if TRAINING_ITERATION in trial.last_result:  # else Tune filled it in before the first report
                self._write(trials, trial, cut=True)
        self.close()
        try:
            results.compact(self._results, self._study)
        except (OSError, ValueError) as problem:  # the files stay as they are
            log.info("study %s is not compacted: %s", self._study, redact(str(problem)))

    # ----------------------------------------------------------------------------------------------------------

    def _write(self, trials: list, trial: Any, failed: bool = False, cut: bool = False) -> None:
        """Store the row of a trial, if it has one. cut: the experiment ended before it."""
        with self._noting(trial):
            if (row := self._row(trials, trial, failed, cut)) is not None:
                curve = self._curves.rows(trial.trial_id, row.get("seed"))
                self._store(trial, lambda place: self._writer_of(place)(row, curve))

    def _writer_of(self, place: str | Path) -> RowWriter:
        """The writer of a results folder; a second one is read anew."""
        if place != self._results:
            return RowWriter(place, self._since)
        if self._writer is None:
            self._writer = RowWriter(place, self._since, not (self._resumed or self.searcher.knows(self._study)))
        return self._writer

    def _row(self, trials: list, trial: Any, failed: bool, cut: bool) -> dict[str, Any] | None:
        """The row of a trial; None for one that was cut off without a value."""
        started, result = self._started.pop(trial.trial_id, None), flatten_dict(trial.last_result)
        suggested = {name: value for name, value in trial.evaluated_params.items() if name != REPETITION}
        params, choices = split(suggested, self.searcher.search.space)
        seen = self._reports.end(trial.trial_id, result)
        share = self._reports.share(seen)
        cut = cut and not result.get("done") and share != 1
        told = outcome(result, self._reports, seen, failure_of(trial, params) if failed else None)
        if cut:
            if told["val_score"] is None:
                return None
            told |= {"status": "stopped", "error": CUT}
        origin = {} if REPETITION in trial.config else self.searcher.origin_of(trial.trial_id)
        number = origin.get("trial_index", trials.index(trial))
        identity = {"trial_id": trial_name(self._search, number), "trial_index": number, "attempt": 0}
        identity |= {name: origin.get(name) for name in ("direction", "line_position")}
        config, machine = with_own(trial.config, self._knowledge), {"started_at": started} | machine_of(trial)
        return trial_row(identity, params, config, told, machine, self._constants, choices)

    def _is_news(self, trial: Any) -> bool:
        """Whether the trial has reported a result since the row of its last pause."""
        paused = self._paused.get(trial.trial_id)
        return paused is None or paused != (trial.last_result or {}).get(TRAINING_ITERATION)

    @property
    def _knowledge(self) -> dict[str, Any]:
        """What a row's config says of the search: the space, and the length of a whole training."""
        search, full_length = self.searcher.search, self._reports.full_length
        known: dict[str, Any] = {SPACE: search.space.to_json()}
        known |= {} if full_length is None else {FULL_LENGTH: list(full_length)}
        return known | ({LENGTHS: list(search.lengths)} if self.searcher.pauses else {})

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_writer": None, "_resumed": True}  # Tuner.restore reads it

    def get_state(self) -> dict[str, Any]:
        """What Tune's snapshot keeps: of a trial, Tune itself knows only its last report."""
        return {"reports": self._reports.state(), "curves": self._curves.points}

    def set_state(self, state: dict[str, Any]) -> None:
        """The inverse of `get_state`."""
        self._reports.restore(state["reports"])
        self._curves.points = dict(state["curves"])
