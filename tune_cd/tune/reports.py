"""What a trial's reports amount to, for the search and for the trial's row."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

from ray.tune.result import DEFAULT_METRIC, TRAINING_ITERATION
from ray.tune.utils import flatten_dict

from tune_cd.results.rows import finite
from tune_cd.search.bracket import FAILED
from tune_cd.search.number import number_of
from tune_cd.search.search import ROUNDING
from tune_cd.search.training import value_of

log = logging.getLogger(__name__)

TUNE_KEYS = {
    "time_this_iter_s", "time_total_s", "time_since_restore", "timestamp", "pid", "iterations_since_restore",
    "training_iteration", "timesteps_since_restore",
}  # fmt: skip
"""Keys that Tune adds to every result; they are not scores."""


@dataclass
class Seen:
    """What is known of a trial from its reports.

    last, best: the last and the best number reported under the metric; larger is better. None: there was none.
    length: the last number under the key of full_length; without one, under training_iteration.
    diverged: the last number was NaN, infinite, or too large for a score (`value_of`).
    refused: the last value under the metric that is no number, and its type.
    """

    last: float | None = None
    best: float | None = None
    length: float | None = None
    diverged: bool = False
    refused: str | None = None


@dataclass
class Reports:
    """The reports of an experiment's trials, by trial id.

    A value counts with the length that was reported with it or, if there was none, last. A report without the metric
    changes no value. Without full_length every end is the end of a whole training; that is warned of once trials end at
    different lengths, as under a scheduler such as ASHA.
    full_length, use_result, metric: as for `CoordinateDescentSearch`. sign: -1 if smaller is better.

    Raises ValueError for full_length and use_result that are not allowed.
    """

    full_length: tuple[str, float] | None
    use_result: str
    metric: str = DEFAULT_METRIC
    sign: float = 1.0
    seen: dict[str, Seen] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set, repr=False)
    _longest: float = field(default=-inf, repr=False)  # the greatest length reported
    _shortest: float = field(default=inf, repr=False)  # the smallest length at which a trial ended with a value

    def __post_init__(self) -> None:
        if self.use_result not in ("last", "best"):
            raise ValueError(f"use_result {self.use_result!r}: 'last' or 'best'")
        if self.full_length is not None:
            self.full_length = _full_length(self.full_length)

    def aim(self, metric: str | None, mode: str | None) -> None:
        """Set what is searched for, as Tune has it."""
        self.metric, self.sign = metric or DEFAULT_METRIC, -1.0 if mode == "min" else 1.0

    def observe(self, trial_id: str, result: Mapping[str, Any]) -> Seen:
        """Take a report of a running trial, nested or flat; what is known of its trial.

        Raises ValueError for one with the metric if no report so far had the key of full_length.
        """
        flat = flatten_dict(dict(result))
        seen = self._take(trial_id, flat)
        if self.metric in flat and self.full_length is not None and self._longest == -inf:
            numbers = _numbers(flat, TRAINING_ITERATION)
            raise ValueError(f"full_length names {self.counter!r}, and a result has no such number but {numbers}")
        return seen

    def end(self, trial_id: str, result: Mapping[str, Any] | None, cut: bool = False) -> Seen:
        """What is known of a trial that ends. result: its last report, observed or not; None: Tune does not say. cut:
        it failed, or the experiment ended before it."""
        seen = self._take(trial_id, flat := flatten_dict(dict(result or {})))
        if not cut and seen == Seen(length=seen.length) and (numbers := _numbers(flat)):
            said = (
                f"trial {trial_id} reported no {self.metric!r} but {numbers}: name the metric in TuneConfig(metric=...)"
            )
            self._warn("metric", said)
        if not cut and self.value(seen) is not None and seen.length is not None:
            self._shortest = min(seen.length, self._shortest)
            self._warn_of_uneven_ends()
        return seen

    @property
    def counter(self) -> str:
        """The key of a report's length."""
        return TRAINING_ITERATION if self.full_length is None else self.full_length[0]

    def value(self, seen: Seen) -> float | None:
        """The value with which a trial counts at its end; None if it diverged or never reported a number."""
        return None if seen.diverged else seen.best if self.use_result == "best" else seen.last

    def share(self, seen: Seen) -> float | None:
        """The share of a whole training that a trial has reached, above 0, at most 1; None while no length is known."""
        if self.full_length is None or seen.length is None:
            return None
        share = seen.length / self.full_length[1]
        return 1.0 if share >= 1 - ROUNDING else max(ROUNDING, share)

    def signed(self, value: Any) -> float | None:
        """A value known from elsewhere, larger being better; None: a failure. ValueError for what is no number."""
        number = FAILED if value is None else value_of(value)
        return None if number == FAILED else self.sign * number

    def state(self) -> dict[str, dict[str, Any]]:
        """What is known of the trials, as plain JSON types."""
        return {trial_id: asdict(seen) for trial_id, seen in self.seen.items()}

    def restore(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """The inverse of `state`."""
        self.seen = {trial_id: Seen(**seen) for trial_id, seen in state.items()}

    def _take(self, trial_id: str, flat: Mapping[str, Any]) -> Seen:
        seen = self.seen.setdefault(trial_id, Seen())
        if (length := finite(flat.get(self.counter))) is not None:
            seen.length, self._longest = length, max(length, self._longest)
            self._warn_of_uneven_ends()
        if self.metric not in flat:
            return seen
        given, number = flat[self.metric], number_of(flat[self.metric])
        if number is None:
            seen.refused = f"{repr(given)[:200]} ({type(given).__name__})"
            self._warn("refused", f"{self.metric} = {seen.refused} is no number; such reports have no value")
        elif value_of(number) == FAILED:
            seen.diverged = True
        else:
            seen.last, seen.diverged = self.sign * float(number), False
            seen.best = seen.last if seen.best is None else max(seen.last, seen.best)
        return seen

    def _warn_of_uneven_ends(self) -> None:
        if self.full_length is None and self._shortest < self._longest:
            lengths = f"a trial ended at {self.counter} {self._shortest:g}, and another has reached {self._longest:g}"
            advice = f"full_length=({self.counter!r}, its value at the end of a whole training)"
            self._warn("ends", f"{lengths}: both count as whole. If a scheduler ends trials early, pass {advice}")

    def _warn(self, kind: str, message: str) -> None:
        """Warn once of each kind."""
        if kind not in self._warned:
            self._warned.add(kind)
            log.warning("%s", message)


def is_score(name: str) -> bool:
    return name not in TUNE_KEYS and not name.startswith("config/")


def _numbers(flat: Mapping[str, Any], *others: str) -> list[str]:
    """The names of the scores in a report that are numbers, and of others."""
    return sorted(name for name in flat if (is_score(name) or name in others) and finite(flat[name]) is not None)


def _full_length(given: Any) -> tuple[str, float]:
    """full_length as key and number. Raises ValueError unless it is a key and a finite number above 0."""
    if isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[0], str):
        amount = finite(given[1])
        if amount is not None and amount > 0:
            return given[0], amount
    raise ValueError(f"full_length {given!r}: the key of a result, and its value above 0 at the end")
