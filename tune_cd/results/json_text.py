"""Strict JSON (RFC 8259) of the results, which DuckDB, Polars and browsers read, without secrets."""

import json
from collections.abc import Mapping
from math import isfinite, prod
from numbers import Integral, Real
from typing import Any, NoReturn

from tune_cd.results.redaction import hide

LONGEST = 10_000  # largest number of values in a list, array or object that is stored whole
DEEPEST = 20  # levels of lists and objects; what lies below is text
TEXT = 1000  # characters of an object's text


def as_json(fields: Mapping[Any, Any]) -> str:
    """A mapping as strict JSON, without secrets.

    Numbers and truth values of numpy, arrays and tensors become JSON's numbers and lists, other objects their text.
    JSON has neither NaN nor infinity: these are the texts "nan" and "inf", and an integer beyond 64 bits is text too.
    """
    return json.dumps(hide(_plain(fields, 0)), allow_nan=False)


def json_of(text: str | bytes) -> Any:
    """Parse strict JSON. Raises ValueError for anything else: also for NaN, and for lists nested so deep that Python
    gives up."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON of too many levels") from None


def json_object(text: str) -> dict[str, Any]:
    """The inverse of `as_json`. Raises ValueError for a text that is no strict JSON object."""
    found = json_of(text)
    if not isinstance(found, dict):
        raise ValueError("JSON, but no object")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _plain(value: Any, level: int) -> Any:
    """A value in JSON's types. level: how many lists and objects hold it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value) if -(2**63) <= int(value) < 2**64 else _text(value)
    if isinstance(value, Real):
        return float(value) if isfinite(value) else _text(value)
    if hasattr(value, "tolist") and prod(getattr(value, "shape", ())) <= LONGEST:  # of numpy, torch and pandas
        return _plain(value.tolist(), level)
    if isinstance(value, (Mapping, list, tuple)) and level < DEEPEST and len(value) <= LONGEST:
        if isinstance(value, Mapping):
            return {_text(name): _plain(inner, level + 1) for name, inner in value.items()}
        return [_plain(inner, level + 1) for inner in value]
    return _text(value)


def _text(value: Any) -> str:
    """A text, or the beginning of an object's, without lone surrogates, which have no UTF-8."""
    text = value if isinstance(value, str) else str(value)[:TEXT]
    return text.encode("utf-8", "replace").decode()
