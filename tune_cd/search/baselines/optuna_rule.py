"""Optuna's samplers as rules of a `Baseline`. Optuna, an optional extra, is imported inside functions."""

from collections import defaultdict
from collections.abc import Callable
from types import ModuleType
from typing import Any
from warnings import catch_warnings

from tune_cd.search.baselines.sampled import Sampled, imported
from tune_cd.search.category import Category
from tune_cd.search.space import Axis, Configuration, Key, Space

SAMPLERS: dict[str, tuple[str, Callable[[ModuleType, int], Any]]] = {
    "tpe-paper": (
        "optuna",
        lambda samplers, seed: samplers.TPESampler(multivariate=False, constant_liar=False, seed=seed),
    ),
    "tpe": ("optuna", lambda samplers, seed: samplers.TPESampler(seed=seed)),
    "cmaes": ("cmaes", lambda samplers, seed: samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)),
    "gp": ("torch", lambda samplers, seed: samplers.GPSampler(seed=seed)),
}
"""name -> (the module it needs, its constructor). tpe-paper: as in the paper's comparison (`tab:hp_res`), axes are
independent of each other and live trials are ignored. The others are Optuna's defaults."""


class OptunaRule(Sampled):
    """A sampler over one in-memory study.

    Real axes are floats of the study, by their coordinates; allowed numbers are integers, by rank; the values of a
    category are categorical, by their place as text, since to Optuna True is 1. Live trials are
    running trials of the study, so the sampler knows of them. Failures are failed trials, which all samplers leave out
    of their models.
    """

    def __init__(self, space: Space, seed: int, *, method: str):
        super().__init__(space, seed)
        _, self._optuna = imported(method, SAMPLERS[method][0], "optuna")
        with catch_warnings(action="ignore"):  # it warns that an argument is experimental
            self._sampler = SAMPLERS[method][1](self._optuna.samplers, seed)
        self._distributions = {axis.name: _distribution(self._optuna.distributions, axis) for axis in space.axes}
        self._study, self._failed = self._new_study(), self._optuna.trial.TrialState.FAIL
        self._numbers: dict[Key, list[int]] = defaultdict(list)  # key of a configuration -> its trials in the study

    def _drawn(self) -> Configuration:
        return self._open_trial()

    def take(self, h: Configuration) -> None:
        places = zip(self._space.axes, self._space.to_coordinates(h).tolist())
        self._study.enqueue_trial({axis.name: _suggestion(axis, at, h[axis.name]) for axis, at in places})
        self._open_trial(h)

    def observe(self, h: Configuration, value: float | None) -> None:
        super().observe(h, value)
        told = self._study.get_trials(deepcopy=False)
        numbers = self._numbers[self._space.key(h)]
        for number in numbers:
            if not told[number].state.is_finished():
                self._study.tell(number, value, state=self._failed if value is None else None)
        if any(told[number].state.is_finished() and told[number].value != value for number in numbers):
            self._replace(numbers, value)

    def _open_trial(self, taken: Configuration | None = None) -> Configuration:
        """Start a trial of the study, the enqueued one if there is one, and note its configuration."""
        trial = self._study.ask(self._distributions)
        h = taken or {axis.name: _value(axis, trial.params[axis.name]) for axis in self._space.axes}
        self._numbers[self._space.key(h)].append(trial.number)
        return h

    def _replace(self, numbers: list[int], value: float | None) -> None:
        """Give finished trials another value. A study cannot change them, so it is copied with the new value."""
        before, self._study = self._study, self._new_study()
        completed = self._optuna.trial.TrialState.COMPLETE
        for trial in before.get_trials():
            if trial.number in numbers:
                trial.state, trial.value = self._failed if value is None else completed, value
            self._study.add_trial(trial)

    def _new_study(self) -> Any:
        level = self._optuna.logging.get_verbosity()
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)  # it would announce every study
        try:
            return self._optuna.create_study(sampler=self._sampler, direction="maximize")
        finally:
            self._optuna.logging.set_verbosity(level)


def _suggestion(axis: Axis | Category, at: float, value: Any) -> float | int | str:
    """A value as the study has it. at: its coordinate."""
    if isinstance(axis, Category):
        return str(int(at))
    return axis.values.index(value) if axis.values else min(max(at, axis.ends[0]), axis.ends[1])


def _value(axis: Axis | Category, suggestion: Any) -> Any:
    """The inverse of `_suggestion`."""
    return axis.values[int(suggestion)] if axis.values else axis.snap(suggestion)


def _distribution(distributions: ModuleType, axis: Axis | Category) -> Any:
    if isinstance(axis, Category):
        return distributions.CategoricalDistribution([str(place) for place in range(len(axis.values))])
    if axis.values:
        return distributions.IntDistribution(0, len(axis.values) - 1)
    return distributions.FloatDistribution(*axis.ends)
