"""Moves rows that wait in the second results folder (`waiting`) into the results."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tune_cd.results.attempts import current, is_final, next_attempt, refusal
from tune_cd.results.compaction import complete
from tune_cd.results.lookup import look, read_curve
from tune_cd.results.parquet import ConflictingRow, file_name, rows_of
from tune_cd.results.reading import collect, rows_in
from tune_cd.results.redaction import redact
from tune_cd.results.rows import ASKED, trial_name
from tune_cd.results.schema import Row
from tune_cd.results.store import Folder, store_of
from tune_cd.results.waiting import folders, prune
from tune_cd.results.writing import write

TRIES = 20  # to find a free number while others write into the study

log = logging.getLogger(__name__)


def merge(results: str | Path) -> None:
    """Move the rows that wait, each with its curve, in the order in which their trials began, and complete the
    compactions that broke off. Called where results are opened for writing.

    A row is removed from its folder after it was read back from the results, so a merge that is interrupted or done
    twice at once loses no row and stores none twice. A row keeps its name, unless another training took it: then it
    gets the next free number of its search, or the next attempt of its trial. If the store refuses, the rows go on
    waiting, where `read` finds them.
    """
    places, moved = [Folder(folder) for folder in folders(results)], 0
    waiting = sorted((one for place in places for one in _rows(place)), key=lambda one: _began(one[2]))
    stored: dict[str, list[Row]] = {}
    for done, (place, name, row) in enumerate(waiting):
        try:
            moved += _move(place, name, row, results, stored, [other for *_, other in waiting])
        except ValueError as problem:
            log.warning("%s is left there: %s", place.where(name), redact(str(problem)))
        except OSError as problem:
            left, where = len(waiting) - done, ", ".join(str(place.root) for place in places)
            log.warning("%d rows that wait in %s are not taken by the results: %s", left, where, redact(str(problem)))
            break
    if moved:
        log.warning("%d rows that waited outside the results were moved into %s", moved, store_of(results).where())
    for place in places:
        prune(place.root)
    try:
        complete(results)
    except (OSError, ValueError) as problem:
        log.warning("a compaction that broke off is not completed: %s", redact(str(problem)))


def _rows(place: Folder) -> list[tuple[Folder, str, Row]]:
    """The rows of a second folder with their files."""
    found = collect(place, "trials", None, missing=True)  # another process may have emptied it
    for reason in found.problems.values():
        log.warning("%s; it is left there", reason)
    return [(place, found.file(number), row) for number, row in enumerate(rows_of(found.table))]


def _move(
    place: Folder, name: str, row: Row, results: str | Path, stored: dict[str, list[Row]], waiting: Sequence[Row]
) -> bool:
    """Move one row; returns False if it was in the results already.

    stored: by study, what is known of the results. waiting: all rows that wait. Raises OSError, and ValueError for
    a row that is not allowed, or if others take name after name.
    """
    study, trial_id, attempt = row["study"], row["trial_id"], row["attempt"]
    held = read_curve(place.root, study, trial_id, attempt)
    for left in reversed(range(TRIES)):
        if study not in stored:
            stored[study] = rows_in(results, study)
        if (new := _placed(row, stored[study], waiting)) is None:
            break
        curve = [{**one, "attempt": new["attempt"]} for one in held]
        for one in curve:
            del one["study"], one["trial_id"]
        try:
            write(results, new, curve)
            break
        except ConflictingRow:  # another writer took the name
            del stored[study]
            if not left:
                raise
    if new is not None:
        there = look(store_of(results), "trials", study, new["trial_id"], new["attempt"]).row
        if there is None or not _is_same(there, new):
            raise OSError(f"{new['trial_id']} of study {study} was written and cannot be read back")
        stored[study].append(new)
    place.remove(file_name("curves", study, trial_id, attempt))
    place.remove(name)
    return new is not None


def _placed(row: Row, stored: Sequence[Row], waiting: Sequence[Row]) -> Row | None:
    """The row with the name and attempt under which it is to be stored; None if nothing is to be stored."""
    if any(_is_same(row, other) for other in stored):
        return None
    named = [other for other in stored if other["trial_id"] == row["trial_id"]]
    if not named:
        return row
    held = current(named)
    if _is_alike(row, held):
        same_run = held["ended_at"] is None or _began(row) < held["ended_at"]
        if same_run and (reason := refusal(held, row)) is not None:
            said = "%s of study %s that waited is left out: the results' %s"
            log.warning(said, row["trial_id"], row["study"], reason)
            return None
        if not is_final(held):
            return {**row, "attempt": max(row["attempt"], next_attempt(held))}
    beside = (other for other in (*stored, *waiting) if all(other[name] == row[name] for name in ("study", "search")))
    number = 1 + max(other["trial_index"] for other in beside)
    suffix = row["trial_id"].removeprefix(trial_name(row["search"], row["trial_index"]))
    return {**row, "trial_index": number, "trial_id": trial_name(row["search"], number) + suffix}


def _is_alike(row: Row, other: Row) -> bool:
    """Whether two rows are of the same configuration and seed."""
    return all(row[name] == other[name] for name in ASKED)


def _is_same(row: Row, other: Row) -> bool:
    """Whether two rows are of the same run of a training."""
    same = ("study", "search", "status", "started_at", "ended_at")
    return _is_alike(row, other) and all(row[name] == other[name] for name in same)


def _began(row: Row) -> datetime:
    return row["started_at"] or row["ended_at"] or datetime.min.replace(tzinfo=UTC)
