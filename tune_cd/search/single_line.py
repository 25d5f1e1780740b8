"""The search of one line until its best is bracketed: the learning rate alone, at the balance of a recipe.

It is the default search, whose model moves along this line alone, with a rule that ends it. Golden section ends in any
one of several peaks: on the diagonal of the global average of `omniglot-242-margin` it ends with .34 to .52, this
search with .52, where .52 is the best (the table is in `tests/benchmarks/RESULTS.md`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from tune_cd.search.bracket import FAILED
from tune_cd.search.guided import Guided
from tune_cd.search.protocol import Step
from tune_cd.search.space import Array, Configuration, Space
from tune_cd.search.training import Proposal

RATE_RESOLUTION = 2 / 3
"""Octaves. A learning rate counts as tuned when its nearest tried neighbours on both sides are this close together.

A third of an octave costs half as much again, and finds the same (`tests/benchmarks/RESULTS.md`)."""

BRACKET_FROM = 0.4
"""From this share of the budget on, neighbours of the best are tried. From 0.3 on, a line ended with .47 instead of .51
on the diagonal of `omniglot-242-infonce`, which has several peaks."""

IDLE = 1e-2
"""Standard deviations of the values per full training. Once no step is worth as much, the best is trained to its end,
then its neighbours. With a thousandth lines end as high and cost a third more (`tests/benchmarks/RESULTS.md`)."""

AT_END = 0.1
"""Octaves. A value this near to an end of its range is at the end: beyond it nothing can be tried."""

ON_LINE = 1e-6
"""Octaves. A configuration nearer to the line than this, on every axis, is on it."""

CLOSE = RATE_RESOLUTION + ON_LINE


def check_line(space: Space, starts: Sequence[Configuration], direction: Array) -> None:
    """Raise ValueError unless one start is given, the direction moves real axes only, and the line does not leave the
    box at once."""
    if len(starts) != 1:
        raise ValueError(f"start {list(starts)}: a line search needs one configuration that its line runs through")
    listed = [axis.name for axis, step in zip(space.axes, direction) if step and (axis.values or axis.step)]
    if listed:
        raise ValueError(f"direction {direction.tolist()} moves {listed}: a line runs along real axes only")
    x = space.to_coordinates(starts[0])
    low, high = space.grown(x[None], x).chord(x, direction)
    if (high - low) * np.abs(direction).max() < RATE_RESOLUTION:
        raise ValueError(f"the line through {starts[0]} along {direction.tolist()} leaves {space} at once")


def _away(near: float, far: float) -> float:
    """Octaves from the best to the next neighbour, on the farther side: a quarter of RATE_RESOLUTION at least, as to
    the far neighbour. It brackets the best if the near one is within three quarters."""
    octaves = RATE_RESOLUTION - near if 1 / 2 < near / RATE_RESOLUTION <= 3 / 4 else RATE_RESOLUTION / 2
    return far / 2 if far - octaves < RATE_RESOLUTION / 4 else octaves


@dataclass(frozen=True)
class OnLine:
    """A state of the search, as seen from the best whole training along the plan's first direction.

    now: the model's state. spent, budget: in full trainings.
    """

    now: Guided
    spent: float
    budget: float

    @property
    def step(self) -> Step | None:
        """The next training; None once the best may be bracketed: what runs ends first, and may be better. At an end of
        the line, where no neighbour can be tried, it ends unbracketed. Where no step is worth much (IDLE), the best
        value is finished first."""
        any_value = any(one.numbers for one in self.now.trainings)
        idle = any_value and (self.now.step is None or self.now.worth < IDLE)
        if idle and self.now.reserve.runs:
            return None
        if idle and (whole := self.now.finish()) is not None:
            return whole
        if self._best is None:
            return self.now.step
        below, above = (side if room > AT_END else 0.0 for side, room in zip(self._sides, self._rooms))
        if below + above <= CLOSE:
            return None
        if not self._is_due(idle):
            return self.now.step
        octaves = _away(*sorted((below, above))) * (-1 if below > above else 1)
        h = self.now.plan.space.along(self.now.trainings[self._best].h, self._direction, octaves / self._octaves)
        return Step(Proposal(h, self.now.plan.names[0], octaves / self._octaves), self.now.lengths[0])

    @property
    def bracketed(self) -> bool:
        """Whether the two neighbours of the best at full length are at most RATE_RESOLUTION apart."""
        return self._best is not None and sum(self._sides) <= CLOSE

    def _is_due(self, idle: bool) -> bool:
        """Whether the next neighbour is tried: from BRACKET_FROM of the budget on, unless a training is predicted to
        end better than the best at full length; at the latest when nothing else is worth much. Without this step it
        may look far away, where nothing promises much, or end unbracketed."""
        late = self.spent >= BRACKET_FROM * self.budget
        return self.spent < self.budget and (idle or (self.now.model.leader == self._best and late))

    @cached_property
    def _best(self) -> int | None:
        """Index of the best training at full length, of equal ones the first; None without one."""
        ends = [one.last if one.share == 1 else FAILED for one in self.now.trainings]
        return int(np.argmax(ends)) if max(ends, default=FAILED) != FAILED else None

    @cached_property
    def _sides(self) -> tuple[float, float]:
        """Octaves from the best to its lower and its upper neighbour; inf without one."""
        away = self.now.model.points - self._x
        positions = away @ self._direction / (self._direction @ self._direction)
        on_line = np.abs(away - positions[:, None] * self._direction).max(1) < ON_LINE
        octaves = positions[on_line] * self._octaves
        below, above = octaves[octaves < -ON_LINE], octaves[octaves > ON_LINE]
        return -float(max(below, default=-inf)), float(min(above, default=inf))

    @cached_property
    def _rooms(self) -> tuple[float, float]:
        """Octaves from the best to the ends of the line, after all its growth."""
        widest = Space(**{axis.name: axis.widest for axis in self.now.plan.space.axes})
        low, high = widest.chord(self._x, self._direction)
        return -low * self._octaves, high * self._octaves

    @property
    def _direction(self) -> Array:
        return self.now.plan.directions[0]

    @property
    def _octaves(self) -> float:
        """Octaves per unit of the position, of the parameter that moves fastest."""
        return float(np.abs(self._direction).max())

    @property
    def _x(self) -> Array:
        """Coordinates [n_axes] of the best."""
        return self.now.model.points[self._best]
