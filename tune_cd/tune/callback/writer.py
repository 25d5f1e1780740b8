"""Stores rows of a Tune run in its study, under free numbers and attempts."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tune_cd import results
from tune_cd.results.attempts import is_final, next_attempt, rank
from tune_cd.results.reading import rows_in
from tune_cd.results.rows import ASKED, next_run, trial_name
from tune_cd.results.writing import checked_row

log = logging.getLogger(__name__)

TIMES = ("started_at", "ended_at")
TRIES = 20  # attempts to find a free number while other runs write into the study


class RowWriter:
    """Stores rows of one study and search under names that are not taken by other rows.

    A row has the trial's place in the order of asking as its trial_index, and is the next attempt of a trial that
    failed or paused before. A training that Tune repeated, because its snapshot was older than the row, changes
    nothing. If a row of another run has the name, the row gets the number behind all.

    since: start of the run; rows that started before it belong to earlier runs.
    blank: whether the search has begun without any value; earlier rows are logged then.
    """

    def __init__(self, location: str | Path, since: datetime, blank: bool = False):
        self._location, self._since, self._blank = str(location), since, blank
        self._stored: list[dict[str, Any]] | None = None  # rows of the study and search; None: to be read

    def __call__(self, row: dict[str, Any], curve: Sequence[Mapping[str, Any]] = ()) -> None:
        """Store a row, and then its learning curve, the rows of `results.write_curve`, which get the row's attempt.

        Raises OSError if the store does not answer, ValueError for a row that is not allowed.
        """
        for left in reversed(range(TRIES)):
            if (placed := self._placed(row)) is None:
                return
            try:
                results.write_trial(self._location, placed)
                break
            except results.ConflictingRow:  # another run has taken the number
                self._stored = None
                if not left:
                    raise
        self._stored.append(checked_row(placed))
        if curve:  # after the row, whose name another run may have taken, with its curve
            points = [{**point, "attempt": placed["attempt"]} for point in curve]
            results.write_curve(self._location, placed["study"], placed["trial_id"], points)

    def _placed(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """The row under its name and attempt; None if it is stored already.

        The name has its place in the order of asking, else the number that this run gave its configuration before, else
        the number behind all.
        """
        if self._stored is None:
            self._stored = [one for one in rows_in(self._location, row["study"]) if one["search"] == row["search"]]
            self._warn_of_earlier(row["study"])
        own = [one for one in self._stored if _is_alike(one, row) and _began(one) >= self._since]
        own = own if row["direction"] else []  # a Repeater's trials are alike
        behind = 1 + max((one["trial_index"] for one in self._stored), default=-1)
        for number in (row["trial_index"], *(one["trial_index"] for one in own[:1]), behind):
            named = {"trial_index": number, "trial_id": trial_name(row["search"], number)}
            held = [one for one in self._stored if one["trial_id"] == named["trial_id"]]
            if not held:
                break
            stored = min(held, key=rank)
            if not _is_alike(stored, row):
                continue
            if _times(stored) == _times(row) or (is_final(stored) and _began(stored) >= self._since):
                return None
            if not is_final(stored):
                return next_run(row | named | {"attempt": next_attempt(stored)}, stored)
        return row | named

    def _warn_of_earlier(self, study: str) -> None:
        earlier = sum(_began(one) < self._since for one in self._stored) if self._blank else 0
        if earlier:
            self._blank = False
            log.warning(
                "study %r in %s has %d rows already that this search does not know: it may repeat their trials. To go "
                "on from them: CoordinateDescentSearch.from_results(%r, %r, resume=True, ...). To keep them apart: "
                "another study name.",
                study, self._location, earlier, self._location, study,
            )  # fmt: skip


def _is_alike(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two rows are of the same configuration and seed."""
    return all(row.get(name) == other.get(name) for name in ASKED)


def _times(row: Mapping[str, Any]) -> list[datetime]:
    """The times at which a trial started and ended, those that are known."""
    return [row[name] for name in TIMES if row.get(name) is not None and row[name] == row[name]]  # NaT is not itself


def _began(row: Mapping[str, Any]) -> datetime:
    return next(iter(_times(row)), datetime.min.replace(tzinfo=UTC))
