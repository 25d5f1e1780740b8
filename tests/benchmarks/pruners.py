"""Optuna's pruners as rivals that decide how long to train; each runs one training at a time."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lengths import LOOKS

from tune_cd.search.space import Configuration, Space


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
