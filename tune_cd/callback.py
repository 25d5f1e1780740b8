"""Tune's events -> rows of the results table, for trainables that do not write their own."""

import json
import os
import socket
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any

from ray.tune import Callback
from ray.tune.utils import flatten_dict

from tune_cd import results
from tune_cd.packed import PACK, SEED, members_of
from tune_cd.provenance import git_commit, software


class ResultsCallback(Callback):
    """Writes one row a finished trial to RESULTS/trials/<study>/.

        tune.RunConfig(callbacks=[ResultsCallback("results", "my-study", metric="accuracy", mode="max")])

    results, study: where the rows go. metric, mode: as in `TuneConfig`; for "min" the table holds the negated metric,
    named "-metric", since scores in it are the larger the better.
    search: the name of the search method. fields: constant fields of the row, e.g. dataset, task, loss, seed.
    annotate: the searcher's `annotate` key, if it has one: then rows carry direction, position and order of asking.
    identify: (a training's configuration) -> the fields that say which it is, instead of `annotate`'s.
    full_length: as in the searcher: (key, amount); trials whose last result has less are "stopped", not "completed".
    record: "all" trials, or "failures" alone where the trainable writes its own row when it completes.

    An error while writing never reaches Tune: rows are written by a thread of their own, and what could not be
    written is said in one warning at the end.
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
        record: str = "all",
        identify: Callable[[dict], dict] | None = None,
    ):
        if mode not in ("min", "max") or record not in ("all", "failures"):
            raise ValueError(f"mode {mode!r}: 'min' or 'max'; record {record!r}: 'all' or 'failures'")
        self._results, self._study, self._metric, self._mode = str(results), study, metric, mode
        self._search, self._fields, self._annotate, self._record = search, fields or {}, annotate, record
        self._full_length, self._identify = full_length, identify
        self._started: dict[str, datetime] = {}
        self._last_results: dict[str, dict] = {}
        self._writer: ThreadPoolExecutor | None = None
        self._writes: list[Future] = []

    def setup(self, **info) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="results")

    def __getstate__(self) -> dict:  # Tune pickles callbacks when the Tuner is made
        return {**vars(self), "_writer": None, "_writes": []}

    def on_trial_start(self, iteration, trials, trial, **info) -> None:
        self._started.setdefault(trial.trial_id, datetime.now(UTC))

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        self._last_results[trial.trial_id] = result

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        if self._record == "all":
            self._write(trials, trial, error=None)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._write(trials, trial, error=_last_line(trial.error_file) or "the trial failed; Ray left no message")

    def on_experiment_end(self, trials, **info) -> None:
        self._writer.shutdown(wait=True)
        errors = [write.exception() for write in self._writes if write.exception() is not None]
        if errors:
            warnings.warn(f"{len(errors)} of {len(self._writes)} result rows were not written; the first: {errors[0]}")

    def _write(self, trials: list, trial: Any, error: str | None) -> None:
        last = self._last_results.get(trial.trial_id, {})
        for place, (config, result) in enumerate(members_of(trial.config, last)):
            if PACK in trial.config:
                result |= {name: last[name] for name in ("hostname", "time_total_s") if name in last}
            try:
                write = self._writer.submit(self._store, self._row(trials, trial, place, config, result, error))
            except Exception as problem:  # an error here would end Tune's experiment
                write = Future()
                write.set_exception(problem)
            self._writes.append(write)

    def _store(self, row: dict) -> None:
        try:
            results.write_trial(self._results, row)
        except results.ConflictingRow:
            if self._record == "all":
                raise
            # a failure's row beside the trainable's own: the training had ended before its trial failed

    def _row(self, trials: list, trial: Any, place: int, config: dict, result: dict, error: str | None) -> dict:
        """The row of a trial, or of the training at a place in its pack."""
        packed = PACK in trial.config
        member, ours = (flatten_dict(trial.config[PACK][place]), (self._annotate, SEED)) if packed else (trial.evaluated_params, (self._annotate,))
        searched = {name: value for name, value in member.items() if name.split("/")[0] not in ours}
        origin = config.get(self._annotate) or {} if self._annotate else {}
        index = origin.get("trial_index", trials.index(trial))
        identity = {
            "search": self._search,
            "trial_id": trial_name(self._search, index) + (f"-{place}" if PACK in trial.config and not origin else ""),
            "trial_index": index,
            "direction": origin.get("direction"),
            "line_position": origin.get("line_position"),
        }
        identity |= self._identify(config) if self._identify is not None else {}
        config.pop(self._annotate, None)
        score = None if error else self._score(result)
        return {
            "study": self._study,
            "attempt": 0,
            **identity,
            "params": {name: float(value) for name, value in searched.items() if isinstance(value, Real)},
            **{name: float(config[name]) for name in ("Lambda_p", "Lambda_e") if isinstance(config.get(name), Real)},
            "batch_size": config["batch_size"] if isinstance(config.get("batch_size"), int) else None,
            "status": self._status(score, result, error),
            "metric_name": self._metric if self._mode == "max" else f"-{self._metric}",
            "val_score": score,
            "scores": {name: float(v) for name, v in flatten_dict(result).items() if _is_score(name, v)},
            "train_seconds": result.get("time_total_s"),
            "started_at": self._started.get(trial.trial_id),
            "ended_at": datetime.now(UTC),
            "hostname": result.get("hostname") or socket.gethostname(),
            "error": error,
            "config": json.dumps(config, default=str),
            "software": json.dumps(software()),
            "git_commit": git_commit(),
            **self._fields,
        }

    def _status(self, score: float | None, result: dict, error: str | None) -> str:
        if error:
            return "failed"
        if score is None:
            return "diverged"
        return "stopped" if stopped_early(result, self._full_length) else "completed"

    def _score(self, result: dict) -> float | None:
        value = result.get(self._metric)
        if not isinstance(value, Real) or not isfinite(value):
            return None
        return float(value) if self._mode == "max" else -float(value)


def trial_name(search: str, trial_index: int) -> str:
    """The table's trial_id: the same for the same trial of a study, whichever driver asks for it."""
    return f"{search}-{trial_index:05d}"


def stopped_early(result: Mapping[str, Any] | None, full_length: tuple[str, float] | None) -> bool:
    """Whether a trial's last result has less of what `full_length` names than a complete trial has."""
    if full_length is None or not result:
        return False
    key, amount = full_length
    return key in result and result[key] < amount


TUNE_KEYS = ("config/", "time_", "timestamp", "pid", "iterations_since_restore", "training_iteration", "done")


def _is_score(name: str, value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not name.startswith(TUNE_KEYS)


def _last_line(path: str | None) -> str | None:
    """The last line of a traceback: the exception and its message."""
    if path is None or not os.path.exists(path):
        return None
    lines = Path(path).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else None
