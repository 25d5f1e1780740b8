"""A training: its configuration, its learning curve, and the line on which it was proposed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, nextafter
from typing import Any

from tune_cd.search.bracket import FAILED
from tune_cd.search.number import number_of
from tune_cd.search.space import Configuration

Curve = Mapping[float, float]
"""A learning curve: share of the full length -> value, ascending, larger is better; FAILED at its end if it failed."""


@dataclass(frozen=True)
class Proposal:
    """A configuration and its origin, the results table's columns `direction` and `line_position`.

    `line_position` is γ on the line x + γ·direction, in coordinates per unit of the direction. It is 0 at the line's
    origin.

    Outside line searches the direction is "start", "sampled" (a baseline's own choice, or the model's without a value),
    or "resumed" (a training that goes on or is run again).
    """

    h: Configuration
    direction: str
    line_position: float


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
    def numbers(self) -> Curve:
        """Its learning curve without a failure."""
        return {share: value for share, value in self.curve.items() if value != FAILED}

    @property
    def best(self) -> float:
        """The best value of its learning curve; FAILED without a number."""
        return max(self.numbers.values(), default=FAILED)

    @property
    def length(self) -> float:
        """The share trained or asked for: its cost, in full trainings."""
        return max(*self.curve, self.until or 0.0, 0.0)

    def counts(self, best: float | None) -> float:
        """The value with which it counts among others, given the best of these: one that was stopped before its end is
        just below that, if it is not lower already."""
        return min(self.last, nextafter(best, -inf)) if self.stopped and best is not None else self.last

    def told(self, share: float, value: float) -> "Training":
        """This training with one more value. An earlier failure is dropped: the training was run again."""
        return replace(self, curve=curve_of({**self.numbers, share: value}))

    def resumed(self, until: float) -> "Training":
        """This training on its way to a share. An earlier failure is dropped."""
        return replace(self, curve=self.numbers, until=until)

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
    """A learning curve from values by share; one that failed there (`value_of`) counts only at the end: later
    values are of a training that was run again. Raises ValueError as `value_of`."""
    curve = {share: value_of(values[share]) for share in sorted(values)}
    end = max(curve, default=0.0)
    return {share: value for share, value in curve.items() if value != FAILED or share == end}


LARGEST = 1e100
"""A value beyond ±LARGEST counts as a failure: no metric is so large, but that of a diverged training may be."""


def value_of(value: Any) -> float:
    """A value as it is stored: FAILED for None, NaN, and beyond ±LARGEST. Raises ValueError for what is no number
    (`number_of`)."""
    number = FAILED if value is None else number_of(value)
    if number is None:
        raise ValueError(f"value {value!r} ({type(value).__name__}): a number is required, or None for a failed trial")
    return float(number) if abs(number) <= LARGEST else FAILED
