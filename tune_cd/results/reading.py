"""Reads the results as tables, with every trial once."""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tune_cd.results.attempts import Rows, reconcile
from tune_cd.results.parquet import SCHEMAS, Unusable, faults, is_visible, load, parsed, rows_of
from tune_cd.results.redaction import redact
from tune_cd.results.schema import Row, check_name
from tune_cd.results.store import Bucket, Folder, store_of
from tune_cd.results.waiting import folders

BATCH = 64  # files that a thread reads in one go
PASSES = 20  # largest number of listings
PAUSE = 0.02  # seconds more before each further listing, which may be outdated

Read = tuple[pa.Table, bool] | Exception
"""The rows of a file and whether they are known to be allowed (`load`), or why there are none."""


def read(results: str | Path, study: str | None = None) -> pd.DataFrame:
    """All trials, or one study's, ordered by study, search, trial_index and trial_id; an empty table if there are none.

    Columns are those of `TRIALS`: maps are dicts, times are in UTC, integers that may be null are Int64. Every trial
    is one row: the final one, else the latest attempt's (`attempts`). Of rows that contradict each other, which should
    not happen, the one that ended first counts, and a warning names both files. A file that cannot be read, has another
    schema or is of a newer format is named in a warning and left out. Rows that wait on this machine because the store
    did not take them (`waiting`) are among them; a warning names their folder.
    Raises FileNotFoundError if there is no folder `results`, ValueError for a study whose name is not allowed.
    """
    return _read(results, "trials", study, ["study", "search", "trial_index", "trial_id"])


def read_curves(results: str | Path, study: str | None = None) -> pd.DataFrame:
    """All learning curves, or one study's, ordered by study, trial_id and images_seen; otherwise as `read`.

    Of several curves with the same study and trial_id, the latest attempt's counts.
    """
    return _read(results, "curves", study, ["study", "trial_id", "images_seen"])


def check_whole(results: str | Path, study: str) -> None:
    """Check that a study that goes on has no file that cannot be used: its trials would be trained again.

    Raises ValueError naming such files, and FileNotFoundError as `read`.
    """
    stores = [store_of(results), *map(Folder, folders(results))]
    faulty = [fault for store in stores for kind in SCHEMAS for fault in collect(store, kind, study).problems.values()]
    if faulty:
        more = f"; and {len(faulty) - 3} more" if len(faulty) > 3 else ""
        said = "put back an intact copy of each, or move it out of the results, and its trial may be trained again"
        raise ValueError(redact(f"study {study!r} cannot go on: {'; '.join(faulty[:3])}{more}: {said}"))


def read_file(path: str | Path) -> pd.DataFrame:
    """The trials in one Parquet file at any path, such as a measured landscape.

    Columns are as in `read`, rows in the file's order. Raises FileNotFoundError, and ValueError for a file that cannot
    be read, has another schema, is of a newer format, or holds a row that is not allowed.
    """
    try:
        table = parsed(Path(path).read_bytes(), "trials", str(path))
    except Unusable as reason:
        raise ValueError(str(reason)) from reason
    if fault := faults(table, "trials", [table.num_rows], [None])[0]:
        raise ValueError(f"{path} holds {fault}")
    return frame(table, SCHEMAS["trials"])


def _read(results: str | Path, kind: str, study: str | None, order: list[str]) -> pd.DataFrame:
    rows = collect(store_of(results), kind, study, missing=bool(folders(results)))
    rows.names = [str(store_of(results).where(name)) for name in rows.names]
    for place in map(Folder, folders(results)):
        held = collect(place, kind, study, missing=True)
        if kind == "trials" and held.names:
            said = (
                f"{len(held.names)} rows of {store_of(results).where()} wait in {place.root}, and are read from there"
            )
            warnings.warn(said, stacklevel=3)
        source = np.concatenate([rows.source, held.source + len(rows.names)])
        names = [*rows.names, *(str(place.where(name)) for name in held.names)]
        rows = Rows(pa.concat_tables([rows.table, held.table]), names, source, rows.problems | held.problems)
    kept, conflicts = reconcile(kind, rows)
    for problem in rows.problems.values():
        warnings.warn(redact(f"{problem}; it is left out"), stacklevel=3)
    for chosen, other in conflicts:
        warnings.warn(f"{chosen} contradicts {other}; the latter is left out", stacklevel=3)
    table = rows.table if kept.all() else rows.table.filter(pa.array(kept))
    return frame(table, SCHEMAS[kind]).sort_values(order, ignore_index=True)


def rows_in(results: str | Path, study: str) -> list[Row]:
    """All rows in a study's intact files, also superseded ones and several of a trial; [] without a results folder."""
    return rows_of(collect(store_of(results), "trials", study, missing=True).table)


def frame(table: pa.Table, schema: pa.Schema) -> pd.DataFrame:
    """Convert a table to a DataFrame as `read` returns it. Raises KeyError for a map that has a name twice."""
    converted = table.combine_chunks().to_pandas(
        maps_as_pydicts="strict", types_mapper={pa.int64(): pd.Int64Dtype()}.get
    )
    required = {field.name: "int64" for field in schema if field.type == pa.int64() and not field.nullable}
    return pd.DataFrame(converted.astype(required))


def collect(store: Folder | Bucket, kind: str, study: str | None, missing: bool = False) -> Rows:
    """Read all files of a table, or of one study in it. Raises FileNotFoundError if there is no such store, unless it
    may be missing.

    `compact` writes the new file before it removes the old ones, so a row is always in one of them, but a listing can
    miss both. So the listing is repeated until it has no new files (or, beside constant writers, PASSES times), but
    where it shows one moment (`at_once`) and each of its files was there. `reconcile` removes rows read twice.
    """
    folder, found, gone = kind if study is None else f"{kind}/{check_name(study)}", dict[str, Read](), set[str]()
    with ThreadPoolExecutor(store.readers) as pool:
        for turn in range(PASSES):
            listed = [name for name in store.listing(folder) if is_visible(name)]
            new = [name for name in listed if name not in found or name in gone]
            if not (turn or listed or missing):
                store.require()
            if not new:
                break
            time.sleep(PAUSE * bool(gone))
            batches = [new[at : at + BATCH] for at in range(0, len(new), BATCH)]
            found |= {name: one for batch in pool.map(partial(_load, store), batches) for name, one in batch}
            gone = {name for name, one in found.items() if isinstance(one, FileNotFoundError)}
            if len(listed) < store.at_once and not gone:
                break
    problems = {name: str(one) for name, one in found.items() if isinstance(one, Exception)}
    for name in gone.difference(listed):
        del problems[name]
    tables = {name: one for name, one in found.items() if not isinstance(one, Exception)}
    return _checked(store, kind, tables, problems)


def _load(store: Folder | Bucket, names: list[str]) -> list[tuple[str, Read]]:
    def read(name: str) -> Read:
        try:
            return load(store, name)
        except (Unusable, OSError) as fault:
            return fault

    return [(name, read(name)) for name in names]


def _checked(
    store: Folder | Bucket, kind: str, read: dict[str, tuple[pa.Table, bool]], problems: dict[str, str]
) -> Rows:
    """The rows of the files that hold none that may not be written; the others are added to the problems."""
    names = sorted(read, key=lambda name: read[name][1])  # those to be checked first
    counts = np.array([read[name][0].num_rows for name in names], dtype=np.int_)
    loose = [name for name in names if not read[name][1]]
    empty, n = SCHEMAS[kind].empty_table(), len(loose)
    table = pa.concat_tables([empty, *(read[name][0] for name in loose)]).combine_chunks()
    reasons = faults(table, kind, counts[:n].tolist(), [name.split("/")[1] for name in loose])
    problems |= {name: f"{store.where(name)} holds {why}" for name, why in zip(loose, reasons) if why is not None}
    if any(reasons):
        table = table.filter(pa.array(np.repeat([why is None for why in reasons], counts[:n])))
    whole = np.array([name not in problems for name in names], dtype=np.bool_)
    table = pa.concat_tables([table, *(read[name][0] for name in names[n:])])
    kept = [name for name in names if name not in problems]
    return Rows(table, kept, np.repeat(np.arange(len(kept)), counts[whole]), problems)
