"""The lines through a configuration and the points on them, among which the default search chooses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from tune_cd.search.directions import Plan
from tune_cd.search.space import NEGLIGIBLE, Array, Configuration, Space
from tune_cd.search.training import Proposal

STEP, FINER, FEWEST = 0.5, 10, 8
"""Spacing of the points on a line: STEP octaves, or 1/FEWEST of a shorter line; near the best point, FINER times
finer."""

PAIRED = 4
"""Up to this many axes, lines also run along the diagonals of their pairs (at most 12); of more there are too many."""


@dataclass(frozen=True)
class Line:
    """Points x + γ·direction of the space, where x [n_axes] are the coordinates of `through`.

    positions: the points' γ, array [n], ascending, at most `step` apart.
    """

    space: Space
    name: str
    through: Configuration
    x: Array
    direction: Array  # [n_axes], in the axes' coordinates
    positions: Array
    step: float

    def around(self, position: float) -> "Line":
        """The line within a step of a position, at a tenth of the spacing."""
        near = position + self.step * np.linspace(-1, 1, 2 * FINER + 1)
        return replace(self, positions=np.clip(near, self.positions[0], self.positions[-1]))

    def at(self, position: float) -> Proposal:
        """The configuration at a position, and its origin."""
        return Proposal(self.space.along(self.through, self.direction, position), self.name, position)


def lines_through(plan: Plan, h: Configuration, space: Space, pairs: bool = False) -> list[Line]:
    """The lines through h, from end to end of the box: along the plan's directions and along each further axis.

    space: that of the plan, or one whose ranges have grown. pairs: also along both diagonals of each pair of axes, if
    there are at most PAIRED axes.
    """
    x = space.to_coordinates(h)
    return [_line(space, name, h, x, direction, length) for name, direction, length in _directions(plan, pairs)]


def _line(space: Space, name: str, h: Configuration, x: Array, direction: Array, length: float) -> Line:
    """The line through x along a direction; length: the direction's norm, in octaves. On that of a category only its
    values are points."""
    if direction[~space.ordered].any():
        [at] = np.flatnonzero(direction)
        return Line(space, name, h, x, direction, space.axes[at].meets(x[at], 1.0), 0.0)
    low, high = space.chord(x, direction)
    step = min(STEP / length, (high - low) / FEWEST)
    positions = np.linspace(low, high, int((high - low) / step) + 2 if step else 2)
    listed = [axis.meets(at, along) for axis, at, along in zip(space.axes, x, direction) if axis.values and along]
    for meets in listed:
        positions = np.union1d(positions, np.clip(meets, low, high))
    return Line(space, name, h, x, direction, positions, step)


@lru_cache(maxsize=64)  # the same at every step of a search
def _directions(plan: Plan, pairs: bool) -> list[tuple[str, Array, float]]:
    """Name, direction [n_axes] and norm of each line of `lines_through`."""
    directions = list(zip(plan.names, plan.directions, strict=True))
    others = [*_axes(plan.space), *(_diagonals(plan.space) if pairs else ())] if plan.axes else []
    for name, direction in others:
        if not any(_parallel(direction, known) for _, known in directions):
            directions.append((name, direction))
    return [(name, direction, float(np.linalg.norm(direction))) for name, direction in directions]


def _axes(space: Space) -> Iterator[tuple[str, Array]]:
    yield from zip(space.names, np.eye(len(space.names)), strict=True)


def _diagonals(space: Space) -> Iterator[tuple[str, Array]]:
    """Both diagonals of each pair of numeric axes: a*b, along which both grow, and a/b, along which a grows as b
    shrinks."""
    axes = [axis for axis, ordered in zip(_axes(space), space.ordered) if ordered]
    if len(axes) <= PAIRED:
        for (one, first), (other, second) in combinations(axes, 2):
            yield f"{one}*{other}", first + second
            yield f"{one}/{other}", first - second


def candidates(lines: Sequence[Line]) -> Array:
    """Coordinates [n, n_axes] of the configurations at the points of all lines, line after line."""
    x = np.concatenate([line.x + line.positions[:, None] * line.direction for line in lines])
    return lines[0].space.snapped(x)


def locate(lines: Sequence[Line], index: int) -> tuple[Line, float]:
    """The line and position of the `index`-th of the lines' `candidates`."""
    for line in lines:
        if index < len(line.positions):
            return line, float(line.positions[index])
        index -= len(line.positions)
    raise IndexError("the lines have fewer candidates")


def _parallel(a: Array, b: Array) -> bool:
    return bool(abs(a @ b) > (1 - NEGLIGIBLE) * np.linalg.norm(a) * np.linalg.norm(b))
