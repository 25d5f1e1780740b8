"""Tune's events -> rows of the results table, for trainables that do not write their own."""

import os
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ray.tune import Callback
from ray.tune.utils import flatten_dict

from tune_cd import results
from tune_cd.results.redaction import redact
from tune_cd.tune.callback.failures import LOST, error_of
from tune_cd.tune.callback.writer import Entry, Filing, trial_name
from tune_cd.tune.callback.retries import PatientWriter
from tune_cd.tune.callback.rows import is_number, outcome, place_of, reported
from tune_cd.tune.packed import PACK, SEED, members_of

UNSTORED = "unstored"
"""The key of a training's result under which it has {"row", "curve"} that it could not store: they are stored here."""

STRICT = "TUNE_DISABLE_STRICT_METRIC_CHECKING"


class ResultsCallback(Callback):
    """Writes one row a finished trial to RESULTS/trials/<study>/.

        tune.RunConfig(callbacks=[ResultsCallback("results", "my-study", metric="accuracy", mode="max")])

    results, study: where the rows go. metric, mode: as in `TuneConfig`; for "min" the table holds the negated metric,
    named "-metric", since scores in it are the larger the better.
    search: the name of the search method. fields: constant fields of the row, e.g. dataset, task, loss, seed.
    annotate: the searcher's `annotate` key, if it has one: then rows carry direction, position and order of asking.
    identify: (a training's configuration) -> the fields that say which it is, instead of `annotate`'s.
    full_length: as in the searcher: (key, amount); trials whose last result has less are "stopped", not "completed".
    record: "all" trials, or "failures" alone where the trainable writes rows of its own, also of what fails by itself: then what
        Tune takes for a failure is the machine's. What the trainable could not write it may report, see UNSTORED.
    patience: seconds that a store which does not answer is waited for at the end of the experiment.

    A second run into a study is numbered on behind the rows it finds, a restored experiment keeps its numbers, and a failed
    trial that is run again is its next attempt (`filing`). Nothing here ever stops Tune or makes it wait: rows are written by
    a thread of their own. While the store does not answer they wait, in order; what could not be written by the end is in a
    local file, named in a warning, for `write_spooled`.
    A trial without the metric is a failed one; Tune ends the experiment for it, but from the first that has it on this is
    taken for no misspelling, and Tune's check is turned off (by the environment variable TUNE_DISABLE_STRICT_METRIC_CHECKING).

    Raises ValueError for what is not allowed, also among `fields`.
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
        patience: float = 600.0,
    ):
        if mode not in ("min", "max") or record not in ("all", "failures") or patience < 0:
            raise ValueError(
                f"mode {mode!r}: 'min' or 'max'; record {record!r}: 'all' or 'failures'; patience {patience!r}: at least 0"
            )
        self._results, self._study, self._metric, self._mode = str(results), study, metric, mode
        self._search, self._fields, self._annotate, self._record = search, fields or {}, annotate, record
        self._full_length, self._identify, self._patience = full_length, identify, patience
        self._since = datetime.now(
            UTC
        )  # Tune pickles callbacks when the Tuner is made: a restored one knows its own rows
        self._started: dict[str, datetime] = {}
        self._writer: PatientWriter | None = None
        self._unchecked = False  # whether we turned Tune's check off
        self._forget()
        _check_constants(self._constant(), trial_name(search, 0))

    def setup(self, **info) -> None:
        self._writer = PatientWriter(Filing(self._results), Entry.text, self._patience)

    def __getstate__(self) -> dict:
        return {**vars(self), "_writer": None, "_unchecked": False}

    def on_trial_start(self, iteration, trials, trial, **info) -> None:
        self._started.setdefault(trial.trial_id, datetime.now(UTC))

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        self._take_over(trial, result)
        if self._metric in result and STRICT not in os.environ:
            os.environ[STRICT], self._unchecked = "1", True

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        if self._record == "all":
            self._write(trials, trial, failed=False)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._write(trials, trial, failed=True)

    def on_experiment_end(self, trials, **info) -> None:
        self.close()

    def close(self, patience: float | None = None) -> None:
        """Have done with the run: wait for the last rows, and warn of those that could not be written.

        Tune calls this at the end; whoever catches an interrupt of `Tuner.fit` may, with less patience.
        """
        if self._unchecked:
            os.environ.pop(STRICT, None)
            self._unchecked = False
        if self._writer is None:
            return
        left, kept = self._writer.close(patience)
        names = [entry.row["trial_id"] for entry, _ in left] + [name for name, _ in self._broken]
        reasons = [reason for _, reason in left] + [reason for _, reason in self._broken]
        if names:
            kept = f"; what there is of them is in {kept}, for tune_cd.tune.callback.write_spooled" if kept else ""
            some = ", ".join(names[:5]) + (", …" if names[5:] else "")
            warnings.warn(
                f"{len(names)} of {self._rows} result rows were not written ({some}); the first: {redact(str(reasons[0]))}{kept}"
            )
        self._writer, self._since = None, datetime.now(UTC)  # should it be used for another run
        self._forget()

    def _forget(self) -> None:
        self._rows = 0
        self._taken: set[tuple[str, int]] = (
            set()
        )  # trainings, by trial and place in its pack, whose own rows are taken over
        self._broken: list[tuple[str, Exception]] = []  # trials of which no row could be made

    def _take_over(self, trial: Any, result: dict) -> None:
        """Rows that trainings have made and could not store."""
        for place, (_, member) in enumerate(members_of(trial.config, result)):
            told = member.get(UNSTORED)
            if isinstance(told, dict) and {"row", "curve"} <= set(told) and (trial.trial_id, place) not in self._taken:
                self._taken.add((trial.trial_id, place))
                self._rows += 1
                self._writer.put(Entry(told["row"], self._since, own_attempt=True, curve=told["curve"]))

    def _write(self, trials: list, trial: Any, failed: bool) -> None:
        started = self._started.pop(trial.trial_id, None)
        try:
            for entry in self._entries(trials, trial, failed, started):
                self._rows += 1
                self._writer.put(entry)
        except Exception as problem:  # an error here would end Tune's experiment
            self._rows += 1
            self._broken.append((trial.trial_id, problem))

    def _entries(self, trials: list, trial: Any, failed: bool, started: datetime | None) -> Iterator[Entry]:
        """The row of a trial, or those of the trainings in its pack."""
        last, packed = trial.last_result, PACK in trial.config
        for place, (config, result) in enumerate(members_of(trial.config, last)):
            broke = failed and not (packed and result.get("done"))
            if self._record == "failures" and not broke:
                continue
            if packed:
                result |= {name: last[name] for name in ("hostname", "time_total_s") if name in last}
            yield self._entry(trials, trial, place, config, flatten_dict(result), broke, started)

    def _entry(
        self, trials: list, trial: Any, place: int, config: dict, result: dict, failed: bool, started: datetime | None
    ) -> Entry:
        packed = PACK in trial.config
        member, ours = (
            (flatten_dict(trial.config[PACK][place]), (self._annotate, SEED))
            if packed
            else (trial.evaluated_params, (self._annotate,))
        )
        searched = {name: value for name, value in member.items() if name.split("/")[0] not in ours}
        params = {name: float(value) for name, value in searched.items() if is_number(value)}
        origin = (config.get(self._annotate) if self._annotate else None) or {}
        named = self._identify(config) if self._identify is not None else {}
        seed = {"seed": config[SEED]} if packed and SEED in config else {}
        suffix = f"-seed{config[SEED]}" if origin and seed else f"-{place}" if packed and not origin else ""
        number = origin.get("trial_index", place_of(trial, trials))
        config.pop(self._annotate, None)
        row = {
            **self._constant(),
            "trial_id": trial_name(self._search, number) + suffix,
            "trial_index": number,
            "attempt": 0,
            "direction": origin.get("direction"),
            "line_position": origin.get("line_position"),
            "params": params,
            **reported(config, result),
            **outcome(
                result,
                self._metric,
                1 if self._mode == "max" else -1,
                self._error(trial, params) if failed else None,
                self._full_length,
            ),
            "started_at": started,
            "ended_at": datetime.now(UTC),
            **self._fields,
            **seed,
            **named,
        }
        number = None if "trial_id" in named else number
        return Entry(row, self._since, number, "trial_index" not in origin, suffix, own_attempt="attempt" in named)

    def _error(self, trial: Any, params: dict) -> str:
        said = error_of(trial, params)
        return f"{LOST}{said}" if self._record == "failures" and not said.startswith(LOST) else said

    def _constant(self) -> dict:
        """What all rows of the study share."""
        metric = self._metric if self._mode == "max" else f"-{self._metric}"
        return {"study": self._study, "search": self._search, "metric_name": metric, **self._fields}


def write_spooled(path: str | Path, location: str | Path) -> int:
    """Write the rows that a run could not, and return how many there are.  path: the file that its warning named.

    location: the run's `results`. Those that are stored by now are not written again; the file stays. Raises ValueError for a file
    that is no such, or has a row that is not allowed, OSError where the store does not answer: what came before is written.
    """
    entries = [Entry.from_text(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    store = Filing(location)
    for entry in entries:
        store(entry)
    return len(entries)


def _check_constants(constant: dict, trial_id: str) -> None:
    """Raises ValueError for what no row may have, before a trial is run for it."""
    row = {
        "trial_id": trial_id,
        "trial_index": 0,
        "attempt": 0,
        "params": {},
        "status": "failed",
        "scores": {},
        "config": "{}",
        "software": "{}",
    }
    results.check_trial(row | constant)
