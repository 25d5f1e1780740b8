"""Writes trials and learning curves to the results, each trial in its own file, and looks them up: by the exact names
that a trial's files may have, and in compacted files."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow.compute as pc

from tune_cd.results import parquet
from tune_cd.results.attempts import current, refusal
from tune_cd.results.json_text import as_json, json_object
from tune_cd.results.location import check_location
from tune_cd.results.parquet import SCHEMAS, ConflictingRow, canonical, file_name, is_compacted, load, rows_of
from tune_cd.results.reading import rows_in
from tune_cd.results.redaction import redact
from tune_cd.results.schema import TRIALS, Row, check_curve, check_name, check_trial
from tune_cd.results.store import Bucket, Folder, store_of
from tune_cd.results.study_files import COMPACTION, DONE, state, text_of


@dataclass
class Held:
    """What is stored of one trial."""

    rows: list[tuple[str, Row]] = field(default_factory=list)  # (file, row)

    @property
    def row(self) -> Row | None:
        """The row that counts."""
        return current([row for _, row in self.rows]) if self.rows else None


def write_trial(results: str | Path, row: Mapping[str, Any]) -> Path | str:
    """Store a trial's row (the fields of `TRIALS`; nullable ones can be left out) and return its file.

    Secrets in its config and its error are not stored (`redaction`).

    A row is final unless the trial failed or stopped early; only a later attempt supersedes a row that is not final.
    Writing a stored row again does nothing. Raises ConflictingRow for any other rewrite, ValueError for a row that is
    not allowed (see `schema.check_trial`), OSError if the store refuses. If two runs of one trial end at the same
    moment, one gets ConflictingRow; in an object store, where lookup and write are two steps, the later row may replace
    the other instead.
    """
    return write(results, row, ())


def write_many(results: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Store trials of one study that do not run again, as those of a replay, in one file: quick to write and to read.

    Rows that are stored already are left out. Raises as `write_trial`, with nothing written.
    """
    checked = {row["trial_id"]: row for row in map(checked_row, rows)}
    if not checked:
        return
    store, study = store_of(results), next(iter(checked.values()))["study"]
    for held in rows_in(results, study):
        new = checked.pop(held["trial_id"], held)
        if canonical(new) != canonical(held):
            raise ConflictingRow(f"{store.where(f'trials/{study}')} holds another row of {held['trial_id']}")
    if checked:
        data = parquet.serialise_many(parquet.table_of([checked[trial] for trial in sorted(checked)], TRIALS))
        store.write(parquet.compacted_name("trials", study, data), data)
        state(store, study, done=True)


def checked_row(row: Mapping[str, Any]) -> Row:
    """The complete row as it is stored, without secrets. Raises ValueError for one that is not allowed."""
    checked = check_trial(row)
    error = checked["error"] and redact(checked["error"])
    return checked | {"error": error, "config": as_json(json_object(checked["config"]))}


def write_curve(results: str | Path, study: str, trial_id: str, rows: Sequence[Mapping[str, Any]]) -> Path | str:
    """Store a trial's learning curve, replacing those of earlier states or attempts, and return its file.

    rows: one mapping for each evaluation, with the fields of `CURVES` but study and trial_id, all of one attempt.
    A curve of this attempt or a later one that was compacted stays instead. Raises ValueError for rows that are not
    allowed or none.
    """
    checked = [check_curve({**row, "study": study, "trial_id": trial_id}) for row in rows]
    if len({row["attempt"] for row in checked}) != 1:
        raise ValueError(f"the {len(checked)} rows of trial {trial_id!r} must be at least one, and all of one attempt")
    store, attempt = store_of(results), checked[0]["attempt"]
    held = look(store, "curves", study, trial_id, attempt, own=False)
    there = [file for file, row in held.rows if row["attempt"] >= attempt]
    return store.where(there[0]) if there else _put(store, "curves", checked, held)


def write(
    results: str | Path, row: Mapping[str, Any], curve: Sequence[Mapping[str, Any]], held: Held | None = None
) -> Path | str:
    """Store a curve and then its row, so that a stored row implies a stored curve; return the row's file.

    held: what `look` found for the row's attempt; by default it looks itself. Raises as the two writers do.
    """
    row, store = checked_row(row), store_of(results)
    for known in (held, None):
        known = known or look(store, "trials", row["study"], row["trial_id"], row["attempt"])
        if (stored := known.row) is not None:
            where = store.where(next(file for file, its in known.rows if its is stored))
            if canonical(stored) == canonical(row):
                return where
            if (reason := refusal(stored, row)) is not None:
                raise ConflictingRow(f"{where} {reason}")
        if curve:
            write_curve(results, row["study"], row["trial_id"], curve)
        try:
            return _put(store, "trials", [row], known, new=True)
        except FileExistsError as there:  # another writer has stored a row since the lookup
            taken = there
    raise taken


def check_writable(results: str | Path) -> Path | str:
    """Check that results can be written; return the folder, created if necessary, or the object store's URI.

    Raises OSError naming the place and the reason, ValueError for a location that is not allowed.
    """
    store, probe = store_of(results), f".probe-{token_hex(8)}"
    try:
        store.write(probe, b"probe")
        store.remove(probe)
    except OSError as error:
        raise OSError(error.errno, f"cannot write results to {store.where()}: {error.strerror or error}") from error
    return check_location(results)


def _put(store: Folder | Bucket, table: str, rows: list[Row], held: Held, new: bool = False) -> Path | str:
    """Write a trial's file, then remove its superseded files; in between, `read` chooses the rows that count."""
    name = file_name(table, rows[0]["study"], rows[0]["trial_id"], rows[0]["attempt"])
    store.write(name, parquet.serialise(rows, SCHEMAS[table]), new)
    for other in {file for file, _ in held.rows} - {name}:
        if not is_compacted(other):
            store.remove(other)
    return store.where(name)


def read_trial(results: str | Path, study: str, trial_id: str) -> Row | None:
    """The row of one trial that counts (see `read`), in Python's types; None if there is none.

    Its attempt is not known, so this reads the study: a writer uses `look`. Raises ValueError for a name that is not
    allowed, OSError if the store does not answer.
    """
    check_name(trial_id)
    return Held([("", row) for row in rows_in(results, study) if row["trial_id"] == trial_id]).row


def read_curve(results: str | Path, study: str, trial_id: str, attempt: int) -> list[Row]:
    """The learning curve of a trial up to this attempt, by ascending images_seen; empty if there is none.

    Raises as `look`.
    """
    rows = [row for _, row in look(store_of(results), "curves", study, trial_id, attempt).rows]
    latest = max((row["attempt"] for row in rows), default=0)
    looks = {row["images_seen"]: row for row in rows if row["attempt"] == latest}
    return [looks[images] for images in sorted(looks)]


def look(store: Folder | Bucket, table: str, study: str, trial_id: str, attempt: int, own: bool = True) -> Held:
    """What is stored of a trial.

    attempt: the run that asks. The files of this attempt and of the latest one before it are asked for by name, then
    compacted files. own: False: the attempt's own file is of no interest.
    Raises OSError if the store does not answer, or one of these files is damaged.
    """
    for number in reversed(range(attempt + own)):
        file = file_name(table, study, trial_id, number)
        with suppress(FileNotFoundError):
            return Held([(file, row) for row in rows_of(load(store, file))])
    while True:
        try:
            files = [file for file in compacted(store, table, study) if trial_id in _ids(store, file)]
            tables = {file: load(store, file).filter(pc.field("trial_id") == trial_id) for file in files}
            return Held([(file, row) for file, table in tables.items() for row in rows_of(table)])
        except FileNotFoundError:  # another compaction removed it after it was listed, and had stated a new file
            store.compactions.pop(study, None)


@lru_cache(maxsize=32)
def _ids(store: Folder | Bucket, file: str) -> frozenset[str]:
    """The trials in a compacted file, whose content never changes under its name."""
    return frozenset(load(store, file)["trial_id"].to_pylist())


def compacted(store: Folder | Bucket, table: str, study: str) -> list[str]:
    """A study's compacted files. They are listed again only after a compaction stated that it was at work."""
    checked, statement, files = store.compactions.get(study, (-inf, b"", []))
    if time.monotonic() - checked >= store.trusted:
        checked, found = time.monotonic(), text_of(store, study, COMPACTION) or b""
        if found != statement:
            kinds = SCHEMAS if found else ()  # no study is compacted without a statement
            files = [name for kind in kinds for name in store.listing(f"{kind}/{study}", depth=1) if is_compacted(name)]
        if not found or DONE in found:
            store.compactions[study] = checked, found, files
    return [file for file in files if file.startswith(f"{table}/")]
