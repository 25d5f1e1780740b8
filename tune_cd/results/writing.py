"""Rows into the results, each in a file of its own."""

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

from tune_cd.results.files import (
    COMPACT, SCHEMAS, ConflictingRow, OtherFormat, Unusable, canonical, file_name, find_in_compacted, first_choice, is_compacted,
    is_visible, load, rows_of, serialise,
)  # fmt: skip
from tune_cd.results.location import check_location
from tune_cd.results.store import Bucket, Folder, store_of
from tune_cd.schema import check_curve, check_name, check_trial

VANISHED = 5  # looks at a trial whose file a compaction took away between listing and opening it


def write_trial(results: str | Path, row: Mapping[str, Any]) -> Path | str:
    """Store a trial's row (the fields of `TRIALS`; nullable ones can be left out) and return its file.

    A trial is final unless it failed: only a failed row may be superseded, and only by a later attempt. Writing
    what is stored already does nothing. Raises ConflictingRow for any other rewrite, ValueError for a row that is
    not allowed (see `schema.check_trial`), OSError where the store refuses. The look at the stored rows and the
    write are two steps: two runs of one trial must not end at the same moment.
    """
    row = check_trial(row)
    store = store_of(results)
    stored, spoilt = _stored(store, "trials", row["study"], row["trial_id"])
    if stored:
        files, rows = zip(*stored, strict=True)
        chosen = first_choice(rows)
        if canonical(rows[chosen]) == canonical(row):
            return store.where(files[chosen])
        _refuse_unless_superseded(rows[chosen], row, str(store.where(files[chosen])))
    return _put(store, "trials", [row], [file for file, _ in stored] + spoilt)


def write_curve(results: str | Path, study: str, trial_id: str, rows: Sequence[Mapping[str, Any]]) -> Path | str:
    """Store a trial's learning curve, replacing what an earlier state or attempt of it left, and return its file.

    rows: one mapping an evaluation, the fields of `CURVES` but study and trial_id, all of one attempt.
    Raises ConflictingRow where a later attempt's curve is stored, or this attempt's was compacted (which only finished
    trials' are) and differs, ValueError for rows that are not allowed or none.
    """
    checked = [check_curve(dict(study=study, trial_id=trial_id, **row)) for row in rows]
    if len({row["attempt"] for row in checked}) != 1:
        raise ValueError(f"the {len(checked)} rows of trial {trial_id!r} must be at least one, and all of one attempt")
    store, attempt = store_of(results), checked[0]["attempt"]
    stored, spoilt = _stored(store, "curves", study, trial_id)
    for file in {file for file, _ in stored}:
        held = [row for name, row in stored if name == file]
        latest = max(row["attempt"] for row in held)
        final = is_compacted(file) and latest == attempt
        if final and sorted(map(canonical, held)) == sorted(map(canonical, checked)):
            return store.where(file)
        if latest > attempt or final:
            raise ConflictingRow(f"{store.where(file)} holds attempt {latest}, which attempt {attempt} must not replace")
    return _put(store, "curves", checked, [file for file, _ in stored] + spoilt)


def check_writable(results: str | Path) -> Path | str:
    """The folder, made if need be, or the object store's URI, proved writable.

    Raises the OSError that fits, naming the place and the reason, ValueError for one that is not allowed.
    """
    store = store_of(results)
    probe = f".probe-{token_hex(8)}"
    try:
        store.write(probe, b"probe")
        store.remove(probe)
    except OSError as error:
        raise OSError(error.errno, f"cannot write results to {store.where()}: {error.strerror or error}") from error
    return check_location(results)


def _put(store: Folder | Bucket, table: str, rows: list[dict], superseded: list[str]) -> Path | str:
    """Write a trial's file, then remove the files of its own that it supersedes. Between the two, `read` knows which counts."""
    name = file_name(table, rows[0]["study"], rows[0]["trial_id"], rows[0]["attempt"])
    store.write(name, serialise(rows, SCHEMAS[table]))
    for other in set(superseded) - {name}:
        if not is_compacted(other):
            store.remove(other)
    return store.where(name)


def _stored(store: Folder | Bucket, table: str, study: str, trial_id: str) -> tuple[list[tuple[str, dict]], list[str]]:
    """What is stored of a trial: (file, row) of every row, and files of its own that are damaged.

    Raises ConflictingRow for a file of another format, OSError where the store does not answer.
    """
    folder = f"{table}/{check_name(study)}"
    own = re.compile(re.escape(f"{folder}/{check_name(trial_id)}") + r"(~\d+)?\.parquet")
    near = (f"{folder}/{trial_id}", f"{folder}/{COMPACT}")  # a fast first look: there may be thousands of others
    for look in range(1, VANISHED + 1):
        listed = [file for file in store.listing(folder) if file.startswith(near)]
        files = [file for file in listed if own.fullmatch(file) or (is_compacted(file) and is_visible(file))]
        try:
            return _rows_in(store, files, trial_id)
        except FileNotFoundError:  # compacted since it was listed: the next listing has the file that holds it now
            if look == VANISHED:
                raise
    raise AssertionError("unreachable")


def _rows_in(store: Folder | Bucket, files: list[str], trial_id: str) -> tuple[list[tuple[str, dict]], list[str]]:
    rows: list[tuple[str, dict]] = []
    spoilt: list[str] = []
    for file in files:
        try:
            found = find_in_compacted(store, file, trial_id) if is_compacted(file) else rows_of(load(store, file))
            rows += [(file, row) for row in found]
        except OtherFormat as reason:
            raise ConflictingRow(f"{reason}; it is not replaced") from reason
        except Unusable as reason:
            warnings.warn(f"{reason}; it is {'left as it is' if is_compacted(file) else 'replaced'}", stacklevel=4)
            spoilt.append(file)
    return rows, spoilt


def _refuse_unless_superseded(stored: dict, row: dict, path: str) -> None:
    held = f"{path} holds attempt {stored['attempt']}, {stored['status']}"
    if stored["status"] != "failed":
        changed = [name for name in stored if canonical({name: stored[name]}) != canonical({name: row[name]})]
        raise ConflictingRow(f"{held}, which never changes; refused: attempt {row['attempt']}, which differs in {changed}")
    if row["attempt"] <= stored["attempt"]:
        raise ConflictingRow(f"{held}; only a later attempt may supersede it, not attempt {row['attempt']}")
