"""The search as an Optuna sampler.

    from tune_cd.optuna import CoordinateDescentSampler

    study = optuna.create_study(direction="maximize", sampler=CoordinateDescentSampler())
    study.optimize(objective, n_trials=20)

Every suggestion follows from the trials in the study's storage, in the order of their numbers. So storages, `n_jobs`,
enqueued trials and resumed studies need nothing more.
"""

from collections.abc import Callable, Mapping, Sequence
from math import floor
from threading import Lock
from typing import Any
from zlib import crc32

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tune_cd.search.category import Category, is_plain
from tune_cd.search.directions import Directions
from tune_cd.search.number import is_number
from tune_cd.search.search import CoordinateDescent
from tune_cd.search.space import Axis, Configuration, Domain, Linear, Space
from tune_cd.search.training import Curve, Proposal, Training, curve_of

__all__ = ["CoordinateDescentSampler", "space_of"]

logger = optuna.logging.get_logger(f"optuna.{__name__}")

ASKED = "tune_cd:asked"
"""System attribute of a trial: the parameters that it was given, before it suggests them."""

LOCK = Lock()
"""Threads suggest one after the other. Not an attribute of a sampler, which could then not be pickled."""

TRIES = 10
"""Times that a configuration is asked for while another process has the same."""

LONGEST_SHORT = 0.99
"""A pruned trial counts as stopped before its end, however long it was."""


class CoordinateDescentSampler(BaseSampler):
    """Line searches over a few parameters, with one objective (`CoordinateDescent`).

    space: name -> distribution of the parameters that it searches; None: those that all trials so far have. They are
        known from the second trial on, and the first one is the start. Other parameters, such as conditional ones, are
        left to `independent_sampler`.
    rule, prior, directions, budgets, seed: as of `CoordinateDescent`; directions in the order of `space`.
    start: the first configuration, name -> value of each parameter of `space`, which is required too. Without a space,
        `study.enqueue_trial` sets it.
    independent_sampler: None: Optuna's TPESampler, seeded by `seed`, trial and parameter.

    A pruned trial counts as a training that was stopped after the share of steps that it reported, a failed one and one
    that violates a constraint as worst, a running one as under way. When nothing promising is left, the search says
    why, and `independent_sampler` goes on. Raises ValueError for an argument that does not fit, at the first suggestion
    for one that depends on the space, and for a study of several objectives.
    """

    def __init__(
        self,
        space: Mapping[str, BaseDistribution] | None = None,
        *,
        rule: str = "default",
        prior: str | None = None,
        directions: Directions = None,
        budgets: int | Sequence[int] = 3,
        start: Mapping[str, Any] | None = None,
        seed: int = 0,
        independent_sampler: BaseSampler | None = None,
    ):
        if space is None and not (directions is None and start is None):
            said = f"directions {directions!r}, start {start!r}: space is required too"
            raise ValueError(f"{said}; without it study.enqueue_trial sets the start")
        named = isinstance(space, Mapping) and all(isinstance(one, BaseDistribution) for one in space.values())
        if space is not None and not named:
            raise ValueError(f"space {space!r}: a dict is required, name -> distribution of Optuna")
        self._given = None if space is None else _searchable(space)
        if self._given == {}:
            raise ValueError(f"space {space!r}: none of its parameters can be searched, with several plain values")
        self._start = start
        self._how = {"rule": rule, "prior": prior, "directions": directions, "budgets": budgets, "seed": seed}
        if not isinstance(independent_sampler, BaseSampler | None):
            raise ValueError(f"independent_sampler {independent_sampler!r}: a sampler of Optuna, or None")
        self._independent, self._own = independent_sampler or TPESampler(), independent_sampler is None
        self._other = type(self._independent).__name__
        self._common = IntersectionSearchSpace(include_pruned=True)
        self._said: set[str] = set()
        if self._given is not None:
            if start is not None and (not isinstance(start, Mapping) or not start.keys() >= self._given.keys()):
                raise ValueError(f"start {start!r}: a dict with a value of each of {list(self._given)}")
            self._search([], self._given, 1.0)
        else:  # what fits no space is refused before the first trial too
            all_alike = budgets if not isinstance(budgets, Sequence) else 1
            CoordinateDescent(
                Space(any=Linear(0, 1)), start={"any": 0}, rule=rule, prior=prior, seed=seed, budgets=all_alike
            )

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that the search proposes together."""
        if self._given is not None:
            return self._given
        with LOCK:
            found = _searchable(self._common.calculate(study))
        ended = (TrialState.COMPLETE, TrialState.PRUNED)
        if not found and any(one.params for one in study.get_trials(deepcopy=False, states=ended)):
            said = f", {self._other} draws all: none has one range, or plain choices, that are the same in all trials"
            self._say_once(logger.warning, "no parameter is searched", said)
        return found

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next configuration; {} when nothing promising is left."""
        self._raise_error_if_multi_objective(study)
        if not search_space:
            return {}
        with LOCK:
            return self._asked(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value of a parameter outside the search space, by `independent_sampler`."""
        self._raise_error_if_multi_objective(study)
        if trial.system_attrs.get(ASKED):
            said = f" is sampled by {self._other}, not searched: other trials lack it, or have another range"
            self._say_once(logger.warning, param_name, said)
        seed = crc32(f"{self._how['seed']} {trial.number} {param_name}".encode())  # processes must not draw the same
        sampler = TPESampler(seed=seed) if self._own else self._independent
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        if state == TrialState.COMPLETE and (unused := trial.system_attrs.get(ASKED, {}).keys() - trial.params.keys()):
            self._say_once(logger.warning, str(sorted(unused)), ": searched, but not suggested by the objective")
        self._independent.after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        self._independent.reseed_rng()

    def _asked(self, study: Study, trial: FrozenTrial, distributions: Mapping[str, BaseDistribution]) -> dict[str, Any]:
        """The next configuration, written into the storage. Processes that ask at once may choose the same one, so each
        reads again, and asks anew while another has it, the later trial for the second best."""
        sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0
        asked: dict[str, Any] = {}
        h: Configuration | None = None
        for _ in range(TRIES):
            others = [one for one in study.get_trials(deepcopy=False) if one.number != trial.number]
            search = self._search(others, distributions, sign)
            twin = search.training(h) if h else None
            if h and twin is None:
                break
            h = search.ask()
            if twin is not None and (twin.trial_index or 0) < trial.number:
                h = search.ask() or h
            asked = {name: _value(distributions[name], value) for name, value in (h or {}).items()}
            study._storage.set_trial_system_attr(trial._trial_id, ASKED, asked)
            if h is None:
                if search.finished:
                    self._say_once(logger.info, "the search ends", f": {search.ending}. {self._other} goes on.")
                break
        return asked

    def _search(
        self, trials: Sequence[FrozenTrial], distributions: Mapping[str, BaseDistribution], sign: float
    ) -> CoordinateDescent:
        """The search after these trials. sign: 1.0 where larger is better, -1.0 where smaller is."""
        space, trainings = space_of(distributions), []
        longest = max((step for trial in trials for step in trial.intermediate_values), default=0)
        for trial in trials:
            h = _configuration(trial, distributions, space)
            if h is not None:
                curve = _curve(trial, sign, longest)
                trainings.append(Training(
                    h, curve, until=None if curve else 1.0, left=trial.state == TrialState.PRUNED,
                    origin=Proposal(h, "trial", 0.0), trial_index=trial.number,
                ))  # fmt: skip
        start: Configuration | None = None
        if self._start is not None:
            start = _coordinates(distributions, self._start)
        elif self._given is None and trainings:
            start = trainings[0].h
        search = CoordinateDescent(space, start=start, **self._how)
        search.recall(trainings)
        return search

    def _say_once(self, say: Callable[[str], None], subject: str, said: str) -> None:
        if subject not in self._said:
            self._said.add(subject)
            say(subject + said)


def space_of(distributions: Mapping[str, BaseDistribution]) -> Space:
    """The search's space over Optuna's distributions, which `balance.of` takes. A parameter with a step is its index:
    0 for `low`, 1 for `low + step`."""
    return Space(**{name: _domain(name, distribution) for name, distribution in distributions.items()})


def _domain(name: str, distribution: BaseDistribution) -> Domain:
    match distribution:
        case FloatDistribution(step=None, log=log, low=low, high=high):
            return (low, high) if log else Linear(low, high)
        case IntDistribution(log=True, low=low, high=high):
            return Axis.integers(name, low, high)
        case FloatDistribution(low=low, high=high, step=step) | IntDistribution(low=low, high=high, step=step):
            return Linear(0, floor((high - low) / step + 1e-9), step=1)
        case CategoricalDistribution(choices=choices):
            return Category(name, choices)
    raise ValueError(f"{name}: {distribution!r} is not searched along lines; leave it out of the space")


def _searchable(distributions: Mapping[str, BaseDistribution]) -> dict[str, BaseDistribution]:
    """Those with more than one value, without choices among anything but text, numbers, booleans and None."""
    return {name: one for name, one in distributions.items() if not one.single() and _is_plain(one)}


def _is_plain(distribution: BaseDistribution) -> bool:
    return not isinstance(distribution, CategoricalDistribution) or all(map(is_plain, distribution.choices))


def _indexed(distribution: BaseDistribution) -> bool:
    """Whether the search knows a parameter by its index."""
    return not getattr(distribution, "log", False) and getattr(distribution, "step", None) is not None


def _value(distribution: Any, searched: Any) -> Any:
    """Optuna's value of what the search proposes."""
    if isinstance(distribution, CategoricalDistribution):
        return searched
    if _indexed(distribution):
        searched = distribution.low + searched * distribution.step
    return int(searched) if isinstance(distribution, IntDistribution) else float(min(searched, distribution.high))


def _coordinates(distributions: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The search's values of Optuna's; the inverse of `_value`. Raises ValueError for one beside the steps."""
    found = {name: values[name] for name in distributions}
    for name, one in distributions.items():
        if _indexed(one):
            if not is_number(found[name]) or not one._contains(one.to_internal_repr(found[name])):
                raise ValueError(f"{name} = {found[name]!r} is not in {one}")
            found[name] = round((found[name] - one.low) / one.step)
    return found


def _configuration(
    trial: FrozenTrial, distributions: Mapping[str, BaseDistribution], space: Space
) -> Configuration | None:
    """A trial's configuration; None if it waits, has other parameters, or lies outside the space."""
    asked, enqueued = (trial.system_attrs.get(key, {}) for key in (ASKED, "fixed_params"))
    params = asked | enqueued | trial.params
    if trial.state == TrialState.WAITING or not distributions.keys() <= params.keys():
        return None
    try:
        return space.check(_coordinates(distributions, params))
    except ValueError:
        return None


def _curve(trial: FrozenTrial, sign: float, longest: int) -> Curve:
    """What is known of a trial, by its share of the full length; {} while it runs. longest: the last step of any."""
    if not trial.state.is_finished():
        return {}
    if any(value > 0 for value in getattr(trial, "constraints", {}).values()):  # Optuna 5: it is not feasible
        return curve_of({1.0: None})
    steps = trial.intermediate_values
    if trial.state == TrialState.PRUNED and steps:
        last = max(steps)
        return curve_of({min((last + 1) / (longest + 1), LONGEST_SHORT): sign * steps[last]})
    return curve_of(
        {1.0: sign * trial.value if trial.state == TrialState.COMPLETE and trial.value is not None else None}
    )
