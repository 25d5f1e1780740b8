"""How far trainings are, and what a process is told of their values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tune_cd.search.golden_section import FAILED
from tune_cd.search.space import Array, Configuration, Key, Space

TAIL = 4.0
"""Values further below the median than TAIL times what the best is above it count as that far below. Very bad values
say nothing of where the best is, and a metric without a lower bound would hide the differences at the top."""


@dataclass(frozen=True)
class Training:
    """A training so far. looks: (share of the full length, value) ascending, FAILED for a training that failed or
    diverged, which ends it; until: the share that it is being trained to, None where it is paused or at its end; left:
    it cannot go on, as where its state is gone."""

    h: Configuration
    looks: tuple[tuple[float, float], ...] = ()
    until: float | None = None
    left: bool = False

    @property
    def failed(self) -> bool:
        return bool(self.looks) and self.looks[-1][1] == FAILED

    @property
    def share(self) -> float:
        """How much of it is done; all of it where it failed."""
        return 1.0 if self.failed else self.looks[-1][0] if self.looks else 0.0


def raised(values: Array) -> Array:
    """Values [n] with a short lower tail (`TAIL`); failures count as the worst that is left."""
    numbers = values[values > FAILED]
    if not len(numbers):
        return np.zeros(len(values))
    median, best = np.median(numbers), numbers.max()
    return np.maximum(values, max(float(numbers.min()), float(median - TAIL * (best - median))))


def start_left(space: Space, starts: Sequence[Configuration], values: Mapping[Key, float]) -> Array | None:
    """Coordinates [n_axes] of the best of the starts that did not fail, by their values; None where all did."""
    left = [h for h in starts if values.get(space.key(h)) != FAILED]
    best = max(left, key=lambda h: values.get(space.key(h), FAILED), default=None)
    return None if best is None else space.to_coordinates(best)
