"""Compaction: the many files of a study become one of trials and one of curves, beside readers and writers at work.

There is no lock. The new file has its content's hash for a name, and is read back before the old files are removed. So
neither a crash nor another compaction loses a row, and `read`, unlike plain Parquet readers, shows none twice.
RESULTS/studies/<study>/compaction.json states before that a compaction is at work: writers, which ask for exact names,
learn from it of compacted files, and the next program that opens the results for writing completes one that broke off.
"""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from secrets import token_hex

import numpy as np
import pyarrow as pa

from tune_cd.results.parquet import SCHEMAS, compacted_name, is_compacted, is_visible, serialise
from tune_cd.results.reading import collect, counting, sentences
from tune_cd.results.redaction import redact
from tune_cd.results.schema import check_name
from tune_cd.results.store import TEMPORARY, Store, store_of
from tune_cd.results.study_files import file_of, has_driver, text_of

STATEMENT, DONE = "compaction.json", b'"done": true'
STALE = 3600.0  # seconds after which an unfinished file is one that a killed writer left
ORDER = {"trials": ["trial_id"], "curves": ["trial_id", "images_seen"]}

log = logging.getLogger(__name__)


def compact(results: str | Path, study: str | None = None, *, driver: bool = False) -> list[str]:
    """Merge the files of every study, or of one, into one file for trials and one for curves.

    Rows that no longer count are dropped, and so is what a writer that was killed has left of a file. Files that
    contradict each other or cannot be read stay as they are; a sentence about each of them is returned. Plain Parquet
    readers may see rows twice meanwhile.

    A study whose driver is at work is left out and named. driver: whether the caller is that driver.
    Raises FileNotFoundError if there are no results, ValueError for a name that is not allowed, OSError of the store.
    """
    store = store_of(results)
    store.require()
    if study is None:
        files = [name for kind in SCHEMAS for name in store.listing(kind, recursive=True) if is_visible(name)]
        return [left for name in sorted({file.split("/")[1] for file in files}) for left in compact(results, name)]
    if not driver and has_driver(store, check_name(study)):
        return [f"study {study} has a driver at work, which compacts it"]
    left = [sentence for kind in SCHEMAS for sentence in _compact(store, kind, study)]
    if _is_at_work(store, study):
        state(store, study, done=True)
    for kind in (*SCHEMAS, "studies") if store.folder else ():
        for name in store.listing(f"{kind}/{study}", recursive=True):
            if TEMPORARY.fullmatch(name) and store.age(name) > STALE:
                store.remove(name)
    return left


def complete(results: str | Path) -> None:
    """Complete the compactions that broke off. A store that does not answer is logged."""
    store = store_of(results)
    try:
        for study in store.folders("studies"):
            if _is_at_work(store, study):
                compact(results, study)
    except OSError as problem:
        log.warning("a compaction that broke off is not completed: %s", redact(str(problem)))


def _is_at_work(store: Store, study: str) -> bool:
    return DONE not in (text_of(store, study, STATEMENT) or DONE)


def state(store: Store, study: str, done: bool) -> None:
    """State in the study's folder that a compaction is at work, or has come to its end."""
    store.write(file_of(study, STATEMENT), json.dumps({"done": done, "token": token_hex(8)}).encode())
    store.compactions.pop(study, None)


def _compact(store: Store, kind: str, study: str) -> list[str]:
    """Merge the files of one table. Returns a sentence about each that cannot be merged."""
    rows = collect(store, kind, study)
    counts, conflicts = counting(kind, rows)
    contradict = set[str]().union(*conflicts)
    left = [*rows.problems.values(), *sentences(store, conflicts)]
    agree = np.array([file not in contradict for file in rows.files], dtype=np.bool_)
    merged = rows.table.filter(pa.array(counts & agree))
    if not merged.num_rows:
        return left
    data = serialise(merged.sort_by([(name, "ascending") for name in ORDER[kind]]), many=True)
    name, old = compacted_name(kind, study, data), {*rows.files} - contradict
    if old == {name}:
        return left
    state(store, study, done=False)
    store.write(name, data)
    try:
        if store.read(name) != data:
            raise OSError(f"{store.where(name)} is not what was written; nothing was removed")
    except FileNotFoundError:  # another compaction has merged it
        return left
    state(store, study, done=False)  # who looked at the listing in between does so again
    with ThreadPoolExecutor(store.readers) as pool:
        list(pool.map(store.remove, sorted(old - {name})))
    return left


def compacted(store: Store, kind: str, study: str, afresh: bool = False) -> list[str]:
    """The compacted files of a study. They are listed only if its statement has changed, or with `afresh`."""
    known = (-inf, b"", []) if afresh else store.compactions.get(study, (-inf, b"", []))
    read_at, statement, files = known
    if time.monotonic() - read_at >= store.trusted:
        read_at, found = time.monotonic(), text_of(store, study, STATEMENT) or b""
        if found != statement:
            kinds = SCHEMAS if found else ()  # no study is compacted without a statement
            files = [name for kind in kinds for name in store.listing(f"{kind}/{study}") if is_compacted(name)]
        if not found or DONE in found:
            store.compactions[study] = read_at, found, files
    return [file for file in files if file.startswith(f"{kind}/")]
