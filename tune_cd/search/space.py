"""A box of named parameters, log-scaled or linear (`log H` of the paper) or categories, and the lines through it.

Each axis has a coordinate in which lines are straight, see `axis`. A `Category`, whose values have no order, is an axis
too; its coordinate is the place of the value in its list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np

from tune_cd.search.axis import KEY_DIGITS, Array, Axis, Linear
from tune_cd.search.category import CATEGORY, Category, is_category

__all__ = ["KEY_DIGITS", "NEGLIGIBLE", "Array", "Axis", "Configuration", "Key", "Linear", "Space", "choice"]

Configuration = dict[str, Any]
"""A configuration h: name -> value of every parameter."""

Key = tuple[float, ...]
"""The key that equal configurations share, see `Space.key`."""

Coordinates = Sequence[float] | Array

NEGLIGIBLE = 1e-12
"""A direction whose component on an axis is below this share of its largest does not move along that axis."""

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

    @cached_property
    def grows(self) -> bool:
        """Whether a range may grow."""
        return any(axis.growth for axis in self.axes)

    @property
    def fixed(self) -> "Space":
        """This space with ranges that do not grow."""
        return Space(**{one.name: replace(one, growth=0.0) if isinstance(one, Axis) else one for one in self.axes})

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{axis.name}={axis.domain}' for axis in self.axes)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.axes == other.axes

    def __hash__(self) -> int:
        return hash(self.axes)

    def check(self, h: Mapping[str, Any]) -> Configuration:
        """`h` reduced to this space's names, in the axes' types: a batch size read from a table as 64.0 becomes 64.

        Raises ValueError for what is no dict, a missing name or a value that is not allowed.
        """
        try:
            given = dict(h)
        except (TypeError, ValueError):
            raise ValueError(f"configuration {h!r}: a dict is required, name -> value, of {list(self.names)}") from None
        if missing := [name for name in self.names if name not in given]:
            raise ValueError(f"configuration {given!r} lacks {missing}; the space has {list(self.names)}")
        return {axis.name: axis.check(given[axis.name]) for axis in self.axes}

    def to_coordinates(self, h: Mapping[str, Any]) -> Array:
        """Coordinates [n_axes] of a configuration. Raises ValueError as `check` does."""
        h = self.check(h)
        return np.array([axis.coordinate(h[axis.name]) for axis in self.axes])

    def from_coordinates(self, x: Coordinates) -> Configuration:
        """The configuration at coordinates x [n_axes], clipped to the box and snapped to the allowed values."""
        return {axis.name: axis.snap(at) for axis, at in zip(self.axes, x, strict=True)}

    def snapped(self, x: Array) -> Array:
        """Coordinates [n, n_axes] of the allowed values nearest to x; x itself changes."""
        for i, axis in enumerate(self.axes):
            if axis.values is not None or axis.step is not None:
                x[:, i] = axis.snapped(x[:, i])
        return x

    def features(self, x: Array) -> Array:
        """Coordinates x [n, n_axes] as a Gaussian process is told them [n, n_features]: the numeric axes', then of each
        category one coordinate a value, such that two values are 1 apart."""
        places = zip(np.flatnonzero(~self.ordered), self.categories)
        hot = [(np.round(x[:, [at]]) == np.arange(len(axis.values))) / sqrt(2) for at, axis in places]
        return np.concatenate([x[:, self.ordered], *hot], axis=1)

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
        point, steps = np.asarray(x, float), np.asarray(direction, float)
        if not ((self.low - 1e-9 <= point) & (point <= self.high + 1e-9)).all():
            raise ValueError(f"point {self.from_coordinates(point)} (coordinates {point}) lies outside {self}")
        moved = np.abs(steps) > NEGLIGIBLE * np.abs(steps).max()
        if not moved.any():
            raise ValueError(f"direction {steps}: at least one component must differ from 0")
        ends = (np.array([self.low, self.high]) - point)[:, moved] / steps[moved]
        return min(float(ends.min(axis=0).max()), 0.0), max(float(ends.max(axis=0).min()), 0.0)

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
