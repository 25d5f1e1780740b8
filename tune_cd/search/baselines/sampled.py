"""What rules have in common that follow somebody else's sampler."""

from collections.abc import Mapping
from typing import Any

from tune_cd.search.baselines.listed import Listed, uniform_draws
from tune_cd.search.space import Space

REPEATS = 20
"""So often may a sampler propose nothing, or what is known (it can in a finite space), before a uniform draw takes its place."""


class Sampled:
    """The part of a `baselines.Rule` that keeps a sampler from proposing what is known. Subclasses add `_drawn`, `take`, `observe`."""

    def __init__(self, space: Space, seed: int):
        self._space, self._uniform = space, Listed(space, uniform_draws(space, seed))

    def propose(self, known: Mapping[tuple, Any]) -> dict | None:
        """The sampler's next configuration that is not known; a uniform draw where it keeps to known ones."""
        if self.exhausted(known):
            return None
        for _ in range(REPEATS):
            h = self._drawn()
            trial = h and known.get(self._space.key(h))
            if h is not None and trial is None:
                return h
            if trial is not None and trial.told:
                self.observe(h, trial.value)
        h = self._uniform.propose(known)
        self.take(h)
        return h

    def exhausted(self, known: Mapping[tuple, Any]) -> bool:
        return self._uniform.exhausted(known)

    def _drawn(self) -> dict | None:
        """What the sampler proposes next, known or not; None: nothing for now."""
        raise NotImplementedError
