"""Replays of searches that decide how long to train, on learning curves of measured landscapes; rivals included.

    trace = spend(PausingDescent(landscape.space, budget=20), landscape, workers=4)
    python tests/benchmarks/pausing.py

Cost is counted in full trainings. The score that a search has reached is the noiseless score of its best checkpoint so
far, as measured. Checkpoints of shorter trainings count, because their weights can be used.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tune_cd.landscapes.curves import CurveLandscape
from tune_cd.search.model_guided import LENGTHS
from tune_cd.search.protocol import Optimiser, is_free
from tune_cd.search.space import Configuration, Key, Space

LOOKS = 16
"""Looks at a full training of a measured landscape; libraries' rivals may stop at each."""


class PausingOptimiser(Protocol):
    """A search that decides which configuration to train, until which share of the full length, as `PausingDescent`."""

    space: Space
    lengths: tuple[float, ...]

    def ask(self) -> Configuration | None: ...

    def until(self, h: Mapping[str, Any]) -> float: ...

    def tell(self, h: Mapping[str, Any], value: float | None, share: float = 1.0) -> None: ...


@dataclass(frozen=True)
class Spent:
    """One search on one landscape; an entry per look, in order of time.

    cost [n]: images seen by all workers, in full trainings. clock [n]: elapsed time, in full trainings. reached [n]:
    see the module. told [n]: best score measured so far, noise included. Both are -inf before the first score.
    """

    method: str
    landscape: str
    seed: int
    cost: np.ndarray
    clock: np.ndarray
    reached: np.ndarray
    told: np.ndarray

    def at(self, costs: np.ndarray, low: float, told: bool = False) -> np.ndarray:
        """Score reached by each cost, or (told) the best measured one; `low` before the first score."""
        place = np.searchsorted(self.cost, costs + 1e-9, side="right") - 1
        scores = np.where(place >= 0, (self.told if told else self.reached)[np.maximum(place, 0)], -np.inf)
        return np.where(np.isfinite(scores), scores, low)


def spend(
    search: PausingOptimiser,
    landscape: CurveLandscape,
    *,
    budget: float = 20.0,
    workers: int = 1,
    seed: int = 0,
    name: str = "",
) -> Spent:
    """Run a search until the budget (in full trainings) is spent, or it asks for nothing more.

    Time is proportional to images. Trainings that pause or end at the same time are all told before the next ask. A
    configuration that is asked for again, but no longer than it was already trained, is trained anew at full cost.
    """
    key, looks = landscape.space.key, landscape.looks
    clock, asked, spent = 0.0, 0, 0.0
    share: dict[Key, float] = {}
    running: list[tuple] = []
    seen: list[tuple[float, float, float]] = []  # of each look: (time, measured score, score without noise)
    while True:
        while len(running) < workers and spent < budget - 1e-9 and (h := search.ask()) is not None:
            begun, until = share.get(key(h), 0.0), search.until(h)
            if until <= begun:
                begun = 0.0
            heapq.heappush(running, (clock + until - begun, asked, clock, begun, until, h))
            asked, spent = asked + 1, spent + until - begun
        if not running:
            break
        clock = running[0][0]
        while running and running[0][0] <= clock + 1e-12:
            _, _, started, begun, until, h = heapq.heappop(running)
            share[key(h)] = until
            told, true = landscape.curve(h, seed), landscape.curve(h)
            for look in range(round(begun * looks), round(until * looks)):
                seen.append((started + (look + 1) / looks - begun, told[look], true[look]))
            for length in search.lengths:
                if begun < length <= until:
                    value = told[round(length * looks) - 1]
                    search.tell(h, float(value) if np.isfinite(value) else None, length)
                    if not np.isfinite(value):
                        break
    when, told, true = np.array(sorted(seen, key=lambda look: look[0])).reshape(-1, 3).T
    told = np.where(np.isfinite(told), told, -np.inf)
    best = np.maximum.accumulate(told)
    holder = np.maximum.accumulate(np.where(told == best, np.arange(len(told)), 0))
    reached = np.where(np.isfinite(best), true[holder], -np.inf)
    return Spent(name, landscape.name, seed, np.arange(1, len(when) + 1) / looks, when, reached, best)


class Rule(ABC):
    """Base class of rivals: an optimiser that ignores lengths proposes, and a rule decides how long to train.

    The optimiser is told of each configuration once: at the share `told_at`, or with its last value where it stops
    before.
    """

    def __init__(self, optimiser: Optimiser, lengths: Sequence[float], told_at: float, workers: int | None = None):
        self.space, self.lengths, self.workers = optimiser.space, tuple(lengths), workers
        self._optimiser, self._told_at = optimiser, told_at
        self.trained: dict[Key, dict[float, float]] = {}
        self.configurations: dict[Key, Configuration] = {}
        self._until: dict[Key, float] = {}
        self._known: set[Key] = set()

    def ask(self) -> Configuration | None:
        if not is_free(self.workers, len(self._until)):
            return None
        found = self.choose()
        if found is None:
            return None
        h, until = found
        self.configurations.setdefault(self.space.key(h), h)
        self._until[self.space.key(h)] = until
        return h

    def until(self, h: Mapping[str, Any]) -> float:
        return self._until[self.space.key(h)]

    def tell(self, h: Mapping[str, Any], value: float | None, share: float = 1.0) -> None:
        key = self.space.key(h)
        self.trained.setdefault(key, {})[share] = -np.inf if value is None else value
        if key not in self._known and (share >= self._told_at or value is None):
            self._known.add(key)
            self._optimiser.tell(h, value)
        if share >= self._until.get(key, 0.0) or value is None:
            self._until.pop(key, None)

    @abstractmethod
    def choose(self) -> tuple[Configuration, float] | None:
        """The next configuration, and the share to train it until; None: nothing to train now."""

    def new(self, until: float) -> tuple[Configuration, float] | None:
        h = self._optimiser.ask()
        return None if h is None else (h, until)

    def waiting(self) -> Iterable[Key]:
        """Keys of paused trainings that could go on."""
        return (
            key for key, looks in self.trained.items()
            if key not in self._until and max(looks) < 1 and looks[max(looks)] > -np.inf
        )  # fmt: skip

    def best_waiting(self) -> tuple[Configuration, float] | None:
        """The paused training with the best last score, to be trained to full length."""
        best = max(self.waiting(), key=lambda key: self.trained[key][max(self.trained[key])], default=None)
        return None if best is None else (self.configurations[best], 1.0)


class FullLength(Rule):
    """Trains every configuration to full length."""

    def __init__(self, optimiser: Optimiser, workers: int | None = None):
        super().__init__(optimiser, (1.0,), 1.0, workers)

    def choose(self) -> tuple[Configuration, float] | None:
        return self.new(1.0)


class ShortThenBest(Rule):
    """Trains many configurations short, then the best few to full length: a plain rule that is hard to beat.

    plan: full trainings' worth that the rule is planned for; the short trainings take five eighths of it.
    """

    def __init__(self, optimiser: Optimiser, short: float, plan: float, workers: int | None = None):
        super().__init__(optimiser, (short, 1.0), short, workers)
        self._short, self._most = short, round(0.625 * plan / short)

    def choose(self) -> tuple[Configuration, float] | None:
        if len(self.configurations) < self._most and (found := self.new(self._short)) is not None:
            return found
        if any(max(self.trained.get(key, {0.0: 0.0})) < self._short for key in self._until):
            return None
        return self.best_waiting()


class Alternating(Rule):
    """Short trainings; after the twelfth and every fourth from then on, the best paused one goes to full length. So do
    all paused ones, best first, once nothing new is proposed."""

    def __init__(self, optimiser: Optimiser, short: float, workers: int | None = None):
        super().__init__(optimiser, (short, 1.0), short, workers)
        self._short, self._finished = short, 0

    def choose(self) -> tuple[Configuration, float] | None:
        due = max(0, (len(self._known) - 12) // 4 + 1)
        if self._finished < due and (found := self.best_waiting()) is not None:
            self._finished += 1
            return found
        return self.new(self._short) or self.best_waiting()


class Asha(Rule):
    """ASHA: a training in the best part of its rung, 1 / factor, goes on to the next; if there is none, a new one
    begins. Once nothing new is proposed the paused ones go to full length, best first."""

    def __init__(
        self, optimiser: Optimiser, lengths: Sequence[float] = LENGTHS, factor: int = 2, workers: int | None = None
    ):
        super().__init__(optimiser, lengths, lengths[0], workers)
        self._factor = factor

    def choose(self) -> tuple[Configuration, float] | None:
        for rung, following in reversed(list(zip(self.lengths, self.lengths[1:]))):
            scores = {key: looks[rung] for key, looks in self.trained.items() if rung in looks}
            best = sorted(scores, key=lambda key: -scores[key])[: len(scores) // self._factor]
            ready = [key for key in best if key in set(self.waiting()) and max(self.trained[key]) == rung]
            if ready:
                return self.configurations[ready[0]], following
        return self.new(self.lengths[0]) or self.best_waiting()


class MedianStop(Rule):
    """Vizier's median rule: a training below the median of the others (at least 3) at the same length is stopped."""

    def __init__(self, optimiser: Optimiser, lengths: Sequence[float] = LENGTHS, workers: int | None = None):
        super().__init__(optimiser, lengths, 1.0, workers)
        self._stopped: set[Key] = set()

    def choose(self) -> tuple[Configuration, float] | None:
        for key in list(self.waiting()):
            if key in self._stopped:
                continue
            rung = max(self.trained[key])
            others = [looks[rung] for other, looks in self.trained.items() if other != key and rung in looks]
            if len(others) >= 3 and self.trained[key][rung] < np.median(others):
                self._stopped.add(key)
                self._optimiser.tell(self.configurations[key], self.trained[key][rung], censored=True)
                continue
            return self.configurations[key], self.lengths[self.lengths.index(rung) + 1]
        return self.new(self.lengths[0])
