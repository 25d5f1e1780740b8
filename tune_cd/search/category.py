"""A parameter without an order, such as an optimiser's name: a choice of text, booleans, None, or of these and numbers.

The axis has one coordinate, the place of the value in the list, which only says which value it is: distances between
places mean nothing. The Gaussian process is told the one-hot coordinates instead (`Space.features`), in which any two
values are equally far apart.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tune_cd.search.number import number_of

CATEGORY = "category"
"""The `scale` of an axis without an order."""

Plain = str | bool | int | float | None
"""A value of a category."""


@dataclass(frozen=True, eq=False)
class Category:
    """One parameter without an order. values: in Python's own types, all different; True, 1 and "1" are three values.

    It has the methods of an `Axis`. Raises ValueError for no value, for equal ones, and for a value of another type.
    """

    name: str
    values: tuple[Plain, ...]
    scale: ClassVar[str] = CATEGORY
    step: ClassVar[None] = None
    growth: ClassVar[float] = 0.0
    apart: ClassVar[float] = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(_plain(self.name, value) for value in self.values))
        if not self.values or len(self._places) < len(self.values):
            raise ValueError(f"{self.name}: values {list(self.values)!r} must be at least one and all different")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Category) and (self.name, [*self._places]) == (other.name, [*other._places])

    def __hash__(self) -> int:
        return hash((self.name, *self._places))

    @property
    def size(self) -> float:
        """Number of values."""
        return len(self.values)

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the coordinate: each value has a unit of it, so a uniform draw is one of the values."""
        return -0.5, len(self.values) - 0.5

    @property
    def widest(self) -> "Category":
        return self

    def grown(self, at: Any, best: float) -> "Category":
        return self

    @property
    def domain(self) -> list[Any]:
        return list(self.values)

    def coordinate(self, value: Any) -> float:
        """The place of a value in the list. Raises ValueError for one that is not there."""
        found = self._places.get(identity(value)) if isinstance(value, Plain) else None
        if found is None:
            raise ValueError(f"{self.name} = {value!r} is not one of {list(self.values)}")
        return float(found)

    def snap(self, coordinate: float) -> Plain:
        """The value whose place is nearest."""
        return self.values[min(max(round(float(coordinate)), 0), len(self.values) - 1)]

    def snapped(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coordinates [n] of the values whose places are nearest to x [n]."""
        return np.rint(x).clip(0, len(self.values) - 1)

    def meets(self, x: float, along: float) -> NDArray[np.float64]:
        """As `Axis.meets`, for every value."""
        return np.array([(place - x) / along for place in range(len(self.values))])

    def check(self, value: Any) -> Plain:
        """The value of the list that equals `value`. Raises ValueError if there is none."""
        try:
            return self.values[int(self.coordinate(_plain(self.name, value)))]
        except ValueError:
            raise ValueError(f"{self.name} = {value!r} is not one of {list(self.values)}") from None

    def to_json(self) -> dict[str, Any]:
        """As an `Axis`; without an order there is neither range nor step."""
        empty = {"low": None, "high": None, "step": None, "growth": 0.0}
        return {"name": self.name, **empty, "values": list(self.values), "scale": CATEGORY}

    @cached_property
    def _places(self) -> dict[tuple[str, Plain], int]:
        return {identity(value): place for place, value in enumerate(self.values)}


def identity(value: Plain) -> tuple[str, Plain]:
    """What equal values share, and no others: for Python True is 1, and 1 is 1.0; here only the latter."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "number" if number else type(value).__name__, value


def text_of(value: Plain) -> str:
    """A value as text from which `value_in` has it back: adam, true, null, 2; a text that would read as another value
    is quoted, as "2"."""
    if isinstance(value, str):
        return json.dumps(value) if _in_json(value)[0] else value
    return json.dumps(value)


def value_in(text: str) -> Plain:
    """The inverse of `text_of`."""
    found, value = _in_json(text)
    return value if found else text


def _in_json(text: str) -> tuple[bool, Any]:
    """Whether a text is JSON, and its value."""
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):
        return False, None


def is_plain(value: Any) -> bool:
    """Whether a value can be one of a category."""
    try:
        _plain("", value)
    except ValueError:
        return False
    return True


def is_category(values: Sequence[Any]) -> bool:
    """Whether a list of allowed values has no order: one of them is no number."""
    return any(number_of(value) is None for value in values)


def _plain(name: str, value: Any) -> Plain:
    """A value in Python's own type. Raises ValueError for one that is no category."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str) and value.encode("utf-8", "replace").decode() == value:  # lone surrogates have no UTF-8
        return str(value)
    number = None if isinstance(value, str) else number_of(value)
    if number is not None and isfinite(number):
        return number
    raise ValueError(
        f"{name}: {value!r} ({type(value).__name__}) cannot be chosen; text, booleans, None and finite numbers can. "
        f"For others choose keys, and look them up in the trainable: {name} = {{'a': ..., 'b': ...}}[config[{name!r}]]"
    )
