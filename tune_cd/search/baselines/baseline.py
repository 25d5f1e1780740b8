"""The search methods to compare with: each is a rule that chooses the next configuration, and nothing pauses."""

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping
from typing import Any

from tune_cd.search.bracket import FAILED
from tune_cd.search.protocol import Optimiser, Step
from tune_cd.search.space import Configuration, Key, Space
from tune_cd.search.training import Proposal, Training


class Rule(ABC):
    """The part in which baselines differ: the choice of the next configuration. known: keys of all trials so far."""

    @abstractmethod
    def propose(self, known: Container[Key]) -> Configuration | None:
        """A configuration that is not known; None if none is left."""

    @abstractmethod
    def exhausted(self, known: Container[Key]) -> bool:
        """True when `propose` has nothing left, whatever is observed."""

    def take(self, h: Configuration) -> None:  # noqa: B027 - a list learns nothing
        """Note that `h` is evaluated without having been proposed: a start, or a configuration told unasked."""

    def observe(self, h: Configuration, value: float | None) -> None:  # noqa: B027
        """Note the value of a proposed or taken configuration, None for a failure; a second one replaces the first."""


class Baseline(Optimiser):
    """A search method that follows a `Rule`, after `starts`."""

    def __init__(self, space: Space, rule: Rule, starts: list[Configuration], *, workers: int | None):
        super().__init__(space, workers)
        self._rule, self._starts = rule, starts
        self._recalled: dict[Key, Training] = {}  # those that the search has not come to yet

    def ask(self) -> Configuration | None:
        while (h := super().ask()) is not None:
            known = self._recalled.pop(self.space.key(h), None)
            if known is None or not known.curve or known.until is not None:
                return h
            self.tell(h, known.last, known.share, left=known.stopped)
        return None

    def tell(
        self,
        h: Mapping[str, Any],
        value: float | None,
        share: float | None = None,
        *,
        left: bool = False,
        external: bool = False,
    ) -> None:
        """As `Optimiser.tell`. To the rule, a trial that was stopped early is just below the best told before it."""
        h = self.space.check(h)
        best, asked = self.best, self.training(h)
        super().tell(h, value, share, left=left, external=external)
        told = self._trainings[self.space.key(h)]
        if asked is None:
            self._rule.take(told.h)
        number = told.counts(None if best is None else best[1])
        self._rule.observe(told.h, None if number == FAILED else number)

    def recall(self, trainings: Iterable[Training]) -> None:
        """Trainings of an earlier run of this search: each is told at once when the search comes to it.

        A sampler that draws at random proposes them again, provided that it had one trial at a time.
        """
        for training in trainings:
            self._recalled[self.space.key(self.space.check(training.h))] = training
            if training.trial_index is not None:
                self._next_index = max(self._next_index, training.trial_index + 1)

    @property
    def finished(self) -> bool:
        return not self._affords or self._exhausted

    @property
    def ending(self) -> str:
        budget = f"its budget of {self.budget:g} full training{'s' * (self.budget != 1)} allows no more"
        return "all its configurations are known" if self._exhausted else f"{budget}; a larger one goes on"

    def _step(self) -> Step | None:
        if not self._affords:
            return None
        if (start := self._missing) is not None:
            self._rule.take(start)
            return Step(Proposal(start, "start", 0.0))
        h = self._rule.propose(self._trainings)
        return None if h is None else Step(Proposal(h, "sampled", 0.0))

    @property
    def _missing(self) -> Configuration | None:
        """The first start that is not known."""
        return next((h for h in self._starts if self.space.key(h) not in self._trainings), None)

    @property
    def _exhausted(self) -> bool:
        return self._missing is None and self._rule.exhausted(self._trainings)

    @property
    def _affords(self) -> bool:
        return self.spent + 1 <= self.budget

    def _index_of(self, key: Key) -> int:
        known = self._recalled.get(key)
        return self._next_index if known is None or known.trial_index is None else known.trial_index
