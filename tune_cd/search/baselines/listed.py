"""Configurations in an order fixed beforehand, for methods that do not learn: uniform draws, and the full grid."""

from collections.abc import Container, Iterator
from itertools import product
from math import floor, isfinite, log2, prod
from typing import Any

import numpy as np

from tune_cd.search.baselines.baseline import Rule
from tune_cd.search.category import Category
from tune_cd.search.space import Axis, Configuration, Key, Space

MOST_CELLS = 1_000_000


class Listed(Rule):
    """Takes the first configuration of a list that is not known yet."""

    def __init__(self, space: Space, proposals: Iterator[Configuration]):
        self._key, self._proposals = space.key, proposals
        self._ahead = next(proposals, None)

    def propose(self, known: Container[Key]) -> Configuration | None:
        while self._ahead is not None and self._key(self._ahead) in known:
            self._ahead = next(self._proposals, None)
        return self._ahead

    def exhausted(self, known: Container[Key]) -> bool:
        return self.propose(known) is None


def uniform_draws(space: Space, seed: int) -> Iterator[Configuration]:
    """Configurations drawn uniformly in the box's coordinates, all different; a finite space ends after its last one.

    The draws are independent of `CoordinateDescent`'s blind start with the same seed.
    """
    rng = np.random.default_rng((seed, 1))
    seen: set[Key] = set()
    size = prod(axis.size for axis in space.axes)
    while len(seen) < size:
        h = space.sample(rng)
        if space.key(h) not in seen:
            seen.add(space.key(h))
            yield h


def grid_cells(space: Space, step: float) -> Iterator[Configuration]:
    """The full factorial, the last axis fastest.

    Each axis goes up from its lower bound by the factor `step`, a linear one by log2(step) coordinates. Lattices are
    rounded to their multiples; of listed values all are taken. Raises ValueError for a step that is not finite and
    above 1, and for more than MOST_CELLS.
    """
    if not (isfinite(step) and step > 1):
        raise ValueError(f"step {step!r}: a finite factor above 1 is required")
    if (cells := prod(_number(axis, step) for axis in space.axes)) > MOST_CELLS:
        raise ValueError(f"step {step!r}: a grid of {cells:,} cells; at most {MOST_CELLS:,} are allowed")
    return (dict(zip(space.names, cell)) for cell in product(*(_ticks(axis, step) for axis in space.axes)))


def _ticks(axis: Axis | Category, step: float) -> list[Any]:
    if axis.values is not None:
        return list(axis.values)
    return sorted({axis.snap(axis.ends[0] + k * log2(step)) for k in range(_number(axis, step))})


def _number(axis: Axis | Category, step: float) -> int:
    """The number of ticks of an axis, at most."""
    low, high = axis.ends
    return len(axis.values) if axis.values is not None else floor((high - low) / log2(step) + 1e-9) + 1
