"""The searches that a portfolio holds: `Whole` trains to full length, `Pausing` may pause trainings."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import Any

from tune_cd.run.looks import Looks, failed
from tune_cd.search.pausing_descent import PausingDescent
from tune_cd.search.pausing_line import PausingLine
from tune_cd.search.protocol import Proposal
from tune_cd.search.space import Configuration, Key
from tune_cd.tune.course import Course, Order


@dataclass
class Whole:
    """A search of full-length trainings. budget: configurations that it may still train; allowed: of these, under
    --budget. weight: its share of the common budget; 0: it is not limited. spent: full trainings' worth that it has
    asked for."""

    course: Course
    budget: int
    weight: float = 1.0
    allowed: float = inf
    spent: float = 0.0

    @property
    def open(self) -> bool:
        """Whether it would ask for more if the budget allowed it."""
        return self.budget > 0 and not self.course.finished

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask for."""
        return not self.open or self.allowed < 1

    def allow(self, worth: float) -> None:
        """Limit what it may still ask for, in full trainings' worth."""
        self.allowed = worth

    def next(self) -> tuple[Configuration, float] | None:
        """The next (configuration, share of the full length to train it to); None while it waits, or has ended."""
        h = self.course.next() if self.budget > 0 and self.allowed >= 1 else None
        return None if h is None else (h, 1.0)

    def begun(self, h: Configuration) -> None:
        """A configuration from `next` begins to train, under this search's name."""
        self.budget, self.allowed, self.spent = self.budget - 1, self.allowed - 1, self.spent + 1

    def tell(self, h: Configuration, looks: Looks, own: bool) -> None:
        """Report the looks of a configuration from `next`. own: it was trained under this search's name."""
        value = looks[max(looks)]
        self.course.tell(h, None if isnan(value) else value)

    def hear(self, h: Configuration, looks: Looks, own: bool) -> None:
        """Ignored: the search is told of a full-length training when it asks for it."""

    def annotation(self, h: Configuration) -> dict[str, Any]:
        """The origin of a configuration, in the results table's columns."""
        return self.course.annotation(h)


@dataclass
class Pausing:
    """A search that decides how long to train, or a line search, which may also train to full length only. Its methods
    are those of `Whole`."""

    search: PausingDescent | PausingLine
    weight: float = 1.0

    def __post_init__(self):
        self._order = Order(self.search)
        self._most = self.search.budget
        self._last: Key | None = None  # the training that may exceed the budget

    @property
    def finished(self) -> bool:
        return self._order.finished

    @property
    def open(self) -> bool:
        if isinstance(self.search, PausingLine) and self.search.bracketed:
            return False
        return not self.finished or self.search.budget < self._most

    @property
    def spent(self) -> float:
        return self.search.spent

    def allow(self, worth: float) -> None:
        """As `Whole.allow`, but its best may exceed the limit to reach full length."""
        front, lacks = self._lacks()
        if worth >= 1:
            self._last = None
        elif worth < lacks and self._last in (None, front):
            self._last, worth = front, lacks  # one training may exceed it; if it disappoints, the next may not
        self.search.budget = min(self._most, self.spent + max(0.0, worth))

    def _lacks(self) -> tuple[Key | None, float]:
        """(the front training's key, the share of it that is not asked for yet)."""
        if self.search.front is None:
            return None, 0.0
        h, share = self.search.front
        key = self.search.space.key
        return key(h), 1 - (self.search.until(h) if key(h) in map(key, self.search.live) else share)

    def next(self) -> tuple[Configuration, float] | None:
        h = self._order.next()
        return None if h is None else (h, self.search.until(h))

    def begun(self, h: Configuration) -> None:
        """Ignored: the search itself counts what it asks for."""

    def tell(self, h: Configuration, looks: Looks, own: bool) -> None:
        self._order.again.discard(self.search.space.key(h))
        for share, value in looks.items():
            self.search.tell(h, value, share, free=not own)

    def hear(self, h: Configuration, looks: Looks, own: bool) -> None:
        """Report the looks of a configuration that was trained further, for this search or another."""
        if self.search.space.key(h) in self._order.places:
            self.tell(h, looks, own)

    def annotation(self, h: Configuration) -> dict[str, Any]:
        return self._order.annotation(h)

    def recall(
        self,
        begun: Mapping[Key, tuple[Proposal, int]],
        looks: Mapping[Key, Looks],
        again: set[Key],
        free: set[Key],
    ) -> None:
        """Continue where an earlier run stopped, with the looks of its configurations.

        begun: (origin, place in asking order) of each recorded configuration. again: those that are trained first.
        free: those that were trained for another search.
        """
        key = self.search.space.key
        ordered = sorted(begun.values(), key=lambda one: one[1])
        self._order.places = {key(origin.h): place for origin, place in ordered}
        self._order.origins = {key(origin.h): origin for origin, _ in ordered}
        history = [(origin.h, looks.get(key(origin.h), {})) for origin, _ in ordered]
        unfinished = [
            (h, self._next_length(reached)) for h, reached in history
            if key(h) in again and not (reached and failed(reached))
        ]  # fmt: skip
        self.search.recall([(h, reached) for h, reached in history if reached], unfinished)
        for h, reached in history:
            if key(h) in free and reached:
                self.tell(h, reached, own=False)
        self._order.waiting = [h for h, _ in unfinished]

    def _next_length(self, looks: Looks) -> float:
        return next(share for share in self.search.lengths if share > max(looks, default=0.0))


Member = Whole | Pausing
