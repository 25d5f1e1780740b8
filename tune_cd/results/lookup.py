"""Looks up the rows of one trial by the exact names that its files may have, and in compacted files."""

import re
import time
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import Path

from tune_cd.results import parquet
from tune_cd.results.attempts import current
from tune_cd.results.json_text import json_of
from tune_cd.results.parquet import SCHEMAS, ConflictingRow, OtherFormat, Unusable, file_name, is_compacted, load_rows
from tune_cd.results.reading import rows_in
from tune_cd.results.redaction import redact
from tune_cd.results.schema import Row, check_name
from tune_cd.results.store import Bucket, Folder, store_of
from tune_cd.results.study_files import COMPACTION, text_of

VANISHED = 5  # lookups of a trial whose compacted file another compaction removed after it was listed


@dataclass
class Held:
    """What is stored of one trial."""

    rows: list[tuple[str, Row]] = field(default_factory=list)  # (file, row)
    damaged: list[str] = field(default_factory=list)  # files of its own that cannot be read

    @property
    def row(self) -> Row | None:
        """The row that counts."""
        return current([row for _, row in self.rows]) if self.rows else None


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

    attempt: the run that asks. The files of this attempt and of the latest one before it are asked for by name, in a
    folder that of the next one too, then compacted files. own: False: the attempt's own file is of no interest.
    Raises ConflictingRow for a file of another format, OSError if the store does not answer.
    """
    held = Held()
    for number in reversed(range(attempt + 1 + store.quick)):
        if number == attempt and not own:
            continue
        file = file_name(table, study, trial_id, number)
        try:
            held.rows = [(file, row) for row in load_rows(store, file)]
            return held
        except FileNotFoundError:
            continue
        except OtherFormat as reason:
            raise ConflictingRow(f"{reason}; it is not replaced") from reason
        except Unusable as reason:
            warnings.warn(redact(f"{reason}; it is replaced"), stacklevel=3)
            held.damaged.append(file)
    for left in reversed(range(VANISHED)):  # `compact` states the new file before it removes the old one
        try:
            held.rows = [(file, row) for file in compacted(store, table, study) for row in _in(store, file, trial_id)]
            return held
        except FileNotFoundError:
            store.compactions.pop(study, None)
            if not left:
                raise
    raise AssertionError("unreachable")


def _in(store: Folder | Bucket, file: str, trial_id: str) -> list[Row]:
    """The rows of a trial in a compacted file, which is read again only if it has any."""
    try:
        return load_rows(store, file, trial_id) if trial_id in _ids(store, file) else []
    except OtherFormat as reason:
        raise ConflictingRow(f"{reason}; it is not replaced") from reason
    except Unusable as reason:
        warnings.warn(redact(f"{reason}; it is left as it is"), stacklevel=4)
        return []


@lru_cache(maxsize=32)
def _ids(store: Folder | Bucket, file: str) -> frozenset[str]:
    """The trials in a compacted file, whose content never changes under its name."""
    return frozenset(parquet.load(store, file)[0]["trial_id"].to_pylist())


def attempts_in(results: str | Path, study: str) -> dict[str, int]:
    """trial_id -> the latest attempt that has a file of its own, for all trials of a study."""
    latest: dict[str, int] = {}
    for name in store_of(results).listing(f"trials/{check_name(study)}", depth=1):
        if found := re.fullmatch(r".*/([^/~]+)(?:~(\d+))?\.parquet", name):
            latest[found[1]] = max(latest.get(found[1], 0), int(found[2] or 0))
    return latest


def compacted(store: Folder | Bucket, table: str, study: str) -> list[str]:
    """A study's compacted files. They are listed again only after a compaction stated that it was at work."""
    checked, statement, files = store.compactions.get(study, (-inf, b"", []))
    if time.monotonic() - checked >= store.trusted:
        checked, found = time.monotonic(), text_of(store, study, COMPACTION) or b""
        if found != statement:
            kinds = SCHEMAS if found else ()  # no study is compacted without a statement
            files = [name for kind in kinds for name in store.listing(f"{kind}/{study}", depth=1) if is_compacted(name)]
        if not found or is_done(found):
            store.compactions[study] = checked, found, files
    return [file for file in files if file.startswith(f"{table}/")]


def is_done(statement: bytes) -> bool:
    """Whether a compaction that made this statement came to its end."""
    try:
        return bool(json_of(statement)["done"])
    except (ValueError, TypeError, KeyError):
        return False
