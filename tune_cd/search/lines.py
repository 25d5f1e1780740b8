"""The lines through a configuration and the points on them, among which the default search chooses."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tune_cd.search.bracket import GOLDEN
from tune_cd.search.directions import Plan
from tune_cd.search.space import NEGLIGIBLE, Array, Configuration, Space
from tune_cd.search.training import Proposal

STEP, FEWEST, MOST = 0.5, 8, 256
"""Spacing of the points on a line: STEP octaves, 1/FEWEST of a shorter line, 1/MOST of a longer one. From one step of a
search to the next all points are shifted by GOLDEN of the spacing, so that they fill the line evenly in time. Where an
axis is a list of at most MOST values, the line has all of these too."""

RANDOM = 2
"""Number of random lines for each numeric axis. Along single axes little is found where several parameters must change
at once, or where most have no effect."""


@dataclass(frozen=True)
class Line:
    """Points x + γ·direction of the space, where x [n_axes] are the coordinates of `through`.

    positions: the points' γ, array [n], ascending.
    """

    space: Space
    name: str
    through: Configuration
    x: Array
    direction: Array  # [n_axes], in the axes' coordinates
    positions: Array


def lines_through(plan: Plan, h: Configuration, space: Space, turn: int) -> list[Line]:
    """The lines through h, from end to end of the box: along the plan's directions and along each further axis.

    space: that of the plan, or one whose ranges have grown. turn: number of steps before, see STEP.
    """
    x = space.to_coordinates(h)
    return [_line(space, name, h, x, direction, length, turn) for name, direction, length in _directions(plan)]


def random_lines(space: Space, h: Configuration, turn: int) -> list[Line]:
    """Lines from h through points drawn uniformly in the box, from end to end of it: see RANDOM. None in one numeric
    dimension. turn: number of steps before, which seeds the draws."""
    n, x = len(space.numeric), space.to_coordinates(h)
    if n < 2:
        return []
    drawn = space.low + (space.high - space.low) * np.random.default_rng([turn, 1]).random((RANDOM * n, len(x)))
    directions = np.where(space.ordered, drawn - x, 0.0)
    lengths = np.linalg.norm(directions, axis=1)
    return [
        _line(space, "random", h, x, direction, length, turn)
        for direction, length in zip(directions, lengths.tolist())
        if length > NEGLIGIBLE
    ]


def _line(space: Space, name: str, h: Configuration, x: Array, direction: Array, length: float, turn: int) -> Line:
    """The line through x along a direction; length: the direction's norm, in octaves. On that of a category only its
    values are points."""
    if direction[~space.ordered].any():
        [at] = np.flatnonzero(direction)
        return Line(space, name, h, x, direction, space.axes[at].meets(x[at], 1.0))
    low, high = space.chord(x, direction)
    step = min(max(STEP / length, (high - low) / MOST), (high - low) / FEWEST)
    first = low + turn * GOLDEN % 1 * step
    positions = np.array([low, *(np.arange(first, high, step) if step else ()), high])
    moved = [(axis, at, along) for axis, at, along in zip(space.axes, x, direction) if axis.values and along]
    listed = [axis.meets(at, along) for axis, at, along in moved if axis.size <= MOST]
    for meets in listed:
        positions = np.union1d(positions, np.clip(meets, low, high))
    return Line(space, name, h, x, direction, positions)


@lru_cache(maxsize=64)  # the same at every step of a search
def _directions(plan: Plan) -> list[tuple[str, Array, float]]:
    """Name, direction [n_axes] and norm of each line of `lines_through`."""
    directions = list(zip(plan.names, plan.directions, strict=True))
    for name, direction in zip(plan.space.names, np.eye(len(plan.space.names))) if plan.axes else ():
        if not any(_parallel(direction, known) for _, known in directions):
            directions.append((name, direction))
    return [(name, direction, float(np.linalg.norm(direction))) for name, direction in directions]


def points_on(lines: Sequence[Line]) -> Array:
    """Coordinates [n, n_axes] of the configurations at the points of all lines, line after line."""
    x = np.concatenate([line.x + line.positions[:, None] * line.direction for line in lines])
    return lines[0].space.snapped(x)


def located(lines: Sequence[Line], index: int) -> Proposal:
    """The `index`-th of `points_on` these lines, and its origin."""
    line, position = [(line, position) for line in lines for position in line.positions.tolist()][index]
    return Proposal(line.space.along(line.through, line.direction, position), line.name, position)


def _parallel(a: Array, b: Array) -> bool:
    return bool(abs(a @ b) > (1 - NEGLIGIBLE) * np.linalg.norm(a) * np.linalg.norm(b))
