"""Merges many small files into one a study, beside writers and readers."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import compress
from math import inf
from pathlib import Path
from secrets import token_hex

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    files = [name for kind in SCHEMAS for name in store.listing(kind)] if study is None else []
    studies = {name.split("/")[1] for name in files if is_visible(name)} if study is None else {check_name(study)}
    done = []
    for name in sorted(studies):
        if not driver and store.age(file_of(name, DRIVER), missing=inf) < ALIVE:
            done.append(Compaction("trials", name, 0, 0, (f"study {name} has a driver at work, which compacts it",)))
            continue
        trials = collect(store, "trials", name)
        rows = trials.rows()
        done.append(merge(store, "trials", name, rows, trials.problems))
        curves = collect(store, "curves", name)
        done.append(merge(store, "curves", name, _of_final_trials(curves.rows(), rows.table), curves.problems))
        if _is_at_work(store, name):
            state(store, name, done=True)
    return [one for one in done if one.before or one.problems]


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


def _of_final_trials(curves: Rows, trials: pa.Table) -> Rows:
    """The curves in files of trials alone that have a row and did not fail: others may still grow, which a file of many
    trials cannot. A row is written after its curve, so `trials` must be read before the curves."""
    finals = trials.filter(pc.not_equal(trials["status"], "failed"))["trial_id"].combine_chunks()
    final = pc.is_in(curves.table["trial_id"], finals)
    growing = curves.source[~np.asarray(final, dtype=np.bool_)]
    kept = ~np.isin(curves.source, growing)
    files, source = np.unique(curves.source[kept], return_inverse=True)
    return Rows(curves.table.filter(pa.array(kept)), [curves.names[file] for file in files], source)


def merge(store: Folder | Bucket, kind: str, study: str, rows: Rows, faults: Mapping[str, str]) -> Compaction:
    """Write one file of all rows that count, read it back, and only then remove the old files."""
    kept, conflicts = reconcile(kind, rows)
    disputed = {file for pair in conflicts for file in pair}
    said = [f"{store.where(chosen)} contradicts {store.where(other)}" for chosen, other in conflicts]
    problems = (*faults.values(), *said)
    inputs = [file for file in rows.names if file not in disputed]
    counts = kept & ~np.isin(rows.source, [place for place, file in enumerate(rows.names) if file in disputed])
    merged = rows.table.filter(pa.array(counts)).sort_by([(name, "ascending") for name in ORDER[kind]])
    unchanged = Compaction(kind, study, len(inputs), len(inputs), problems)
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
    return Compaction(kind, study, len(inputs), 1, problems)
