"""Writes trials and learning curves to the results, each trial in its own file, and looks them up: by the exact names
that a trial's files may have, and in compacted files."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tune_cd.results.attempts import canonical, rank, refusal
from tune_cd.results.compaction import compacted, state
from tune_cd.results.location import check_location
from tune_cd.results.parquet import ConflictingRow, compacted_name, file_name, is_compacted, load, rows_of, serialise
from tune_cd.results.reading import rows_in
from tune_cd.results.redaction import as_json, json_object, redact
from tune_cd.results.rows import next_run
from tune_cd.results.schema import CURVES, TRIALS, Row, check_curve, check_trial
from tune_cd.results.store import Store, store_of


def write_trial(
    results: str | Path, row: Mapping[str, Any], curve: Sequence[Mapping[str, Any]] = (), *, goes_on: bool = False
) -> Path | str:
    """Store a trial's row (the fields of `TRIALS`; nullable ones can be left out) and return its file.

    Secrets in its config and its error are not stored (`redaction`).

    A row is final unless the trial failed or stopped early; only a later attempt supersedes a row that is not final.
    Writing a stored row again does nothing. Raises ConflictingRow for any other rewrite, ValueError for a row that is
    not allowed (`schema.check_trial`), OSError if the store refuses. If two runs of one trial end at the same moment,
    one gets ConflictingRow; in an object store, which is asked and then written, the later row may replace the other.

    curve: rows of `write_curve`, stored first, so that a stored row implies a stored curve. goes_on: the row is that of
    a trial's next run, and lists the runs before (`rows.next_run`).
    """
    given = checked_row(row)
    try:
        return _write(results, given, curve, goes_on)
    except FileExistsError:  # another writer has stored a row since the lookup
        return _write(results, given, curve, goes_on)


def _write(results: str | Path, given: Row, curve: Sequence[Mapping[str, Any]], goes_on: bool) -> Path | str:
    store, (study, trial_id, attempt) = store_of(results), (given[name] for name in ("study", "trial_id", "attempt"))
    stored, file = look(store, study, trial_id, attempt)
    new = next_run(given, stored) if goes_on else given
    if stored is not None:
        if canonical(stored) == canonical(new):
            return store.where(file)
        if (reason := refusal(stored, new)) is not None:
            raise ConflictingRow(f"{store.where(file)} {reason}")
    if curve:
        write_curve(results, study, trial_id, curve)
    name = file_name("trials", study, trial_id, attempt)
    store.write(name, serialise(pa.Table.from_pylist([new], TRIALS)), new=True)
    if file and not is_compacted(file):  # in between `read` chooses the row that counts
        store.remove(file)
    return store.where(name)


def write_curve(results: str | Path, study: str, trial_id: str, rows: Sequence[Mapping[str, Any]]) -> Path | str:
    """Store a trial's learning curve, replacing those of earlier states or attempts, and return its file.

    rows: one mapping for each evaluation, with the fields of `CURVES` but study and trial_id, all of one attempt.
    Raises ValueError for rows that are not allowed or none, OSError if the store refuses.
    """
    checked = [check_curve({**row, "study": study, "trial_id": trial_id}) for row in rows]
    if len({row["attempt"] for row in checked}) != 1:
        raise ValueError(f"the {len(checked)} rows of trial {trial_id!r} must be at least one, and all of one attempt")
    store, attempt = store_of(results), checked[0]["attempt"]
    name = file_name("curves", study, trial_id, attempt)
    store.write(name, serialise(pa.Table.from_pylist(checked, CURVES)))
    for earlier in reversed(range(attempt)):  # once written; in between `read_curves` chooses the latest
        if store.remove(file_name("curves", study, trial_id, earlier)):
            break
    return store.where(name)


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
        data = serialise(pa.Table.from_pylist([checked[trial] for trial in sorted(checked)], TRIALS), many=True)
        store.write(compacted_name("trials", study, data), data)
        state(store, study, done=True)


def checked_row(row: Mapping[str, Any]) -> Row:
    """The complete row as it is stored, without secrets. Raises ValueError for one that is not allowed."""
    checked = check_trial(row)
    error = checked["error"] and redact(checked["error"])
    return checked | {"error": error, "config": as_json(json_object(checked["config"]))}


def check_writable(results: str | Path) -> Path | str:
    """Check that results can be written; return the folder, created if necessary, or the object store's URI.

    Raises OSError naming the place and the reason, ValueError for a location that is not allowed.
    """
    store, probe = store_of(results), f".probe-{token_hex(8)}"
    try:
        store.write(probe, b"probe")
        store.remove(probe)
    except OSError as error:
        raise OSError(f"cannot write results to {store.where()}: {error.strerror or error}") from error
    return check_location(results)


def look(store: Store, study: str, trial_id: str, attempt: int) -> tuple[Row | None, str]:
    """(the row of a trial that counts at the end of this attempt, its file); (None, "") without. Raises as `_found`."""
    found = [(rank(row), file, row) for file, rows in _found(store, "trials", study, trial_id, attempt) for row in rows]
    _, file, row = min(found, key=lambda one: one[:2], default=(None, "", None))
    return row, file


def read_curve(store: Store, study: str, trial_id: str, attempt: int) -> list[Row]:
    """The learning curve of a trial up to this attempt, by ascending images_seen; empty if there is none.

    Raises as `_found`.
    """
    files = [rows for _, rows in _found(store, "curves", study, trial_id, attempt)]
    latest = max(files, key=lambda rows: rows[0]["attempt"], default=[])
    return sorted(latest, key=lambda row: row["images_seen"])


def _found(store: Store, kind: str, study: str, trial_id: str, attempt: int) -> list[tuple[str, list[Row]]]:
    """(file, rows) of a trial: in the file of this attempt, or of the latest before it, which are asked for by name,
    else in compacted files. Raises OSError if the store does not answer, or one of these files is damaged."""
    for number in reversed(range(attempt + 1)):
        file = file_name(kind, study, trial_id, number)
        with suppress(FileNotFoundError):
            return [(file, rows_of(load(store, file)))]
    files = compacted(store, kind, study)
    while True:
        try:
            holding = [file for file in files if trial_id in _ids(store, file)]
            return [(file, rows_of(load(store, file).filter(pc.field("trial_id") == trial_id))) for file in holding]
        except FileNotFoundError:  # another compaction removed it after it was listed, and had stated a new file
            files = compacted(store, kind, study, afresh=True)


@lru_cache(maxsize=32)
def _ids(store: Store, file: str) -> frozenset[str]:
    """The trials in a compacted file, whose content never changes under its name."""
    return frozenset(load(store, file)["trial_id"].to_pylist())
