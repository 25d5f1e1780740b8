"""What a trial's reports amount to. Searcher and callback both ask here, so a row never contradicts the search."""

import inspect
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from math import inf, isfinite
from typing import Any

from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.result import DEFAULT_METRIC, DONE, TRAINING_ITERATION
from ray.tune.schedulers import FIFOScheduler, PopulationBasedTraining
from ray.tune.utils import flatten_dict

from tune_cd.results.rows import finite
from tune_cd.search.number import number_of
from tune_cd.search.search import ROUNDING
from tune_cd.tune.scheduler import PausingScheduler

log = logging.getLogger(__name__)

TUNE_KEYS = {
    "time_this_iter_s", "time_total_s", "time_since_restore", "timestamp", "pid", "iterations_since_restore",
    "training_iteration", "timesteps_since_restore",
}  # fmt: skip
"""Keys that Tune adds to every result; they are not scores."""

COUNTERS = ("training_iteration", "time_total_s", "timesteps_total")
"""Keys of Tune's that may be a full_length."""

NEVER_STOP = (PausingScheduler, PopulationBasedTraining)
"""Schedulers that end no trial before its full length. MedianStoppingRule is a FIFOScheduler as well, and does."""


@dataclass
class Seen:
    """What is known of a trial from its reports.

    last, best: the last and the best number reported under the metric; larger is better. None: there was none.
    length: the last number under the key of full_length.
    diverged: the last number was NaN or infinite.
    refused: the last value under the metric that is no number, and its type.
    went_on: the training_iteration of the last report after which the trial went on.
    """

    last: float | None = None
    best: float | None = None
    length: float | None = None
    diverged: bool = False
    refused: str | None = None
    went_on: float | None = None


@dataclass
class Reports:
    """The reports of an experiment's trials, by trial id.

    A value counts with the length that was reported with it or, if there was none, last. A report without the metric
    changes no value. full_length, use_result, metric: as for `CoordinateDescentSearch`. sign: -1 if smaller is better.
    quiet: whether it does not warn, as a searcher has the same reports and does.

    Raises ValueError for full_length and use_result that are not allowed.
    """

    full_length: tuple[str, float] | None
    use_result: str
    metric: str = DEFAULT_METRIC
    sign: float = 1.0
    quiet: bool = field(default=False, compare=False)
    seen: dict[str, Seen] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set, repr=False)
    _reported: bool = field(default=False, repr=False)  # whether any report had the metric
    _counted: bool = field(default=False, repr=False)  # whether one had the key of full_length, if it must

    def __post_init__(self) -> None:
        if self.use_result not in ("last", "best"):
            raise ValueError(f"use_result {self.use_result!r}: 'last' or 'best'")
        if self.full_length is not None:
            self.full_length = _full_length(self.full_length)

    def observe(self, trial_id: str, result: Mapping[str, Any]) -> Seen:
        """Take a report; what is known of its trial. result: nested or flat."""
        flat, seen = flatten_dict(dict(result)), self.seen.setdefault(trial_id, Seen())
        if self.metric in flat:
            self._take(seen, flat[self.metric])
            if not self._reported:
                self._reported = True
                self.warn_of_length(flat)
        if self.full_length and (length := finite(flat.get(self.full_length[0]))) is not None:
            seen.length = length
        if not flat.get(DONE):
            seen.went_on = finite(flat.get(TRAINING_ITERATION))
        return seen

    def end(self, trial_id: str, result: Mapping[str, Any] | None) -> Seen:
        """What is known of a trial that ends. result: its last report, observed or not; None: Tune does not say."""
        return self.observe(trial_id, {**(result or {}), DONE: True})

    def value(self, seen: Seen) -> float | None:
        """The value with which a trial counts at its end; None if it diverged or never reported a number."""
        return None if seen.diverged else seen.best if self.use_result == "best" else seen.last

    def share(self, seen: Seen) -> float | None:
        """The share of a whole training that a trial has reached, above 0, at most 1; None while no length is known."""
        if self.full_length is None or seen.length is None:
            return None
        share = seen.length / self.full_length[1]
        return 1.0 if share >= 1 - ROUNDING else max(ROUNDING, share)

    def short(self, trial_id: str, result: Mapping[str, Any] | None, removed: bool) -> bool:
        """Whether a trial ends before its full length; call it before the trial's `forget`.

        Without a length, this is what Tune's scheduler decided, which is warned of once. removed: the trial was paused,
        or waited, when it was ended.
        """
        seen = self.seen.get(trial_id, Seen())
        if (share := self.share(seen)) is not None:
            return share < 1
        return self._cut(trial_id, flatten_dict(dict(result or {})), removed)

    def forget(self, trial_id: str) -> None:
        self.seen.pop(trial_id, None)

    def state(self) -> dict[str, dict[str, Any]]:
        """What is known of the trials that go on, as plain JSON types."""
        return {trial_id: asdict(seen) for trial_id, seen in self.seen.items()}

    def restore(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """The inverse of `state`."""
        self.seen = {trial_id: Seen(**seen) for trial_id, seen in state.items()}

    def without_length(self, result: Mapping[str, Any]) -> str | None:
        """What is wrong with a result, flat, that lacks the number under the key of full_length; None: it has it."""
        if self.full_length is None or finite(result.get(self.full_length[0])) is not None:
            return None
        key, numbers = self.full_length[0], [name for name, value in result.items() if finite(value) is not None]
        known = [name for name in numbers if name in COUNTERS or is_score(name)]
        near = get_close_matches(key, known, 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        return f"full_length names {key!r}, and a result has no such number but {sorted(known)}{meant}"

    def require_length(self, result: Mapping[str, Any]) -> None:
        """Of a result, flat, without the key of full_length: warn once; raise ValueError if none ever had it."""
        said = self.without_length(result)
        if said is None:
            self._counted = True
        elif not self._counted:
            raise ValueError(said)
        else:
            self._warn("counted", f"{said}: its value counts at the length before")

    def warn_of_length(self, result: Mapping[str, Any]) -> None:
        """Warn once of a result, flat, without the key of full_length."""
        if (said := self.without_length(result)) is not None:
            self._warn("length", f"{said}: trials that end early count as whole ones")

    def _take(self, seen: Seen, given: Any) -> None:
        number = number_of(given)
        if number is None:
            seen.refused = f"{repr(given)[:200]} ({type(given).__name__})"
            self._warn("refused", f"{self.metric} = {seen.refused} is no number; such reports have no value")
        elif not isfinite(number):
            seen.diverged = True
        else:
            seen.last, seen.diverged = self.sign * float(number), False
            seen.best = seen.last if seen.best is None else max(seen.last, seen.best)

    def _cut(self, trial_id: str, result: dict[str, Any], removed: bool) -> bool:
        """Whether Tune's scheduler ended the trial before its full length. Outside a Tuner: whether it was removed.

        Such a trial was stopped at a report, below the scheduler's own maximum, while another was trained longer or as
        long and went on. Functions that returned, and trials that met their stopping criteria, are whole. Tune does not
        tell whether a class or a Stopper ended a trial.
        """
        controller = _controller()
        if controller is None:
            return removed
        scheduler, trials = controller.scheduler_alg, {trial.trial_id: trial for trial in controller.get_trials()}
        trial = trials.pop(trial_id, None)  # None: a member of a pack
        scheduler = getattr(scheduler, "_base_trial_scheduler", scheduler)  # of a ResourceChangingScheduler
        if trial is None or type(scheduler) is FIFOScheduler or isinstance(scheduler, NEVER_STOP):
            return False
        result = flatten_dict(trial.last_result) | result  # a Repeater passes the metric alone
        last = self.seen.get(trial_id, Seen()).went_on
        ended = last is not None and last == finite(result.get(TRAINING_ITERATION))
        met = any(result.get(key, -inf) >= end for key, end in trial.stopping_criterion.items())
        if not removed and (ended or met):
            return False
        counter = getattr(scheduler, "_time_attr", TRAINING_ITERATION)
        length = finite(result.get(counter)) or 0.0
        if length >= getattr(scheduler, "_max_t", getattr(scheduler, "_max_t_attr", inf)):
            return False
        if not any(_outlasts(other, counter, length) for other in trials.values()):
            return False
        said = f"{type(scheduler).__name__} ends trials early, such as {trial_id} at {counter} {length:g}"
        advice = f"give searcher and callback full_length=({counter!r}, its value at the end of a whole training)"
        self._warn("cut", f"{said}; they count as stopped. To say which are whole, {advice}")
        return True

    def _warn(self, kind: str, message: str) -> None:
        """Warn once of each kind."""
        if not self.quiet and kind not in self._warned:
            self._warned.add(kind)
            log.warning("%s", message)


def is_score(name: str) -> bool:
    return name not in TUNE_KEYS and not name.startswith("config/")


def _full_length(given: Any) -> tuple[str, float]:
    """full_length as key and number. Raises ValueError unless it is a key and a finite number above 0."""
    if isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[0], str):
        amount = finite(given[1])
        if amount is not None and amount > 0:
            return given[0], amount
    raise ValueError(f"full_length {given!r}: the key of a result, and its value above 0 at the end")


def _controller() -> TuneController | None:
    """The controller of the Tuner that is calling; None outside. Tune tells neither searchers nor callbacks which
    scheduler there is, and this tells apart who ended a trial."""
    frame = inspect.currentframe()
    while frame is not None:
        if isinstance(controller := frame.f_locals.get("self"), TuneController):
            return controller
        frame = frame.f_back
    return None


def _outlasts(other: Trial, counter: str, length: float) -> bool:
    """Whether a trial was trained longer than this length, or as long and goes on."""
    result = (
        flatten_dict(other.last_result) if other.has_reported_at_least_once else {}
    )  # else Tune waits for its actor
    reached = finite(result.get(counter)) or 0.0
    goes_on = other.status in (Trial.RUNNING, Trial.PAUSED, Trial.PENDING) and not result.get(DONE)
    return reached > length or (goes_on and reached == length)
