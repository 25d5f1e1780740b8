"""One line of a space, searched until it is exhausted: the learning rate alone, at the balance that a recipe fixes."""

from collections.abc import Mapping
from functools import cache
from math import inf
from typing import Any

import numpy as np

from tune_cd.balance import RATE_RESOLUTION
from tune_cd.search.golden_section import FAILED, Bracket
from tune_cd.search.space import Space

ON_LINE = 1e-6
"""Octaves. A configuration this near to the line, on every axis, is on it."""


class LineRule:
    """The `baselines.Rule` of a golden-section search (`algo:line_search`) over log h + γ·direction.

    Everything known on the line counts, whoever asked for it: the bracket is the best value and its neighbours. The
    search ends at RATE_RESOLUTION. Golden section never evaluates the end of a range; where the best is next to an end, the
    end is evaluated last, so that an optimum at the end of the range is known to be one.

    start: a configuration of the space. direction: [n_axes], in log coordinates. Raises ValueError for a direction that
    does not move, or moves an axis of allowed values or steps.
    """

    def __init__(self, space: Space, start: Mapping[str, Any], direction: np.ndarray):
        self._space, self._start, self._direction = space, space.check(start), np.asarray(direction, float)
        listed = [axis.name for axis, step in zip(space.axes, self._direction) if step and (axis.values or axis.step)]
        if listed:
            raise ValueError(f"direction {self._direction.tolist()} moves {listed}: a line runs along real axes only")
        self._low, self._high = space.chord(space.to_log(self._start), self._direction)

    def propose(self, known: Mapping[tuple, Any]) -> dict | None:
        """The next configuration; None while a trial on the line is live, and at the end."""
        points = self._points(known)
        if any(value is None for _, value in points):
            return None
        if not points:
            return dict(self._start)
        return self._after(points, known)

    def exhausted(self, known: Mapping[tuple, Any]) -> bool:
        points = self._points(known)
        return bool(points) and all(value is not None for _, value in points) and self._after(points, known) is None

    def position(self, h: Mapping[str, Any]) -> float | None:
        """γ of a configuration, 0 at the start; None off the line."""
        away = self._space.to_log(h) - self._space.to_log(self._start)
        position = float(away @ self._direction / (self._direction @ self._direction))
        if np.abs(away - position * self._direction).max() >= ON_LINE:
            return None
        return min(max(position, self._low), self._high)

    def take(self, h: dict) -> None:
        """Nothing to note: the bracket is made of what is known."""

    def observe(self, h: dict, value: float | None) -> None:
        """Nothing to note: the bracket is made of what is known."""

    def _after(self, points: list[tuple[float, float]], known: Mapping[tuple, Any]) -> dict | None:
        bracket = _bracket(points, self._low, self._high)
        if not bracket.narrower_than(RATE_RESOLUTION):
            return self._at(bracket.proposal())
        ends = [self._at(end) for end in (self._low, self._high) if end in (bracket.low, bracket.high)]
        return next((h for h in ends if self._space.key(h) not in known), None)

    def _at(self, position: float) -> dict:
        return self._space.along(self._start, self._direction, position)

    def _points(self, known: Mapping[tuple, Any]) -> list[tuple[float, float | None]]:
        """(γ, value) of the trials on the line, in the order of asking. FAILED for a failure, None for a live trial."""
        points = []
        for trial in known.values():
            position = self.position(trial.h)
            if position is not None:
                points.append((position, (FAILED if trial.value is None else trial.value) if trial.told else None))
        return points


def most_trials(space: Space, start: Mapping[str, Any], direction: np.ndarray) -> int:
    """The trials that the search of a line takes at most."""
    low, high = space.chord(space.to_log(start), direction)
    return 1 + _most_steps(round(low, 3), 0.0, round(high, 3))


def _bracket(points: list[tuple[float, float]], low: float, high: float) -> Bracket:
    """The best point, of equals the first, between its neighbours. While all have failed, the last one holds the ground."""
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
