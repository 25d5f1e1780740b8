"""Looks up the rows of one trial by the exact names that its files may have, and in compacted files."""

import json
import re
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tune_cd.results.attempts import current
from tune_cd.results.parquet import (
    SCHEMAS,
    ConflictingRow,
    OtherFormat,
    Unusable,
    file_name,
    find_in_compacted,
    is_compacted,
    load,
    rows_of,
)
from tune_cd.results.redaction import redact
from tune_cd.results.schema import Row, check_name
from tune_cd.results.store import Bucket, Folder, store_of
from tune_cd.results.study_files import COMPACTION, text_of

VANISHED = 5  # lookups of a trial whose file a compaction removed between listing and opening


@dataclass
class Held:
    """What is stored of one trial."""

    rows: list[tuple[str, Row]] = field(default_factory=list)  # (file, row)
    damaged: list[str] = field(default_factory=list)  # files of its own that cannot be read

    @property
    def row(self) -> Row | None:
        """The row that counts."""
        rows = [row for _, row in self.rows]
        return rows[current(rows)] if rows else None


def read_trial(results: str | Path, study: str, trial_id: str) -> Row | None:
    """The row of one trial that counts (see `read`), in Python's types; None if there is none.

    Raises ValueError for a name that is not allowed, ConflictingRow for a file of another format, OSError if the store
    does not answer.
    """
    return look(store_of(results), "trials", study, trial_id).row


def read_curve(results: str | Path, study: str, trial_id: str, attempt: int | None = None) -> list[Row]:
    """The learning curve of a trial's latest attempt, by ascending images_seen; empty if there is none.

    attempt: as for `look`. Raises as `read_trial`.
    """
    rows = [row for _, row in look(store_of(results), "curves", study, trial_id, attempt).rows]
    latest = max((row["attempt"] for row in rows), default=0)
    looks = {row["images_seen"]: row for row in rows if row["attempt"] == latest}
    return [looks[images] for images in sorted(looks)]


def look(
    store: Folder | Bucket, table: str, study: str, trial_id: str, attempt: int | None = None, own: bool = True
) -> Held:
    """What is stored of a trial.

    attempt: the run that asks. The files of this attempt and of the latest one before it are asked for by name, in a
    folder that of the next one too. None: the folder is listed, and all attempts are found.
    own: False: the file of the attempt itself is of no interest.
    Raises ConflictingRow for a file of another format, OSError if the store does not answer.
    """
    check_name(trial_id)
    for left in reversed(range(VANISHED)):
        try:
            if attempt is None:
                return _read(store, _listed(store, table, study, trial_id), trial_id)
            numbers = [attempt + 1] * store.quick + [attempt] * own + list(reversed(range(attempt)))
            held = _read(store, (file_name(table, study, trial_id, n) for n in numbers), trial_id, first=True)
            # in this order: `compact` states the new file before it removes the old one
            return held if held.rows else _read(store, compacted(store, table, study), trial_id, held)
        except FileNotFoundError:  # compacted after the listing: the next one has the new file
            store.compactions.pop(study, None)
            if not left:
                raise
    raise AssertionError("unreachable")


def attempts_in(results: str | Path, study: str) -> dict[str, int]:
    """trial_id -> the latest attempt that has a file of its own, for all trials of a study."""
    latest: dict[str, int] = {}
    for name in store_of(results).listing(f"trials/{check_name(study)}", depth=1):
        if found := re.fullmatch(r".*/([^/~]+)(?:~(\d+))?\.parquet", name):
            latest[found[1]] = max(latest.get(found[1], 0), int(found[2] or 0))
    return latest


def compacted(store: Folder | Bucket, table: str, study: str) -> list[str]:
    """A study's compacted files. They are listed again only after a compaction stated that it was at work."""
    checked, statement, files = store.compactions.get(study, (-store.trusted, b"", {}))
    if time.monotonic() - checked >= store.trusted:
        checked, found = time.monotonic(), text_of(store, study, COMPACTION)
        if found is None:
            statement, files = b"", {}
        elif found != statement:
            listed = {kind: store.listing(f"{kind}/{study}", depth=1) for kind in SCHEMAS}
            files = {kind: [name for name in names if is_compacted(name)] for kind, names in listed.items()}
            statement = found
        if found is None or is_done(found):
            store.compactions[study] = checked, statement, files
    return files.get(table, [])


def is_done(statement: bytes) -> bool:
    """Whether a compaction that made this statement came to its end."""
    try:
        return bool(json.loads(statement)["done"])
    except (ValueError, TypeError, KeyError):
        return False


def _listed(store: Folder | Bucket, table: str, study: str, trial_id: str) -> list[str]:
    folder = f"{table}/{check_name(study)}"
    own = re.compile(re.escape(f"{folder}/{trial_id}") + r"(~\d+)?\.parquet")
    return [name for name in store.listing(folder, depth=1) if own.fullmatch(name) or is_compacted(name)]


def _read(
    store: Folder | Bucket, files: Iterable[str], trial_id: str, held: Held | None = None, first: bool = False
) -> Held:
    """Read a trial's rows in these files. first: files that do not exist are passed over, and the first with rows is
    the last to be read."""
    held = Held() if held is None else held
    for file in files:
        try:
            found = find_in_compacted(store, file, trial_id) if is_compacted(file) else rows_of(load(store, file))
            held.rows += [(file, row) for row in found]
        except FileNotFoundError:
            if not first:
                raise
        except OtherFormat as reason:
            raise ConflictingRow(f"{reason}; it is not replaced") from reason
        except Unusable as reason:
            told = f"{reason}; it is {'left as it is' if is_compacted(file) else 'replaced'}"
            warnings.warn(redact(told), stacklevel=5)
            if not is_compacted(file):
                held.damaged.append(file)
        if first and held.rows:
            break
    return held
