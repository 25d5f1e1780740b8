"""Trainings and their progress, and the values as the Gaussian process is told them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tune_cd.search.golden_section import FAILED
from tune_cd.search.space import Array, Configuration, Key, Space

TAIL = 4.0
"""A value further below the median than TAIL times the distance from the median to the best is raised to that limit.
Very bad values say nothing about the optimum's location, and a metric without a lower bound would hide the differences
at the top."""


@dataclass(frozen=True)
class Training:
    """A training so far.

    looks: (share of the full length, value), ascending; FAILED for a training that failed or diverged, which ends it.
    until: the share to which it is being trained; None: paused or at its end.
    left: it cannot go on, for example because its checkpoint is gone.
    """

    h: Configuration
    looks: tuple[tuple[float, float], ...] = ()
    until: float | None = None
    left: bool = False

    @property
    def failed(self) -> bool:
        return bool(self.looks) and self.looks[-1][1] == FAILED

    @property
    def gone(self) -> bool:
        """Whether it was left before its end, so that its final value cannot be reached."""
        return self.left and self.share < 1

    @property
    def share(self) -> float:
        """The share done; 1 if it failed."""
        return 1.0 if self.failed else self.looks[-1][0] if self.looks else 0.0


def raised(values: Array) -> Array:
    """Values [n] with a shortened lower tail (`TAIL`); failures get the lowest value that remains."""
    numbers = values[values > FAILED]
    if not len(numbers):
        return np.zeros(len(values))
    median, best = np.median(numbers), numbers.max()
    return np.maximum(values, max(float(numbers.min()), float(median - TAIL * (best - median))))


def start_left(space: Space, starts: Sequence[Configuration], values: Mapping[Key, float]) -> Array | None:
    """Coordinates [n_axes] of the start with the best value among those that did not fail; None if all failed."""
    left = [h for h in starts if values.get(space.key(h)) != FAILED]
    best = max(left, key=lambda h: values.get(space.key(h), FAILED), default=None)
    return None if best is None else space.to_coordinates(best)
