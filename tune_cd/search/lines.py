"""The lines through a configuration, and points on them: where the default search looks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from tune_cd.search.directions import WEIGHT
from tune_cd.search.line_search import Plan
from tune_cd.search.protocol import Proposal
from tune_cd.search.space import NEGLIGIBLE, Array, Configuration, Space

STEP, FINE_STEP = 0.5, 0.05
"""Spacing of the points on a line in octaves, over the box and again around the best of them."""

PAIRED = 4
"""So many axes have lines along the diagonals of their pairs (12 at most); of more there are too many."""


@dataclass(frozen=True)
class Line:
    """Points x + γ·direction of the space, x [n_axes] the coordinates of `through`. positions: their γ, array [n],
    ascending."""

    space: Space
    name: str
    through: Configuration
    x: Array
    direction: Array  # [n_axes], in the axes' coordinates
    positions: Array

    def around(self, position: float) -> "Line":
        """The same line within STEP of a position, FINE_STEP apart."""
        near = position + np.arange(-STEP, STEP + FINE_STEP / 2, FINE_STEP) / np.linalg.norm(self.direction)
        return replace(self, positions=np.clip(near, self.positions[0], self.positions[-1]))

    def at(self, position: float) -> Proposal:
        """The configuration there, and where it comes from."""
        return Proposal(self.space.along(self.through, self.direction, position), self.name, position)


def lines_through(plan: Plan, h: Configuration) -> list[Line]:
    """Through h from end to end of the box: along the plan's directions, each axis, and both diagonals of each pair of
    axes, where there are at most PAIRED axes."""
    space, x = plan.space, plan.space.to_coordinates(h)
    return [
        Line(space, name, h, x, direction, _positions(space.chord(x, direction), length))
        for name, direction, length in _directions(plan)
    ]


@lru_cache(maxsize=64)  # of every search the same at every step
def _directions(plan: Plan) -> list[tuple[str, Array, float]]:
    """Name, direction [n_axes] and length of each of `lines_through`."""
    directions = list(zip(plan.names, plan.directions, strict=True))
    for name, direction in [*_axes(plan.space), *_diagonals(plan.space)]:
        if not any(_parallel(direction, known) for _, known in directions):
            directions.append((name, direction))
    return [(name, direction, float(np.linalg.norm(direction))) for name, direction in directions]


def _axes(space: Space) -> Iterator[tuple[str, Array]]:
    yield from zip(space.names, np.eye(len(space.names)), strict=True)


def _diagonals(space: Space) -> Iterator[tuple[str, Array]]:
    """a*b, along which both grow, and a/b, along which a grows as b shrinks, for all pairs of axes."""
    axes = list(_axes(space))
    if len(axes) <= PAIRED:
        for (one, first), (other, second) in combinations(axes, 2):
            one, other = one.removeprefix(WEIGHT), other.removeprefix(WEIGHT)
            yield f"{one}*{other}", first + second
            yield f"{one}/{other}", first - second


def candidates(lines: Sequence[Line]) -> Array:
    """Coordinates [n, n_axes] of the configurations at the points of all lines, one line after the other."""
    space = lines[0].space
    x = np.concatenate([line.x + line.positions[:, None] * line.direction for line in lines])
    for i, axis in enumerate(space.axes):
        if axis.values is not None or axis.step is not None:
            x[:, i] = [axis.coordinate(axis.snap(at)) for at in x[:, i]]
    return x


def locate(lines: Sequence[Line], index: int) -> tuple[Line, float]:
    """The line and the position on it of the `index`-th of their `candidates`."""
    for line in lines:
        if index < len(line.positions):
            return line, float(line.positions[index])
        index -= len(line.positions)
    raise IndexError("the lines have fewer candidates")


def _positions(chord: tuple[float, float], length: float) -> Array:
    """From end to end of a chord, STEP apart at most; length: of the direction, in octaves."""
    return np.linspace(*chord, int((chord[1] - chord[0]) * length / STEP) + 2)


def _parallel(a: Array, b: Array) -> bool:
    return bool(abs(a @ b) > (1 - NEGLIGIBLE) * np.linalg.norm(a) * np.linalg.norm(b))
