"""Merges many small files into one a study, beside writers and readers."""

import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from math import inf
from pathlib import Path
from secrets import token_hex

import numpy as np
import pyarrow as pa

from tune_cd.results.attempts import Rows, reconcile
from tune_cd.results.lookup import is_done
from tune_cd.results.parquet import SCHEMAS, compacted_name, is_visible, serialise_many
from tune_cd.results.reading import collect
from tune_cd.results.schema import check_name
from tune_cd.results.store import Bucket, Folder, store_of
from tune_cd.results.study_files import COMPACTION, DRIVER, file_of, text_of

ALIVE = 60  # seconds since its last sign of life, every fifth second, for which a study's driver counts as at work
ORDER = {"trials": ["trial_id"], "curves": ["trial_id", "images_seen"]}


@dataclass(frozen=True)
class Compaction:
    """The outcome of compacting one study's files in one table."""

    table: str  # trials or curves
    study: str
    before: int  # number of files
    after: int
    problems: tuple[str, ...]  # files that were left as they are, one sentence each


def compact(results: str | Path, study: str | None = None, *, driver: bool = False) -> list[Compaction]:
    """Merge the files of every study, or of one, into one file for trials and one for curves.

    Curves of trials without a row, or with a failed one, are left out, and rows that no longer count are dropped. Files
    that contradict each other or cannot be read stay as they are and are named. The new file is read back before the
    old ones are removed, so neither a crash nor other processes at work lose a row or see half of it. Plain Parquet
    readers, unlike `read`, may see rows twice in between.

    A study whose driver is at work is left out and named. driver: whether the caller is that driver.
    Raises FileNotFoundError if there are no results, ValueError for a study's name that is not allowed, OSError if the
    store fails.
    """
    store = store_of(results)
    store.require()
    if study is None:
        files = [name for kind in SCHEMAS for name in store.listing(kind) if is_visible(name)]
        return [one for name in sorted({file.split("/")[1] for file in files}) for one in compact(results, name)]
    if not driver and has_driver(store, check_name(study)):
        return [Compaction("trials", study, 0, 0, (f"study {study} has a driver at work, which compacts it",))]
    trials = collect(store, "trials", study)
    done = [_merge(store, "trials", study, trials)]
    curves = collect(store, "curves", study)
    done.append(_merge(store, "curves", study, curves, _growing(curves, trials)))
    if _is_at_work(store, study):
        state(store, study, done=True)
    return [one for one in done if one.before or one.problems]


def has_driver(store: Folder | Bucket, study: str) -> bool:
    """Whether a driver is at work on a study."""
    return store.age(file_of(study, DRIVER), missing=inf) < ALIVE


def complete(results: str | Path) -> None:
    """Complete the compactions that broke off; one small file a study says so. Raises OSError if the store fails."""
    store = store_of(results)
    studies = store.folders("studies")
    with ThreadPoolExecutor(store.readers) as pool:
        broken = list(pool.map(partial(_is_at_work, store), studies))
    for study in compress(studies, broken):
        compact(results, study)


def _is_at_work(store: Folder | Bucket, study: str) -> bool:
    """Whether a compaction is at work, or broke off."""
    statement = text_of(store, study, COMPACTION)
    return statement is not None and not is_done(statement)


def state(store: Folder | Bucket, study: str, done: bool) -> None:
    """State in the study's folder that a compaction is at work, or has come to its end; writers look there."""
    store.write(file_of(study, COMPACTION), json.dumps({"done": done, "token": token_hex(8)}).encode())
    store.compactions.pop(study, None)


def _growing(curves: Rows, trials: Rows) -> set[str]:
    """The files with curves of trials that have no row, or a failed one: they may still grow, which a file of many
    trials cannot. A row is written after its curve, so `trials` must be read before the curves."""
    rows = trials.table.select(["trial_id", "status"]).to_pandas()
    ended = curves.table["trial_id"].to_pandas().isin(rows["trial_id"][rows["status"] != "failed"])
    return {curves.names[file] for file in np.unique(curves.source[~ended.to_numpy(bool)])}


def _merge(store: Folder | Bucket, kind: str, study: str, rows: Rows, growing: Collection[str] = ()) -> Compaction:
    """Write one file of all rows that count, read it back, and only then remove the old files."""
    kept, conflicts = reconcile(kind, rows)
    said = (f"{store.where(chosen)} contradicts {store.where(other)}" for chosen, other in conflicts)
    left = {*growing, *(file for pair in conflicts for file in pair)}
    inputs = [file for file in rows.names if file not in left]
    kept &= ~np.isin(rows.source, [place for place, file in enumerate(rows.names) if file in left])
    merged = rows.table.filter(pa.array(kept)).sort_by([(name, "ascending") for name in ORDER[kind]])
    unchanged = Compaction(kind, study, len(inputs), len(inputs), (*rows.problems.values(), *said))
    if not merged.num_rows:
        return unchanged
    data = serialise_many(merged)
    name = compacted_name(kind, study, data)
    if inputs == [name]:
        return unchanged
    state(store, study, done=False)  # before the new file: if this breaks off, it is completed (`complete`)
    store.write(name, data)
    try:
        if store.read(name) != data:
            raise OSError(f"{store.where(name)} is not what was written; nothing was removed")
    except FileNotFoundError:  # another compaction has merged it
        return unchanged
    state(store, study, done=False)  # before the old files go: who looked at the listing in between does so again
    with ThreadPoolExecutor(store.readers) as pool:
        list(pool.map(store.remove, [file for file in inputs if file != name]))
    return replace(unchanged, after=1)
