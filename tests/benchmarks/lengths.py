"""Searches that decide how long to train, replayed on learning curves, and rivals that do: rules over any method's
proposals, and Optuna's pruners.

Cost is counted in full trainings. The score that a search has reached is the noiseless score of its best checkpoint so
far, as measured. Checkpoints of shorter trainings count, because their weights can be used.
"""

import heapq
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tune_cd.landscapes.landscape import Landscape
from tune_cd.search.protocol import Optimiser, has_free_worker
from tune_cd.search.search import LENGTHS, CoordinateDescent
from tune_cd.search.space import Configuration, Key, Space

LOOKS = 16
"""Looks at a full training of a measured landscape; Optuna's pruners may stop at each."""


class Asha:
    """ASHA over an optimiser's proposals: a training in the best part of its rung, 1 / factor, goes on to the next; if
    there is none, a new one begins. Once nothing new is proposed the paused ones go to full length, best first.

    Of one length (1.0,) it trains every configuration to its end. The optimiser is told of each configuration once, at
    the first length, or as failed.
    """

    def __init__(self, optimiser: Optimiser, lengths: Sequence[float] = LENGTHS, factor=2, workers: int | None = None):
        self.space, self.lengths, self.workers = optimiser.space, tuple(lengths), workers
        self._optimiser, self._factor = optimiser, factor
        self.trained: dict[Key, dict[float, float]] = {}
        self._configurations: dict[Key, Configuration] = {}
        self._until: dict[Key, float] = {}

    def ask(self) -> Configuration | None:
        found = self._choose() if has_free_worker(self.workers, len(self._until)) else None
        if found is None:
            return None
        h, until = found
        self._configurations.setdefault(self.space.key(h), h)
        self._until[self.space.key(h)] = until
        return h

    def until(self, h: Mapping[str, Any]) -> float:
        return self._until[self.space.key(h)]

    def tell(self, h: Mapping[str, Any], value: float | None, share: float = 1.0) -> None:
        key = self.space.key(h)
        if key not in self.trained:
            self._optimiser.tell(h, value)
        self.trained.setdefault(key, {})[share] = -np.inf if value is None else value
        if share >= self._until.get(key, 0.0) or value is None:
            self._until.pop(key, None)

    def _choose(self) -> tuple[Configuration, float] | None:
        """The next configuration, and the share to train it until; None: nothing to train now."""
        reached = {key: max(looks) for key, looks in self.trained.items() if key not in self._until}
        waiting = {key for key, at in reached.items() if at < 1 and self.trained[key][at] > -np.inf}
        for rung, following in reversed(list(zip(self.lengths, self.lengths[1:]))):
            scores = {key: looks[rung] for key, looks in self.trained.items() if rung in looks}
            best = sorted(scores, key=lambda key: -scores[key])[: len(scores) // self._factor]
            if ready := [key for key in best if key in waiting and reached[key] == rung]:
                return self._configurations[ready[0]], following
        if (h := self._optimiser.ask()) is not None:
            return h, self.lengths[0]
        left = max(waiting, key=lambda key: self.trained[key][reached[key]], default=None)
        return None if left is None else (self._configurations[left], 1.0)


class Pruned:
    """An Optuna study with a sampler and a pruner, both with Optuna's defaults: each trial reports at every look until
    it is pruned. One training at a time."""

    def __init__(self, space: Space, *, sampler: str, pruner: str, seed: int, start: Configuration):
        optuna = import_module("optuna")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        samplers = {"tpe": optuna.samplers.TPESampler, "gp": optuna.samplers.GPSampler}
        pruners = {
            "Hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=1, max_resource=LOOKS),
            "halving": optuna.pruners.SuccessiveHalvingPruner,
        }
        self.space, self.lengths = space, tuple((look + 1) / LOOKS for look in range(LOOKS))
        self.study = optuna.create_study(
            study_name=f"seed-{seed}",  # Hyperband draws a trial's bracket by the study's name
            direction="maximize", sampler=samplers[sampler](seed=seed), pruner=pruners[pruner](),
        )  # fmt: skip
        self.study.enqueue_trial(dict(start))
        self._states = optuna.trial.TrialState
        self._trial: Any = None
        self._h: Configuration = {}
        self._next = 0

    def ask(self) -> Configuration:
        if self._trial is None:
            self._trial, self._next = self.study.ask(), 0
            suggest = self._trial.suggest_float
            self._h = {
                axis.name: suggest(axis.name, axis.low, axis.high, log=axis.scale == "log") if axis.values is None
                else self._trial.suggest_categorical(axis.name, list(axis.values)) for axis in self.space.axes
            }  # fmt: skip
        return self._h

    def until(self, h: Mapping[str, Any]) -> float:
        return self.lengths[self._next]

    def tell(self, h: Mapping[str, Any], value: float | None, share: float = 1.0) -> None:
        """Report the best score so far at a share of the full length; then the pruner may end the trial. None:
        failed."""
        if value is None:
            return self._end(state=self._states.FAIL)
        self._trial.report(value, step=round(LOOKS * share))
        self._next += 1
        if share == 1:
            self._end(value)
        elif self._trial.should_prune():
            self._end(state=self._states.PRUNED)

    def _end(self, *value: float, **state: Any) -> None:
        self.study.tell(self._trial, *value, **state)
        self._trial = None


Pausing = CoordinateDescent | Asha | Pruned
"""A search that decides which configuration to train, until which share of the full length."""


def spend(search: Pausing, landscape: Landscape, *, budget=20.0, workers=1, seed=0) -> np.ndarray:
    """Run a search until the budget (in full trainings) is spent, or it asks for nothing more.

    Returns what was reached after each look [n], -inf before the first score; the look at place i ends a cost of
    (i + 1) / landscape.looks. Time is proportional to images. Trainings that pause or end at the same time are all told
    before the next ask. A configuration that is asked for again, but no longer than it was already trained, is trained
    anew at full cost.
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
    _, told, true = np.array(sorted(seen, key=lambda look: look[0])).reshape(-1, 3).T
    told = np.where(np.isfinite(told), told, -np.inf)
    best = np.maximum.accumulate(told)
    holder = np.maximum.accumulate(np.where(told == best, np.arange(len(told)), 0))
    return np.where(np.isfinite(best), true[holder], -np.inf)
