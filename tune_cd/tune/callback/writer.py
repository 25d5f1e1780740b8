"""Where a row of a Tune run goes in its study: the number and the attempt that are free, or its own."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tune_cd import results

TIMES = ("started_at", "ended_at")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A row that is to be stored, and what may be changed in it for that.

    since: when its run began; rows that started before are an earlier run's, and so are their numbers.
    number: the trial's place in the order of asking, from 0; None where the row's name is not ours to choose.
    counted: whether the place was counted in this run alone; else the searcher named it, which may know earlier runs.
    suffix: what its trial_id has behind the number.
    own_attempt: whether the row's attempt is its own as well, and not the next that is free.
    curve: the trial's learning curve, the rows of `results.write_curve`.
    """

    row: dict[str, Any]
    since: datetime
    number: int | None = None
    counted: bool = False
    suffix: str = ""
    own_attempt: bool = False
    curve: Sequence[dict[str, Any]] = ()

    def text(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def from_text(cls, line: str) -> "Entry":
        """The inverse of `text`. Raises ValueError for what is no entry."""
        try:
            entry = cls(**json.loads(line))
            row = entry.row | {name: datetime.fromisoformat(entry.row[name]) for name in TIMES if entry.row.get(name)}
            return replace(entry, row=row, since=datetime.fromisoformat(entry.since))
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"{line[:80]!r} is no row that waited") from error


class Filing:
    """Stores entries so that no row stands in another's way.

    A trial that failed before is the same trial's next attempt. A training that was repeated, since Tune's snapshot was older
    than its row, changes nothing. Whatever else is stored under a row's name is of another run: the row gets a number behind.
    """

    def __init__(self, location: str | Path):
        self._location = str(location)
        self._firsts: dict[tuple, int] = {}  # (study, search, since) -> the first number behind earlier runs'

    def __call__(self, entry: Entry) -> None:
        """Raises OSError where the store does not answer, ValueError for a row that is not allowed, ConflictingRow for a
        name that is not ours to change and is another's."""
        for row in self._candidates(entry):
            stored = results.read_trial(self._location, row["study"], row["trial_id"])
            if stored is None:
                break
            alike = all(stored[name] == row.get(name) for name in ("params", "seed"))
            if alike and _times(stored) == _times(row):
                return  # it is written already
            if alike and stored["status"] == "failed":
                if not entry.own_attempt:
                    row |= {"attempt": stored["attempt"] + 1}
                elif stored["attempt"] >= row["attempt"]:
                    return
                break
            if alike and (entry.number is None or _began(stored) >= entry.since):
                return
        write(self._location, row, entry.curve)

    def _candidates(self, entry: Entry) -> Iterator[dict]:
        """The row under the names it may have, in order."""
        if entry.number is None:
            yield dict(entry.row)
            return
        if not entry.counted:
            yield _numbered(entry, entry.number)
        yield _numbered(entry, self._first(entry) + entry.number)
        stored = self._stored(entry)
        written = [
            row["trial_index"]
            for row in stored
            if row["params"] == entry.row["params"] and _times(row) == _times(entry.row)
        ]
        yield _numbered(entry, written[0] if written else _behind(stored))

    def _first(self, entry: Entry) -> int:
        key = (entry.row["study"], entry.row["search"], entry.since)
        if key not in self._firsts:
            self._firsts[key] = _behind([row for row in self._stored(entry) if _began(row) < entry.since])
        return self._firsts[key]

    def _stored(self, entry: Entry) -> list[dict]:
        """The rows of its study and search."""
        try:
            table = results.read(self._location, entry.row["study"])
        except FileNotFoundError:
            return []
        return table[table["search"] == entry.row["search"]].to_dict("records")


def write(location: str, row: Mapping[str, Any], curve: Sequence[Mapping[str, Any]]) -> None:
    """Store a row and its curve, this first, so that the row says that all is there. Raises as the two writes do, but for a
    curve that another one stands for: the row counts."""
    try:
        if curve:
            results.write_curve(location, row["study"], row["trial_id"], curve)
    except results.ConflictingRow as conflict:
        log.warning("%s", conflict)
    results.write_trial(location, row)


def trial_name(search: str, trial_index: int) -> str:
    """The table's trial_id: the same for the same trial of a study, whichever driver asks for it."""
    return f"{search}-{trial_index:05d}"


def _numbered(entry: Entry, number: int) -> dict:
    return {**entry.row, "trial_index": number, "trial_id": trial_name(entry.row["search"], number) + entry.suffix}


def _behind(rows: list[dict]) -> int:
    return 1 + max((row["trial_index"] for row in rows), default=-1)


def _times(row: dict) -> list[datetime]:
    """When a trial started, if it did, and when it ended."""
    return [row[name] for name in TIMES if row.get(name) is not None and row[name] == row[name]]  # NaT is not itself


def _began(row: dict) -> datetime:
    return next(iter(_times(row)), datetime.min.replace(tzinfo=UTC))
