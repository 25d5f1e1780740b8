"""The results folder: one Parquet file a trial, which any Parquet reader understands and no crash can corrupt.

    RESULTS/trials/<study>/<trial_id>.parquet    one row, `TRIALS`
    RESULTS/curves/<study>/<trial_id>.parquet    one row an evaluation, `CURVES`

    results.write_trial("results", {"study": "demo", "trial_id": "t0", ...})
    table = results.read("results")              # pandas.read_parquet("results/trials") with checks and exact types

A file appears whole or not at all: it is written and flushed under a name no reader looks at, then renamed. Pages
carry checksums, which `read` verifies (plain readers do not by default). RESULTS must be one folder for all who
write: on a cluster, a file system that every node mounts at the same path.
"""

import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import fsum
from pathlib import Path
from secrets import token_hex
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tune_cd.optimiser import Told
from tune_cd.schema import CURVES, FORMAT_VERSION, STATUSES, TRIALS, check_curve, check_name, check_trial  # noqa: F401

READERS = 8  # threads that read files: one would do on a local disk, several hide a network file system's latency
HIDDEN = (".", "_")  # names that begin so are skipped, as Parquet readers do: files being written, folders put aside


class ConflictingRow(ValueError):
    """A write that would change what is final."""


class _Unusable(Exception):
    """A file that cannot be read; the text names it and says why."""


class _OtherFormat(_Unusable):
    """A file in good order, but not of this format."""


def write_trial(results: str | Path, row: Mapping[str, Any]) -> Path:
    """Store a trial's row (the fields of `TRIALS`; nullable ones can be left out) and return its file.

    A trial is final unless it failed: only a failed row may be superseded, and only by a later attempt. Writing
    what is stored already does nothing. Raises ConflictingRow for any other rewrite, ValueError for a row that is
    not allowed (see `schema.check_trial`), OSError where the disk refuses. The look at the stored row and the
    rename are two steps: two runs of one trial must not end at the same moment.
    """
    row = check_trial(row)
    path = _file(results, "trials", row["study"], row["trial_id"])
    for stored in _stored(path, TRIALS):
        if _canonical(stored) == _canonical(row):
            return path
        _refuse_unless_superseded(stored, row, path)
    publish(path, _serialise([row], TRIALS))
    return path


def write_curve(results: str | Path, study: str, trial_id: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Store a trial's learning curve, replacing what an earlier state or attempt of it left, and return its file.

    rows: one mapping an evaluation, the fields of `CURVES` but study and trial_id, all of one attempt.
    Raises ConflictingRow where a later attempt's curve is stored, ValueError for rows that are not allowed or none.
    """
    checked = [check_curve(dict(study=study, trial_id=trial_id, **row)) for row in rows]
    if len({row["attempt"] for row in checked}) != 1:
        raise ValueError(f"the {len(checked)} rows of trial {trial_id!r} must be at least one, and all of one attempt")
    path, attempt = _file(results, "curves", study, trial_id), checked[0]["attempt"]
    stored = max((row["attempt"] for row in _stored(path, CURVES)), default=attempt)
    if stored > attempt:
        raise ConflictingRow(f"{path} holds attempt {stored}, which attempt {attempt} must not replace")
    publish(path, _serialise(checked, CURVES))
    return path


def read(results: str | Path, study: str | None = None) -> pd.DataFrame:
    """All trials, or one study's, ordered by study, search and trial_index; no rows where there are no trials yet.

    Columns are those of `TRIALS`: maps are dicts, times are in UTC, integers that may be null are Int64. A file that
    cannot be read, or has another schema, is named in a warning and left out.
    Raises FileNotFoundError if there is no folder `results`, ValueError for a study that is no name.
    """
    return _read(results, "trials", study, TRIALS, ["study", "search", "trial_index"])


def read_curves(results: str | Path, study: str | None = None) -> pd.DataFrame:
    """All learning curves, or one study's, ordered by study, trial_id and images_seen; otherwise as `read`."""
    return _read(results, "curves", study, CURVES, ["study", "trial_id", "images_seen"])


def history(trials: pd.DataFrame) -> list[Told]:
    """What every configuration of these rows of the results table was found to be worth, a search's in asking order.

    Of several trials of one configuration (with other seeds), the mean of those that completed; where none did, the
    best score at which one was stopped, censored; else None.
    """
    rows = trials.sort_values(["study", "search", "trial_index"])
    configurations: dict[tuple, list] = {}
    for row in rows.itertuples():
        configurations.setdefault(tuple(sorted(row.params.items())), []).append(row)
    return [_worth(dict(params), repeats) for params, repeats in configurations.items()]


def _worth(params: dict, repeats: list) -> Told:
    scores = {status: [row.val_score for row in repeats if row.status == status] for status in ("completed", "stopped")}
    if scores["completed"]:
        return Told(params, fsum(scores["completed"]) / len(scores["completed"]))  # in whatever order they ended
    return Told(params, max(scores["stopped"]), censored=True) if scores["stopped"] else Told(params, None)


def check_writable(results: str | Path) -> Path:
    """The folder, made if need be and proved writable; else the OSError that fits, naming the folder and the reason."""
    probe = _root(results) / f".probe-{token_hex(8)}"
    try:
        publish(probe, b"")
        probe.unlink()
    except OSError as error:
        raise OSError(error.errno, f"cannot write results to {probe.parent}: {error.strerror}") from error
    return probe.parent


def _root(results: str | Path) -> Path:
    text = os.fspath(results)
    if not text or re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text):  # Path would quietly make a folder named "s3:"
        raise ValueError(f"results {text!r} is not allowed; the path of a local or mounted folder is")
    return Path(text).expanduser()


def _file(results: str | Path, table: str, study: str, trial_id: str) -> Path:
    return _root(results) / table / check_name(study) / f"{check_name(trial_id)}.parquet"


def _stored(path: Path, schema: pa.Schema) -> list[dict]:
    """The rows in a file; none if there is no file, or a damaged one. Raises ConflictingRow for another format."""
    try:
        rows = _load(path, schema).to_pylist() if path.exists() else []
        return [{name: dict(v) if isinstance(v, list) else v for name, v in row.items()} for row in rows]
    except _OtherFormat as reason:
        raise ConflictingRow(f"{reason}; it is not replaced") from reason
    except _Unusable as reason:
        warnings.warn(f"{reason}; it is replaced", stacklevel=3)
        return []


def _canonical(row: dict) -> str:
    """Equal for equal rows: NaN equals NaN, and the order of a map does not matter."""
    return json.dumps(row, sort_keys=True, default=str)


def _refuse_unless_superseded(stored: dict, row: dict, path: Path) -> None:
    held = f"{path} holds attempt {stored['attempt']}, {stored['status']}"
    if stored["status"] != "failed":
        changed = [name for name in stored if _canonical({name: stored[name]}) != _canonical({name: row[name]})]
        raise ConflictingRow(f"{held}, which never changes; refused: attempt {row['attempt']}, which differs in {changed}")
    if row["attempt"] <= stored["attempt"]:
        raise ConflictingRow(f"{held}; only a later attempt may supersede it, not attempt {row['attempt']}")


def _serialise(rows: list[dict], schema: pa.Schema) -> pa.Buffer:
    listed = [{name: list(v.items()) if isinstance(v, dict) else v for name, v in row.items()} for row in rows]
    buffer = pa.BufferOutputStream()
    table = pa.Table.from_pylist(listed, schema)  # dictionaries and statistics only make a one-row file 30 % larger
    pq.write_table(table, buffer, write_page_checksum=True, use_dictionary=False, write_statistics=False)
    return buffer.getvalue()


def publish(path: Path, data: bytes | pa.Buffer) -> None:
    """Put a file in place so that readers see the old one or the new one, whatever happens in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # an interrupt as well: nothing may be left behind
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # only now does the rename survive a power cut
    os.close(folder)


def _load(path: Path, schema: pa.Schema) -> pa.Table:
    """One file's table, checked. Raises _Unusable or _OtherFormat for what is in the file, OSError for the disk."""
    source = pa.BufferReader(path.read_bytes())
    try:
        table = pq.ParquetFile(source, page_checksum_verification=True).read(use_threads=False)
        table.validate(full=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _Unusable(f"{path} cannot be read ({' '.join(str(error).split())})") from error
    version = (table.schema.metadata or {}).get(b"format_version", b"none").decode(errors="replace")
    if version != str(FORMAT_VERSION) or not table.schema.equals(schema) or not table.num_rows:
        raise _OtherFormat(f"{path} (format {version}) lacks the columns of format {FORMAT_VERSION}, or has no rows")
    return table


def _read(results: str | Path, table: str, study: str | None, schema: pa.Schema, order: list[str]) -> pd.DataFrame:
    root = _root(results)
    if not root.is_dir():
        raise FileNotFoundError(f"there is no results folder {root}")
    found = (root / table).glob("*/*.parquet" if study is None else f"{check_name(study)}/*.parquet")
    files = sorted(p for p in found if not p.name.startswith(HIDDEN) and not p.parent.name.startswith(HIDDEN))
    tables = [schema.empty_table()]
    with ThreadPoolExecutor(READERS) as pool:
        for future in [pool.submit(_load, path, schema) for path in files]:
            try:
                tables.append(future.result())
            except (_Unusable, OSError) as reason:
                warnings.warn(f"{reason}; it is left out", stacklevel=3)
    joined = pa.concat_tables(tables).combine_chunks()
    frame = joined.to_pandas(maps_as_pydicts="strict", types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    frame = frame.astype({field.name: "int64" for field in schema if field.type == pa.int64() and not field.nullable})
    return frame.sort_values(order, ignore_index=True)
