"""Conversion of table columns to JSON types."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

DIGITS = 6  # significant digits of every number on the page


def plain(column: pd.Series) -> list:
    """A column as a list of JSON types; None for missing values."""
    if pd.api.types.is_numeric_dtype(column):
        return numbers(column.astype(float))
    return [None if pd.isna(value) else str(value) for value in column]


def numbers(values: Sequence[float] | np.ndarray | pd.Series, digits: int = DIGITS) -> list:
    """Numbers with so many significant digits, whole ones as int; None for NaN and infinities."""
    array = np.asarray(values, dtype=float)
    finite = np.isfinite(array)
    magnitude = np.floor(np.log10(np.abs(array), where=finite & (array != 0), out=np.zeros_like(array)))
    places = np.clip(digits - 1 - magnitude, 0, 22)  # powers of ten are exact up to 22, so quotients round once
    power = 10.0**places
    rounded = np.where(finite, np.round(np.where(finite, array, 0.0) * power) / power, np.nan)
    whole = finite & (rounded == np.round(rounded)) & (np.abs(rounded) < 2**53)
    kinds = zip(rounded.tolist(), whole.tolist(), finite.tolist())
    return [int(value) if is_whole else value if is_finite else None for value, is_whole, is_finite in kinds]
