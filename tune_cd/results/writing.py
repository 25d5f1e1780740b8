"""Writes trials and learning curves to the results, each trial in its own file."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

from tune_cd.results import parquet
from tune_cd.results.attempts import refusal
from tune_cd.results.compaction import state
from tune_cd.results.json_text import as_json, json_object
from tune_cd.results.location import check_location
from tune_cd.results.lookup import Held, look
from tune_cd.results.parquet import SCHEMAS, ConflictingRow, canonical, compacted_name, file_name, is_compacted
from tune_cd.results.reading import rows_in
from tune_cd.results.redaction import redact
from tune_cd.results.schema import TRIALS, Row, check_curve, check_trial
from tune_cd.results.store import Bucket, Folder, store_of

log = logging.getLogger(__name__)

TEXTS = ("error", "dataset", "task", "loss", "device")


def write_trial(results: str | Path, row: Mapping[str, Any]) -> Path | str:
    """Store a trial's row (the fields of `TRIALS`; nullable ones can be left out) and return its file.

    Secrets in its config, its error and other texts of users are not stored (`redaction`).

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
        store.write(compacted_name("trials", study, data), data)
        state(store, study, done=True)


def checked_row(row: Mapping[str, Any]) -> Row:
    """The complete row as it is stored, without secrets. Raises ValueError for one that is not allowed."""
    checked = check_trial(row)
    checked |= {name: redact(checked[name]) for name in TEXTS if checked[name]}
    if checked["choices"]:
        checked["choices"] = {name: redact(text) for name, text in checked["choices"].items()}
    kept = [*checked["params"], *(checked["choices"] or {})]
    return checked | {"config": as_json(json_object(checked["config"]), kept=kept)}


def write_curve(results: str | Path, study: str, trial_id: str, rows: Sequence[Mapping[str, Any]]) -> Path | str:
    """Store a trial's learning curve, replacing those of earlier states or attempts, and return its file.

    rows: one mapping for each evaluation, with the fields of `CURVES` except study and trial_id, all of one attempt.
    Raises ConflictingRow if this attempt's curve, or a later one's, was compacted (its trial's row is then stored) and
    differs. Raises ValueError for rows that are not allowed or none.
    """
    checked = [check_curve(dict(study=study, trial_id=trial_id, **row)) for row in rows]
    if len({row["attempt"] for row in checked}) != 1:
        raise ValueError(f"the {len(checked)} rows of trial {trial_id!r} must be at least one, and all of one attempt")
    store, attempt = store_of(results), checked[0]["attempt"]
    held = look(store, "curves", study, trial_id, attempt, own=False)
    final = [(file, row) for file, row in held.rows if row["attempt"] >= attempt]
    if final:
        where = store.where(final[0][0])
        if sorted(canonical(row) for _, row in final) == sorted(map(canonical, checked)):
            return where
        raise ConflictingRow(
            f"{where} holds attempt {final[0][1]['attempt']}, which attempt {attempt} must not replace"
        )
    return _put(store, "curves", checked, held)


def write(
    results: str | Path, row: Mapping[str, Any], curve: Sequence[Mapping[str, Any]], held: Held | None = None
) -> Path | str:
    """Store a curve and then its row, so that a stored row implies a stored curve; return the row's file.

    held: what `look` found for the row's attempt; by default it looks itself. Raises as the two writers do, except that
    a curve in conflict with the stored one is left out with a logged warning.
    """
    row, store = checked_row(row), store_of(results)
    for known in (held, None):
        known = known or look(store, "trials", row["study"], row["trial_id"], row["attempt"])
        if (file := _stored(store, row, known)) is not None:
            return file
        try:
            if curve:
                write_curve(results, row["study"], row["trial_id"], curve)
        except ConflictingRow as conflict:
            log.warning("%s", conflict)
        try:
            return _put(store, "trials", [row], known, new=True)
        except FileExistsError as there:  # another writer stored a row after the lookup
            taken = there
    raise taken


def _stored(store: Folder | Bucket, row: Row, held: Held) -> Path | str | None:
    """The file that holds an equal row; None if there is none. Raises ConflictingRow if `row` may not be stored."""
    if (counts := held.row) is None:
        return None
    where = store.where(next(file for file, its in held.rows if its is counts))
    if canonical(counts) == canonical(row):
        return where
    if (reason := refusal(counts, row)) is not None:
        raise ConflictingRow(f"{where} {reason}")
    return None


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
    store.write(name, parquet.serialise(rows, SCHEMAS[table]), new and name not in held.damaged)
    for other in {*held.damaged, *(file for file, _ in held.rows)} - {name}:
        if not is_compacted(other):
            store.remove(other)
    return store.where(name)
