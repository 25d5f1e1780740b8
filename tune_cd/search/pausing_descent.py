"""Coordinate descent that trains short first, ask and tell: `model_guided` plus the history of asks and tells.

search = PausingDescent(space, budget=20)            # twenty full trainings' worth
while (h := search.ask()) is not None:
    value = train(h, until=search.until(h))          # from where it paused before, if it did
    search.tell(h, value, share=search.until(h))
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf, isfinite
from operator import index
from typing import Any

import numpy as np

from tune_cd.search.beliefs import belief_over
from tune_cd.search.coordinate_descent import Start, starts_of, value_of
from tune_cd.search.directions import directions_of
from tune_cd.search.golden_section import FAILED
from tune_cd.search.line_search import SETTINGS, Plan
from tune_cd.search.model_guided import LENGTHS, Guided
from tune_cd.search.protocol import Proposal, check_version, check_workers, is_free
from tune_cd.search.space import Configuration, Key, Space
from tune_cd.search.trainings import Training

STATE_VERSION = 1


@dataclass
class _Training:
    h: Configuration
    origin: Proposal | None  # None: told without having been asked for
    looks: dict[float, float] = field(default_factory=dict)  # share -> value, FAILED where it failed
    until: float | None = None  # share asked for and not yet told; None: not being trained
    free: bool = False  # not trained for this search: costs no budget
    given: bool = False  # told before anything was asked: a start
    left: bool = False  # cannot go on

    @property
    def cost(self) -> float:
        """The length trained or asked for, in full trainings."""
        return max([*self.looks, self.until or 0.0])

    def so_far(self) -> Training:
        return Training(self.h, tuple(sorted(self.looks.items())), self.until, self.left)


class PausingDescent:
    """The default search with trainings that pause: it chooses configurations and how long to train them.

    space, directions, start, workers, seed: as for `CoordinateDescent`, whose lines and beliefs it shares.
    lengths: shares of the full length at which trainings may pause, ascending; the last is 1.
    budget: the total training length, in full trainings; None: no limit. It has a reserve: the best training is
        finished before the search ends. The budget is exceeded only by less than the shortest length, or to finish a
        first whole training. It may be changed during a search.

    Raises ValueError for an argument that does not fit.
    """

    def __init__(
        self,
        space: Space,
        *,
        directions: Sequence[Sequence[float]] | None = None,
        start: Start = None,
        workers: int | None = None,
        seed: int = 0,
        lengths: Sequence[float] = LENGTHS,
        budget: float | None = None,
    ):
        check_workers(workers)
        names, rows = directions_of(space, directions)
        self.space, self.workers, self.seed = space, workers, index(seed)
        self.lengths, self.budget = _lengths(lengths), _budget(budget)
        self._starts = starts_of(space, start)
        self._blind = (space.sample(np.random.default_rng(seed)),)
        self._first = Guided(
            Plan(space, names, rows, SETTINGS["default"]), belief_over(space), (), lengths=self.lengths
        )
        self.grows = True  # False: only paused trainings go on, no new configuration is asked for
        self._trainings: dict[Key, _Training] = {}  # in asking order; if never asked for, in telling order
        self._state: Guided | None = None

    def ask(self) -> Configuration | None:
        """The next configuration to train, new or paused; None while `workers` run, or when nothing is left."""
        if not is_free(self.workers, len(self.live)) or (step := self._now().step) is None:
            return None
        return self.begin(step.proposal, step.until)

    def begin(self, proposal: Proposal, until: float) -> Configuration:
        """Count a configuration as asked for, until this share, and return it. An earlier failure is dropped."""
        h = self._exact(proposal.h)
        training = self._trainings.setdefault(self.space.key(h), _Training(h, proposal))
        training.looks = {share: value for share, value in training.looks.items() if value != FAILED}
        training.until, training.origin = until, training.origin or proposal
        return dict(h)

    def withdraw(self, h: Mapping[str, Any]) -> None:
        """Withdraw an asked configuration: it is not trained after all, or not further. KeyError if it is unknown."""
        training = self._trainings[self.space.key(h)]
        training.until = None
        if not training.looks:
            del self._trainings[self.space.key(h)]

    def leave(self, configurations: Iterable[Mapping[str, Any]]) -> None:
        """Mark exactly these configurations as unable to go on, for example because their checkpoints are gone. They
        stay known, but unfinished ones no longer lead."""
        left = {self.space.key(h) for h in configurations}
        for key, training in self._trainings.items():
            training.left = key in left

    def until(self, h: Mapping[str, Any]) -> float:
        """The share to which an asked configuration is to be trained. Raises KeyError if it is not being trained."""
        training = self._trainings.get(self.space.key(h))
        if training is None or training.until is None:
            raise KeyError(f"{dict(h)} is not being trained")
        return training.until

    def tell(
        self,
        h: Mapping[str, Any],
        value: float | None,
        share: float | None = None,
        free: bool = False,
        left: bool = False,
    ) -> None:
        """Report the value of a configuration after a share of the full length; None, NaN or ±inf: its training failed.

        share: by default the share asked for, 1 for a configuration that was not asked for. Values at shares before the
        one asked for may be told as they come. free: it was not trained for this search, and costs none of the budget.
        left: it was stopped there and cannot go on.
        A configuration told before the first ask is a start, and replaces the blind one. Raises ValueError for a
        configuration outside the space, and for a share outside (0, 1].
        """
        h = self.space.check(h)
        training = self._trainings.get(self.space.key(h)) or _Training(h, None, given=self._unasked)
        share = share if share is not None else training.until or 1.0
        if not 0 < share <= 1:
            raise ValueError(f"share {share!r}: above 0, at most 1, of the full length")
        self._trainings[self.space.key(h)] = training
        told = value_of(value)
        training.looks[share], training.free, training.left = told, free, training.left or left
        if training.until is not None and (share >= training.until or told == FAILED or left):
            training.until = None

    def recall(
        self,
        history: Sequence[tuple[Mapping[str, Any], Mapping[float, float | None]]],
        under_way: Sequence[tuple[Mapping[str, Any], float]] = (),
    ) -> None:
        """Add the trainings of an earlier run, before the first ask: (configuration, share -> value), in asking order.

        under_way: (configuration, until) of the trainings that run now, as if they had been asked for.
        """
        for h, looks in history:
            h = self.space.check(h)
            told = {share: value_of(value) for share, value in looks.items()}
            self._trainings[self.space.key(h)] = _Training(h, None, told)
        for h, until in under_way:
            h = self.space.check(h)
            self._trainings.setdefault(self.space.key(h), _Training(h, None)).until = until

    @property
    def finished(self) -> bool:
        """True when nothing is left to train and no running training can change that."""
        return not self.live and self._now().step is None

    @property
    def live(self) -> list[Configuration]:
        return [dict(one.h) for one in self._trainings.values() if one.until is not None]

    @property
    def spent(self) -> float:
        """Training length done or asked for, in full trainings, without `free` ones. Each counts as the shortest length
        at least, even if it failed."""
        return float(sum(max(one.cost, self.lengths[0]) for one in self._trainings.values() if not one.free))

    @property
    def reached(self) -> list[tuple[Configuration, dict[float, float]]]:
        """Every configuration told or running, in asking order, and its values by share; -inf: it failed there."""
        return [(dict(one.h), dict(one.looks)) for one in self._trainings.values()]

    def looks(self, h: Mapping[str, Any]) -> dict[float, float]:
        """The values of a configuration by share; -inf: it failed there. Empty if no value was told."""
        training = self._trainings.get(self.space.key(h))
        return {} if training is None else dict(training.looks)

    @property
    def trained(self) -> list[float]:
        """The share trained so far of every configuration told, in asking order."""
        return [max(one.looks) for one in self._trainings.values() if one.looks]

    @property
    def best(self) -> tuple[Configuration, float] | None:
        """The configuration with the best value told, at whatever length; None before the first number."""
        numbers = [
            (one.h, value) for one in self._trainings.values() for value in one.looks.values() if value != FAILED
        ]
        return max(numbers, key=lambda pair: pair[1], default=None)

    @property
    def leader(self) -> tuple[Configuration, float] | None:
        """The training with the best known or predicted final value, and its share done; None before any number."""
        return self._progress(lambda now: now.model.leader)

    @property
    def front(self) -> tuple[Configuration, float] | None:
        """The training with the best value told, and its share done; None before any number. Failed ones, and those
        that cannot go on, are passed over. It is finished before the search ends."""
        return self._progress(lambda now: now.front)

    def believed(self, h: Mapping[str, Any]) -> tuple[float, float] | None:
        """The predicted value of a configuration at full length and its standard deviation, from all that was told.

        A configuration trained to full length has its own value, and 0. None if it failed, and before the first number.
        """
        h = self.space.check(h)
        training = self._trainings.get(self.space.key(h), _Training(h, None)).so_far()
        if training.failed or self.best is None:
            return None
        return (training.looks[-1][1], 0.0) if training.share == 1 else self._now().model.believed(h)

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        """The line on which a configuration was first proposed. Raises KeyError for one never asked for."""
        origin = self._trainings[self.space.key(h)].origin
        if origin is None:
            raise KeyError(f"{dict(h)} was told, but never asked for")
        return origin

    def state(self) -> dict[str, Any]:
        """The history and the search's arguments, as plain JSON types; `from_state` inverts it."""
        return {
            "version": STATE_VERSION,
            "space": self.space.to_json(),
            "directions": self._first.plan.directions.tolist(),
            "start": self._starts,
            "workers": self.workers,
            "seed": self.seed,
            "lengths": list(self.lengths),
            "budget": None if self.budget == inf else self.budget,
            "grows": self.grows,
            "trainings": [_to_json(training) for training in self._trainings.values()],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "PausingDescent":
        """Continue where `state` was taken. Raises ValueError for a state of an unknown version."""
        check_version(state, STATE_VERSION)
        shaped = ("directions", "start", "workers", "seed", "lengths")
        search = cls(Space.from_json(state["space"]), **{name: state[name] for name in shaped})
        search.budget = inf if state["budget"] is None else state["budget"]  # it may have been lowered below 1
        search.grows = state.get("grows", True)
        for entry in state["trainings"]:
            training = _from_json(entry)
            search._trainings[search.space.key(training.h)] = training
        return search

    def _exact(self, h: Configuration) -> Configuration:
        """The exact configuration that is trained for a proposal."""
        return h

    def _progress(self, index_of: Callable[[Guided], int]) -> tuple[Configuration, float] | None:
        """(configuration, share done) of one training; None before any number."""
        if self.best is None:
            return None
        now = self._now()
        training = now.trainings[index_of(now)]
        return dict(training.h), training.share

    def _now(self) -> Guided:
        trainings = tuple(training.so_far() for training in self._trainings.values())
        left = self.budget - self.spent
        now = (trainings, left, self.grows)
        if self._state is None or (self._state.trainings, self._state.left, self._state.grows) != now:
            given = (*(self._starts or ()), *(one.h for one in self._trainings.values() if one.given))
            starts = given or self._blind
            self._state = replace(
                self._first, starts=starts, blind=not given, trainings=trainings, left=left, grows=self.grows
            )
        return self._state

    @property
    def _unasked(self) -> bool:
        """Whether no configuration was asked for or recalled so far."""
        return all(one.given for one in self._trainings.values())


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


def _to_json(training: _Training) -> dict[str, Any]:
    looks = [[share, None if value == FAILED else value] for share, value in training.looks.items()]
    entry: dict[str, Any] = {"h": training.h, "looks": looks, "until": training.until, "free": training.free}
    entry |= {name: True for name in ("given", "left") if getattr(training, name)}
    if training.origin is not None:
        entry |= {"direction": training.origin.direction, "line_position": training.origin.line_position}
    return entry


def _from_json(entry: Mapping[str, Any]) -> _Training:
    origin = Proposal(entry["h"], entry["direction"], entry["line_position"]) if "direction" in entry else None
    looks = {share: value_of(value) for share, value in entry["looks"]}
    given, left = entry.get("given", False), entry.get("left", False)
    return _Training(entry["h"], origin, looks, entry["until"], entry["free"], given, left)
