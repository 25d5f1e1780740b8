"""A box of named, positive, log-scaled parameters: `log H` of the paper, and the lines through it.

Everything inside the box is measured in octaves (log2 of the value), so a step of 1 along an axis is a factor of 2.
An axis is real, a lattice (multiples of a step: integers are multiples of 1), or a list of allowed values such as
batch sizes. The last two are searched in the same continuous coordinate and snapped when a configuration is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, log2
from numbers import Real
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

Configuration = dict[str, Any]
"""A configuration h: name -> value of every parameter."""

Key = tuple[float, ...]
"""What equal configurations share, see `Space.key`."""

Array = NDArray[np.float64]
Coordinates = Sequence[float] | Array

KEY_DIGITS = 9
"""Two configurations that agree to 1e-9 octaves on every axis are the same configuration."""

NEGLIGIBLE = 1e-12
"""A direction's component below this share of its largest does not move along that axis."""


@dataclass(frozen=True)
class Axis:
    """One parameter. `values`: the allowed values, ascending; `step`: multiples of it are allowed; neither: real.

    Raises ValueError unless 0 < low <= high, all finite, and at least one allowed value lies in [low, high].
    """

    name: str
    low: float
    high: float
    values: tuple[float, ...] | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if not _is_number(bound) or not isfinite(bound) or bound <= 0:
                raise ValueError(
                    f"{self.name}: bound {bound!r} is not allowed; log-scaled axes need finite numbers > 0"
                )
        if self.low >= self.high and self.values is None:
            raise ValueError(
                f"{self.name}: range ({self.low}, {self.high}) is empty; the lower bound must be below the upper"
            )
        if self.step is not None and (self.step <= 0 or floor(self.high / self.step) < ceil(self.low / self.step)):
            raise ValueError(f"{self.name}: no multiple of {self.step} lies in ({self.low}, {self.high})")

    @classmethod
    def integers(cls, name: str, low: int, high: int) -> "Axis":
        """All integers from `low` to `high`, both included."""
        return cls(name, low, high, step=1)

    @classmethod
    def choice(cls, name: str, values: Sequence[float]) -> "Axis":
        """Only the given values (at least one, all > 0, no two equal)."""
        if len(values) == 0 or len(set(values)) < len(values):
            raise ValueError(f"{name}: allowed values {list(values)!r} must be at least one and all different")
        if not all(_is_number(v) and isfinite(v) and v > 0 for v in values):
            raise ValueError(f"{name}: allowed values {list(values)!r} must be finite numbers > 0")
        ordered = tuple(sorted(int(v) if isinstance(v, (int, np.integer)) else float(v) for v in values))
        return cls(name, ordered[0], ordered[-1], values=ordered)

    @property
    def log_low(self) -> float:
        return log2(self.low)

    @property
    def log_high(self) -> float:
        return log2(self.high)

    def snap(self, octaves: float) -> float | int:
        """The allowed value nearest to a log coordinate (ties: the lower), a Python float or int."""
        octaves = min(max(float(octaves), self.log_low), self.log_high)
        if self.values is not None:
            return min(self.values, key=lambda value: abs(log2(value) - octaves))
        value = float(min(max(2.0**octaves, self.low), self.high))
        if self.step is None:
            return value
        multiple = min(max(round(value / self.step), ceil(self.low / self.step)), floor(self.high / self.step))
        return multiple * self.step

    def check(self, value: Any) -> float | int:
        """`value` as this axis has it; raises ValueError unless it is a number the axis allows."""
        if not _is_number(value) or not self.low <= value <= self.high:
            raise ValueError(f"{self.name} = {value!r} is outside [{self.low}, {self.high}]")
        if self.values is not None and value not in self.values:
            raise ValueError(f"{self.name} = {value!r} is not one of {list(self.values)}")
        if self.step is not None and abs(value / self.step - round(value / self.step)) > 1e-9 * value / self.step:
            raise ValueError(f"{self.name} = {value!r} is not a multiple of {self.step}")
        if self.values is not None:
            return self.values[self.values.index(value)]
        return round(value / self.step) * self.step if isinstance(self.step, int) else value

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "low": self.low, "high": self.high, "values": self.values, "step": self.step}


Domain = tuple[float, float] | list[float] | list[int] | range | Axis


class Space:
    """Named axes in a fixed order.

        Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0), batch_size=[16, 32, 64])

    A tuple is a real range, a list the allowed values, an `Axis` is taken as it is.
    A configuration `h` is a dict name -> value; its coordinates `x` are a float array [n_axes], in octaves.
    low, high: the coordinates of the box's ends.
    """

    def __init__(self, **axes: Domain):
        if not axes:
            raise ValueError("a space needs at least one axis")
        self.axes = tuple(_axis(name, domain) for name, domain in axes.items())
        self.names = tuple(axes)
        self.low = np.array([axis.log_low for axis in self.axes])
        self.high = np.array([axis.log_high for axis in self.axes])

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{a.name}={list(a.values) if a.values else (a.low, a.high)}' for a in self.axes)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.axes == other.axes

    def __hash__(self) -> int:
        return hash(self.axes)

    def check(self, h: Mapping[str, Any]) -> Configuration:
        """`h` reduced to this space's names, in the axes' types (a batch size read from a table as 64.0 is 64).

        Raises ValueError for a missing name or a value that is not allowed.
        """
        missing = [name for name in self.names if name not in h]
        if missing:
            raise ValueError(f"configuration {dict(h)!r} lacks {missing}; the space has {list(self.names)}")
        return {axis.name: axis.check(h[axis.name]) for axis in self.axes}

    def to_log(self, h: Mapping[str, Any]) -> Array:
        """Coordinates [n_axes] of a configuration, in octaves. Raises ValueError as `check` does."""
        h = self.check(h)
        return np.array([log2(h[name]) for name in self.names])

    def from_log(self, x: Coordinates) -> Configuration:
        """The configuration at coordinates x [n_axes], clipped to the box and snapped to the allowed values."""
        return {axis.name: axis.snap(octaves) for axis, octaves in zip(self.axes, x, strict=True)}

    def key(self, h: Mapping[str, Any]) -> Key:
        """What two equal configurations share: their coordinates to 1e-9 octaves (hashable)."""
        return tuple(round(log2(h[name]), KEY_DIGITS) for name in self.names)

    def sample(self, rng: np.random.Generator) -> Configuration:
        """A configuration drawn uniformly in the log box."""
        return self.from_log(rng.uniform(self.low, self.high))

    def chord(self, x: Coordinates, direction: Coordinates) -> tuple[float, float]:
        """(γ_min, γ_max) of the line x + γ·direction inside the box: (L) ∩ H of `algo:line_search`.

        x [n_axes] must lie in the box (else ValueError), so γ_min <= 0 <= γ_max; both are 0 where the line only
        touches a corner.
        """
        point, steps = np.asarray(x, float), np.asarray(direction, float)
        if np.any(point < self.low - 1e-9) or np.any(point > self.high + 1e-9):
            raise ValueError(f"point {self.from_log(point)} (log2: {point.tolist()}) lies outside {self}")
        low, high = -inf, inf
        negligible = NEGLIGIBLE * np.abs(steps).max()
        for position, step, bottom, top in zip(point, steps, self.low, self.high):
            if abs(step) > negligible:
                ends = sorted(((bottom - position) / step, (top - position) / step))
                low, high = max(low, ends[0]), min(high, ends[1])
        if not isfinite(low) or not isfinite(high):
            raise ValueError(f"direction {steps.tolist()}: at least one component must differ from 0")
        return float(min(low, 0.0)), float(max(high, 0.0))

    def along(self, h: Mapping[str, Any], direction: Coordinates, position: float) -> Configuration:
        """The configuration at log h + position·direction; axes the direction does not move keep their exact value."""
        moved = self.from_log(self.to_log(h) + position * np.asarray(direction, float))
        return {name: moved[name] if step else h[name] for name, step in zip(self.names, direction, strict=True)}

    def to_json(self) -> list[dict[str, Any]]:
        return [axis.to_json() for axis in self.axes]

    @classmethod
    def from_json(cls, axes: list[dict[str, Any]]) -> "Space":
        """The inverse of `to_json`."""
        built = [Axis(**{**axis, "values": axis["values"] and tuple(axis["values"])}) for axis in axes]
        return cls(**{axis.name: axis for axis in built})


def _is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number, Python's or numpy's; a bool is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _axis(name: str, domain: Domain) -> Axis:
    if isinstance(domain, Axis):
        return domain
    if isinstance(domain, tuple) and len(domain) == 2:
        return Axis(name, *domain)
    if isinstance(domain, (list, range)):
        return Axis.choice(name, list(domain))
    raise ValueError(f"{name}: {domain!r} is not a domain; give (low, high), a list of allowed values or an Axis")
