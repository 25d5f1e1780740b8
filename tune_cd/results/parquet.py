"""A single Parquet file of the results: its name, its bytes, and reading it with checks."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tune_cd.results.schema import CURVES, FORMAT_VERSION, TRIALS, Row, check_curve, check_name, check_trial
from tune_cd.results.store import Bucket, Folder

SCHEMAS = {"trials": TRIALS, "curves": CURVES}
CHECKS = {"trials": check_trial, "curves": check_curve}
FORMER, SINCE_FORMER = "3", ("choices", "mode")  # the format before, which is read too, and the columns that it lacks
HIDDEN = (".", "_")  # names with these prefixes are skipped, as Parquet readers do: unfinished files, folders set aside
COMPACT = "compact~sha256-"  # prefix of compacted files' names
COMPACTED = re.compile(COMPACT + r"([0-9a-f]{16})\.parquet")  # trials' files never match: after ~ they have only digits
SLICE = 10_000  # rows in Python's types at a time, which take ten times the memory
ROW_GROUP = 10_000  # rows in a row group of a compacted file; a lookup reads one column of a group


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
    file = name.rpartition("/")[2]
    return file.startswith(COMPACT) and COMPACTED.fullmatch(file) is not None


def is_visible(name: str) -> bool:
    """Whether readers read this file of RESULTS: <table>/<study>/<file>.parquet, with neither name hidden."""
    parts = name.split("/")
    return len(parts) == 3 and name.endswith(".parquet") and not any(part.startswith(HIDDEN) for part in parts[1:])


def compacted_name(table: str, study: str, data: bytes | pa.Buffer) -> str:
    """Name of a compacted file. It depends only on the content, so two simultaneous compactions leave one file."""
    return f"{table}/{check_name(study)}/{COMPACT}{digest(data)}.parquet"


def digest(data: bytes | pa.Buffer) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Convert rows to a table; the inverse of `rows_of`."""
    listed = [{name: list(v.items()) if isinstance(v, dict) else v for name, v in row.items()} for row in rows]
    return pa.Table.from_pylist(listed, schema)


def rows_of(table: pa.Table) -> list[Row]:
    """Convert a table to rows in Python's types, maps as dicts."""
    return [{name: dict(v) if isinstance(v, list) else v for name, v in row.items()} for row in table.to_pylist()]


def serialise(rows: Sequence[Row], schema: pa.Schema) -> pa.Buffer:
    """The file of one trial, without dictionaries and statistics, which make a one-row file 30 % larger."""
    return _bytes_of(table_of(rows, schema), use_dictionary=False, write_statistics=False)


def serialise_many(table: pa.Table) -> pa.Buffer:
    """The file of many trials, ordered by trial_id. Each row group states its range, so a trial is found fast."""
    return _bytes_of(table, write_statistics=["trial_id"], row_group_size=ROW_GROUP, compression="zstd")


def _bytes_of(table: pa.Table, **options: Any) -> pa.Buffer:
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, write_page_checksum=True, **options)
    return buffer.getvalue()


def load(store: Folder | Bucket, name: str) -> pa.Table:
    """Read and check a file; returns its table.

    Raises Unusable or OtherFormat for its content, FileNotFoundError if it is gone, OSError if the store fails.
    """
    kind, study, _ = name.split("/")
    data, where = store.read(name), str(store.where(name))
    table = parsed(data, kind, where)
    whole = is_compacted(name) and name == compacted_name(kind, study, data)  # `compact` checked what it wrote
    return table if whole else checked(table, kind, where, study)


def table_in(data: bytes) -> pa.Table:
    """The table in a file's bytes, not checked. Raises OSError, ValueError or ArrowException."""
    # pre-buffering would copy data that is in memory already
    file = _File(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
    return file.read(use_threads=file.num_row_groups > 1)


class _File(pq.ParquetFile):  # type: ignore[misc]
    """A file of which all columns are read."""

    def _build_nested_paths(self) -> dict[str, list[int]]:
        return {}  # an index for the choice of columns, which takes an eighth of the time of a file of one row


def parsed(data: bytes, kind: str, where: str) -> pa.Table:
    """Parse a file's bytes; returns its table in today's format, whose rows are not checked yet. where: the file's
    name in messages. Raises as `load`."""
    try:
        table = table_in(data)
        table.validate(full=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise Unusable(f"{where} cannot be read ({_one_line(error)})") from error
    return _conform(table, kind, where)


def checked(table: pa.Table, kind: str, where: str, study: str = "") -> pa.Table:
    """Return the table if all its rows may be written. Raises Unusable otherwise. study: the one of the file's folder,
    if it has one."""
    for start in range(0, table.num_rows, SLICE):
        try:
            rows = table.slice(start, SLICE).to_pylist()
        except (ValueError, OverflowError) as error:  # times beyond the year 9999
            raise Unusable(f"{where} holds a value that cannot be read: {_one_line(error)}") from error
        if reason := next(filter(None, (_reason(row, kind, study) for row in rows)), None):
            raise Unusable(f"{where} holds {_one_line(reason)}")
    return table


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


def find_in_compacted(store: Folder | Bucket, name: str, trial_id: str) -> list[Row]:
    """The rows of one trial in a compacted file; reads few other rows. Raises as `load` does."""
    try:
        with store.open(name) as source, pq.ParquetFile(source, page_checksum_verification=True) as file:
            ids = [file.read_row_group(group, columns=["trial_id"]) for group in range(file.num_row_groups)]
            groups = [group for group, held in enumerate(ids) if trial_id in held["trial_id"].to_pylist()]
            table = file.read_row_groups(groups, use_threads=False)
            table.validate(full=True)
    except (OSError, ValueError, KeyError, pa.ArrowException):  # the store or the file: reading all of it tells
        table = load(store, name)
    table = table.filter(pc.equal(table["trial_id"], trial_id))
    if not table.num_rows:
        return []
    (kind, study, _), where = name.split("/"), str(store.where(name))
    return rows_of(checked(_conform(table, kind, where), kind, where, study))


def canonical(row: Mapping[str, Any]) -> str:
    """A row as text, equal for equal rows: NaN equals NaN, and the order of a map does not matter."""
    return json.dumps(row, sort_keys=True, default=str)


def _conform(table: pa.Table, kind: str, where: str) -> pa.Table:
    """Convert a table to today's schema. Raises OtherFormat if that is not possible."""
    schema = SCHEMAS[kind]
    text = (table.schema.metadata or {}).get(b"format_version", b"none").decode(errors="replace")
    if text == FORMER:
        missing = [field for field in schema if field.name in SINCE_FORMER and field.name not in table.column_names]
        for field in missing:
            table = table.add_column(schema.names.index(field.name), field, pa.nulls(table.num_rows, field.type))
    elif text != str(FORMAT_VERSION):
        said = f"has format {text[:20]}, which another release wrote; this one reads {FORMAT_VERSION}"
        raise OtherFormat(f"{where} {said}")
    if not table.num_rows or not table.schema.equals(schema):
        raise OtherFormat(f"{where} (format {text}) lacks the columns of its format, or has no rows")
    return table.replace_schema_metadata(schema.metadata)


def _one_line(error: Exception | str) -> str:
    return " ".join(str(error).split())
