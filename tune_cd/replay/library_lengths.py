"""Early-stopping rivals from other libraries: Optuna's pruners, and BOHB. Each runs one training at a time."""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from itertools import cycle
from math import inf
from typing import Any

from tune_cd.replay.lengths import LOOKS
from tune_cd.search.baselines.bohb_rule import BohbRule
from tune_cd.search.space import Configuration, Space

ETA = 3
"""hpbandster's default: the factor by which trainings get longer, and fewer, from rung to rung."""

RUNGS = (2 / LOOKS, 5 / LOOKS, 1.0)
"""The looks nearest to 1/9, 1/3 and 1."""


class Pruned:
    """An Optuna study with a sampler and a pruner, both with Optuna's defaults: each trial reports at every look until
    it is pruned."""

    def __init__(self, space: Space, *, sampler: str, pruner: str, seed: int, start: Configuration):
        optuna = import_module("optuna")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        samplers = {"tpe": optuna.samplers.TPESampler, "gp": optuna.samplers.GPSampler}
        pruners = {
            "hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=1, max_resource=LOOKS),
            "halving": optuna.pruners.SuccessiveHalvingPruner,
            "median": optuna.pruners.MedianPruner,
        }
        self.space, self.lengths = space, tuple((look + 1) / LOOKS for look in range(LOOKS))
        self._study = optuna.create_study(
            study_name=f"seed-{seed}",  # Hyperband draws a trial's bracket by the study's name
            direction="maximize", sampler=samplers[sampler](seed=seed), pruner=pruners[pruner](),
        )  # fmt: skip
        self._study.enqueue_trial(dict(start))
        self._pruned = optuna.trial.TrialState.PRUNED
        self._failed = optuna.trial.TrialState.FAIL
        self._trial: Any = None
        self._h: Configuration = {}
        self._next = 0

    def ask(self) -> Configuration:
        if self._trial is None:
            self._trial, self._next = self._study.ask(), 0
            self._h = {axis.name: self._suggested(axis) for axis in self.space.axes}
        return self._h

    def until(self, h: Mapping[str, Any]) -> float:
        return self.lengths[self._next]

    def tell(self, h: Mapping[str, Any], value: float | None, share: float = 1.0) -> None:
        """Report the best score so far at a share of the full length; then the pruner may end the trial. None:
        failed."""
        if value is None:
            self._study.tell(self._trial, state=self._failed)
            self._trial = None
            return
        self._trial.report(value, step=round(LOOKS * share))
        self._next += 1
        if share == 1:
            self._study.tell(self._trial, value)
            self._trial = None
        elif self._trial.should_prune():
            self._study.tell(self._trial, state=self._pruned)
            self._trial = None

    def _suggested(self, axis: Any) -> Any:
        if axis.values is not None:
            return self._trial.suggest_categorical(axis.name, list(axis.values))
        return self._trial.suggest_float(axis.name, axis.low, axis.high, log=axis.scale == "log")


class Bohb:
    """BOHB: hpbandster's brackets of successive halving, with configurations drawn from its densities.

    A training goes on from its checkpoint at the next rung.
    """

    def __init__(self, space: Space, *, seed: int, start: Configuration):
        self.space, self.lengths = space, RUNGS
        self._rule, self._starts, self._value = BohbRule(space, seed), [start], -inf
        self._steps = self._brackets()
        self._step = next(self._steps)

    def ask(self) -> Configuration:
        return self._step[0]

    def until(self, h: Mapping[str, Any]) -> float:
        return self._step[1]

    def tell(self, h: Mapping[str, Any], value: float | None, share: float = 1.0) -> None:
        """Report the best score so far at a share of the full length; only the end of a rung counts. None: failed."""
        if value is None or share >= self._step[1]:
            self._rule.observe(h, value, share)
            self._value = -inf if value is None else value
            self._step = next(self._steps)

    def _brackets(self) -> Iterator[tuple[Configuration, float]]:
        """Configurations, each with the share to train it until; then `_value` is its score at that share."""
        for rungs in cycle(range(len(self.lengths), 0, -1)):
            n = len(self.lengths) // rungs * ETA ** (rungs - 1)
            wave: Iterable[Configuration] = self._drawn(n)
            for place, rung in enumerate(self.lengths[-rungs:]):
                reached = []
                for h in wave:
                    yield h, rung
                    reached.append((self._value, h))
                ranked = sorted(reached, key=lambda score: -score[0])
                wave = [h for value, h in ranked[: n // ETA ** (place + 1)] if value > -inf]

    def _drawn(self, n: int) -> Iterator[Configuration]:
        for _ in range(n):
            h = self._starts.pop() if self._starts else self._rule.propose({})
            if h is not None:
                yield h
