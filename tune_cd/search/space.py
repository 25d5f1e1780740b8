"""A box of named parameters, log-scaled or linear (`log H` of the paper) or categories, and the lines through it.

Each axis has a coordinate in which lines are straight. On a log-scaled axis it is the octave, log2 of the value: a step
of 1 is a factor of 2. On a linear axis it is the value, in units of which LINEAR_WIDTH span the range. An axis is real,
a lattice (multiples of a step: integers are multiples of 1), or a list of allowed values such as batch sizes. Lattices
and lists are searched in the same continuous coordinate and snapped when a configuration is made. A `Category`, whose
values have no order, is an axis too; its coordinate is the place of the value in its list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil, floor, inf, isfinite, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tune_cd.search.category import CATEGORY, Category, is_category
from tune_cd.search.number import number_of

Configuration = dict[str, Any]
"""A configuration h: name -> value of every parameter."""

Key = tuple[float, ...]
"""The key that equal configurations share, see `Space.key`."""

Array = NDArray[np.float64]
Coordinates = Sequence[float] | Array

LINEAR_WIDTH = 8.0
"""Width of a linear axis in coordinates, counted as octaves. Steps, distances and length scales are written in octaves;
ranges of log-scaled parameters are 3 (batch size) to 13 octaves (learning rate) wide."""

KEY_DIGITS = 9
"""Two configurations whose coordinates agree to 1e-9 on every axis are the same configuration."""

APART, PLACES = 0.02, 100
"""Values count as alike if they differ by less than APART octaves, or on a narrow axis by less than 1/PLACES of its
width: see `Axis.apart`."""

NEGLIGIBLE = 1e-12
"""A direction whose component on an axis is below this share of its largest does not move along that axis."""

AT_END = 0.1
"""Octaves. A value this near to an end of its range is at the end: beyond it nothing can be tried."""

GROWTH_STEP, GROWTH_WITHIN = 2.0, 2 / 3
"""Octaves. A range that may grow (`Axis.growth`) does so by GROWTH_STEP, once the best is nearer than GROWTH_WITHIN to
its end: there is no room for a neighbour as near as `pausing_line.RATE_RESOLUTION` asks for."""

ROUNDING = 1e-9
"""Relative tolerance: a value this near to a multiple of a step counts as that multiple. Also octaves by which a point
may lie outside a range and count as at its end."""


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
    are given, and a multiple of `step` lies between them.
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
            if self.scale == "log" and number <= 0 and not (number == 0 and self._has_zero):
                raise ValueError(
                    f"{self.name}: bound {bound!r} is not allowed; log-scaled axes need numbers > 0, "
                    "Linear(low, high) takes any"
                )
        for name in ("low", "high", "step"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, number_of(value))
        if self.low >= self.high and self.values is None:
            raise ValueError(
                f"{self.name}: range ({self.low}, {self.high}) is empty; the lower bound must be below the upper"
            )
        if self.step is not None and (self.step <= 0 or self.size < 1):
            raise ValueError(f"{self.name}: no multiple of {self.step} lies in ({self.low}, {self.high})")
        real = self.scale == "log" and self.values is None and self.step is None
        if not 0 <= self.growth < inf or (self.growth and not real):
            raise ValueError(f"{self.name}: growth {self.growth!r}: octaves, >= 0, of a real, log-scaled range")

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
        if not self.growth:
            return self
        factor = 2.0**self.growth
        return replace(self, low=self.low / factor, high=self.high * factor, growth=0.0)

    def grown(self, at: Array, best: float) -> "Axis":
        """See `Space.grown`; at [n] and best are coordinates on this axis."""
        if not self.growth:
            return self
        low, high = self.ends
        below = min(self.growth, _octaves_beyond(low - at.min(), low - best))
        above = min(self.growth, _octaves_beyond(at.max() - high, best - high))
        return replace(self, low=self.low / 2.0**below, high=self.high * 2.0**above)

    @property
    def size(self) -> float:
        """Number of allowed values; inf for a continuum."""
        if self.values is not None:
            return len(self.values)
        return inf if self.step is None else self._multiples[1] - self._multiples[0] + 1

    @property
    def domain(self) -> "Domain":
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
        octave: float = self._zero if value == 0 and self._has_zero else log2(value)
        return octave

    def snap(self, coordinate: float) -> float | int:
        """The allowed value nearest to a coordinate, a Python float or int. Allowed values are compared by coordinate
        (ties: the lower), multiples of a step by value."""
        low, high = self.widest.ends
        at = min(max(float(coordinate), low), high)
        if self.values is not None:
            return min(self.values, key=lambda value: abs(self.coordinate(value) - at))
        value = self._inside(2.0**at if self.scale == "log" else self.low + at * self._unit)
        if self.step is None:
            return float(value)
        first, last = self._multiples
        return self._inside(min(max(round(value / self.step), first), last) * self.step)

    def check(self, value: Any) -> float | int:
        """`value` in this axis's type. Raises ValueError unless it is a number that the axis allows."""
        number = number_of(value)
        low, high = self.widest.low, self.widest.high
        if number is None or not low <= number <= high:
            raise ValueError(f"{self.name} = {value!r} is outside [{low}, {high}]")
        if self.values is not None:
            if number not in self.values:
                raise ValueError(f"{self.name} = {value!r} is not one of {list(self.values)}")
            return self.values[self.values.index(number)]
        if self.step is None:
            return number
        multiple = number / self.step
        if abs(multiple - round(multiple)) > ROUNDING * max(1.0, abs(multiple)):
            raise ValueError(f"{self.name} = {value!r} is not a multiple of {self.step}")
        return round(multiple) * self.step if isinstance(self.step, int) else number

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @cached_property
    def apart(self) -> float:
        """Coordinates nearer than this belong to values that are alike, of which one is enough. It is APART, or less:
        1/PLACES of a narrow axis, half the smallest gap between allowed values."""
        width = self.ends[1] - self.ends[0]
        gaps = np.diff([self.coordinate(value) for value in self.values]) if self.values else np.array([])
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


Domain = tuple[float, float] | list[float] | list[int] | list[Any] | range | Linear | Axis | Category


class Space:
    """Named axes in a fixed order.

        Space(lr=(1e-5, 1.0), batch_size=[16, 32, 64], momentum=Linear(0.0, 0.99), layers=Linear(1, 8, step=1))

    A tuple is a real, log-scaled range, `Linear` a linear one, a list the allowed values. Numbers alone are ordered; a
    list with text, booleans or None, such as optimizer=["adam", "sgd"], is a `Category`. An axis is taken as it is.
    A configuration `h` is a dict name -> value. Its coordinates `x` are a float array [n_axes]: octaves on log-scaled
    axes, LINEAR_WIDTH-ths of the range on linear ones, places in the list on categories.
    low, high: the coordinates of the box's ends. apart: `Axis.apart` of every axis. ordered: which axes are numeric.
    All [n_axes]. numeric: the names of the numeric axes. categories: the others.
    """

    def __init__(self, /, **axes: Domain):
        if not axes:
            raise ValueError("a space needs at least one axis")
        self.axes: tuple[Axis | Category, ...] = tuple(_axis(name, domain) for name, domain in axes.items())
        self.names = tuple(axes)
        self.low, self.high = np.array([axis.ends for axis in self.axes]).T
        self.apart = np.array([axis.apart for axis in self.axes])
        self.categories = tuple(axis for axis in self.axes if isinstance(axis, Category))
        self.ordered = np.array([not isinstance(axis, Category) for axis in self.axes])
        self.numeric = tuple(axis.name for axis in self.axes if not isinstance(axis, Category))

    @property
    def fixed(self) -> "Space":
        """This space with ranges that do not grow."""
        return Space(**{one.name: replace(one, growth=0.0) if isinstance(one, Axis) else one for one in self.axes})

    @cached_property
    def grows(self) -> bool:
        """Whether a range may grow."""
        return any(axis.growth for axis in self.axes)

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{axis.name}={axis.domain}' for axis in self.axes)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.axes == other.axes

    def __hash__(self) -> int:
        return hash(self.axes)

    def check(self, h: Mapping[str, Any]) -> Configuration:
        """`h` reduced to this space's names, in the axes' types: a batch size read from a table as 64.0 becomes 64.

        Raises ValueError for a missing name or a value that is not allowed.
        """
        missing = [name for name in self.names if name not in h]
        if missing:
            raise ValueError(f"configuration {dict(h)!r} lacks {missing}; the space has {list(self.names)}")
        return {axis.name: axis.check(h[axis.name]) for axis in self.axes}

    def to_coordinates(self, h: Mapping[str, Any]) -> Array:
        """Coordinates [n_axes] of a configuration. Raises ValueError as `check` does."""
        h = self.check(h)
        return np.array([axis.coordinate(h[axis.name]) for axis in self.axes])

    def from_coordinates(self, x: Coordinates) -> Configuration:
        """The configuration at coordinates x [n_axes], clipped to the box and snapped to the allowed values."""
        return {axis.name: axis.snap(at) for axis, at in zip(self.axes, x, strict=True)}

    def key(self, h: Mapping[str, Any]) -> Key:
        """The hashable key that equal configurations share: their coordinates, rounded to 1e-9."""
        plain = (value if type(value := h[axis.name]) in (float, int) else axis.check(value) for axis in self.axes)
        return tuple(round(axis.coordinate(value), KEY_DIGITS) for axis, value in zip(self.axes, plain))

    def grown(self, points: Array, best: Array) -> "Space":
        """This space with every range that may grow (`Axis.growth`) as wide as the points [n, n_axes] need, in steps of
        GROWTH_STEP, and one step wider where the best [n_axes] lies at an end (GROWTH_WITHIN)."""
        return Space(**{axis.name: axis.grown(*at) for axis, *at in zip(self.axes, points.T, best)})

    def sample(self, rng: np.random.Generator) -> Configuration:
        """A configuration drawn uniformly in the coordinates of the box."""
        return self.from_coordinates(rng.uniform(self.low, self.high))

    def chord(self, x: Coordinates, direction: Coordinates) -> tuple[float, float]:
        """(γ_min, γ_max) of the line x + γ·direction inside the box: (L) ∩ H of `algo:line_search`.

        x [n_axes] must lie in the box (else ValueError), so γ_min <= 0 <= γ_max; both are 0 where the line only
        touches a corner.
        """
        point, steps = np.asarray(x, float).tolist(), np.asarray(direction, float).tolist()
        low, high, negligible = -inf, inf, NEGLIGIBLE * max(map(abs, steps))
        for position, step, axis in zip(point, steps, self.axes, strict=True):
            bottom, top = axis.ends
            if not bottom - 1e-9 <= position <= top + 1e-9:
                raise ValueError(f"point {self.from_coordinates(point)} (coordinates {point}) lies outside {self}")
            if abs(step) > negligible:
                ends = sorted(((bottom - position) / step, (top - position) / step))
                low, high = max(low, ends[0]), min(high, ends[1])
        if not isfinite(low) or not isfinite(high):
            raise ValueError(f"direction {steps}: at least one component must differ from 0")
        return min(low, 0.0), max(high, 0.0)

    def along(self, h: Mapping[str, Any], direction: Coordinates, position: float) -> Configuration:
        """The configuration at x(h) + position·direction; axes the direction does not move keep their exact value."""
        moved = self.from_coordinates(self.to_coordinates(h) + position * np.asarray(direction, float))
        return {name: moved[name] if step else h[name] for name, step in zip(self.names, direction, strict=True)}

    def to_json(self) -> list[dict[str, Any]]:
        return [axis.to_json() for axis in self.axes]

    @classmethod
    def from_json(cls, axes: list[dict[str, Any]]) -> "Space":
        """The inverse of `to_json`."""
        return cls(**{axis["name"]: _axis_from(axis) for axis in axes})


def _octaves_beyond(farthest: float, best: float) -> float:
    """Octaves by which an end of a range moves, from those by which the farthest point and the best lie beyond it."""
    octaves = GROWTH_STEP * max(0, ceil((farthest - ROUNDING) / GROWTH_STEP))  # a point at the end is not beyond it
    return octaves + GROWTH_STEP * (best > octaves - GROWTH_WITHIN)


def _axis_from(entry: Mapping[str, Any]) -> Axis | Category:
    if entry.get("scale") == CATEGORY:
        return Category(entry["name"], tuple(entry["values"]))
    return Axis(**{**entry, "values": entry["values"] and tuple(entry["values"])})


def _axis(name: str, domain: Domain) -> Axis | Category:
    if isinstance(domain, (Axis, Category)):
        return replace(domain, name=name)
    if isinstance(domain, tuple) and len(domain) == 2:
        return Axis(name, *domain)
    if isinstance(domain, Linear):
        return Axis(name, domain.low, domain.high, step=domain.step, scale="linear")
    if isinstance(domain, (list, range)):
        return choice(name, list(domain))
    raise ValueError(
        f"{name}: {domain!r} is not a domain; give (low, high), Linear(low, high), a list of allowed values or an Axis"
    )


def choice(name: str, values: Sequence[Any]) -> Axis | Category:
    """An axis of a list of allowed values. Raises ValueError for values that are not allowed."""
    return Category(name, tuple(values)) if is_category(values) else Axis.choice(name, values)
