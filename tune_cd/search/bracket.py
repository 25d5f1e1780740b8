"""One bounded golden-section line search, as a value object (`algo:line_search`).

The caller evaluates; a `Bracket` only gives the next position, and the bracket that follows from its value:

    bracket = Bracket(low, interior, high, value)     # the value at `interior` is known
    while not bracket.narrower_than(width):
        position = bracket.proposal()
        bracket = bracket.told(position, f(position))

Larger is better. Positions are in the line's own coordinate (γ of the paper), whatever its unit.
There are two departures from textbook golden section, because the first interior point is given (the incumbent, γ = 0)
and not at the golden ratio. Each step cuts the *longer* part: the bracket loses 0.618 of it, or all of the shorter part
if the new point is better. Once three points stand in golden proportion, each step leaves exactly 0.618 of the bracket.
And one evaluation a step is enough from the start.
"""

from dataclasses import dataclass, replace
from math import inf, sqrt

GOLDEN = (3 - sqrt(5)) / 2
"""0.381966: the next point lies at this share of the longer part, measured from the interior point."""

GROWTH = 1 / (1 - GOLDEN)
"""1.618034: growth of a bracket with room. The part beyond a new best point becomes this many times the part that was
beyond the old one. Steps towards an end that keeps getting better grow by the same factor."""

FAILED = -inf
"""The value of a trial that failed, diverged or reported no number: worse than any number."""


@dataclass(frozen=True)
class Bracket:
    """An interval [low, high] with one evaluated point inside, the best of all points evaluated in it.

    lowest, highest: the room of ends that are guesses. One that was not evaluated moves outwards, at most so far, when
    the best comes next to it. Without room, as by default, the ends only move inwards.
    """

    low: float
    interior: float
    high: float
    value: float
    lowest: float = inf
    highest: float = -inf

    @property
    def width(self) -> float:
        return self.high - self.low

    def narrower_than(self, width: float) -> bool:
        """True when the bracket is at most `width` wide, or too narrow for another floating-point number inside."""
        return self.width <= width or self.proposal() in (self.low, self.interior, self.high)

    def proposal(self) -> float:
        """The point to evaluate next, at GOLDEN of the longer part from the interior point (equal parts: the upper)."""
        above, below = self.high - self.interior, self.interior - self.low
        return self.interior + GOLDEN * above if above >= below else self.interior - GOLDEN * below

    def told(self, position: float, value: float) -> "Bracket":
        """The bracket after `value` was measured at `position`, strictly inside the bracket, not the interior point.

        The new point takes over only if it is strictly better: on a plateau the bracket shrinks around the incumbent
        instead of walking off. A failed interior point is always replaced, even by another failure, so that the search
        leaves a start in a diverging region.
        """
        better = value > self.value or self.value == FAILED
        if position > self.interior:
            if not better:
                return replace(self, high=position, highest=position)
            high = max(self.high, min(self.highest, position + GROWTH * (self.high - self.interior)))
            return Bracket(self.interior, position, high, value, self.interior, self.highest)
        if not better:
            return replace(self, low=position, lowest=position)
        low = min(self.low, max(self.lowest, position - GROWTH * (self.interior - self.low)))
        return Bracket(low, position, self.interior, value, self.lowest, self.interior)


@dataclass(frozen=True)
class Untried:
    """The line of a category, whose values have no order: every other value is tried in turn.

    left: the positions still to be tried. interior, value: the best position so far and its value. It is used as a
    `Bracket`.
    """

    left: tuple[float, ...]
    interior: float
    value: float

    def narrower_than(self, width: float) -> bool:
        """True when no value is left, whatever the width."""
        return not self.left

    def proposal(self) -> float:
        return self.left[0]

    def told(self, position: float, value: float) -> "Untried":
        """The rest after `value` was measured at the first position left. Ties and failures: as for a `Bracket`."""
        better = value > self.value or self.value == FAILED
        return Untried(self.left[1:], *((position, value) if better else (self.interior, self.value)))
