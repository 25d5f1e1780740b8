"""The search as ask and tell: `CoordinateDescent`.

    search = CoordinateDescent(space)                                  # whole trainings, a model chooses
    search = CoordinateDescent(space, rule="paper")                    # Algorithms 1 and 2 (`algo:cd`)
    search = CoordinateDescent(space, lengths=LENGTHS, budget=20)      # trainings pause, and go on if that pays

Each rule derives the next step from the trainings so far alone. So the history is the state: saving is JSON, restoring
is the same history. What the default does next, and why, is in `guided`; the paper's algorithms are in `descent`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, prod
from typing import Any

import numpy as np

from tune_cd.search.descent import NEIGHBOURHOOD, Trajectory, needed_next
from tune_cd.search.directions import Directions, Plan, directions_of
from tune_cd.search.guided import LENGTHS, Guided
from tune_cd.search.number import is_whole, number_of
from tune_cd.search.prior import PRIORS
from tune_cd.search.protocol import ROUNDING, Optimiser, Step, check_version
from tune_cd.search.single_line import OnLine, check_line
from tune_cd.search.space import Configuration, Key, Space
from tune_cd.search.training import Proposal, Training

__all__ = ["LENGTHS", "ROUNDING", "CoordinateDescent"]

STATE_VERSION = 2

Start = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""One starting configuration, several, or none."""


class CoordinateDescent(Optimiser):
    """Line searches over a few parameters. By default a model with a prior chooses them; with rule "paper" they are the
    paper's coordinate descent (`subsec:reparam`).

    space: the box H. rule: how the next step is chosen:
        "default": lines through the best point, along the directions and the axes. A Gaussian process chooses line,
            point and training length (`guided`).
        "paper": Algorithms 1 and 2, golden-section searches along each direction in turn, with growing budgets.
        "local": the same, with line searches that begin within 4 octaves of the best point.
        "line": as "default" along the first direction alone, until its best is bracketed (`single_line`).
    prior: of the model: "general", or "balance", as `balance.of` says for the weights of a loss.
    directions: array [n_directions, n_axes], or name -> row, in the coordinates of the numeric axes; None: each axis.
        The line of each category, which leads to its other values, comes behind them; "paper" and "local" try them all.
    budgets: steps of a line search, one int or one per direction (c_i of `algo:cd`), of "paper" and "local".
    start: one configuration or several, of which the best is descended from; where trainings pause it is trained to
        its end first. None: one drawn by `seed`, uniformly in the box's coordinates, the paper's blind setting. Each
        start costs a trial. Values told before the first `ask` are starts that cost nothing, and replace the blind one.
    workers: the largest number of live trials; None: no limit. The next step depends on what is known of each trial in
        the order of asking, never on the order in which they end. With "paper" and "local" further workers look ahead
        (`descent.needed_next`), with the model they are sent to where least is known.
    lengths: shares of the full length at which trainings may pause, ascending; the last is 1. (1.0,): nothing pauses.
    budget: the total training length, in full trainings; None: no limit. It has a reserve: the best training is
        finished before the search ends. The budget is exceeded only by less than the shortest length, or to finish a
        first whole training. It may be changed during a search, inf being no limit.
    grows: False: only paused trainings go on, no new configuration is asked for.

    Raises ValueError for an argument that does not fit.
    """

    def __init__(
        self,
        space: Space,
        *,
        rule: str = "default",
        prior: str | None = None,
        directions: Directions = None,
        budgets: int | Sequence[int] = 3,
        start: Start = None,
        workers: int | None = None,
        seed: int = 0,
        lengths: Sequence[float] = (1.0,),
        budget: float | None = None,
    ):
        names, rows = directions_of(space, directions)
        super().__init__(space, workers)
        self.seed, self.rule, self.grows = _seed(seed), rule, True
        if budget is not None and not 1 <= (number_of(budget) or 0.0) < inf:
            raise ValueError(f"budget {budget!r}: at least 1 full training, or None")
        self.lengths, self.budget = _lengths(lengths), budget
        if rule not in (*NEIGHBOURHOOD, "default", "line"):
            raise ValueError(f"rule {rule!r}: one of {sorted([*NEIGHBOURHOOD, 'default', 'line'])}")
        if rule in NEIGHBOURHOOD and len(self.lengths) > 1:
            raise ValueError(f"lengths {self.lengths}: with rule {rule!r} nothing pauses, lengths are (1.0,)")
        if rule == "line":
            names, rows = names[:1], rows[:1]
        self._plan = Plan(space, names, rows, axes=rule != "line")
        self.prior = "general" if prior is None else prior
        if self.prior not in PRIORS:
            raise ValueError(f"prior {prior!r}: one of {sorted(PRIORS)}, or None for general")
        self._budgets = _budgets(budgets, self._plan)
        self._starts = {space.key(h): h for h in starts_of(space, start)}
        if rule == "line":
            check_line(space, [*self._starts.values()], rows[0])
        blind = space.sample(np.random.default_rng(self.seed))
        self._blind = {space.key(blind): blind}
        self._modelled: Guided | None = None  # the model's state, and what it follows from

    @property
    def finished(self) -> bool:
        """As in `Optimiser`: nothing is left to train, and no running training can change that."""
        return not self._live and self._step() is None

    @property
    def ending(self) -> str:
        """As in `Optimiser`: why it asks for nothing more, and what it would take to go on."""
        known = len(self._trainings)
        n = f"{known} configuration{'s' * (known != 1)}"
        if known >= prod(axis.size for axis in self.space.axes):
            return f"{self.space} has no more than {n}; a larger one has"
        if self.bracketed:
            return "the best on its line is bracketed"
        if self.budget < inf and self._step(inf) is not None:
            budget = f"its budget of {self.budget:g} full training{'s' * (self.budget != 1)}"
            return f"{budget} allows no more; a larger one goes on"
        if self.rule == "line":
            return "the best lies at an end of its line; a wider range goes on"
        if self.rule in NEIGHBOURHOOD:
            return f"after {n} no line search leads any further; another start may"
        return f"after {n} no step promises to gain anything; another start, or a wider space, may"

    @property
    def incumbent(self) -> Training | None:
        """As in `Optimiser`. Failed trainings, and those that cannot go on, are passed over."""
        model = self._model() if self._any_value else None
        return None if model is None else model.trainings[model.reserve.incumbent]

    @property
    def bracketed(self) -> bool:
        """With rule "line": whether nothing runs, and the best whole training has close neighbours on both sides."""
        return self.rule == "line" and not self._live and OnLine(self._model(), self.spent, self.budget).bracketed

    def believed(self, h: Mapping[str, Any]) -> tuple[float, float] | None:
        """The predicted value of a configuration at full length and its standard deviation, from all that was told.

        A configuration trained to full length has its own value, and 0. None if it failed, and before the first number.
        """
        h = self.space.check(h)
        training = self.training(h) or Training(h)
        if training.failed or not self._any_value:
            return None
        if training.share == 1:
            return training.last, 0.0
        [mean], [deviation] = self._model().model.process.measured(self.space.to_coordinates(h)[None])
        return float(mean), float(deviation)

    def state(self) -> dict[str, Any]:
        """The history and the search's arguments, as plain JSON types; `from_state` inverts it."""
        directions = dict(zip(self._plan.names, self._plan.rows.tolist()))  # those of categories follow from the space
        return {
            "version": STATE_VERSION, "space": self.space.to_json(), "prior": self.prior, "rule": self.rule,
            "directions": directions or None, "budgets": list(self._budgets[: len(directions)]),
            "start": [*self._starts.values()], "workers": self.workers, "seed": self.seed,
            "lengths": list(self.lengths), "budget": None if self.budget == inf else self.budget, "grows": self.grows,
            "trainings": [one.to_json() for one in self._trainings.values()],
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "CoordinateDescent":
        """Continue where `state` was taken. Raises ValueError for what is no state, or of an unknown version."""
        names = ("rule", "prior", "directions", "budgets", "start", "workers", "seed", "lengths")
        try:
            check_version(state, STATE_VERSION)
            search = cls(Space.from_json(state["space"]), **{name: state[name] for name in names})
            search.budget, search.grows = state["budget"], state["grows"]  # it may have been lowered below 1
            for training in map(Training.from_json, state["trainings"]):
                search._put(search.space.key(search.space.check(training.h)), training)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"this is no state of a {cls.__name__}: {error!r}") from error
        return search

    def _step(self, budget: float | None = None) -> Step | None:
        """The next training to run; None if there is none, for good or until a running training ends. budget: in full
        trainings, if not the search's own."""
        budget = self.budget if budget is None else budget
        if self.rule in NEIGHBOURHOOD:
            affords = self.spent + 1 <= budget
            proposal = self._next_of_line_searches() if affords else None
            return None if proposal is None else Step(proposal)
        now = self._model() if budget == self.budget else replace(self._model(), left=budget - self.spent)
        return OnLine(now, self.spent, budget).step if self.rule == "line" else now.step

    def _next_of_line_searches(self) -> Proposal | None:
        """The first configuration without a value on the trajectory of `algo:cd`, or further ahead."""
        widths = (NEIGHBOURHOOD[self.rule],) * len(self._budgets)
        state = Trajectory(self._plan, tuple(self._first.values()), self._budgets, widths)
        while not state.finished:
            training = self.training(state.proposal().h)
            if training is None or not training.curve or training.until is not None:
                break
            state = state.told(training.h, training.counts(state.value if state.here else None))
        known = {key: one.counts(state.value) if one.curve and one.until is None else None
                 for key, one in self._trainings.items()}  # fmt: skip
        return needed_next(state, known)

    def _model(self) -> Guided:
        """The model's state after all that is known."""
        left, now = self.budget - self.spent, self._modelled
        if now is None or (now.left, now.grows) != (left, self.grows) or now.trainings != self.trainings:
            self._modelled = now = Guided(
                self._plan, PRIORS[self.prior], self._first, dict(self._trainings), self.lengths, left,
                blind=not self._chosen, grows=self.grows,
            )  # fmt: skip
        return now

    @property
    def _any_value(self) -> bool:
        return any(one.numbers for one in self._trainings.values())

    @property
    def _first(self) -> dict[Key, Configuration]:
        """The configurations to begin with."""
        return self._chosen or self._blind

    @property
    def _chosen(self) -> dict[Key, Configuration]:
        """The starts that the user chose: `start`, and the configurations told before the first ask."""
        return self._starts | {key: one.h for key, one in self._trainings.items() if one.given}


def starts_of(space: Space, start: Start) -> list[Configuration]:
    """The starting configurations. Raises ValueError for one outside the space."""
    points: Sequence[Any] = [] if start is None else start if isinstance(start, (list, tuple)) else [start]
    return [space.check(h) for h in points]


def _budgets(budgets: int | Sequence[int], plan: Plan) -> tuple[int, ...]:
    """Steps of a line search by direction; those of a category are as many as it has other values."""
    n_directions, of_categories = len(plan.rows), len(plan.names) - len(plan.rows)
    each = list(budgets) if isinstance(budgets, Sequence) else [budgets] * n_directions
    if len(each) != n_directions or not all(is_whole(b, 1) for b in each):
        raise ValueError(f"budgets {budgets!r}: an int >= 1, or {n_directions} of them, one per direction")
    return (*map(int, each), *[1] * of_categories)


def _lengths(lengths: Sequence[float]) -> tuple[float, ...]:
    given = lengths if isinstance(lengths, Iterable) else ()
    shares = [number_of(share) or 0.0 for share in given]
    if not shares or shares[-1] != 1 or not all(a < b for a, b in pairwise([0.0, *shares])):
        raise ValueError(f"lengths {lengths!r}: ascending shares of the full length, above 0, the last 1")
    return tuple(map(float, shares))


def _seed(seed: int) -> int:
    if not is_whole(seed, 0):
        raise ValueError(f"seed {seed!r}: a whole number, at least 0")
    return int(seed)
