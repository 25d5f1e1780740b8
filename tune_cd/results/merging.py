"""Rows that the results do not take, as of a full disk, wait in a second results folder (`keep`), from which the next
program that opens the results for writing moves them (`merge`).

Its places, in this order: beside a results folder, in the user's cache, in the temporary folder. The name has a hash of
the results' address, so that the next program that uses the results finds it.
"""

import logging
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from tune_cd.results.compaction import complete
from tune_cd.results.location import check_location
from tune_cd.results.parquet import ConflictingRow, Unusable, file_name, rows_of
from tune_cd.results.reading import collect, rows_in
from tune_cd.results.redaction import redact
from tune_cd.results.rows import ASKED, trial_name
from tune_cd.results.schema import Row
from tune_cd.results.store import Store, address_of, store_of
from tune_cd.results.writing import read_curve, write_trial

RUN = (*ASKED, "search", "status", "started_at", "ended_at")  # tell the run of a training from others

log = logging.getLogger(__name__)


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
    """Where results are opened for writing: move the rows that wait, with their curves, and complete compactions.

    A row is removed from its folder after it was written, so a merge that is interrupted loses none. A row that the
    results do not take stays, and a warning names its file.
    """
    moved = 0
    for folder in folders(results):
        place = Store(folder)
        found = collect(place, "trials", None, missing=True)
        for reason in found.problems.values():
            log.warning("%s; it is left there", reason)
        try:
            for file, row in zip(found.files, rows_of(found.table)):
                moved += _move(place, file, row, results)
        except OSError as problem:
            log.warning("rows in %s are not taken by the results and wait: %s", folder, redact(str(problem)))
        for empty in [*sorted(folder.rglob("*"), reverse=True), folder]:
            with suppress(OSError):  # it is a file, or a folder that holds one
                empty.rmdir()
    if moved:
        log.warning("%d rows that waited outside the results were moved into %s", moved, store_of(results).where())
    complete(results)


def _move(place: Store, name: str, row: Row, results: str | Path) -> bool:
    """Move one row, if the results take it. Raises OSError if they do not answer.

    If another run has its name by now, it gets the number behind all, unless it is there already.
    """
    study, trial_id, attempt = row["study"], row["trial_id"], row["attempt"]
    curve = read_curve(place, study, trial_id, attempt)
    try:
        try:
            write_trial(results, row, curve)
        except ConflictingRow:
            its, others = [row[field] for field in RUN], rows_in(results, study)
            if all(its != [other[field] for field in RUN] for other in others):
                number = 1 + max(other["trial_index"] for other in others)
                named = {"trial_id": trial_name(row["search"], number), "attempt": 0}
                write_trial(results, row | named | {"trial_index": number}, [point | named for point in curve])
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
