"""Finds faults in the files of a results folder, one line each."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tune_cd.results.attempts import reconcile
from tune_cd.results.parquet import SCHEMAS, Unusable, compacted_name, file_name, is_compacted, is_visible, load
from tune_cd.results.reading import Found
from tune_cd.results.store import Bucket, Folder, store_of

TEMPORARY = re.compile(r"\.(probe-|.+\.)[0-9a-f]{16}")  # names of temporary files of `publish` and `check_writable`
WRITE_SECONDS = 60  # a younger temporary file may be a write in progress


def verify(results: str | Path) -> Iterator[str]:
    """Yield a line for every damaged, foreign or contradicting file, and for each left by an interrupted write.

    Every file is read and every row checked. Raises FileNotFoundError if there are no results, OSError if the store
    does not answer.
    """
    store = store_of(results)
    store.require()
    for name in [*store.listing("", depth=1), *(name for kind in SCHEMAS for name in store.listing(kind))]:
        if TEMPORARY.fullmatch(name.rpartition("/")[2]) and store.age(name) > WRITE_SECONDS:
            yield f"{store.where(name)} is left of a write that broke off; it can be removed"
    for kind in SCHEMAS:
        yield from _verify_table(store, kind)


def _verify_table(store: Folder | Bucket, kind: str) -> Iterator[str]:
    found = Found({}, {})
    for name in store.listing(kind):
        if not is_visible(name):
            if not any(part.startswith((".", "_")) for part in name.split("/")):
                yield f"{store.where(name)} does not belong here; {kind}/STUDY/NAME.parquet does"
            continue
        try:
            found.tables[name] = load(store, name)
        except FileNotFoundError:  # compacted meanwhile
            continue
        except (Unusable, OSError) as reason:
            yield str(reason)
            continue
        yield from _verify_name(store, kind, name, found.tables[name])
    rows = found.rows(kind)
    kept, conflicts = reconcile(kind, rows)
    for chosen, other in conflicts:
        yield f"{store.where(chosen)} contradicts {store.where(other)}; the former counts"
    twice = rows.table["trial_id"].filter(pa.array(~kept)).unique().to_pylist() if not kept.all() else []
    if twice and not conflicts:
        said = f"has {len(twice)} trials in several files, first {twice[0]!r}; `compact` leaves each in one"
        yield f"{store.where(kind)} {said}"


def _verify_name(store: Folder | Bucket, kind: str, name: str, table: pa.Table) -> Iterator[str]:
    """Yield a line for a file name that does not fit the content."""
    where, study = store.where(name), name.split("/")[1]
    if is_compacted(name):
        if name != compacted_name(kind, study, store.read(name)):
            yield f"{where} is not what was written: its SHA-256 does not begin with the digits of its name"
        return
    trials = sorted(table["trial_id"].unique().to_pylist())
    attempts = {0, *table["attempt"].unique().to_pylist()}  # earlier releases left the attempt out of the name
    if len(trials) > 1 or name not in {file_name(kind, study, trials[0], attempt) for attempt in attempts}:
        yield f"{where} holds trial {trials[0]!r}, which is not what its name says"
