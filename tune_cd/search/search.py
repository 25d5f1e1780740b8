"""The search as ask and tell: `CoordinateDescent`.

    search = CoordinateDescent(space)                                  # whole trainings, a model chooses
    search = CoordinateDescent(space, rule="paper")                    # Algorithms 1 and 2 (`algo:cd`)
    search = CoordinateDescent(space, lengths=LENGTHS, budget=20)      # trainings pause, and go on if that pays

It keeps one `Training` per configuration, in the order of asking, and each rule derives the next step from these alone.
Three things follow. A configuration is never trained twice to the same length. Results may arrive in any order. And the
history is the state: saving is JSON, restoring is the same history.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, isfinite, nextafter, prod
from operator import index
from typing import Any

import numpy as np

from tune_cd.search.bracket import FAILED
from tune_cd.search.descent import RULES, LineSearches, Plan, Trajectory
from tune_cd.search.directions import Directions, directions_of
from tune_cd.search.guided import LENGTHS, Guided, Step
from tune_cd.search.prior import PRIORS
from tune_cd.search.protocol import check_version, check_workers, has_free_worker
from tune_cd.search.single_line import OnLine, check_line
from tune_cd.search.space import Configuration, Key, Space
from tune_cd.search.speculative import needed_next
from tune_cd.search.training import Proposal, Training, value_of

__all__ = ["LENGTHS", "CoordinateDescent"]

STATE_VERSION = 2

ROUNDING = 1e-9
"""Tolerance in comparisons of shares."""

Start = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""One starting configuration, several, or none."""


class CoordinateDescent:
    """Line searches over a few parameters, as an `Optimiser`. By default a model with a prior chooses them; with rule
    "paper" they are the paper's coordinate descent (`subsec:reparam`).

    space: the box H. rule: how the next step is chosen:
        "default": lines through the best point, along the directions and the axes. A Gaussian process chooses line,
            point and training length (`guided`).
        "paper": Algorithms 1 and 2, golden-section searches along each direction in turn, with growing budgets.
        "local": the same, with line searches that begin within 4 octaves of the best point.
        "line": as "default" along the first direction alone, until its best is bracketed (`single_line`).
    prior: of the model: "general", or as `tune_cd.balance` says "balance" or "terms" for the weights of a loss.
    directions: array [n_directions, n_axes], or name -> row, in the coordinates of the numeric axes; None: each axis.
        The line of each category, which leads to its other values, comes behind them; "paper" and "local" try them all.
    budgets: steps of a line search, one int or one per direction (c_i of `algo:cd`), of "paper" and "local".
    start: one configuration or several, of which the best is descended from. None: one drawn by `seed`, uniformly in
        the box's coordinates, the paper's blind setting. Each start costs a trial. Values told before the first `ask`
        are starts that cost nothing, and replace the blind one.
    workers: the largest number of live trials; None: no limit. The next step depends on what is known of each trial in
        the order of asking, never on the order in which they end. With "paper" and "local" further workers look ahead
        (`speculative`), with the model they are sent to where least is known.
    lengths: shares of the full length at which trainings may pause, ascending; the last is 1. (1.0,): nothing pauses.
    budget: the total training length, in full trainings; None: no limit. It has a reserve: the best training is
        finished before the search ends. The budget is exceeded only by less than the shortest length, or to finish a
        first whole training. It may be changed during a search.
    grows: False: only paused trainings go on, no new configuration is asked for.

    Raises ValueError for an argument that does not fit.
    """

    def __init__(
        self,
        space: Space,
        *,
        rule: str | LineSearches = "default",
        prior: str | None = None,
        directions: Directions = None,
        budgets: int | Sequence[int] = 3,
        start: Start = None,
        workers: int | None = None,
        seed: int = 0,
        lengths: Sequence[float] = (1.0,),
        budget: float | None = None,
    ):
        check_workers(workers)
        names, rows = directions_of(space, directions)
        self.space, self.workers, self.seed, self.rule = space, workers, index(seed), rule
        self.lengths, self.budget, self.grows = _lengths(lengths), _budget(budget), True
        self._line_searches = _line_searches(rule)
        if self._line_searches is not None and len(self.lengths) > 1:
            raise ValueError(f"lengths {self.lengths}: with rule {rule!r} nothing pauses, lengths are (1.0,)")
        if rule == "line":
            names, rows = names[:1], rows[:1]
        self._plan = Plan(space, names, rows, axes=rule != "line")
        self.prior = "general" if prior is None else prior
        if self.prior not in PRIORS:
            raise ValueError(f"prior {prior!r}: one of {sorted(PRIORS)}, or None for general")
        self._budgets = _budgets(budgets, self._plan)
        self._starts = starts_of(space, start)
        if rule == "line":
            check_line(space, self._starts, rows[0])
        self._blind = (space.sample(np.random.default_rng(self.seed)),)
        self._trainings: dict[Key, Training] = {}  # in asking order; if never asked for, in telling order
        self._costs: dict[Key, float] = {}  # in full trainings, without `external` ones
        self._live: set[Key] = set()
        self._next_index = 0
        self._modelled: Guided | None = None  # the model's state, and what it follows from

    def ask(self) -> Configuration | None:
        """The next configuration to train, new or paused; None while `workers` run, or when nothing is left."""
        step = self._step() if has_free_worker(self.workers, len(self._live)) else None
        return None if step is None else self.begin(step.proposal, step.until)

    def begin(self, proposal: Proposal, until: float = 1.0) -> Configuration:
        """Count a configuration as asked for, until this share, and return it. An earlier failure is dropped."""
        key = self.space.key(proposal.h)
        known = self._trainings.get(key, Training(proposal.h))
        if known.trial_index is None:
            known = replace(known, origin=known.origin or proposal, trial_index=self._next_index)
        self._put(key, known.resumed(until))
        return dict(known.h)

    def withdraw(self, h: Mapping[str, Any]) -> None:
        """Withdraw an asked configuration: it is not trained after all, or not further. KeyError if it is unknown."""
        key = self.space.key(h)
        training = replace(self._trainings[key], until=None)
        self._put(key, training)
        if not training.curve:
            del self._trainings[key], self._costs[key]
            self._next_index -= training.trial_index == self._next_index - 1

    def abandon(self, configurations: Iterable[Mapping[str, Any]]) -> None:
        """Mark exactly these configurations as unable to go on, for example because their checkpoints are gone. They
        stay known, but unfinished ones no longer lead."""
        left = {self.space.key(h) for h in configurations}
        for key, training in self._trainings.items():
            self._put(key, replace(training, left=key in left))

    def until(self, h: Mapping[str, Any]) -> float:
        """The share to which an asked configuration is to be trained. Raises KeyError if it is not being trained."""
        training = self._trainings.get(self.space.key(h))
        if training is None or training.until is None:
            raise KeyError(f"{dict(h)} is not being trained")
        return training.until

    def length_after(self, h: Mapping[str, Any]) -> float:
        """The next length at which a configuration may pause, after those that it has reached."""
        training = self._trainings.get(self.space.key(h))
        values = [] if training is None else [share for share, value in training.curve.items() if value != FAILED]
        return next(length for length in self.lengths if length > max(values, default=0.0) + ROUNDING)

    def tell(
        self,
        h: Mapping[str, Any],
        value: float | None,
        share: float | None = None,
        *,
        left: bool = False,
        external: bool = False,
    ) -> None:
        """Report the value of a configuration after a share of the full length; None, NaN or ±inf: its training failed.

        share: by default the share asked for, 1 for a configuration that was not asked for. Values at shares before the
        one asked for may be told as they come. A second report at the same share replaces the first.
        left: it was stopped there, for example by a scheduler, and cannot go on. Its value may lose a comparison, but
        never wins one. external: it was not trained for this search, and costs none of the budget.
        A configuration told before the first ask is a start, and replaces the blind one. Raises ValueError for a
        configuration outside the space, and for a share outside (0, 1].
        """
        h = self.space.check(h)
        key, number = self.space.key(h), value_of(value)
        known = self._trainings.get(key) or Training(h, given=self._unasked)
        share = share if share is not None else known.until or 1.0
        if not 0 < share <= 1:
            raise ValueError(f"share {share!r}: above 0, at most 1, of the full length")
        ends = known.until is not None and (share >= known.until or number == FAILED or left)
        until = None if ends else known.until
        told = replace(known.told(share, number), until=until, left=left or known.left, external=external)
        self._put(key, self._settled(told))

    def recall(self, trainings: Iterable[Training]) -> None:
        """Add the trainings of an earlier run of this search, in asking order, before the first ask. They do not become
        starts, as told values do. Those with `until` run now, as if they had been asked for.

        Raises ValueError for a configuration outside the space.
        """
        for training in trainings:
            h = self.space.check(training.h)
            self._put(self.space.key(h), self._settled(replace(training, h=h)))

    @property
    def finished(self) -> bool:
        """True when nothing is left to train and no running training can change that."""
        return not self._live and self._step() is None

    @property
    def ending(self) -> str:
        """Why it asks for nothing more, and what it would take to go on; for a search that is `finished`."""
        n = len(self._trainings)
        if n >= prod(axis.size for axis in self.space.axes):
            return f"all {n} configurations of {self.space} are known; a larger space has more"
        if self.rule == "line" and self.bracketed:
            return "the best on its line is bracketed"
        if self.budget < inf and self._step(inf) is not None:
            return f"its budget of {self.budget:g} full trainings is spent; a larger one goes on"
        if self.rule == "line":
            return "the best lies at an end of its line; a wider range goes on"
        if self._line_searches is not None:
            return f"after {n} configurations every line is searched to its resolution; another start goes on"
        return (
            f"after {n} configurations no step promises more than a thousandth of the range of values; another start, "
            "or a wider space, may"
        )

    @property
    def live(self) -> list[Configuration]:
        return [dict(one.h) for key, one in self._trainings.items() if key in self._live] if self._live else []

    @property
    def trainings(self) -> tuple[Training, ...]:
        """All that is known of every configuration, in the order of asking."""
        return tuple(self._trainings.values())

    def training(self, h: Mapping[str, Any]) -> Training | None:
        """All that is known of a configuration; None: nothing."""
        return self._trainings.get(self.space.key(h))

    @property
    def history(self) -> list[tuple[Configuration, float | None]]:
        """(h, value at the greatest length told) of every configuration told, in asking order; None: it failed."""
        told = (one for one in self._trainings.values() if one.curve)
        return [(dict(one.h), None if one.failed else one.last) for one in told]

    @property
    def spent(self) -> float:
        """Training length done or asked for, in full trainings, without `external` ones. Each counts as the shortest
        length at least, even if it failed."""
        return float(sum(self._costs.values()))

    @property
    def best(self) -> tuple[Configuration, float] | None:
        """The configuration with the best value told, at whatever length; None before the first number. One that was
        stopped before its end does not count."""
        reached = [one for one in self._trainings.values() if one.values and not one.stopped]
        best = max(reached, key=lambda one: max(one.values), default=None)
        return None if best is None else (dict(best.h), max(best.values))

    @property
    def incumbent(self) -> Training | None:
        """The training with the best value told; None before any number. Failed ones, and those that cannot go on, are
        passed over. It is finished before the search ends."""
        model = self._model() if any(one.values for one in self._trainings.values()) else None
        return None if model is None else model.trainings[model.incumbent]

    @property
    def bracketed(self) -> bool:
        """With rule "line": whether nothing runs, and the best whole training has close neighbours on both sides."""
        return self.rule == "line" and not self._live and self._on_line().bracketed

    def believed(self, h: Mapping[str, Any]) -> tuple[float, float] | None:
        """The predicted value of a configuration at full length and its standard deviation, from all that was told.

        A configuration trained to full length has its own value, and 0. None if it failed, and before the first number.
        """
        h = self.space.check(h)
        training = self._trainings.get(self.space.key(h), Training(h))
        if training.failed or not any(one.values for one in self._trainings.values()):
            return None
        return (training.last, 0.0) if training.share == 1 else self._model().model.believed(h)

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        """The line on which a configuration was first proposed. Raises KeyError for one never asked for."""
        origin = self._trainings[self.space.key(h)].origin
        if origin is None:
            raise KeyError(f"{dict(h)} was told, but never asked for")
        return origin

    def annotation(self, h: Mapping[str, Any]) -> dict[str, Any]:
        """The results table's columns direction, line_position, trial_index. KeyError for one never asked for."""
        return self.origin(h).annotation(self._trainings[self.space.key(h)].trial_index)

    def state(self) -> dict[str, Any]:
        """The history and the search's arguments, as plain JSON types; `from_state` inverts it."""
        rule = self.rule if isinstance(self.rule, str) else vars(self.rule)
        directions = dict(zip(self._plan.names, self._plan.rows.tolist()))  # those of categories follow from the space
        return {
            "version": STATE_VERSION, "space": self.space.to_json(), "rule": rule, "prior": self.prior,
            "directions": directions or None, "budgets": list(self._budgets[: len(directions)]),
            "start": self._starts, "workers": self.workers, "seed": self.seed, "lengths": list(self.lengths),
            "budget": None if self.budget == inf else self.budget, "grows": self.grows,
            "trainings": [one.to_json() for one in self._trainings.values()],
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "CoordinateDescent":
        """Continue where `state` was taken. Raises ValueError for a state of an unknown version."""
        check_version(state, STATE_VERSION)
        names = ("prior", "directions", "budgets", "start", "workers", "seed", "lengths")
        rule = state["rule"] if isinstance(state["rule"], str) else LineSearches(**state["rule"])
        search = cls(Space.from_json(state["space"]), rule=rule, **{name: state[name] for name in names})
        search.budget = inf if state["budget"] is None else state["budget"]  # it may have been lowered below 1
        search.grows = state["grows"]
        for training in map(Training.from_json, state["trainings"]):
            search._put(search.space.key(training.h), training)
        return search

    def _step(self, budget: float | None = None) -> Step | None:
        """The next training to run; None if there is none, for good or until a running training ends. budget: in full
        trainings, if not the search's own."""
        budget = self.budget if budget is None else budget
        if self._line_searches is not None:
            affords = self.spent + 1 <= budget
            proposal = self._next_of_line_searches(self._line_searches) if affords else None
            return None if proposal is None else Step(proposal, 1.0)
        now = self._model() if budget == self.budget else replace(self._model(), left=budget - self.spent)
        return OnLine(now, self.spent, budget).step if self.rule == "line" else now.step

    def _next_of_line_searches(self, settings: LineSearches) -> Proposal | None:
        """The first configuration without a value on the trajectory of `algo:cd`, or further ahead (`speculative`)."""
        state = Trajectory.first(self._plan, settings, self._first, self._budgets)
        while not state.finished:
            training = self._trainings.get(self.space.key(state.proposal().h))
            if training is None or not training.curve or training.until is not None:
                break
            state = state.told(training.h, _counts(training, state.value if state.here else None))
        known = {key: _counts(one, state.value) if one.curve and one.until is None else None
                 for key, one in self._trainings.items()}  # fmt: skip
        return needed_next(state, known)

    def _on_line(self) -> OnLine:
        return OnLine(self._model(), self.spent, self.budget)

    def _model(self) -> Guided:
        """The model's state after all that is known."""
        trainings, left = self.trainings, self.budget - self.spent
        now = self._modelled
        if now is None or (now.trainings, now.left, now.grows) != (trainings, left, self.grows):
            self._modelled = now = Guided(
                self._plan, PRIORS[self.prior], self._first, trainings, self.lengths, left,
                blind=not self._chosen, grows=self.grows,
            )  # fmt: skip
        return now

    def _put(self, key: Key, training: Training) -> None:
        """Keep what is known of a configuration, and what follows for all of them together."""
        self._trainings[key] = training
        self._costs[key] = 0.0 if training.external else max(training.length, self.lengths[0])
        (self._live.discard if training.until is None else self._live.add)(key)
        if training.trial_index is not None:
            self._next_index = max(self._next_index, training.trial_index + 1)

    def _settled(self, training: Training) -> Training:
        """A training with what follows: a whole one has not been left, and where nothing pauses a short one has."""
        short = training.until is None and training.share < 1
        return replace(training, left=short and (training.left or len(self.lengths) == 1))

    @property
    def _first(self) -> tuple[Configuration, ...]:
        """The configurations to begin with."""
        return self._chosen or self._blind

    @property
    def _chosen(self) -> tuple[Configuration, ...]:
        """The starts that the user chose: `start`, and the configurations told before the first ask."""
        return (*self._starts, *(one.h for one in self._trainings.values() if one.given))

    @property
    def _unasked(self) -> bool:
        """Whether no configuration was asked for or recalled so far."""
        return all(one.given and one.trial_index is None for one in self._trainings.values())


def starts_of(space: Space, start: Start) -> list[Configuration]:
    """The starting configurations. Raises ValueError for one outside the space."""
    points = [start] if isinstance(start, Mapping) else list(start or [])
    return [space.check(h) for h in points]


def _counts(training: Training, best: float | None) -> float:
    """The value with which a training counts in a line search, given the best so far: one that was stopped before its
    end is just below it, if it is not lower already."""
    value = training.last
    return min(value, nextafter(best, -inf)) if training.stopped and best is not None else value


def _line_searches(rule: str | LineSearches) -> LineSearches | None:
    """The settings of the paper's rules; None: the model chooses."""
    if isinstance(rule, LineSearches):
        return rule
    if rule not in (*RULES, "default", "line"):
        raise ValueError(f"rule {rule!r}: one of {sorted([*RULES, 'default', 'line'])}")
    return RULES.get(rule)


def _budgets(budgets: int | Sequence[int], plan: Plan) -> tuple[int, ...]:
    """Steps of a line search by direction; those of a category are as many as it has other values."""
    n_directions, of_categories = len(plan.rows), len(plan.names) - len(plan.rows)
    each = list(budgets) if isinstance(budgets, Sequence) else [budgets] * n_directions
    if len(each) != n_directions or not all(isinstance(b, int) and b >= 1 for b in each):
        raise ValueError(f"budgets {budgets!r}: an int >= 1, or {n_directions} of them, one per direction")
    return (*each, *[1] * of_categories)


def _lengths(lengths: Sequence[float]) -> tuple[float, ...]:
    shares = tuple(float(share) for share in lengths)
    if not shares or shares[-1] != 1 or shares[0] <= 0 or any(b <= a for a, b in pairwise(shares)):
        raise ValueError(f"lengths {list(lengths)!r}: ascending shares of the full length, above 0, the last 1")
    return shares


def _budget(budget: float | None) -> float:
    if budget is None:
        return inf
    if not (isfinite(budget) and budget >= 1):
        raise ValueError(f"budget {budget!r}: at least 1 full training, or None")
    return float(budget)
