"""Numbers as the page has them: few digits, gaps as None, axes from the lowest to the highest."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis.axes import Axis


def numbers(values: Any, digits: int = 6) -> list:
    """Numbers [n] with so many significant digits, whole ones as int; None for NaN and infinities."""
    told = (_rounded(value, digits) if isfinite(value) else None for value in np.asarray(values, float).tolist())
    return [int(value) if value is not None and value.is_integer() and abs(value) < 2**53 else value for value in told]


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}") if abs(value) < 10**digits else float(round(value))


def plain(column: pd.Series) -> list:
    """A column as a list of JSON types; None for missing values."""
    if pd.api.types.is_numeric_dtype(column):
        return numbers(column.astype(float))
    return [None if pd.isna(value) else str(value) for value in column]


def seconds(times: pd.Series) -> list[float | None]:
    """Times in seconds since 1970; None for missing ones."""
    start = pd.Timestamp(0, tz="UTC").as_unit("us")  # nanoseconds, pandas' default, end in 2262
    since = (pd.to_datetime(times, utc=True) - start).dt.total_seconds()
    return [None if np.isnan(value) else round(value, 2) for value in since]


def plain_axis(label: str, values: Sequence[float | None], zero: bool = False, room: float = 0.04) -> dict[str, Any]:
    """The linear axis of plain numbers as the page draws it, with room on both sides; zero: from 0 on."""
    known = [value for value in values if value is not None] or [0.0, 1.0]
    low, high = min([0.0] * zero + known), max(known)
    half = high / 2 - low / 2 or abs(high) / 20 or 0.5  # halves: the range may be as wide as a float allows
    low, high = (low if zero else low - 2 * room * half), high + 2 * room * half
    low, high = (float(np.clip(end, -1.79e308, 1.79e308)) for end in (low, high))
    return {"label": label, "low": low, "high": high, "ticks": ticks_of(Axis("", "real", "linear", low, high))}


def ticks_of(axis: Axis, low: float = 0.0, high: float = 1.0) -> list[list[Any]]:
    """[place, text] of an axis' ticks between two places."""
    return [[round(place, 4), text] for place, text in axis.ticks(low, high)]
