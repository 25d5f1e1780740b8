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


def json_of(text: str | bytes) -> Any:
    """Parse strict JSON. Raises ValueError for anything else: also for a name given twice, NaN and infinite numbers,
    and lists nested so deep that Python gives up."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON of too many levels") from None


def json_object(text: str) -> dict[str, Any]:
    """The inverse of `as_json`. Raises ValueError for a text that is no strict JSON object."""
    found = json_of(text)
    if not isinstance(found, dict):
        raise ValueError("JSON, but no object")
    level: list[Any] = [found]
    for _ in range(MOST_LEVELS):
        inside = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        level = [inner for inner in inside if isinstance(inner, (dict, list))]
        if not level:
            return found
    raise ValueError("JSON of too many levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(named := dict(pairs)) < len(pairs):
        raise ValueError("a name is given twice")
    return named


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _plain(value: Any, above: tuple[int, ...]) -> tuple[Any, bool]:
    """(a value in JSON's types, whether it is or holds a number that JSON has not). above: ids of what holds it."""
    if value is None or isinstance(value, (bool, str)):
        return _utf8(value) if isinstance(value, str) else value, False
    if isinstance(value, (Real, Decimal)) and not isinstance(value, np.timedelta64):
        return (number := _number(value)), number is None
    if id(value) in above or len(above) == DEEPEST:
        return f"{type(value).__name__} within itself, or below {DEEPEST} levels", False
    inside = (*above, id(value))
    try:
        if hasattr(value, "tolist") and prod(getattr(value, "shape", ())) <= LONGEST:  # of numpy, torch and pandas
            return _plain(value.tolist(), inside)
        if isinstance(value, (Mapping, list, tuple, AbstractSet)) and len(value) > LONGEST:
            return f"{type(value).__name__} of {len(value)} values", False
        if isinstance(value, Mapping):
            return _object(value, inside), False
        if isinstance(value, (list, tuple, AbstractSet)):
            items = [
                _plain(one, inside) for one in (sorted(value, key=repr) if isinstance(value, AbstractSet) else value)
            ]
            return [item for item, _ in items], any(lost for _, lost in items)
    except Exception as error:  # of somebody's own class
        return f"{type(value).__name__} without a text: {type(error).__name__}", False
    return _text(value), False


def _number(value: Any) -> int | float | None:
    try:
        if isinstance(value, Integral):
            return int(value) if -(2**63) <= int(value) < 2**64 else None
        return float(value) if isfinite(value) else None
    except (OverflowError, ValueError):  # a fraction beyond all floats, a signalling NaN
        return None


def _object(fields: Mapping[Any, Any], inside: tuple[int, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in fields.items():
        name = _utf8(key) if isinstance(key, str) else _text(key)
        name = f"{name} ({type(key).__name__})" if name in made else name  # 1 and "1"
        made[name], lost = _plain(value, inside)
        if lost:
            made[name + BESIDE] = _text(value)
    return made


def _text(value: Any) -> str:
    try:
        return _utf8(str(value))[:TEXT]
    except Exception as error:  # of somebody's own class; an integer of 4,301 digits
        return f"{type(value).__name__} without a text: {type(error).__name__}"


def _utf8(text: str) -> str:
    """The text without lone surrogates, which have no UTF-8."""
    return text.encode("utf-8", "replace").decode()
