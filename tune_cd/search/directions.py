"""The directions of a search: the rows of A in r = A log h (`eq:reparam`), by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tune_cd.search.axis import ROUNDING
from tune_cd.search.category import Category
from tune_cd.search.space import NEGLIGIBLE, Array, Configuration, Space

Directions = Mapping[str, Sequence[float]] | Sequence[Sequence[float]] | Array | None
"""Name -> row [n_numeric]; or rows [n_directions, n_numeric], named by the one axis that they move, or by their number;
None: each axis. One column for each numeric axis of the space, in its coordinates. Each category is a direction of its
own, behind these, which is not given."""

FEW = 3
"""Allowed values, at most, that a line search tries in turn: golden sections do not reach the ends of a short list."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The constants of a search. Hashable by identity: no two plans are equal.

    names [n_directions], directions [n_directions, n_axes]: in the axes' coordinates; each moves numeric axes, or from
    one value of a category to another. axes: whether the model may move along other lines too: single axes, and random
    ones where it `needs_random_lines`.
    """

    space: Space
    names: tuple[str, ...]
    directions: Array
    axes: bool = True

    @cached_property
    def rows(self) -> Array:
        """The directions of the numeric axes, and on these alone [n, n_numeric]: the rows of A."""
        ordered = self.space.ordered
        return self.directions[~self.directions[:, ~ordered].any(axis=1)][:, ordered]

    @cached_property
    def is_along_axes(self) -> bool:
        """Whether its directions are the numeric axes."""
        return self.rows.shape[0] == self.rows.shape[1] and np.allclose(self.rows, np.eye(len(self.rows)))

    @property
    def needs_random_lines(self) -> bool:
        """Whether the model moves in random directions too: a plane with directions of its own does without."""
        return self.axes and (self.is_along_axes or self.rows.shape[1] > 2)

    def others(self, h: Configuration, direction: Array) -> tuple[float, ...] | None:
        """The positions of the other values of the axis that a direction moves, from that of h on, if it is a category
        or has at most FEW; None: the direction is a line."""
        moved = np.flatnonzero(direction)
        axis = self.space.axes[moved[0]]
        if len(moved) > 1 or not (isinstance(axis, Category) or axis.size <= FEW):
            return None
        positions = axis.meets(axis.coordinate(h[axis.name]), direction[moved[0]])
        return tuple(positions[np.abs(positions) > ROUNDING].tolist())


def directions_of(space: Space, given: Directions) -> tuple[tuple[str, ...], Array]:
    """Names and rows [n_directions, n_axes], the categories' last. Raises ValueError for rows that do not fit."""
    if not isinstance(space, Space):
        raise ValueError(f"space {space!r}: a tune_cd.Space is required, such as Space(lr=(1e-5, 1.0))")
    every = np.eye(len(space.names))
    axes, categories = every[space.ordered], every[~space.ordered]
    if given is None:
        return space.numeric + tuple(axis.name for axis in space.categories), np.concatenate([axes, categories])
    n_axes = len(axes)
    try:
        array = np.array(list(given.values()) if isinstance(given, Mapping) else given, dtype=float)
    except (TypeError, ValueError):  # text, or rows of several lengths
        array = np.empty(0)
    if array.ndim != 2 or array.shape[1] != n_axes or len(array) == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"directions {given!r}: a finite array [n_directions, {n_axes}] is required, one column per "
            f"{'numeric ' * bool(space.categories)}axis of {space}"
        )
    longest = np.abs(array).max(axis=1)
    if longest.min() < NEGLIGIBLE or longest.max() > 1 / NEGLIGIBLE:
        said = f"each row's largest component is from {NEGLIGIBLE:g} to {1 / NEGLIGIBLE:g}"
        raise ValueError(f"directions {given!r}: a row of zeros does not move; {said}")
    names = [*map(str, given)] if isinstance(given, Mapping) else []
    for i, row in enumerate(array[len(names) :]):
        along = [name for name, step in zip(space.numeric, row) if step]
        names.append(along[0] if len(along) == 1 and along[0] not in names else f"direction_{i}")
    return (*names, *(axis.name for axis in space.categories)), np.concatenate([array @ axes, categories])
