"""Stores a row of a Tune run in its study, under a free number and attempt or under its fixed name."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tune_cd import results
from tune_cd.results.attempts import has_ended, is_final, next_attempt
from tune_cd.results.lookup import Held, attempts_in, look
from tune_cd.results.merging import merge
from tune_cd.results.reading import rows_in
from tune_cd.results.redaction import redact
from tune_cd.results.rows import ASKED, next_run, trial_name
from tune_cd.results.store import store_of
from tune_cd.results.waiting import folders, keep
from tune_cd.results.writing import write

log = logging.getLogger(__name__)

TIMES = ("started_at", "ended_at")
TRIES = 20  # attempts to find a free number while other runs write into the study


@dataclass(frozen=True)
class Entry:
    """A row to be stored.

    since: start of the run; rows that started before it belong to earlier runs.
    number: the trial's place in the order of asking, from 0; the row's attempt is then the next free one. None: the
    row's trial_id and attempt are fixed.
    curve: the trial's learning curve, the rows of `results.write_curve`, which get the row's attempt.
    """

    row: dict[str, Any]
    since: datetime
    number: int | None = None
    curve: Sequence[dict[str, Any]] = ()

    def numbered(self, number: int) -> dict[str, Any]:
        return {**self.row, "trial_index": number, "trial_id": trial_name(self.row["search"], number)}


class RowWriter:
    """Stores entries under names that are not taken by other rows.

    The row of a trial that failed before becomes its next attempt. A training that Tune repeated, because its snapshot
    was older than the row, changes nothing. If a row of another run has the name, the row gets the number behind all.

    begins_anew: whether the search does not know the rows that the study has already, which is logged.
    """

    def __init__(self, location: str | Path, begins_anew: bool = False):
        self._location, self._begins_anew = str(location), begins_anew
        self._attempts: dict[str, dict[str, int]] = {}  # study -> trial_id -> its latest attempt that is known
        self._others: dict[tuple[str, str], list[dict[str, Any]]] = {}  # (study, search) -> rows, once a name was taken

    def __call__(self, entry: Entry) -> None:
        """Store an entry. Raises OSError if the store does not answer, ValueError for a row that is not allowed, and
        ConflictingRow if another row has the fixed name."""
        for left in reversed(range(TRIES)):
            try:
                self._store(entry)
                return
            except results.ConflictingRow:  # another run took the number after it was found free
                self._others = {}
                if entry.number is None or not left:
                    raise

    def keep(self, entry: Entry) -> Path:
        """Store an entry in the second results folder (`results.waiting`), which is returned, while the store does not
        take it. Does not read the store. Raises OSError if no place takes it."""
        return keep(self._location, lambda folder: RowWriter(folder)(entry))

    def settle(self) -> None:
        """Empty the second results folder. Raises OSError if rows still wait there."""
        merge(self._location)
        if left := folders(self._location):
            raise OSError(f"rows still wait in {left[0]}")

    def _store(self, entry: Entry) -> None:
        """Store a row and then its curve: one under a number only once that is its own."""
        row, held = self._placed(entry)
        curve = [{**point, "attempt": row["attempt"]} for point in entry.curve]
        if held is not None:
            write(self._location, row, () if entry.number is not None else curve, held)
            self._attempts[row["study"]][row["trial_id"]] = row["attempt"]
            self._others.get((row["study"], row["search"]), []).append(row)
        if curve and entry.number is not None:
            with suppress(results.ConflictingRow):  # it was compacted: another attempt's follows
                results.write_curve(self._location, row["study"], row["trial_id"], curve)

    def _placed(self, entry: Entry) -> tuple[dict[str, Any], Held | None]:
        """The row under its name and attempt, and what is stored of its trial; None: the row is stored already."""
        for row in self._candidates(entry):
            held = self._look(row)
            stored = held.row
            if stored is None:
                break
            alike = _is_alike(stored, row)
            if alike and _times(stored) == _times(row):
                return stored, None
            if alike and not is_final(stored):
                if entry.number is not None:
                    row |= {"attempt": next_attempt(stored)}
                elif has_ended(stored, row["attempt"]):
                    return stored, None
                row = next_run(row, stored)
                break
            if alike and (entry.number is None or _began(stored) >= entry.since):
                return stored, None
        return row, held

    def _look(self, row: Mapping[str, Any]) -> Held:
        """What is stored of a row's trial, whose attempts of earlier runs are listed once."""
        study, trial_id = row["study"], row["trial_id"]
        if study not in self._attempts:
            self._attempts[study] = attempts_in(self._location, study)
        attempt = max(row["attempt"], self._attempts[study].get(trial_id, 0))
        return look(store_of(self._location), "trials", study, trial_id, attempt)

    def _candidates(self, entry: Entry) -> Iterator[dict[str, Any]]:
        """The row under each name that it may have: its place in the order of asking, the one that this run gave its
        configuration before, and the one behind all."""
        if entry.number is None:
            yield dict(entry.row)
            return
        yield entry.numbered(entry.number)
        others = self._stored(entry)
        own = [row["trial_index"] for row in others if _is_alike(row, entry.row) and _began(row) >= entry.since]
        if own:
            yield entry.numbered(own[0])
        yield entry.numbered(1 + max((row["trial_index"] for row in others), default=-1))

    def _stored(self, entry: Entry) -> list[dict[str, Any]]:
        """The stored rows of the entry's study and search. Those that the search does not know are warned of once."""
        key = study, search = entry.row["study"], entry.row["search"]
        if key not in self._others:
            self._others[key] = [row for row in rows_in(self._location, study) if row["search"] == search]
            earlier = sum(_began(row) < entry.since for row in self._others[key])
            if earlier and self._begins_anew:
                self._begins_anew = False
                log.warning(
                    "study %r in %s has %d rows already, which this search does not know: it began anew and may repeat "
                    "their trials. To go on from them: CoordinateDescentSearch.from_results(%r, %r, resume=True, ...). "
                    "To keep them apart: another study name.",
                    study, self._location, earlier, self._location, study,
                )  # fmt: skip
        return self._others[key]


def compact(location: str, study: str) -> None:
    """Merge the study's files at the end of an experiment; where the store fails, they stay as they are."""
    try:
        results.compact(location, study)
    except (OSError, ValueError) as problem:
        log.info("study %s is not compacted: %s", study, redact(str(problem)))


def _is_alike(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two rows are of the same configuration and seed."""
    return all(row.get(name) == other.get(name) for name in ASKED)


def _times(row: Mapping[str, Any]) -> list[datetime]:
    """The times at which a trial started and ended, those that are known."""
    return [row[name] for name in TIMES if row.get(name) is not None and row[name] == row[name]]  # NaT is not itself


def _began(row: Mapping[str, Any]) -> datetime:
    return next(iter(_times(row)), datetime.min.replace(tzinfo=UTC))
