"""One line of a space, searched until it is exhausted: the learning rate alone, at the balance that a recipe fixes."""

from collections.abc import Mapping
from functools import cache
from math import inf
from typing import Any

import numpy as np

from tune_cd.search.baselines.baseline import Baseline, Trial
from tune_cd.search.golden_section import FAILED, Bracket
from tune_cd.search.protocol import Proposal
from tune_cd.search.space import Array, Configuration, Key, Space

RATE_RESOLUTION = 1 / 3
"""Octaves. A learning rate counts as tuned when the rates on both sides of the best are this close together."""

ON_LINE = 1e-6
"""Octaves. A configuration this near to the line, on every axis, is on it."""


class LineRule:
    """The `baseline.Rule` of a golden-section search (`algo:line_search`) over log h + γ·direction.

    Everything known on the line counts, whoever asked for it: the bracket is the best value and its neighbours. The
    search ends at RATE_RESOLUTION. Golden section never evaluates the end of a range. Where the best is next to an
    end, the end is evaluated last, so that an optimum at the end of the range is known to be one.

    start: a configuration of the space. direction: [n_axes], in the axes' coordinates. Raises ValueError for a
    direction that does not move, or moves an axis of allowed values or steps.
    """

    def __init__(self, space: Space, start: Mapping[str, Any], direction: Array):
        self._space, self._start, self._direction = space, space.check(start), np.asarray(direction, float)
        listed = [axis.name for axis, step in zip(space.axes, self._direction) if step and (axis.values or axis.step)]
        if listed:
            raise ValueError(f"direction {self._direction.tolist()} moves {listed}: a line runs along real axes only")
        self._low, self._high = space.chord(space.to_coordinates(self._start), self._direction)

    def propose(self, known: Mapping[Key, Trial]) -> Configuration | None:
        """The next configuration; None while a trial on the line is live, and at the end."""
        points = self._points(known)
        if points is None:
            return None
        return self._after(points, known) if points else dict(self._start)

    def exhausted(self, known: Mapping[Key, Trial]) -> bool:
        points = self._points(known)
        return points is not None and len(points) > 0 and self._after(points, known) is None

    def position(self, h: Mapping[str, Any]) -> float | None:
        """γ of a configuration, 0 at the start; None off the line."""
        away = self._space.to_coordinates(h) - self._space.to_coordinates(self._start)
        position = float(away @ self._direction / (self._direction @ self._direction))
        if np.abs(away - position * self._direction).max() >= ON_LINE:
            return None
        return min(max(position, self._low), self._high)

    def take(self, h: Configuration) -> None:
        """Nothing to note: the bracket is made of what is known."""

    def observe(self, h: Configuration, value: float | None) -> None:
        """Nothing to note: the bracket is made of what is known."""

    def _after(self, points: list[tuple[float, float]], known: Mapping[Key, Trial]) -> Configuration | None:
        bracket = _bracket(points, self._low, self._high)
        if not bracket.narrower_than(RATE_RESOLUTION):
            return self._at(bracket.proposal())
        ends = [self._at(end) for end in (self._low, self._high) if end in (bracket.low, bracket.high)]
        return next((h for h in ends if self._space.key(h) not in known), None)

    def _at(self, position: float) -> Configuration:
        return self._space.along(self._start, self._direction, position)

    def _points(self, known: Mapping[Key, Trial]) -> list[tuple[float, float]] | None:
        """(γ, value) of the trials on the line, in the order of asking, FAILED for a failure; None while one is
        live."""
        points = []
        for trial in known.values():
            position = self.position(trial.h)
            if position is not None and not trial.told:
                return None
            if position is not None:
                points.append((position, FAILED if trial.value is None else trial.value))
        return points


class LineSearch(Baseline):
    """A `Baseline` that follows a `LineRule`: its proposals have a place on a line."""

    def __init__(self, space: Space, rule: LineRule, starts: list[Configuration], name: str, **how: Any):
        super().__init__(space, rule, starts, method="line", **how)
        self._line, self._name = rule, name

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        found = super().origin(h)
        position = self._line.position(h)
        return found if found.direction == "start" or position is None else Proposal(found.h, self._name, position)


def most_trials(space: Space, start: Mapping[str, Any], direction: Array) -> int:
    """The trials that the search of a line takes at most."""
    low, high = space.chord(space.to_coordinates(start), direction)
    return 1 + _most_steps(round(low, 3), 0.0, round(high, 3))


def _bracket(points: list[tuple[float, float]], low: float, high: float) -> Bracket:
    """The best point, of equals the first, between its neighbours; while all have failed, the last one."""
    best, value = max(points, key=lambda point: point[1])
    if value == FAILED:
        best = points[-1][0]
    below = max((position for position, _ in points if position < best), default=low)
    above = min((position for position, _ in points if position > best), default=high)
    return Bracket(below, best, above, value)


@cache
def _most_steps(low: float, interior: float, high: float) -> int:
    bracket = Bracket(low, interior, high, 0.0)
    if bracket.narrower_than(RATE_RESOLUTION):
        return 1  # an end of the range
    outcomes = (bracket.told(bracket.proposal(), value) for value in (-inf, 1.0))
    return 1 + max(_most_steps(*(round(at, 3) for at in (b.low, b.interior, b.high))) for b in outcomes)
