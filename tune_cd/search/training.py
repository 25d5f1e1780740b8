"""Trainings and their progress, and the values as the Gaussian process is told them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np

from tune_cd.search.bracket import FAILED
from tune_cd.search.number import number_of
from tune_cd.search.space import Array, Configuration, Key, Space

Curve = Mapping[float, float]
"""A learning curve: share of the full length -> value, ascending, larger is better; FAILED at its end if it failed."""

TAIL = 4.0
"""A value further below the median than TAIL times the distance from the median to the best is raised to that limit.
Very bad values say nothing about the optimum's location, and a metric without a lower bound would hide the differences
at the top."""


@dataclass(frozen=True)
class Proposal:
    """A configuration and its origin, the results table's columns `direction` and `line_position`.

    `line_position` is γ on the line x + γ·direction, in coordinates per unit of the direction. It is 0 at the line's
    origin.
    """

    h: Configuration
    direction: str
    line_position: float

    def annotation(self, trial_index: int | None) -> dict[str, Any]:
        """The results table's columns. trial_index: the trial's place in the order of asking."""
        return {"direction": self.direction, "line_position": self.line_position, "trial_index": trial_index}


@dataclass(frozen=True)
class Training:
    """A configuration and all that is known of its training.

    curve: its learning curve, share of the full length -> value, ascending; FAILED for a training that failed or
        diverged, which ends it.
    until: the share to which it is being trained; None: paused or at its end.
    left: it cannot go on, because a scheduler stopped it or its checkpoint is gone.
    origin, trial_index: the line on which it was proposed, and its place in the order of asking; None: told without
        having been asked for.
    external: not trained for this search: it costs no budget.
    given: told before anything was asked for: a start.
    """

    h: Configuration
    curve: Curve = field(default_factory=dict)
    until: float | None = None
    left: bool = False
    origin: Proposal | None = None
    trial_index: int | None = None
    external: bool = False
    given: bool = False

    @property
    def last(self) -> float:
        """The value at the greatest length; FAILED where it failed. Raises ValueError without any."""
        return self.curve[max(self.curve)]

    @property
    def failed(self) -> bool:
        return bool(self.curve) and self.last == FAILED

    @property
    def stopped(self) -> bool:
        """Whether it was left before its end, so that its final value cannot be reached."""
        return self.left and self.share < 1

    @property
    def share(self) -> float:
        """The share done; 1 if it failed."""
        return 1.0 if self.failed else max(self.curve, default=0.0)

    @property
    def values(self) -> list[float]:
        """The numbers of its learning curve."""
        return [value for value in self.curve.values() if value != FAILED]

    @property
    def length(self) -> float:
        """The share trained or asked for: its cost, in full trainings."""
        return max(*self.curve, self.until or 0.0, 0.0)

    def told(self, share: float, value: float) -> "Training":
        """This training with one more value. An earlier failure is dropped: the training was run again."""
        return replace(self, curve=curve_of({**_numbers(self.curve), share: value}))

    def resumed(self, until: float) -> "Training":
        """This training on its way to a share. An earlier failure is dropped."""
        return replace(self, curve=_numbers(self.curve), until=until)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types; `from_json` inverts it."""
        curve = [[share, None if value == FAILED else value] for share, value in self.curve.items()]
        entry: dict[str, Any] = {"h": self.h, "curve": curve, "until": self.until, "trial_index": self.trial_index}
        entry |= {name: True for name in ("left", "external", "given") if getattr(self, name)}
        if self.origin is not None:
            entry |= {"direction": self.origin.direction, "line_position": self.origin.line_position}
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> "Training":
        origin = Proposal(entry["h"], entry["direction"], entry["line_position"]) if "direction" in entry else None
        flags = {name: entry.get(name, False) for name in ("left", "external", "given")}
        return cls(
            entry["h"], curve_of(dict(map(tuple, entry["curve"]))), entry["until"], origin=origin,
            trial_index=entry["trial_index"], **flags,
        )  # fmt: skip


def curve_of(values: Mapping[float, Any]) -> Curve:
    """A learning curve from values by share; None, NaN and ±inf: failed there, which counts only at the end: later
    values are of a training that was run again. Raises ValueError as `value_of`."""
    curve = {share: value_of(values[share]) for share in sorted(values)}
    end = max(curve, default=0.0)
    return {share: value for share, value in curve.items() if value != FAILED or share == end}


def _numbers(curve: Curve) -> Curve:
    """A learning curve without a failure."""
    return {share: value for share, value in curve.items() if value != FAILED}


def value_of(value: Any) -> float:
    """A value as it is stored: FAILED for None, NaN and ±inf. Raises ValueError for what is no number (`number_of`)."""
    number = FAILED if value is None else number_of(value)
    if number is None:
        raise ValueError(f"value {value!r} ({type(value).__name__}): a number is required, or None for a failed trial")
    return float(number) if isfinite(number) else FAILED


def raised(values: Array) -> Array:
    """Values [n] with a shortened lower tail (`TAIL`); failures get the lowest value that remains."""
    numbers = values[values > FAILED]
    if not len(numbers):
        return np.zeros(len(values))
    median, best = np.median(numbers), numbers.max()
    return np.maximum(values, max(float(numbers.min()), float(median - TAIL * (best - median))))


def start_left(space: Space, starts: Sequence[Configuration], values: Mapping[Key, float]) -> Array | None:
    """Coordinates [n_axes] of the start with the best value among those that did not fail; None if all failed."""
    left = [h for h in starts if values.get(space.key(h)) != FAILED]
    best = max(left, key=lambda h: values.get(space.key(h), FAILED), default=None)
    return None if best is None else space.to_coordinates(best)
