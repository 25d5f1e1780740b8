"""Strict JSON (RFC 8259) of the results, which DuckDB, Polars and browsers read, without secrets."""

import json
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from math import isfinite, prod
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np

from tune_cd.results.redaction import hide

LONGEST = 10_000  # largest number of values in a list, array or object that is stored whole
MOST_LEVELS = 100  # of JSON that is read
DEEPEST = 20  # levels of lists and objects; what lies below is text
TEXT = 1000  # characters of an object's text
BESIDE = " (text)"  # suffix of the name beside a null, under which the value stands as text


def as_json(fields: Mapping[Any, Any], kept: Collection[str] = (), indent: int | None = None) -> str:
    """A mapping as strict JSON, without secrets.

    Numbers and truth values of numpy, Decimals, arrays and tensors become JSON's numbers and lists, other objects their
    text. JSON has neither NaN nor infinity: `lr` is null then, and "lr (text)" beside it says "nan". So it is with a
    list or an integer beyond 64 bits. kept: as for `hide`.
    """
    return json.dumps(hide(_plain(fields, ())[0], kept), allow_nan=False, indent=indent)


def json_object(text: str) -> dict[str, Any]:
    """The inverse of `as_json`. Raises ValueError for a text that is no strict JSON object."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON of too many levels") from None
    if not isinstance(found, dict):
        raise ValueError("JSON, but no object")
    level: list[Any] = [found]
    for _ in range(MOST_LEVELS):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)
                 if isinstance(inner, (dict, list))]  # fmt: skip
        if not level:
            return found
    raise ValueError("JSON of too many levels")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _plain(value: Any, above: tuple[int, ...]) -> tuple[Any, str | None]:
    """(a value in JSON's types, its text if it is or has a number that JSON has not). above: ids of what holds it."""
    if value is None or isinstance(value, bool):
        return value, None
    if isinstance(value, str):
        return _utf8(value), None
    if isinstance(value, (Real, Decimal)) and not isinstance(value, np.timedelta64):
        return _number(value)
    if id(value) in above or len(above) == DEEPEST:
        return f"{type(value).__name__} within itself, or below {DEEPEST} levels", None
    inside, shape = (*above, id(value)), getattr(value, "shape", ())
    try:
        if hasattr(value, "tolist") and prod(shape) <= LONGEST:  # arrays, tensors, series, other scalars of numpy
            return _plain(value.tolist(), inside)
        if isinstance(value, (Mapping, list, tuple, AbstractSet)) and len(value) > LONGEST:
            return f"{type(value).__name__} of {len(value)} values", None
        if isinstance(value, Mapping):
            return _object(value, inside), None
        if isinstance(value, (list, tuple, AbstractSet)):
            ordered = sorted(value, key=repr) if isinstance(value, AbstractSet) else value
            items = [_plain(one, inside) for one in ordered]
            texts = [json.dumps(item) if text is None else text for item, text in items]
            lost = any(text is not None for _, text in items)
            return [item for item, _ in items], f"[{', '.join(texts)}]" if lost else None
        return _utf8(str(value))[:TEXT], None
    except Exception as error:  # of somebody's own class
        return f"{type(value).__name__} without a text: {type(error).__name__}", None


def _number(value: Any) -> tuple[int | float | None, str | None]:
    whole = isinstance(value, Integral)
    try:
        number = int(value) if whole else float(value)
        if -(2**63) <= number < 2**64 if whole else isfinite(number):
            return number, None
        return None, str(value)[:TEXT]
    except (OverflowError, ValueError):  # a fraction beyond all floats, a signalling NaN, an integer of 4,301 digits
        return None, f"{type(value).__name__} beyond all numbers"


def _object(fields: Mapping[Any, Any], inside: tuple[int, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in fields.items():
        name = _utf8(key) if isinstance(key, str) else _utf8(str(key))[:TEXT]
        name = f"{name} ({type(key).__name__})" if name in made else name  # 1 and "1"
        made[name], text = _plain(value, inside)
        if text is not None:
            made[name + BESIDE] = text
    return made


def _utf8(text: str) -> str:
    """The text without lone surrogates, which have no UTF-8."""
    return text.encode("utf-8", "replace").decode()
