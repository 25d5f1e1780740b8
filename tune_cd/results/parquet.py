"""A single Parquet file of the results: its name, its bytes, and reading it with checks."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tune_cd.results.schema import CURVES, FORMAT_VERSION, TRIALS, Row, check_curve, check_name, check_trial
from tune_cd.results.store import Bucket, Folder

SCHEMAS = {"trials": TRIALS, "curves": CURVES}
CHECKS: dict[str, Callable[[Mapping[str, Any]], Row]] = {"trials": check_trial, "curves": check_curve}
HIDDEN = (".", "_")  # names with these prefixes are skipped, as Parquet readers do: unfinished files, folders set aside
COMPACTED = re.compile(r"(?:.*/)?compact~sha256-[0-9a-f]{16}\.parquet")  # behind ~ a trial's file has digits alone
SLICE = 10_000  # rows in Python's types at a time, which take ten times the memory


class ConflictingRow(ValueError):
    """A stored row must not be changed, or its file has another format."""


class Unusable(Exception):
    """A file cannot be read; the message names it and the reason."""


class OtherFormat(Unusable):
    """A file is intact, but of another format."""


def file_name(table: str, study: str, trial_id: str, attempt: int) -> str:
    """Name of a trial's file. Each attempt has its own, so a later attempt never overwrites an earlier one."""
    return f"{table}/{check_name(study)}/{check_name(trial_id)}{f'~{attempt}' if attempt else ''}.parquet"


def is_compacted(name: str) -> bool:
    return COMPACTED.fullmatch(name) is not None


def is_visible(name: str) -> bool:
    """Whether readers read this file of RESULTS: <table>/<study>/<file>.parquet, with neither name hidden."""
    parts = name.split("/")
    return len(parts) == 3 and name.endswith(".parquet") and not any(part.startswith(HIDDEN) for part in parts[1:])


def compacted_name(table: str, study: str, data: bytes | pa.Buffer) -> str:
    """Name of a compacted file. It depends only on the content, so two simultaneous compactions leave one file."""
    return f"{table}/{check_name(study)}/compact~sha256-{digest(data)}.parquet"


def digest(data: bytes | pa.Buffer) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Convert rows to a table; the inverse of `rows_of`."""
    return pa.Table.from_pylist(rows, schema)


def rows_of(table: pa.Table) -> list[Row]:
    """Convert a table to rows in Python's types, maps as dicts. Raises KeyError for a map that has a name twice."""
    return list(table.to_pylist(maps_as_pydicts="strict"))


def serialise(rows: Sequence[Row], schema: pa.Schema) -> pa.Buffer:
    """The file of one trial, without dictionaries and statistics, which make a one-row file 30 % larger."""
    return _bytes_of(table_of(rows, schema), use_dictionary=False, write_statistics=False)


def serialise_many(table: pa.Table) -> pa.Buffer:
    """The file of many trials."""
    return _bytes_of(table, write_statistics=["trial_id"], compression="zstd")


def _bytes_of(table: pa.Table, **options: Any) -> pa.Buffer:
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, write_page_checksum=True, **options)
    return buffer.getvalue()


class _File(pq.ParquetFile):  # type: ignore[misc]
    """A file of which all columns are read."""

    def _build_nested_paths(self) -> dict[str, list[int]]:
        return {}  # an index for the choice of columns, which takes an eighth of the time of a file of one row


def parsed(data: bytes, kind: str, where: str) -> pa.Table:
    """The table in a file's bytes, whose rows are not checked yet (`faults`). where: the file's name in messages.

    Raises Unusable, or OtherFormat for an intact file of other columns.
    """
    try:
        # pre-buffering would copy data that is in memory already
        file = _File(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
        table = file.read(use_threads=file.num_row_groups > 1)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise Unusable(f"{where} cannot be read ({_one_line(error)})") from error
    schema, version = SCHEMAS[kind], (table.schema.metadata or {}).get(b"format_version", b"none").decode()
    if version != str(FORMAT_VERSION):
        said = f"has format {version[:20]}, which another release wrote; this one reads {FORMAT_VERSION}"
        raise OtherFormat(f"{where} {said}")
    if not table.num_rows or not table.schema.equals(schema):
        raise OtherFormat(f"{where} (format {version}) lacks the columns of its format, or has no rows")
    return table.replace_schema_metadata(schema.metadata)


def faults(table: pa.Table, kind: str, counts: Sequence[int], studies: Sequence[str | None]) -> list[str | None]:
    """For each file what it holds that may not be written; None for a file whose rows may all be written.

    table: the rows of all files, which are checked together, since that is much faster. counts: rows of each file.
    studies: the study of each file's folder; None: any.
    """
    try:
        table.validate(full=True)
        slices = (rows_of(table.slice(start, SLICE)) for start in range(0, table.num_rows, SLICE))
        rows = (row for listed in slices for row in listed)
        reasons = ([_fault(next(rows), kind, study) for _ in range(n)] for n, study in zip(counts, studies))
        return [next(filter(None, of_file), None) for of_file in reasons]
    except KeyError as error:  # Arrow's text ends with the name
        reason = f"a map that has {str(error.args[0]).rpartition('key was ')[2].rstrip(').')} twice"
    except (ValueError, OverflowError, pa.ArrowException) as error:  # such as times after the year 9999
        reason = f"a value that cannot be read: {_one_line(error)}"
    if len(counts) == 1:
        return [reason]
    starts = np.cumsum([0, *counts])
    each = (faults(table.slice(at, n), kind, [n], [study]) for at, n, study in zip(starts, counts, studies))
    return [fault for (fault,) in each]


def _fault(row: Row, kind: str, study: str | None) -> str | None:
    try:
        CHECKS[kind](row)
    except (ValueError, TypeError) as reason:
        return f"a row that is not allowed: {_one_line(reason)}"
    if study not in (None, row["study"]):
        return f"study {row['study']!r}; it belongs to that study's folder"
    return None


def load(store: Folder | Bucket, name: str) -> tuple[pa.Table, bool]:
    """Read a file; returns its table, and whether its rows are known to be allowed: `compact` checked what it wrote.

    Raises as `parsed` for its content, FileNotFoundError if it is gone, OSError if the store fails.
    """
    kind, study, _ = name.split("/")
    data = store.read(name)
    return parsed(data, kind, str(store.where(name))), is_compacted(name) and name == compacted_name(kind, study, data)


def load_rows(store: Folder | Bucket, name: str, trial_id: str | None = None) -> list[Row]:
    """The checked rows of a file, or one trial's in it. Raises as `load`."""
    table, checked = load(store, name)
    kind, study, _ = name.split("/")
    table = table if trial_id is None else table.filter(pc.equal(table["trial_id"], trial_id))
    if not checked and (fault := faults(table, kind, [table.num_rows], [study])[0]):
        raise Unusable(f"{store.where(name)} holds {fault}")
    return rows_of(table)


def canonical(row: Mapping[str, Any]) -> str:
    """A row as text, equal for equal rows: NaN equals NaN, and the order of a map does not matter."""
    return json.dumps(row, sort_keys=True, default=str)


def _one_line(error: Exception | str) -> str:
    return " ".join(str(error).split())
