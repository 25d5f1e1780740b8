"""Looks up the rows of one trial without reading the files of others."""

import re
import warnings
from pathlib import Path

from tune_cd.results.attempts import current
from tune_cd.results.parquet import (
    COMPACT,
    ConflictingRow,
    OtherFormat,
    Unusable,
    find_in_compacted,
    is_compacted,
    is_visible,
    load,
    rows_of,
)
from tune_cd.results.redaction import redact
from tune_cd.results.schema import Row, check_name
from tune_cd.results.store import Bucket, Folder, store_of

VANISHED = 5  # lookups of a trial whose file a compaction removed between listing and opening


def read_trial(results: str | Path, study: str, trial_id: str) -> Row | None:
    """The row of one trial that counts (see `read`), in Python's types; None if there is none.

    Raises ValueError for a name that is not allowed, ConflictingRow for a file of another format, OSError if the store
    does not answer.
    """
    rows = [row for _, row in stored(store_of(results), "trials", study, trial_id)[0]]
    return rows[current(rows)] if rows else None


def read_curve(results: str | Path, study: str, trial_id: str) -> list[Row]:
    """The learning curve of a trial's latest attempt, by ascending images_seen; empty if there is none.

    Raises as `read_trial`.
    """
    rows = [row for _, row in stored(store_of(results), "curves", study, trial_id)[0]]
    latest = max((row["attempt"] for row in rows), default=0)
    looks = {row["images_seen"]: row for row in rows if row["attempt"] == latest}
    return [looks[images] for images in sorted(looks)]


def stored(store: Folder | Bucket, table: str, study: str, trial_id: str) -> tuple[list[tuple[str, Row]], list[str]]:
    """The stored rows of a trial as (file, row), and the damaged files among those searched.

    Raises ConflictingRow for a file of another format, OSError if the store does not answer.
    """
    folder = f"{table}/{check_name(study)}"
    own = re.compile(re.escape(f"{folder}/{check_name(trial_id)}") + r"(~\d+)?\.parquet")
    near = (f"{folder}/{trial_id}", f"{folder}/{COMPACT}")  # a fast first filter: there may be thousands of others
    for look in range(1, VANISHED + 1):
        listed = [file for file in store.listing(folder) if file.startswith(near)]
        files = [file for file in listed if own.fullmatch(file) or (is_compacted(file) and is_visible(file))]
        try:
            return _rows_in(store, files, trial_id)
        except FileNotFoundError:  # compacted after the listing: the next listing has the new file
            if look == VANISHED:
                raise
    raise AssertionError("unreachable")


def _rows_in(store: Folder | Bucket, files: list[str], trial_id: str) -> tuple[list[tuple[str, Row]], list[str]]:
    rows: list[tuple[str, Row]] = []
    spoilt: list[str] = []
    for file in files:
        try:
            found = find_in_compacted(store, file, trial_id) if is_compacted(file) else rows_of(load(store, file))
            rows += [(file, row) for row in found]
        except OtherFormat as reason:
            raise ConflictingRow(f"{reason}; it is not replaced") from reason
        except Unusable as reason:
            told = f"{reason}; it is {'left as it is' if is_compacted(file) else 'replaced'}"
            warnings.warn(redact(told), stacklevel=4)
            spoilt.append(file)
    return rows, spoilt
