"""Writes rows of the results table from Tune's events, for trainables that do not write their own."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.result import TRAINING_ITERATION
from ray.tune.search.repeater import TRIAL_INDEX as REPETITION
from ray.tune.utils import flatten_dict

from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.results.redaction import redact
from tune_cd.results.rows import FULL_LENGTH, LENGTHS, SPACE, split, trial_name, trial_row, with_own
from tune_cd.results.schema import CUT, LOST
from tune_cd.search.space import Space
from tune_cd.tune.callback.curves import Curves
from tune_cd.tune.callback.failures import failure_of
from tune_cd.tune.callback.retries import RetryingWriter
from tune_cd.tune.callback.rows import outcome, place_of
from tune_cd.tune.callback.writer import Entry, RowWriter, compact
from tune_cd.tune.known_rows import STARTED_FROM, warn_of_unknown
from tune_cd.tune.packs import PACK, SEED, UNTIL, members_of
from tune_cd.tune.reports import Reports

UNSTORED = "unstored"
"""Key of a training's result for a {"row", "curve"} that it could not store; the callback stores it."""

STRICT = "TUNE_DISABLE_STRICT_METRIC_CHECKING"

ASKING = 1.0  # seconds that the experiment waits at its start to hear whether the study has rows already


class ResultsCallback(Callback):
    """Writes one row for each finished trial to RESULTS/trials/<study>/.

        tune.RunConfig(callbacks=[ResultsCallback("results", "my-study", metric="accuracy", mode="max")])

    results, study: destination of the rows. metric, mode: as in `TuneConfig`; rows have the metric as it was reported,
    and the mode beside it.
    search: the name of the search method. fields: constant fields of the row, e.g. dataset, task, loss, seed.
    annotate: the searcher's `annotate` key, if it has one; rows then record direction, position and order of asking.
    identify: (a training's configuration) -> the fields that identify it, instead of those of `annotate`.
    full_length: (key, amount) as in the searcher; trials that end below are "stopped", not "completed".
    use_result: as in the searcher: a row has the "best" value of the metric or the "last".
    record: "all": a row for each trial when it ends. "pauses": also whenever one pauses, as where trials pause, so
        that the table is enough if Tune's folder is lost (needs full_length). "failures": only rows of trials that fail
        in Tune, for trainables that write their own rows, also of failed trainings; Tune's failures are then the
        machine's. Rows that the trainable cannot write may be reported, see UNSTORED.
    patience: seconds to wait, at the end of the experiment, for a store that does not answer.
    searcher: the searcher of these trials, which knows their places in the order of asking and the searched space
        (`search.callback`). A row's config has the space under "space".

    A second run into a study continues the numbering of the stored rows, a restored experiment keeps its numbers, and a
    failed trial that is run again becomes its row's next attempt (`writer`). A thread writes the rows, so Tune neither
    stops nor waits. While the store does not answer, rows wait in order, in a second results folder too
    (`results.merging`), from where the next run moves those not written by the end; a warning names it. Trials that
    have reported the metric but were still open when the experiment ended, e.g. by Ctrl-C or Tune's time_budget_s, are
    "stopped"; others have no row.
    Every report is a point of the trial's learning curve (`curves`), and the study is compacted at the end.
    A trial that never reports the metric is a failure. Tune would end the experiment for a report without it. Once any
    trial has reported it, its name cannot be misspelt, so Tune's check is turned off
    (TUNE_DISABLE_STRICT_METRIC_CHECKING).

    Raises ValueError for arguments that are not allowed, including those in `fields`.
    """

    def __init__(
        self,
        results: str | Path,
        study: str,
        *,
        metric: str,
        mode: str = "max",
        search: str = "cd",
        fields: dict[str, Any] | None = None,
        annotate: str | None = None,
        full_length: tuple[str, float] | None = None,
        use_result: str = "best",
        record: str = "all",
        identify: Callable[[dict], dict] | None = None,
        patience: float = 600.0,
        searcher: Any = None,
    ):
        if mode not in ("min", "max") or record not in ("all", "pauses", "failures") or patience < 0:
            allowed = f"mode {mode!r}: 'min' or 'max'; record {record!r}: 'all', 'pauses' or 'failures'"
            raise ValueError(f"{allowed}; patience {patience!r}: at least 0")
        if record == "pauses" and full_length is None:
            raise ValueError("record 'pauses' needs full_length: a row of a trial that goes on must not be 'completed'")
        self._results, self._metric, self._sign = str(results), metric, 1 if mode == "max" else -1
        self._search, self._annotate, self._record = search, annotate, record
        self.searcher, self._restored = searcher, False
        self._full_length, self._identify, self._patience = full_length, identify, patience
        self._use_result = use_result
        self._constants = {"study": study, "search": search, "metric_name": metric, "mode": mode, **(fields or {})}
        _check_constants(self._constants, trial_name(search, 0))
        self._started: dict[str, datetime] = {}
        self._writer: RetryingWriter | None = None
        self._unchecked = False  # whether this callback turned Tune's metric check off
        self._begin()

    def setup(self, **info: Any) -> None:
        merge(self._results)
        self._writer = RetryingWriter(RowWriter(self._results), self._patience)
        if self._record == "failures" or self._restored or (self.searcher is not None and self.searcher.goes_on):
            return
        known = STARTED_FROM if self.searcher is None else self.searcher.starts_from
        arguments = self._results, self._constants["study"], self._since, known
        asking = threading.Thread(target=warn_of_unknown, args=arguments, name="earlier rows", daemon=True)
        asking.start()
        asking.join(ASKING)  # the store may not answer

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_writer": None, "_unchecked": False, "_restored": True}  # Tuner.restore reads it

    def get_state(self) -> dict[str, Any]:
        """What Tune's snapshot keeps: of a trial, Tune itself knows only its last report."""
        return {"reports": self._reports.state(), "curves": self._curves.points}

    def set_state(self, state: dict[str, Any]) -> None:
        """The inverse of `get_state`."""
        self._reports.restore(state["reports"])
        self._curves.points = dict(state["curves"])

    def on_trial_start(self, iteration, trials, trial, **info) -> None:
        if getattr(trial, "has_reported_at_least_once", False):  # a restored trial
            self._observe(trial, trial.last_result)
        self._started.setdefault(trial.trial_id, datetime.now(UTC))

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        self._take_over(trial, result)
        self._observe(trial, result)
        if STRICT not in os.environ and self._metric in flatten_dict(result):
            os.environ[STRICT], self._unchecked = "1", True

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        if self._record != "failures" and self._is_news(trial):
            self._write(trials, trial, failed=False)
        for place in range(len(trial.config.get(PACK, [None]))):
            self._reports.forget(_name(trial, place))
            self._curves.points.pop(_name(trial, place), None)

    def on_step_end(self, iteration, trials, **info) -> None:
        for trial in trials if self._record == "pauses" else ():
            if trial.status == Trial.PAUSED and trial.last_result and self._is_news(trial):
                self._paused[trial.trial_id] = trial.last_result.get(TRAINING_ITERATION)
                self._write(trials, trial, failed=False)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._write(trials, trial, failed=True)

    def on_experiment_end(self, trials, **info) -> None:
        if self._record != "failures":
            for trial in [trial for trial in trials if trial.trial_id in self._started and self._is_news(trial)]:
                if TRAINING_ITERATION in trial.last_result:  # else Tune filled it in before the first report
                    self._write(trials, trial, failed=False, cut=True)
        self.close()
        if self._record != "failures":
            compact(self._results, self._constants["study"])

    def close(self, patience: float | None = None) -> None:
        """End the run: wait for the last rows, and warn of those that could not be written.

        Called at the end of the experiment. A caller that catches an interrupt of `Tuner.fit` may call it with a
        shorter patience [s].
        """
        if self._unchecked:
            os.environ.pop(STRICT, None)
            self._unchecked = False
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

    def _begin(self) -> None:
        """Begin a run.

        Tune pickles callbacks when the Tuner is made, so a restored one keeps `_since` and recognises its own rows.
        """
        self._since, self._rows = datetime.now(UTC), 0
        self._taken: set[tuple[str, int]] = set()  # (trial id, index in its pack) of reported rows taken over
        self._broken: list[tuple[str, Exception]] = []  # ids of trials whose row could not be made, with the reason
        self._paused: dict[str, Any] = {}  # trial id -> training_iteration at the pause of its last row
        quiet = self.searcher is not None
        self._reports = Reports(self._full_length, self._use_result, self._metric, self._sign, quiet)
        self._curves = Curves(self._metric, self._full_length and self._full_length[0])

    def _is_news(self, trial: Any) -> bool:
        """Whether the trial has reported a result since the row of its last pause."""
        paused = self._paused.get(trial.trial_id)
        return paused is None or paused != (trial.last_result or {}).get(TRAINING_ITERATION)

    def _take_over(self, trial: Any, result: dict) -> None:
        """Store rows that trainings report because they could not store them (UNSTORED)."""
        for place, (_, member) in enumerate(members_of(trial.config, result)):
            told = member.get(UNSTORED)
            if isinstance(told, dict) and {"row", "curve"} <= set(told) and (trial.trial_id, place) not in self._taken:
                self._taken.add((trial.trial_id, place))
                self._put(Entry(told["row"], self._since, own_attempt=True, curve=told["curve"]))

    def _observe(self, trial: Any, result: dict) -> None:
        for place, (_, member) in enumerate(members_of(trial.config, result)):
            self._reports.observe(_name(trial, place), member)
            if self._record != "failures":
                self._curves.observe(_name(trial, place), flatten_dict(member))

    def _put(self, entry: Entry) -> None:
        self._rows += 1
        self._writer.put(entry)

    def _write(self, trials: list, trial: Any, failed: bool, cut: bool = False) -> None:
        started = self._started.pop(trial.trial_id, None)
        try:
            for entry in self._entries(trials, trial, failed, started, cut):
                self._put(entry)
        except Exception as problem:  # an error here would end Tune's experiment
            self._rows += 1
            self._broken.append((trial.trial_id, problem))

    def _entries(
        self, trials: list, trial: Any, failed: bool, started: datetime | None, cut: bool
    ) -> Iterator[Entry]:  # fmt: skip
        """The row of a trial, or the rows of the trainings in its pack."""
        last, packed = trial.last_result, PACK in trial.config
        for place, (config, result) in enumerate(members_of(trial.config, last)):
            broke = failed and not (packed and result.get("done"))
            if self._record == "failures" and not broke:
                continue
            if packed:
                result |= {name: last[name] for name in ("hostname", "time_total_s") if name in last}
            suggested = flatten_dict(trial.config[PACK][place]) if packed else trial.evaluated_params
            ours = (self._annotate, SEED, UNTIL) if packed else (self._annotate, REPETITION)
            searched = {name: value for name, value in suggested.items() if name.split("/")[0] not in ours}
            params, choices = split(searched, self._space)
            failure = self._failure(trial, params) if broke else None
            name, flat, reports = _name(trial, place), flatten_dict(result), self._reports
            seen = reports.end(name, flat)
            removed = getattr(trial, "status", None) in (Trial.PENDING, Trial.PAUSED)
            cut_off = cut and not result.get("done") and reports.share(seen) != 1
            short = not broke and (cut_off or reports.short(name, flat, removed and not cut))
            ended = outcome(flat, reports, seen, failure, short)
            if cut_off:
                if ended["val_score"] is None:
                    continue
                ended |= {"status": "stopped", "error": CUT}
            host = result.get("hostname")
            machine = {"started_at": started} | ({"hostname": host} if isinstance(host, str) else {}) | _gpus(trial)
            entry = self._entry(trial, place if packed else None, trials, params, choices, config, ended, machine)
            yield replace(entry, curve=self._curves.rows(name, entry.row.get("seed")))

    def _entry(
        self, trial: Any, place: int | None, trials: list, params: dict, choices: dict, config: dict, ended: dict,
        machine: dict,
    ) -> Entry:  # fmt: skip
        """A training's row.  place: index in its pack, None without one."""
        named = self._identify(config) if self._identify is not None else {}
        origin = config.pop(self._annotate, None) or {}
        if self.searcher is not None and not origin and place is None and REPETITION not in config:
            origin = self.searcher.origin_of(trial.trial_id)
        seed = {"seed": config[SEED]} if place is not None and SEED in config else {}
        suffix = f"-seed{seed['seed']}" if origin and seed else f"-{place}" if place is not None and not origin else ""
        number = origin.get("trial_index", place_of(trial, trials))
        identity = {"trial_id": trial_name(self._search, number) + suffix, "trial_index": number, "attempt": 0}
        identity |= {name: origin.get(name) for name in ("direction", "line_position")}
        constants = {**self._constants, **seed, **named}
        row = trial_row(identity, params, with_own(config, self._knowledge), ended, machine, constants, choices)
        number = None if "trial_id" in named else number
        return Entry(row, self._since, number, "trial_index" not in origin, suffix, own_attempt="attempt" in named)

    @property
    def _space(self) -> Space | None:
        """The searched space; None where the searcher is not known."""
        search = None if self.searcher is None else self.searcher.search
        return None if search is None else search.space

    @property
    def _knowledge(self) -> dict[str, Any]:
        """What a row's config says of the search: the space, and the length of a whole training."""
        space, lengths = self._space, self.searcher.search.lengths if self._space is not None else (1.0,)
        known = {} if space is None else {SPACE: space.to_json()}
        known |= {FULL_LENGTH: list(self._full_length)} if self._full_length is not None else {}
        return known | ({LENGTHS: list(lengths)} if len(lengths) > 1 else {})

    def _failure(self, trial: Any, params: dict) -> tuple[str, str]:
        kind, error = failure_of(trial, params)
        if self._record == "failures" and kind != LOST:
            return LOST, f"lost: {error}"
        return kind, error


def _name(trial: Any, place: int) -> str:
    """The id of a trial, or of a member of its pack as its searcher knows it."""
    return f"{trial.trial_id}/{place}" if PACK in trial.config else getattr(trial, "trial_id", "")


def _gpus(trial: Any) -> dict[str, float]:
    """The GPUs that a trial reserves, divided by the number of trainings in its pack."""
    asked = getattr(trial, "placement_group_factory", None)
    if asked is None:
        return {}
    return {"gpus": float(asked.required_resources.get("GPU", 0.0)) / len(trial.config.get(PACK, [None]))}


def _check_constants(constants: dict, trial_id: str) -> None:
    """Raise ValueError for constant fields that are not allowed in a row, before any trial is run."""
    row = {"trial_id": trial_id, "trial_index": 0, "attempt": 0, "params": {}, "status": "failed", "scores": {}}
    results.check_trial(row | {"config": "{}", "software": "{}"} | constants)
