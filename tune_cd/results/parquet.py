"""One Parquet file of the results: its name, its bytes, and the checks of reading it."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tune_cd.results.migrations import upgrade
from tune_cd.results.schema import CURVES, FORMAT_VERSION, TRIALS, Row, check_name
from tune_cd.results.store import Bucket, Folder

SCHEMAS = {"trials": TRIALS, "curves": CURVES}
HIDDEN = (".", "_")  # names that begin so are skipped, as Parquet readers do: files being written, folders put aside
COMPACT = "compact~sha256-"  # how compacted files' names begin
COMPACTED = re.compile(COMPACT + r"([0-9a-f]{16})\.parquet")  # no trial's file: behind its ~ there are digits alone
ROW_GROUP = 10_000  # rows of a compacted file of which a writer reads one column to look a trial up


class ConflictingRow(ValueError):
    """A write that would change a final row."""


class Unusable(Exception):
    """A file that cannot be read; the text names it and says why."""


class OtherFormat(Unusable):
    """A file in good order, but not of this format."""


def file_name(table: str, study: str, trial_id: str, attempt: int) -> str:
    """The name of a trial's file. Every attempt has its own, so that no file is ever replaced by another one."""
    return f"{table}/{check_name(study)}/{check_name(trial_id)}{f'~{attempt}' if attempt else ''}.parquet"


def is_compacted(name: str) -> bool:
    return COMPACTED.fullmatch(name.rpartition("/")[2]) is not None


def is_visible(name: str) -> bool:
    """Whether readers read this file below RESULTS: <table>/<study>/<file>.parquet, neither name hidden."""
    parts = name.split("/")
    return len(parts) == 3 and name.endswith(".parquet") and not any(part.startswith(HIDDEN) for part in parts[1:])


def compacted_name(table: str, study: str, data: bytes | pa.Buffer) -> str:
    """The same for the same rows, so that two compactions at once leave one file."""
    return f"{table}/{check_name(study)}/{COMPACT}{digest(data)}.parquet"


def digest(data: bytes | pa.Buffer) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table; the inverse of `rows_of`."""
    listed = [{name: list(v.items()) if isinstance(v, dict) else v for name, v in row.items()} for row in rows]
    return pa.Table.from_pylist(listed, schema)


def rows_of(table: pa.Table) -> list[Row]:
    """A table's rows in Python's types, maps as dicts."""
    return [{name: dict(v) if isinstance(v, list) else v for name, v in row.items()} for row in table.to_pylist()]


def serialise(rows: Sequence[Row], schema: pa.Schema) -> pa.Buffer:
    """The file of one trial: dictionaries and statistics only make a one-row file 30 % larger."""
    return _bytes_of(table_of(rows, schema), use_dictionary=False, write_statistics=False)


def serialise_many(table: pa.Table) -> pa.Buffer:
    """The file of many trials, ordered by trial_id. Each row group states its range, so one trial is found fast."""
    return _bytes_of(table, write_statistics=["trial_id"], row_group_size=ROW_GROUP, compression="zstd")


def _bytes_of(table: pa.Table, **options: Any) -> pa.Buffer:
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, write_page_checksum=True, **options)
    return buffer.getvalue()


def load(store: Folder | Bucket, name: str) -> pa.Table:
    """One file's table in today's format, checked.

    Raises Unusable or OtherFormat for the file's content, FileNotFoundError where it is gone, OSError for the store.
    """
    return parsed(store.read(name), name.partition("/")[0], str(store.where(name)))


def parsed(data: bytes, kind: str, where: str) -> pa.Table:
    """A file's table in today's format, checked.  kind: trials or curves.  where: its name in messages.

    Raises as `load`.
    """
    try:
        # pre-buffering would copy what is in memory already
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
        table = file.read(use_threads=file.metadata.num_row_groups > 1)
        table.validate(full=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise Unusable(f"{where} cannot be read ({_one_line(error)})") from error
    return _conform(table, kind, where)


def find_in_compacted(store: Folder | Bucket, name: str, trial_id: str) -> list[Row]:
    """The rows of one trial in a compacted file; reads little more than them. Raises as `load` does."""
    source = store.open(name)
    try:
        with source, pq.ParquetFile(source, page_checksum_verification=True) as file:
            groups = [group for group in _groups_around(file, trial_id) if trial_id in _trial_ids(file, group)]
            if not groups:
                return []
            table = file.read_row_groups(groups, use_threads=False)
            table.validate(full=True)
    except (OSError, ValueError, pa.ArrowException):  # of the store or of the file: reading all of it first tells
        table = load(store, name)
    table = table.filter(pc.equal(table["trial_id"], trial_id))
    return rows_of(_conform(table, name.partition("/")[0], str(store.where(name)))) if table.num_rows else []


def canonical(row: Mapping[str, Any]) -> str:
    """Equal for equal rows: NaN equals NaN, and the order of a map does not matter."""
    return json.dumps(row, sort_keys=True, default=str)


def _conform(table: pa.Table, kind: str, where: str) -> pa.Table:
    """The table in today's schema. Raises OtherFormat."""
    schema = SCHEMAS[kind]
    if table.num_rows and table.schema.metadata == schema.metadata and table.schema.equals(schema):  # as most are
        return table
    text = (table.schema.metadata or {}).get(b"format_version", b"none").decode(errors="replace")
    version = int(text) if re.fullmatch(r"[1-9]\d{0,5}", text) else 0
    if version > FORMAT_VERSION:
        raise OtherFormat(
            f"{where} has format {version}, which a newer release wrote; this one reads up to {FORMAT_VERSION}"
        )
    try:
        upgraded = upgrade(table, kind, version).select(schema.names)
        if not upgraded.schema.equals(schema) or not upgraded.num_rows:
            raise ValueError("other columns, or no rows")
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise OtherFormat(f"{where} (format {text}) lacks the columns of its format, or has no rows") from error
    return pa.Table.from_arrays(upgraded.columns, schema=schema)


def _groups_around(file: pq.ParquetFile, trial_id: str) -> list[int]:
    """The row groups whose range of trial_ids has this one. Raises ValueError for a file without trial_ids."""
    column = [file.schema.column(index).path for index in range(len(file.schema))].index("trial_id")
    ranges = [file.metadata.row_group(group).column(column).statistics for group in range(file.num_row_groups)]
    return [
        n for n, held in enumerate(ranges) if held is None or not held.has_min_max or held.min <= trial_id <= held.max
    ]


def _trial_ids(file: pq.ParquetFile, group: int) -> list[str]:
    return list(file.read_row_group(group, columns=["trial_id"], use_threads=False)["trial_id"].to_pylist())


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
