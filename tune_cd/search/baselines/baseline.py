"""The protocol of every search method, around a rule that only chooses the next configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, Protocol

from tune_cd.search.bracket import FAILED
from tune_cd.search.protocol import check_workers, has_free_worker
from tune_cd.search.space import Configuration, Key, Space
from tune_cd.search.training import Proposal, Training, value_of


@dataclass
class Trial:
    """A configuration, its `Proposal.direction` and place in the order of asking (None: told unasked), and its value
    once told (None: failed)."""

    h: Configuration
    direction: str | None
    index: int | None
    told: bool = False
    external: bool = False
    value: float | None = None


class Rule(Protocol):
    """The part in which baselines differ: the choice of the next configuration. known: all trials so far, by key."""

    def propose(self, known: Mapping[Key, Trial]) -> Configuration | None:
        """A configuration that is not known; None if none is left."""

    def exhausted(self, known: Mapping[Key, Trial]) -> bool:
        """True when `propose` has nothing left, whatever is observed."""

    def take(self, h: Configuration) -> None:
        """Note that `h` is evaluated without having been proposed: a start, or a configuration told unasked."""

    def observe(self, h: Configuration, value: float | None) -> None:
        """Note the value of a proposed or taken configuration, None for a failure; a second one replaces the first."""


class Baseline:
    """A search method that follows a `Rule`, after `starts`.

    budget: the number of configurations that it may ask for; inf: no limit. It may be changed during a search.
    """

    lengths: tuple[float, ...] = (1.0,)
    budget: float = inf
    bracketed = False

    def __init__(
        self,
        space: Space,
        rule: Rule,
        starts: list[Configuration],
        *,
        workers: int | None,
    ):
        check_workers(workers)
        self.space, self.workers, self._rule, self._starts = space, workers, rule, starts
        self._trials: dict[Key, Trial] = {}  # in asking order; if never asked for, in telling order
        self._recalled: dict[Key, Training] = {}  # those that the search has not come to yet

    def ask(self) -> Configuration | None:
        """The next configuration; None while `workers` trials are live, and when finished."""
        while has_free_worker(self.workers, len(self.live)) and self._affords and (h := self._next()) is not None:
            known = self._recalled.pop(self.space.key(h), None)
            if known is None or not known.curve or known.until is not None:
                return h
            self.tell(h, known.last, known.share, left=known.stopped)
        return None

    def until(self, h: Mapping[str, Any]) -> float:
        """1: every training is whole. Raises KeyError for a configuration that is not live."""
        if (trial := self._trials.get(self.space.key(h))) is None or trial.told:
            raise KeyError(f"{dict(h)} is not being trained")
        return 1.0

    def recall(self, trainings: Iterable[Training]) -> None:
        """Trainings of an earlier run of this search: each is told at once when the search comes to it.

        A sampler that draws at random proposes them again, provided that it had one trial at a time.
        """
        for training in trainings:
            h = self.space.check(training.h)
            self._recalled[self.space.key(h)] = training

    def _next(self) -> Configuration | None:
        start = next((h for h in self._starts if self.space.key(h) not in self._trials), None)
        if start is not None:
            self._rule.take(start)
        h = start or self._rule.propose(self._trials)
        if h is None:
            return None
        known = self._recalled.get(self.space.key(h))
        place = known.trial_index if known is not None else None
        direction = "sampled" if start is None else "start"
        self._trials[self.space.key(h)] = Trial(dict(h), direction, self._next_index if place is None else place)
        return dict(h)

    @property
    def _next_index(self) -> int:
        taken = [one.index for one in self._trials.values()] + [one.trial_index for one in self._recalled.values()]
        return max((place for place in taken if place is not None), default=-1) + 1

    def tell(
        self,
        h: Mapping[str, Any],
        value: float | None,
        share: float | None = None,
        *,
        left: bool = False,
        external: bool = False,
    ) -> None:
        """Report the value of a configuration; None, NaN or ±inf: the trial failed. Unknown configurations are adopted.

        left: the trial was stopped early. Its value counts as just below the best of those told so far, if it is not
        lower already. external: it was not trained for this search, and costs none of the budget.
        Raises ValueError for a configuration outside the space.
        """
        h, key = self.space.check(h), self.space.key(h)
        number = value_of(value)
        if left and self.best is not None:
            number = min(number, nextafter(self.best[1], -inf))
        told = None if number == FAILED else number
        if key not in self._trials:
            self._rule.take(h)
            self._trials[key] = Trial(h, None, None)
        trial = self._trials[key]
        trial.external = external
        if not trial.told or trial.value != told:
            self._rule.observe(trial.h, told)
            trial.told, trial.value = True, told

    @property
    def finished(self) -> bool:
        begun = all(self.space.key(h) in self._trials for h in self._starts)
        return not self._affords or (begun and self._rule.exhausted(self._trials))

    @property
    def ending(self) -> str:
        """Why it asks for nothing more, for a search that is `finished`."""
        budget = f"its budget of {self.budget:g} full trainings is spent; a larger one goes on"
        return budget if not self._affords else "all its configurations are known"

    @property
    def spent(self) -> float:
        """Number of configurations asked for, without `external` ones."""
        return float(sum(one.index is not None and not one.external for one in self._trials.values()))

    @property
    def _affords(self) -> bool:
        return self.spent + 1 <= self.budget

    @property
    def incumbent(self) -> Training | None:
        """None: no training is left to be finished."""
        return None

    @property
    def live(self) -> list[Configuration]:
        return [dict(trial.h) for trial in self._trials.values() if not trial.told]

    @property
    def history(self) -> list[tuple[Configuration, float | None]]:
        """(h, value) of all told trials in asking order; a failed trial's value is None."""
        return [(dict(trial.h), trial.value) for trial in self._trials.values() if trial.told]

    @property
    def best(self) -> tuple[Configuration, float] | None:
        numbers = [(h, value) for h, value in self.history if value is not None]
        return max(numbers, key=lambda pair: pair[1], default=None)

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        direction = self._trials[self.space.key(h)].direction
        if direction is None:
            raise KeyError(f"{dict(h)} was told, but never asked for")
        return Proposal(dict(h), direction, 0.0)

    def annotation(self, h: Mapping[str, Any]) -> dict[str, Any]:
        """The results table's columns direction, line_position, trial_index. KeyError for one never asked for."""
        return self.origin(h).annotation(self._trials[self.space.key(h)].index)
