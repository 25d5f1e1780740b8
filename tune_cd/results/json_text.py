"""Strict JSON (RFC 8259) of the results, which DuckDB, Polars and browsers read, without secrets."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from tune_cd.results.redaction import hide


def as_json(fields: Mapping[Any, Any]) -> str:
    """A mapping as strict JSON, without secrets (`redaction.hide`)."""
    return json.dumps(hide(fields), allow_nan=False)


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
