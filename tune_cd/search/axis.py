"""One numeric parameter: its range or allowed values, and the coordinate in which it is searched.

On a log-scaled axis the coordinate is the octave, log2 of the value: a step of 1 is a factor of 2. On a linear axis it
is the value, in units of which LINEAR_WIDTH span the range. An axis is real, a lattice (multiples of a step: integers
are multiples of 1), or a list of allowed values such as batch sizes. Lattices and lists are searched in the same
continuous coordinate and snapped when a configuration is made.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil, floor, inf, isclose, isfinite, log2, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_cd.search.number import number_of

Array = NDArray[np.float64]

LINEAR_WIDTH = 8.0
"""Width of a linear axis in coordinates, counted as octaves. Steps, distances and length scales are written in octaves;
ranges of log-scaled parameters are 3 (batch size) to 13 octaves (learning rate) wide."""

KEY_DIGITS = 9
"""Two configurations whose coordinates agree to 1e-9 on every axis are the same configuration."""

APART, PLACES = 0.02, 100
"""Values count as alike if they differ by less than APART octaves, or on a narrow axis by less than 1/PLACES of its
width: see `Axis.apart`."""

NARROWEST = {"log": PLACES * 10.0**-KEY_DIGITS, "linear": 1e-12}
"""Narrower ranges are refused: octaves, or the width of a linear range as a share of its larger bound. Too few of their
values could be told apart."""

GROWTH_STEP, GROWTH_WITHIN = 2.0, 2 / 3
"""Octaves. A range that may grow (`Axis.growth`) does so by GROWTH_STEP, once the best is nearer than GROWTH_WITHIN to
its end: there is no room for a neighbour as near as `single_line.RATE_RESOLUTION` asks for."""

ROUNDING = 1e-9
"""Relative tolerance: a bound this near to a multiple of a step counts as that multiple. Also octaves by which a point
may lie outside a range and count as at its end."""

CLOSE, MOST_AWAY = 1e-6, 1e-3
"""Relative tolerance of values, on a linear axis also as a share of its width: exp(log(.1)), float32(.1) and .1 + .2
are rounded. From the multiple of a step a value may differ by MOST_AWAY of the step at most."""


@dataclass(frozen=True)
class Linear:
    """The range of a linear axis: momentum=Linear(0.0, 0.99), layers=Linear(1, 8, step=1).

    step: only its multiples are allowed (1: the integers); None: all real numbers.
    """

    low: float
    high: float
    step: float | None = None


@dataclass(frozen=True)
class Axis:
    """One parameter. `values`: the allowed values, ascending; `step`: its multiples are allowed; neither: real.

    scale: "log", coordinates are octaves; "linear", they run from 0 at `low` to LINEAR_WIDTH at `high`. On a log scale
    an allowed value 0 lies as far below the next value as that lies below the one after it (an octave, if there are
    only two).
    growth: octaves by which the range of a real, log-scaled axis may grow at either end, where the best lies there
        (`Space.grown`). Values so far outside are allowed.
    Raises ValueError unless both bounds are finite, on a log scale > 0 (or an allowed 0), low < high where no `values`
    are given, and a multiple of `step` lies between them; also for a range that is too narrow (NARROWEST).
    """

    name: str
    low: float
    high: float
    values: tuple[float, ...] | None = None
    step: float | None = None
    scale: str = "log"
    growth: float = 0.0

    def __post_init__(self) -> None:
        if self.scale not in ("log", "linear"):
            raise ValueError(f"{self.name}: scale {self.scale!r}: 'log' or 'linear'")
        for bound in (self.low, self.high):
            number = number_of(bound)
            if number is None or not isfinite(number):
                raise ValueError(f"{self.name}: bound {bound!r} is not allowed; it must be a finite number")
            least = sys.float_info.min if self.values is None else 5e-324  # between them floats are few
            if self.scale == "log" and number < least and not (number == 0 and self._has_zero):
                raise ValueError(
                    f"{self.name}: bound {bound!r} is not allowed; log-scaled axes need numbers > 0, ranges "
                    "> 2.2e-308; Linear(low, high) takes any"
                )
        if self.step is not None and not 0 < (number_of(self.step) or 0.0) < inf:
            raise ValueError(f"{self.name}: step {self.step!r} is not allowed; it must be a finite number > 0")
        for name in ("low", "high", "step"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, number_of(value))
        if self.low >= self.high and self.values is None:
            raise ValueError(
                f"{self.name}: range ({self.low}, {self.high}) is empty; the lower bound must be below the upper"
            )
        if self.step is not None and self.size < 1:
            raise ValueError(f"{self.name}: no multiple of {self.step} lies in ({self.low}, {self.high})")
        real = self.scale == "log" and self.values is None and self.step is None
        if not 0 <= self.growth <= 1000 or (self.growth and not real):
            raise ValueError(f"{self.name}: growth {self.growth!r}: octaves, 0 to 1000, of a real, log-scaled range")
        self._require_room()

    def _require_room(self) -> None:
        """Raise ValueError if values could not be told apart, or if the width of a linear range is no finite number."""
        if self.values is not None:
            if (np.diff(self._coordinates) < 10.0**-KEY_DIGITS).any():
                raise ValueError(f"{self.name}: allowed values {list(self.values)!r} are too close to be told apart")
            return
        log = self.scale == "log"
        width = log2(self.high) - log2(self.low) if log else self.high - self.low
        if not NARROWEST[self.scale] * (1.0 if log else max(abs(self.low), abs(self.high))) <= width < inf:
            said = "so wide" if width == inf else "so narrow; for one value give a list"
            raise ValueError(f"{self.name}: range ({self.low}, {self.high}) cannot be searched, it is {said}")

    @classmethod
    def integers(cls, name: str, low: int, high: int) -> "Axis":
        """All integers from `low` to `high`, both included, on a log scale."""
        return cls(name, low, high, step=1)

    @classmethod
    def choice(cls, name: str, values: Sequence[float]) -> "Axis":
        """Only the given numbers: at least one, all different. The scale is linear if one is negative or 0 is the only
        one, else log."""
        numbers = [number for value in values if (number := number_of(value)) is not None and isfinite(number)]
        if len(numbers) < len(values):
            raise ValueError(f"{name}: allowed values {list(values)!r} must be finite numbers")
        if len(values) == 0 or len(set(numbers)) < len(values):
            raise ValueError(f"{name}: allowed values {list(values)!r} must be at least one and all different")
        ordered = tuple(sorted(numbers))
        scale = "log" if ordered[0] >= 0 and ordered[-1] > 0 else "linear"
        return cls(name, ordered[0], ordered[-1], values=ordered, scale=scale)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The coordinates of `low` and `high`."""
        return self.coordinate(self.low), self.coordinate(self.high)

    @cached_property
    def widest(self) -> "Axis":
        """This axis after all its growth: the values that are allowed."""
        return replace(self._wider(self.growth, self.growth), growth=0.0) if self.growth else self

    def grown(self, at: Array, best: float) -> "Axis":
        """See `Space.grown`; at [n] and best are coordinates on this axis."""
        if not self.growth:
            return self
        low, high = self.ends
        below, above = _octaves_beyond(low - at.min(), low - best), _octaves_beyond(at.max() - high, best - high)
        return self._wider(min(self.growth, below), min(self.growth, above))

    def _wider(self, below: float, above: float) -> "Axis":
        """This axis, by so many octaves wider, as far as there are numbers."""
        low, high = max(self.low / 2.0**below, sys.float_info.min), min(self.high * 2.0**above, sys.float_info.max)
        return replace(self, low=low, high=high)

    @property
    def size(self) -> float:
        """Number of allowed values; inf for a continuum."""
        if self.values is not None:
            return len(self.values)
        return inf if self.step is None else self._multiples[1] - self._multiples[0] + 1

    @property
    def domain(self) -> Any:
        """The domain from which `Space` builds this axis."""
        if self.values is not None:
            return list(self.values)
        if self.scale == "linear":
            return Linear(self.low, self.high, self.step)
        return self if self.step is not None or self.growth else (self.low, self.high)

    def coordinate(self, value: Any) -> float:
        """The coordinate of a value: its log2, or its distance from `low` in LINEAR_WIDTH-ths of the range."""
        if self.scale == "linear":
            return float((value - self.low) / self._unit)
        return self._zero if value == 0 and self._has_zero else log2(value)

    def snap(self, coordinate: float) -> float | int:
        """The allowed value nearest to a coordinate, a Python float or int. Allowed values are compared by coordinate
        (ties: the lower), multiples of a step by value."""
        if self.values is not None:
            return self.values[self._nearest(coordinate)]
        low, high = self.widest.ends
        at = min(max(float(coordinate), low), high)
        if self.step is None and min(at - low, high - at) < 10**-KEY_DIGITS:  # the end itself, 0.0 rather than 1e-17
            return float(self.widest.low if at - low < high - at else self.widest.high)
        # 1024 is log2 of the largest float, rounded up: a power too large
        value = self._inside(2.0 ** min(at, nextafter(1024, 0)) if self.scale == "log" else self.low + at * self._unit)
        if self.step is None:
            return float(value)
        first, last = self._multiples
        return self._inside(min(max(round(value / self.step), first), last) * self.step)

    def snapped(self, x: Array) -> Array:
        """Coordinates [n] of the allowed values nearest to coordinates x [n], each as `snap` says."""
        if self.values is not None:
            known, last = self._coordinates, len(self.values) - 1
            upper = np.searchsorted(known, x).clip(min(1, last), last)
            lower = np.maximum(upper - 1, 0)
            return np.where(x - known[lower] <= known[upper] - x, known[lower], known[upper])
        if self.step is None:
            return x
        if self.scale == "log":
            return np.array([self.coordinate(self.snap(at)) for at in x])
        value = np.clip(self.low + np.clip(x, *self.ends) * self._unit, self.low, self.high)
        multiples = np.clip(np.round(value / self.step), *self._multiples)
        return (np.clip(multiples * self.step, self.low, self.high) - self.low) / self._unit

    def meets(self, x: float, along: float) -> Array:
        """Positions γ at which a line at coordinate x, moving `along` per γ, meets the allowed values."""
        return (self._coordinates - x) / along

    def check(self, value: Any) -> float | int:
        """`value` in this axis's type; one that is CLOSE to an allowed value becomes that. Raises ValueError unless it
        is a number that the axis allows."""
        number = number_of(value)
        if number is None or not isfinite(number) or not self._is_close(number, self._inside(number)):
            raise ValueError(f"{self.name} = {value!r} is outside [{self.widest.low}, {self.widest.high}]")
        number = self._inside(number)
        if self.values is not None:
            nearest = self.values[self._nearest(self.coordinate(number))]
            if not self._is_close(number, nearest):
                raise ValueError(f"{self.name} = {value!r} is not one of {list(self.values)}")
            return nearest
        if self.step is None:
            return number
        multiple = number / self.step
        away, size = abs(multiple - round(multiple)), max(1.0, abs(multiple))
        if away > min(CLOSE * size, MOST_AWAY):
            raise ValueError(f"{self.name} = {value!r} is not a multiple of {self.step}")
        own = isinstance(self.step, int) or away > ROUNDING * size
        return self._inside(round(multiple) * self.step) if own else number

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @cached_property
    def apart(self) -> float:
        """Coordinates nearer than this belong to values that are alike, of which one is enough. It is APART, or less:
        1/PLACES of a narrow axis, half the smallest gap between allowed values."""
        width = self.ends[1] - self.ends[0]
        gaps = np.diff(self._coordinates) if self.values else np.array([])
        return float(min([APART, *([width / PLACES] if width else []), *(gaps / 2)]))

    @property
    def _has_zero(self) -> bool:
        """Whether 0 is the lowest of several allowed values."""
        return self.values is not None and len(self.values) > 1 and self.values[0] == 0

    @cached_property
    def _zero(self) -> float:
        """The coordinate of 0, the lowest allowed value."""
        assert self.values is not None
        first, second = (*map(log2, self.values[1:3]), log2(self.values[1]) + 1)[:2]
        return 2 * first - second

    @cached_property
    def _coordinates(self) -> Array:
        """Those of the allowed values, also where they are multiples of a step."""
        if self.step is not None:
            first, last = self._multiples
            return np.array([self.coordinate(self._inside(n * self.step)) for n in range(first, last + 1)])
        return np.array([self.coordinate(value) for value in self.values or ()])

    @property
    def _unit(self) -> float:
        return (self.high - self.low) / LINEAR_WIDTH or 1.0

    @property
    def _multiples(self) -> tuple[int, int]:
        """The first and the last multiple of `step` in the range, in steps; 0.3 counts as a multiple of 0.1."""
        assert self.step is not None
        return ceil(self.low / self.step - ROUNDING), floor(self.high / self.step + ROUNDING)

    def _inside(self, value: float) -> float:
        return min(max(value, self.widest.low), self.widest.high)

    def _nearest(self, coordinate: float) -> int:
        """Index of the allowed value nearest to a coordinate."""
        return int(np.abs(self._coordinates - coordinate).argmin())

    def _is_close(self, number: float, allowed: float) -> bool:
        width = self.high - self.low if self.scale == "linear" else 0.0
        return isclose(number, allowed, rel_tol=CLOSE, abs_tol=CLOSE * width)


def _octaves_beyond(farthest: float, best: float) -> float:
    """Octaves by which an end of a range moves, from those by which the farthest point and the best lie beyond it."""
    octaves = GROWTH_STEP * max(0, ceil((farthest - ROUNDING) / GROWTH_STEP))  # a point at the end is not beyond it
    return octaves + GROWTH_STEP * (best > octaves - GROWTH_WITHIN)
