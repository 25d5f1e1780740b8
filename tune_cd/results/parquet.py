"""A single Parquet file of the results: its name, its bytes, and reading it with checks."""

import hashlib
import re

import pyarrow as pa
import pyarrow.parquet as pq

from tune_cd.results.schema import CURVES, FORMAT_VERSION, TRIALS, Row, check_name
from tune_cd.results.store import Store

SCHEMAS = {"trials": TRIALS, "curves": CURVES}
HIDDEN = (".", "_")  # names with these prefixes are skipped, as Parquet readers do: unfinished files, folders set aside
COMPACTED = re.compile(r"(?:.*/)?compact~sha256-[0-9a-f]{16}\.parquet")  # behind ~ a trial's file has digits alone


class ConflictingRow(ValueError):
    """A stored row must not be changed."""


class Unusable(OSError):
    """A file is damaged or of another format; the message names it and the reason."""


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


def rows_of(table: pa.Table) -> list[Row]:
    """Convert a table to rows in Python's types, maps as dicts; the inverse of `pa.Table.from_pylist`."""
    return list(table.to_pylist(maps_as_pydicts="lossy"))


def serialise(table: pa.Table, many: bool = False) -> pa.Buffer:
    """The file of one trial, or of many. A single row is 30 % larger with dictionaries and statistics."""
    buffer = pa.BufferOutputStream()
    of_many = {"write_statistics": ["trial_id"], "compression": "zstd"}
    options = of_many if many else {"use_dictionary": False, "write_statistics": False}
    pq.write_table(table, buffer, write_page_checksum=True, **options)
    return buffer.getvalue()


def parsed(data: bytes, kind: str, where: str) -> pa.Table:
    """The table in a file's bytes. where: the file's name in messages. Raises Unusable."""
    try:
        # pre-buffering would copy data that is in memory already
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
        table = file.read(use_threads=file.num_row_groups > 1)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise Unusable(f"{where} cannot be read ({' '.join(str(error).split())})") from error
    schema, version = SCHEMAS[kind], (table.schema.metadata or {}).get(b"format_version", b"none").decode()
    if version != str(FORMAT_VERSION):
        wrote = "another program" if version == "none" else "another release"
        raise Unusable(f"{where} has format {version[:20]}, which {wrote} wrote; this one reads {FORMAT_VERSION}")
    if not table.num_rows or not table.schema.equals(schema):
        raise Unusable(f"{where} (format {version}) lacks the columns of its format, or has no rows")
    return table


def load(store: Store, name: str) -> pa.Table:
    """Read a file. Raises Unusable, also where it lies in another study's folder, and OSError of the store."""
    kind, study, _ = name.split("/")
    table = parsed(store.read(name), kind, str(store.where(name)))
    if (other := table["study"][0].as_py()) != study:
        raise Unusable(f"{store.where(name)} holds study {other!r}, to whose folder it belongs")
    return table
