"""FLAML's CFO as a rule of a `Baseline`: a local direct search with random restarts, "frugal" as ours is."""

from typing import Any

from tune_cd.search.baselines.sampled import Sampled, imported, quiet
from tune_cd.search.golden_section import FAILED
from tune_cd.search.space import Configuration, Key, Space


class CfoRule(Sampled):
    """A `baseline.Rule` over one CFO. It searches the axes' coordinates, from the first configuration it is given.

    CFO learns from its own proposals and its start, not from other told values. It takes each value once, so
    corrections come too late.
    """

    def __init__(self, space: Space, seed: int):
        super().__init__(space, seed)
        [self._flaml] = imported("cfo", "flaml")
        self._seed = seed
        self._cfo: Any = None
        self._ids: dict[Key, str] = {}  # by key: CFO's open trials
        self._count = 0

    def take(self, h: Configuration) -> None:
        if self._cfo is None:
            self._begin(h)
            self._drawn()

    def observe(self, h: Configuration, value: float | None) -> None:
        trial = self._ids.pop(self._space.key(h), None)
        if trial is not None:
            result = {"value": FAILED if value is None else value, "config": self._coordinates(h)}
            self._cfo.on_trial_complete(trial, result)

    def _drawn(self) -> Configuration | None:
        if self._cfo is None:
            self._begin(None)
        self._count += 1
        config = self._cfo.suggest(str(self._count))
        if config is None:
            return None
        h = self._space.from_coordinates([float(config[name]) for name in self._space.names])
        self._ids[self._space.key(h)] = str(self._count)
        return h

    def _begin(self, start: Configuration | None) -> None:
        domains = {axis.name: self._flaml.tune.uniform(*axis.ends) for axis in self._space.axes}
        points = [] if start is None else [self._coordinates(start)]
        with quiet():
            how = {"points_to_evaluate": points, "seed": self._seed, "cost_attr": None}
            self._cfo = self._flaml.CFO("value", "max", domains, **how)

    def _coordinates(self, h: Configuration) -> dict[str, float]:
        return dict(zip(self._space.names, self._space.to_coordinates(h).tolist()))
