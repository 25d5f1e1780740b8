"""BOHB's densities as a rule of a `Baseline`: hpbandster's sampler, as in Ray's `TuneBOHB`, without its scheduler."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite

import numpy as np

from tune_cd.search.baselines.sampled import Sampled, imported, quiet
from tune_cd.search.space import Configuration, Space

MODULES = ("hpbandster.optimizers.config_generators.bohb", "ConfigSpace", "hpbandster.core.dispatcher")

FULL = 1.0
"""The share of a full training at which a value was measured, by default."""


class BohbRule(Sampled):
    """A `baseline.Rule` over hpbandster's generator with its defaults.

    The generator models the densities of good and bad configurations by kernels over the unit cube of the space's
    coordinates, and draws a third of its proposals at random. Values are told with a share of the full training, its
    *budget*; proposals follow the densities of the largest budget that has enough values. It does not know of live
    trials, and counts a failure as bad. A second value of a configuration does not replace the first: both count.
    """

    def __init__(self, space: Space, seed: int):
        super().__init__(space, seed)
        generators, configurations, dispatcher = imported("bohb", *MODULES, extra="bohb")
        self._job = dispatcher.Job
        self._random = np.random.RandomState(seed)
        cube = configurations.ConfigurationSpace(seed=seed)
        cube.add([configurations.Float(name, (0.0, 1.0)) for name in space.names])
        with self._seeded():
            self._sampler = generators.BOHB(cube)
        self._count = 0

    def take(self, h: Configuration) -> None:
        """Nothing to note: a configuration counts once its value is known."""

    def observe(self, h: Configuration, value: float | None, share: float = FULL) -> None:
        self._count += 1
        job = self._job(str(self._count), config=dict(zip(self._space.names, self._to_cube(h).tolist())), budget=share)
        job.result = None if value is None or not isfinite(value) else {"loss": -value}
        with self._seeded():
            self._sampler.new_result(job)

    def _drawn(self) -> Configuration:
        with self._seeded():
            config, _ = self._sampler.get_config(FULL)
        return self._from_cube([config[name] for name in self._space.names])

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Replace numpy's global generator, from which hpbandster draws, by this rule's own."""
        before = np.random.get_state()
        np.random.set_state(self._random.get_state())
        try:
            with quiet():
                yield
        finally:
            self._random.set_state(np.random.get_state())
            np.random.set_state(before)
