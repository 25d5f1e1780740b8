"""Checks the rows of a file that was read, as those to be written are checked."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tune_cd.results import schema
from tune_cd.results.schema import NUMBERS, TEXTS, TIME, Row

CHECKS: dict[str, Callable[[Row], Row]] = {"trials": schema.check_trial, "curves": schema.check_curve}
LIMITS = ((pc.greater_equal, schema.FIRST), (pc.less_equal, schema.LAST))
FEW = 20  # rows up to which looking at each is quicker than at whole columns
SLICE = 10_000  # rows in Python's types at a time, which take ten times the memory


def fault_of(table: pa.Table, kind: str, study: str = "") -> str | None:
    """What a table holds that must not be written, or is another study's; None for nothing.

    kind: trials or curves.  study: the one of its folder, if it has one.
    """
    if table.num_rows > FEW and are_allowed(table, kind, study):
        return None
    for start in range(0, table.num_rows, SLICE):
        try:
            rows = table.slice(start, SLICE).to_pylist()
        except (ValueError, OverflowError) as error:  # times beyond the year 9999
            return f"a value that cannot be read: {error}"
        for row in rows:
            if reason := _reason(row, kind, study):
                return reason
    return None


def are_allowed(table: pa.Table, kind: str, study: str) -> bool:
    """Whether all rows of a table may be written; arguments as for `fault_of`."""
    return all(map(bool, _holds(table.combine_chunks(), kind, study)))


def _holds(table: pa.Table, kind: str, study: str) -> Iterator[Any]:
    """What holds for all rows of a table without faults, each computed for whole columns."""
    for name in ("study", "trial_id"):
        yield _all(pc.match_substring_regex(table[name], rf"\A(?:{schema.NAME.pattern})\z"))
    yield not study or _all(pc.equal(table["study"], study))
    yield _all(pc.greater_equal(table["attempt"], 0))
    for field in schema.TRIALS if kind == "trials" else schema.CURVES:
        column = table[field.name]
        yield field.nullable or not column.null_count
        if field.type in (NUMBERS, TEXTS):
            yield from _maps(column.chunks, finite=field.name == "params")
        elif field.type == TIME:
            yield _all(pc.and_(*(than(column, pa.scalar(end, TIME)) for than, end in LIMITS)))
    if kind == "curves":
        yield _all(pc.greater_equal(table["images_seen"], 0))
        return
    yield _all(pc.greater_equal(table["trial_index"], 0))
    yield _all(pc.is_in(table["status"], pa.array(schema.STATUSES)))
    yield _all(pc.is_in(table["mode"].filter(table["mode"].is_valid()), pa.array(schema.MODES)))
    explained = table.select(["status", "failure_kind"]).filter(table["failure_kind"].is_valid())
    yield _all(pc.equal(explained["status"], "failed"))
    yield _all(pc.is_in(explained["failure_kind"], pa.array(schema.FAILURE_KINDS)))
    scored = pc.fill_null(pc.is_finite(table["val_score"]), False)
    yield _all(pc.or_(pc.not_equal(table["status"], "completed"), scored))
    for name in ("config", "software"):
        yield all(map(schema.is_json_object, table[name].unique().to_pylist()))


def _maps(chunks: list[pa.MapArray], finite: bool) -> Iterator[Any]:
    """What holds for a column of maps. finite: whether its numbers must be finite."""
    for maps in chunks:
        ends = maps.offsets.to_numpy()
        names, numbers = maps.keys[ends[0] : ends[-1]], maps.items[ends[0] : ends[-1]]
        yield not names.null_count and not numbers.null_count
        yield not finite or _all(pc.is_finite(numbers))
        lengths, codes = np.diff(ends), names.dictionary_encode().indices.fill_null(0).to_numpy()
        if (lengths == lengths[0]).all() and (each := codes.reshape(len(lengths), -1)).size and (each == each[0]).all():
            codes, lengths = each[0], lengths[:1]  # the usual case: all rows have the names of the first
        at = np.sort(np.repeat(np.arange(len(lengths)), lengths) * (codes.max(initial=0) + 1) + codes)
        yield not (at[1:] == at[:-1]).any()


def _reason(row: dict[str, Any], kind: str, study: str) -> str | None:
    """The fault of a row as `to_pylist` gives it, maps as lists of pairs; None without one."""
    for name, value in row.items():
        if isinstance(value, list):
            names = [key for key, _ in value]
            if twice := [key for key in names if names.count(key) > 1]:
                return f"a row that is not allowed: {name} of trial {row['trial_id']!r} has {twice[0]!r} twice"
    try:
        CHECKS[kind]({name: dict(value) if isinstance(value, list) else value for name, value in row.items()})
    except (ValueError, TypeError) as reason:
        return f"a row that is not allowed: {reason}"
    if study and row["study"] != study:
        return f"study {row['study']!r}; it belongs to that study's folder"
    return None


def _all(column: Any) -> bool:
    return bool(pc.all(column, min_count=0).as_py())
