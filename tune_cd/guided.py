"""Coordinate descent whose next line and point are chosen from the data: the default search.

Like `algo:cd`, each step moves along one line through the best point found so far. Unlike it, the line is not fixed by
turn and budget: a small Gaussian process (`surrogate`) compares all points of all lines, along the directions of A and
along the single axes, and the largest expected improvement is evaluated next. Directions of A alone get stuck on
measured landscapes, axes alone are slow on smooth ridges; which one helps is only seen in the data.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tune_cd.golden import FAILED
from tune_cd.optimiser import Proposal
from tune_cd.space import NEGLIGIBLE, Space
from tune_cd.surrogate import Surrogate
from tune_cd.trajectory import Plan

TRADING, SCALING = 4.0, 8.0
"""Length scales in octaves: of directions along which one parameter grows as another shrinks (the ridge's narrow way,
`ssec:intuition`), and of all others. Both are believed, not fitted, and
the same in narrow boxes: shortened in proportion, a weak effect of the batch size (5 octaves) costs 0.01 of AUC@20."""

STEP, FINE_STEP = 0.5, 0.05
"""Spacing of the candidates on a line in octaves, over the box and again around the best of them."""

APART = 0.02
"""Nothing is evaluated within so many octaves, on every axis, of what already was."""

CENTRE, BALANCED = 2.0, 2.0
"""The expected improvement is weighted by exp(-(CENTRE·|u|² + BALANCED·(a·u)²)/2), u = ±1 at the ends of each axis and
a any direction that trades parameters: a box is drawn around what seems likely, extreme balances least so, while a
Gaussian process finds the corners most interesting, knowing least of them. Without it (both 0) AUC@20 falls by .06 on both
measured landscapes, .03 on omniglot's ridge, .04 on the narrow one."""

CLOSER, CLOSER_FROM, CLOSER_EVERY = 6.0, 15, 3
"""From 15 trials on, every third is chosen with length scales six times shorter: ridges can be narrower than believed.
Costs nothing measurable on smooth ridges; on a needle ridge, 57 instead of 91 % of runs are stuck after 50 trials."""

TAIL = 4.0
"""Values further below the median than TAIL times what the best is above it count as that far below: how bad is bad
says nothing of where the best is, and a metric without a lower bound would drown the differences at the top."""


@dataclass(frozen=True)
class Line:
    """Points origin + γ·direction inside the box. positions: their γ, array [n]."""

    name: str
    direction: np.ndarray  # [n_axes], in log coordinates
    positions: np.ndarray


@dataclass(frozen=True)
class Guided:
    """A state of the search: what was told, in asking order, and what follows from it.

    starts: configurations to be evaluated before anything is modelled. told: (h, value), FAILED for a failure.
    """

    plan: Plan
    starts: tuple[dict, ...]
    told: tuple[tuple[dict, float], ...] = ()

    @property
    def finished(self) -> bool:
        return self._next is None

    def proposal(self) -> Proposal:
        """Raises ValueError when finished."""
        if self._next is None:
            raise ValueError("nothing is left to propose: every configuration on every line is evaluated")
        return self._next

    @cached_property
    def _next(self) -> Proposal | None:
        known = {self.plan.space.key(h) for h, _ in self.told}
        for h in self.starts:
            if self.plan.space.key(h) not in known:
                return Proposal(h, "start", 0.0)
        ranked = sorted(self.told, key=lambda pair: -pair[1])  # of equals the first asked
        through = (self._best_through(h) for h, _ in ranked)  # the second best only where the best has nothing left
        return next((proposal for proposal in through if proposal is not None), None)

    def _best_through(self, incumbent: dict) -> Proposal | None:
        """The most promising new configuration on the lines through `incumbent`; None if there is none."""
        lines, origin = self._lines(incumbent), self.plan.space.to_log(incumbent)
        found = [(self._most(origin, line), line) for line in lines]
        (score, position), line = max(found, key=lambda pair: pair[0][0])  # of equals the first line
        if score < 0:
            return None
        around = position + np.arange(-STEP, STEP + FINE_STEP / 2, FINE_STEP) / np.linalg.norm(line.direction)
        inside = np.clip(around, line.positions[0], line.positions[-1])
        finer, fine = self._most(origin, Line(line.name, line.direction, inside))
        position = fine if finer > score else position
        return Proposal(self.plan.space.along(incumbent, line.direction, position), line.name, position)

    def _lines(self, incumbent: dict) -> list[Line]:
        """Along the plan's directions and along each axis that is none of them."""
        space, x = self.plan.space, self.plan.space.to_log(incumbent)
        lines = list(zip(self.plan.names, self.plan.directions, strict=True))
        for name, axis in zip(space.names, np.eye(len(space.names))):
            if not any(_parallel(axis, direction) for direction in self.plan.directions):
                lines.append((name, axis))
        return [Line(name, direction, _positions(space.chord(x, direction), direction)) for name, direction in lines]

    def _most(self, origin: np.ndarray, line: Line) -> tuple[float, float]:
        """The largest score on a line and its position; negative where nothing new lies on it."""
        x = _snapped(self.plan.space, origin + line.positions[:, None] * line.direction)  # [n, n_axes]
        score = self._surrogate.expected_improvement(self._coordinates(x)) * self._weight(x)
        apart = np.abs(x[:, None] - self._points[None]).max(-1).min(1)
        score = np.where(apart < APART, -1.0, score)
        at = int(np.argmax(score))
        return float(score[at]), float(line.positions[at])

    def _weight(self, x: np.ndarray) -> np.ndarray:
        """See CENTRE; [n] for x [n, n_axes]."""
        low, high = _box(self.plan.space)
        u = (2 * x - low - high) / np.maximum(high - low, NEGLIGIBLE)
        trading = [row / np.abs(row).max() for row in self.plan.directions if _trades(row)]
        unbalance = u @ np.array(trading).reshape(-1, x.shape[1]).T  # [n, trading directions]
        return np.exp(-(CENTRE * (u**2).sum(-1) + BALANCED * (unbalance**2).sum(-1)) / 2)

    @cached_property
    def _points(self) -> np.ndarray:
        """Coordinates [n_told, n_axes], in octaves."""
        return np.array([self.plan.space.to_log(h) for h, _ in self.told])

    @cached_property
    def _surrogate(self) -> Surrogate:
        return Surrogate(self._coordinates(self._points), _raised(np.array([value for _, value in self.told])))

    def _coordinates(self, x: np.ndarray) -> np.ndarray:
        """r = A log h of `eq:reparam`, orthonormal where A is, in length scales; log h where A is no basis."""
        rows = self.plan.directions
        if len(rows) != rows.shape[1] or abs(np.linalg.det(rows)) < NEGLIGIBLE:
            rows = np.eye(rows.shape[1])
        scales = [TRADING if _trades(row) else SCALING for row in rows]
        closer = len(self.told) >= CLOSER_FROM and len(self.told) % CLOSER_EVERY == 0
        return x @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T / scales * (CLOSER if closer else 1.0)


def _raised(values: np.ndarray) -> np.ndarray:
    """Values [n] with a short lower tail (`TAIL`); failures count as the worst that is left."""
    numbers = values[values > FAILED]
    if not len(numbers):
        return np.zeros(len(values))
    median, best = np.median(numbers), numbers.max()
    return np.maximum(values, max(numbers.min(), median - TAIL * (best - median)))


def _trades(direction: np.ndarray) -> bool:
    """Whether one parameter grows along it as another shrinks."""
    return bool(direction.min() < 0 < direction.max())


def _positions(chord: tuple[float, float], direction: np.ndarray) -> np.ndarray:
    length = (chord[1] - chord[0]) * float(np.linalg.norm(direction))
    return np.linspace(*chord, int(length / STEP) + 2)


def _parallel(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(abs(a @ b) > (1 - NEGLIGIBLE) * np.linalg.norm(a) * np.linalg.norm(b))


def _box(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends [n_axes] in octaves."""
    return np.array([axis.log_low for axis in space.axes]), np.array([axis.log_high for axis in space.axes])


def _snapped(space: Space, x: np.ndarray) -> np.ndarray:
    """The coordinates [n, n_axes] of the configurations that x stands for."""
    snapped = x.copy()
    for i, axis in enumerate(space.axes):
        if axis.values is not None or axis.step is not None:
            snapped[:, i] = [np.log2(axis.snap(octaves)) for octaves in x[:, i]]
    return snapped
