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
from tune_cd.results.waiting import keep
from tune_cd.results.writing import write

log = logging.getLogger(__name__)

TIMES = ("started_at", "ended_at")
TRIES = 20  # attempts to find a free number while other runs write into the study


@dataclass(frozen=True)
class Entry:
    """A row to be stored.

    since: start of the run; rows that started before it, and their numbers, belong to earlier runs.
    number: the trial's place in the order of asking, from 0; the row's attempt is then the next free one. None: the
    row's trial_id and attempt are fixed.
    counted: whether the place was counted in this run alone; else the searcher gave it, which may know earlier runs.
    curve: the trial's learning curve, the rows of `results.write_curve`, which get the row's attempt.
    """

    row: dict[str, Any]
    since: datetime
    number: int | None = None
    counted: bool = False
    curve: Sequence[dict[str, Any]] = ()

    def numbered(self, number: int) -> dict[str, Any]:
        return {**self.row, "trial_index": number, "trial_id": trial_name(self.row["search"], number)}


class RowWriter:
    """Stores entries under names that are not taken by other rows.

    The row of a trial that failed before becomes its next attempt. A training that Tune repeated, because its snapshot
    was older than the row, changes nothing. If a row of another run has the name, the row gets a higher number.

    begins_anew: whether the search does not know the rows that the study has already, which is logged.
    """

    def __init__(
        self,
        location: str | Path,
        begins_anew: bool = False,
        firsts: dict[tuple[str, str, datetime], int] | None = None,
    ):
        self._location, self._begins_anew = str(location), begins_anew
        # (study, search, since) -> the first number after those of earlier runs
        self._firsts: dict[tuple[str, str, datetime], int] = {} if firsts is None else firsts
        self._attempts: dict[str, dict[str, int]] = {}  # study -> trial_id -> its latest attempt that is known

    def __call__(self, entry: Entry) -> None:
        """Store an entry. Raises OSError if the store does not answer, ValueError for a row that is not allowed, and
        ConflictingRow if another row has the fixed name."""
        for left in reversed(range(TRIES)):
            try:
                self._store(entry)
                return
            except results.ConflictingRow:  # another run took the number after it was found free
                if entry.number is None or not left:
                    raise

    def keep(self, entry: Entry) -> Path:
        """Store an entry in the second results folder (`results.waiting`), which is returned, while the store does not
        take it. Does not read the store. Raises OSError if no place takes it."""
        return keep(self._location, lambda folder: RowWriter(folder, firsts=self._firsts)(entry))

    def settle(self) -> None:
        """Empty the second results folder."""
        merge(self._location)

    def _store(self, entry: Entry) -> None:
        """Store a row and then its curve: one under a number only once that is its own."""
        row, held = self._placed(entry)
        curve = [{**point, "attempt": row["attempt"]} for point in entry.curve]
        if held is not None:
            self._attempts[row["study"]][row["trial_id"]] = row["attempt"]
            write(self._location, row, () if entry.number is not None else curve, held)
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
            alike = all(stored[name] == row.get(name) for name in ASKED)
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
        """The row under each name that it may have, in order of preference."""
        if entry.number is None:
            yield dict(entry.row)
            return
        if not entry.counted:
            yield entry.numbered(entry.number)
        yield entry.numbered(self._first(entry) + entry.number)
        stored, its = self._stored(entry), _run(entry.row)
        written = [row["trial_index"] for row in stored if _run(row) == its]
        yield entry.numbered(written[0] if written else _behind(stored))

    def _first(self, entry: Entry) -> int:
        """The first number after those of earlier runs, whose rows are warned of if the search does not know them."""
        key = study, _, _ = (entry.row["study"], entry.row["search"], entry.since)
        if key not in self._firsts:
            earlier = [row for row in self._stored(entry) if _began(row) < entry.since]
            self._firsts[key] = _behind(earlier)
            if earlier and self._begins_anew:
                log.warning(
                    "study %r in %s has %d rows already, which this search does not know: it began anew and may repeat "
                    "their trials. To go on from them: CoordinateDescentSearch.from_results(%r, %r, resume=True, ...). "
                    "To keep them apart: another study name.",
                    study, self._location, len(earlier), self._location, study,
                )  # fmt: skip
        return self._firsts[key]

    def _stored(self, entry: Entry) -> list[dict[str, Any]]:
        """The stored rows of the entry's study and search."""
        rows = rows_in(self._location, entry.row["study"])
        return [row for row in rows if row["search"] == entry.row["search"]]


def compact(location: str, study: str) -> None:
    """Merge the study's files at the end of an experiment; where the store fails, they stay as they are."""
    try:
        results.compact(location, study)
    except (OSError, ValueError) as problem:
        log.info("study %s is not compacted: %s", study, redact(str(problem)))


def _behind(rows: list[dict[str, Any]]) -> int:
    return 1 + max((row["trial_index"] for row in rows), default=-1)


def _run(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells the run of a training from others."""
    return row["params"], row.get("choices"), _times(row)


def _times(row: Mapping[str, Any]) -> list[datetime]:
    """The times at which a trial started and ended, those that are known."""
    return [row[name] for name in TIMES if row.get(name) is not None and row[name] == row[name]]  # NaT is not itself


def _began(row: Mapping[str, Any]) -> datetime:
    return next(iter(_times(row)), datetime.min.replace(tzinfo=UTC))
