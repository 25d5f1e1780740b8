"""The axes of a study's parameters: which there are, on which scale, and where a value lies on each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, log10
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis.scores import BALANCE, categories, names_in, parameter, present
from tune_cd.balance import WEIGHT
from tune_cd.results.rows import SPACE, config_of
from tune_cd.search.category import text_of
from tune_cd.search.number import is_number
from tune_cd.search.space import Array

FEW = 12  # largest number of whole numbers that are inferred to be a list of allowed values
TICKS = 7  # about so many on an axis
DECADE = 10.0  # positive values that span more are inferred to lie on a log axis
AT_END = 0.01  # share of an axis within which a value counts as at its end


@dataclass(frozen=True)
class Axis:
    """One parameter.

    kind: "real", "ordinal" (a list of allowed numbers) or "category" (a list of texts). scale: "log", "linear" or
    "category". low, high: the range, as wide as the tried values need; 0 and the number of categories - 1 for those.
    values: of an ordinal axis ascending, of categories in the space's order; () for a real one. given: whether a space
    says the range, rather than the tried values.
    """

    name: str
    kind: str
    scale: str
    low: float
    high: float
    values: tuple[Any, ...] = ()
    given: bool = False

    def at(self, values: Sequence[Any] | Array) -> Array:
        """Places [n] on the axis, 0 at `low` and 1 at `high`; NaN for missing values.

        On a log scale values of 0 and less lie as far below the lowest positive one as this lies below the next
        decade, all at one place: 0 at -0.1, so no value is hidden.
        """
        if self.kind == "category":
            order = {value: float(n) for n, value in enumerate(self.values)}
            return self._unit(np.array([order.get(value, np.nan) for value in values], dtype=float))
        numbers = np.asarray(values, dtype=float)
        if self.scale == "linear":
            return self._unit(numbers)
        with np.errstate(invalid="ignore"):
            logs = np.log10(numbers, out=np.full(len(numbers), np.nan), where=numbers > 0)
            return np.where(numbers <= 0, BELOW, self._unit(logs))

    def values_of(self, trials: pd.DataFrame) -> list[Any]:
        """Its value in every trial: numbers, or texts of a category; NaN or None where a trial has none."""
        if self.kind == "category":
            return list(categories(trials).get(self.name, [None] * len(trials)))
        return list(parameter(trials, self.name).tolist())

    def end(self, value: float) -> str | None:
        """The end of its allowed range that a value is at, "lower" or "upper"; None elsewhere and without a range."""
        if self.kind == "category" or not self.given:
            return None
        if len(self.values) > 1:  # of a list; 0 has no place on a log scale
            return {self.values[0]: "lower", self.values[-1]: "upper"}.get(value)
        place = float(self.at([value])[0]) if self.low < self.high else 0.5
        return "lower" if place < AT_END else "upper" if place > 1 - AT_END else None

    def ticks(self, low: float = 0.0, high: float = 1.0) -> list[tuple[float, str]]:
        """(place, label) of readable values between two places."""
        if self.kind == "category":
            values: Iterable[Any] = self.values
        else:
            ends = self._value(low), self._value(high)
            own = [value for value in self.values if ends[0] - ROUND <= value <= ends[1] * (1 + ROUND) + ROUND]
            values = own[:: ceil(len(own) / TICKS)] if len(own) > 1 else _readable(*ends, self.scale)
        listed = list(values)
        places = zip(self.at(listed).tolist(), listed)
        return [(place, written(value)) for place, value in places if low - ROUND <= place <= high + ROUND]

    def _unit(self, x: Array) -> Array:
        low, high = (log10(self.low), log10(self.high)) if self.scale == "log" else (self.low, self.high)
        width = high / 2 - low / 2  # halves: a range may be as wide as a float allows
        return (x / 2 - low / 2) / width if width > 0 else np.where(np.isnan(x), np.nan, 0.5)

    def _value(self, place: float) -> float:
        if self.scale == "log":
            low, high = log10(self.low), log10(self.high)
            return float(10.0 ** min(low + place * (high - low), 308.0))
        return self.low * (1 - place) + self.high * place


BELOW = -0.1
"""Place of values of 0 and less on a log scale."""

ROUND = 1e-9


def axes_of(trials: pd.DataFrame) -> list[Axis]:
    """An axis for every parameter that some trial has, none left out.

    From the `space` in the trials' configurations, `Space.to_json()`, where rows have it, in its order; else from the
    values: on a log scale where all are positive, and are of a balance or span more than a decade. `choices`: a column
    of category -> text, where the table has it.
    """
    spaces = _spaces(trials)
    searched = sorted(names_in(trials, "params"))  # also beside a balance
    names = [name for name in [*present(trials), *searched] if np.isfinite(parameter(trials, name)).any()]
    chosen = categories(trials)
    known = [name for name in spaces if name in names or name in chosen]
    return [
        _category(name, spaces.get(name, {}), chosen[name])
        if name in chosen
        else _number(name, spaces.get(name, {}), parameter(trials, name))
        for name in dict.fromkeys([*known, *names, *chosen])
    ]


def written(value: Any) -> str:
    """A parameter's value in writing, numbers with four digits."""
    if not is_number(value):
        return str(value)
    number = float(value)
    whole = number == round(number) and abs(number) < 1e6
    return f"{number:.0f}" if whole else f"{number:.4g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def _category(name: str, said: Mapping[str, Any], tried: Array) -> Axis:
    listed = [text_of(value) for value in said.get("values") or ()]
    values = tuple(dict.fromkeys([*(one for one in listed if one in tried), *filter(None, tried)]))
    return Axis(name, "category", "category", 0.0, float(len(values) - 1), values)


def _number(name: str, said: Mapping[str, Any], values: Array) -> Axis:
    tried = np.unique(values[np.isfinite(values)])
    positive = tried[tried > 0]
    if said:
        logarithmic = said.get("scale") == "log" and len(positive) > 0
        listed = [float(value) for value in said.get("values") or () if is_number(value)]
    else:
        weight = name in BALANCE or name.startswith(WEIGHT)
        logarithmic = len(positive) == len(tried) and (weight or tried[-1] / tried[0] > DECADE)
        few = 1 < len(tried) <= FEW and (tried == np.round(tried)).all() and tried[-1] < 2**53
        listed = tried.tolist() if few else []
    given = listed or [float(str(end)) for end in (said.get("low"), said.get("high")) if is_number(end)]
    ends = [value for value in [*given, *tried.tolist()] if value > 0 or not logarithmic]
    allowed = tuple(sorted({*listed, *tried.tolist()})) if listed else ()
    kind, scale = "ordinal" if listed else "real", "log" if logarithmic else "linear"
    return Axis(name, kind, scale, min(ends), max(ends), allowed, given=bool(said))


def _spaces(trials: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Parameter -> its axis as `Axis.to_json` gives it, from the last row that names it."""
    spaces = [config_of(text).get(SPACE) for text in trials["config"].unique()] if "config" in trials else []
    return {axis["name"]: axis for space in spaces if isinstance(space, list)
            for axis in space if isinstance(axis, dict) and isinstance(axis.get("name"), str)}  # fmt: skip


def _readable(low: float, high: float, scale: str) -> list[float]:
    """Round numbers between two values."""
    if scale == "log" and high > 1000 * low:
        decades = range(ceil(log10(low) - ROUND), floor(log10(high) + ROUND) + 1)
        step = ceil((log10(high) - log10(low)) / TICKS)
        return [10.0**n for n in decades if n % step == 0]
    width = high / 2 - low / 2  # halves: a range may be as wide as a float allows
    if not 0 < width < inf:
        return [low, high][: 1 + (low < high)]
    if scale == "log" and high > 2 * low:
        decades = range(floor(log10(low)), floor(log10(high)) + 1)
        found = [step * 10.0**n for n in decades for step in (1, 2, 5) if low <= step * 10.0**n <= high]
        return found if len(found) > 1 else [low, high]
    rough = width / TICKS * 2 if width < 1e307 else width / TICKS
    power: float = 10.0 ** floor(log10(rough))
    unit = next((power * n for n in (1, 2, 5) if power * n >= rough), 10 * power)
    if not (unit > 0 and abs(low / unit) < 2**50 and abs(high / unit) < 2**50):
        return [low, high]
    return [n * unit for n in range(ceil(low / unit - ROUND), floor(high / unit + ROUND) + 1)]
