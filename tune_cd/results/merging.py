"""Merges files of the results: the many of a study into one (`compact`), beside writers and readers, and rows that wait
in a second folder into the results (`merge`).

Rows wait there if the results do not take them, as of a full disk (`keep`). Its places, in this order: beside a results
folder, in the user's cache, in the temporary folder. The name has a hash of the results' address, so that the next
program that uses the results finds it.
"""

import logging
import os
import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa

from tune_cd.results.attempts import reconcile
from tune_cd.results.location import check_location
from tune_cd.results.parquet import (
    SCHEMAS,
    ConflictingRow,
    Unusable,
    compacted_name,
    file_name,
    is_visible,
    rows_of,
    serialise_many,
)
from tune_cd.results.reading import collect, rows_in
from tune_cd.results.redaction import redact
from tune_cd.results.rows import ASKED, trial_name
from tune_cd.results.schema import Row, check_name
from tune_cd.results.store import Bucket, Folder, address_of, store_of
from tune_cd.results.study_files import COMPACTION, DONE, has_driver, state, text_of
from tune_cd.results.writing import read_curve, write

ORDER = {"trials": ["trial_id"], "curves": ["trial_id", "images_seen"]}
RUN = (*ASKED, "search", "status", "started_at", "ended_at")  # tell the run of a training from others

log = logging.getLogger(__name__)


def compact(results: str | Path, study: str | None = None, *, driver: bool = False) -> list[str]:
    """Merge the files of every study, or of one, into one file for trials and one for curves.

    Rows that no longer count are dropped. Files that contradict each other or cannot be read stay as they are; a
    sentence about each of them is returned. The new file is read back before the old ones are removed, so neither a
    crash nor other processes at work lose a row or see half of it. Plain Parquet readers, unlike `read`, may see rows
    twice in between.

    A study whose driver is at work is left out and named. driver: whether the caller is that driver.
    Raises FileNotFoundError if there are no results, ValueError for a study's name that is not allowed, OSError if the
    store fails.
    """
    store = store_of(results)
    store.require()
    if study is None:
        files = [name for kind in SCHEMAS for name in store.listing(kind) if is_visible(name)]
        return [left for name in sorted({file.split("/")[1] for file in files}) for left in compact(results, name)]
    if not driver and has_driver(store, check_name(study)):
        return [f"study {study} has a driver at work, which compacts it"]
    left = [sentence for kind in SCHEMAS for sentence in _compact(store, kind, study)]
    if _is_at_work(store, study):
        state(store, study, done=True)
    return left


def _is_at_work(store: Folder | Bucket, study: str) -> bool:
    """Whether a compaction is at work, or broke off."""
    return DONE not in (text_of(store, study, COMPACTION) or DONE)


def _compact(store: Folder | Bucket, kind: str, study: str) -> list[str]:
    """Write one file of all rows that count, read it back, and only then remove the old files. Returns a sentence about
    each that cannot be merged."""
    rows = collect(store, kind, study)
    kept, conflicts = reconcile(kind, rows)
    left = set[str]().union(*conflicts)
    said = [f"{store.where(one)} contradicts {store.where(other)}" for one, other in conflicts]
    problems = [*rows.problems.values(), *said]
    inputs = [file for file in dict.fromkeys(rows.files) if file not in left]
    kept &= np.array([file not in left for file in rows.files], dtype=np.bool_)
    merged = rows.table.filter(pa.array(kept)).sort_by([(name, "ascending") for name in ORDER[kind]])
    if not merged.num_rows:
        return problems
    data = serialise_many(merged)
    name = compacted_name(kind, study, data)
    if inputs == [name]:
        return problems
    state(store, study, done=False)  # before the new file: if this breaks off, `merge` completes it
    store.write(name, data)
    try:
        if store.read(name) != data:
            raise OSError(f"{store.where(name)} is not what was written; nothing was removed")
    except FileNotFoundError:  # another compaction has merged it
        return problems
    state(store, study, done=False)  # before the old files go: who looked at the listing in between does so again
    with ThreadPoolExecutor(store.readers) as pool:
        list(pool.map(store.remove, [file for file in inputs if file != name]))
    return problems


def keep(results: str | Path, write: Callable[[Path], None]) -> Path:
    """Call `write` with one place after the other until one takes what it writes; returns that.

    Raises OSError naming all places if each refuses, and whatever else `write` raises.
    """
    refused = []
    for folder in _places(results):
        try:
            folder.mkdir(0o700, parents=True, exist_ok=True)
            if not _is_ours(folder):
                raise PermissionError("it is another user's")
            write(folder)
            return folder
        except OSError as problem:
            refused.append(f"{folder}: {problem.strerror or problem}")
    raise OSError(f"no other place takes them ({'; '.join(refused)})")


def folders(results: str | Path) -> list[Path]:
    """The second folders that exist: rows wait there."""
    return [place for place in _places(results) if _is_ours(place)]


def merge(results: str | Path) -> None:
    """Move the rows that wait, each with its curve, and complete the compactions that broke off. Called where results
    are opened for writing.

    A row is removed from its folder after it was written, so a merge that is interrupted loses none. A row that the
    results do not take stays, and a warning names its file.
    """
    moved, store = 0, store_of(results)
    for place in map(Folder, folders(results)):
        found = collect(place, "trials", None, missing=True)
        for reason in found.problems.values():
            log.warning("%s; it is left there", reason)
        try:
            for file, row in zip(found.files, rows_of(found.table)):
                moved += _move(place, file, row, results)
        except OSError as problem:
            log.warning("rows in %s are not taken by the results and wait: %s", place.root, redact(str(problem)))
        for folder in [*sorted(place.root.rglob("*"), reverse=True), place.root]:
            with suppress(OSError):  # it is a file, or a folder that holds one
                folder.rmdir()
    if moved:
        log.warning("%d rows that waited outside the results were moved into %s", moved, store.where())
    try:
        for study in filter(lambda study: _is_at_work(store, study), store.folders("studies")):
            compact(results, study)
    except OSError as problem:
        log.warning("a compaction that broke off is not completed: %s", redact(str(problem)))


def _move(place: Folder, name: str, row: Row, results: str | Path) -> bool:
    """Move one row, if the results take it. Raises OSError if they do not answer.

    If another run has its name by now, it gets the number behind all, unless it is there already.
    """
    study, trial_id, attempt = row["study"], row["trial_id"], row["attempt"]
    curve = read_curve(place.root, study, trial_id, attempt)
    try:
        try:
            write(results, row, curve)
        except ConflictingRow:
            its, others = [row[field] for field in RUN], rows_in(results, study)
            if all(its != [other[field] for field in RUN] for other in others):
                number = 1 + max(other["trial_index"] for other in others)
                named = {"trial_id": trial_name(row["search"], number), "attempt": 0}
                write(results, row | named | {"trial_index": number}, [point | named for point in curve])
    except (ValueError, Unusable) as problem:
        log.warning("%s is left there: %s", place.where(name), redact(str(problem)))
        return False
    place.remove(file_name("curves", study, trial_id, attempt))
    place.remove(name)
    return True


def _places(results: str | Path) -> list[Path]:
    address = address_of(results)
    name, folder = f"waiting-{sha256(os.fsencode(address)).hexdigest()[:16]}", Path(address)
    beside = folder.name and isinstance(check_location(results), Path)
    places = [folder.with_name(f".{folder.name[:100]}-{name}")] if beside else []
    places.append(Path(os.path.expanduser("~/.cache/tune_cd"), name))
    with suppress(FileNotFoundError):  # no folder takes temporary files
        places.append(Path(tempfile.gettempdir(), name))
    return [place for place in places if place.is_absolute()]  # without a home, "~" stays


def _is_ours(folder: Path) -> bool:
    """Whether the folder exists, and is this user's: in the temporary folder everybody may make one."""
    with suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return False
