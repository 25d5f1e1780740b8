"""Reads the results as tables, with every trial once."""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tune_cd.results import parquet
from tune_cd.results.attempts import Rows, reconcile
from tune_cd.results.parquet import SCHEMAS, Unusable, is_compacted, is_visible, load, rows_of, table_in
from tune_cd.results.redaction import redact
from tune_cd.results.schema import Row, check_name
from tune_cd.results.store import Bucket, Folder, store_of
from tune_cd.results.waiting import folders

BATCH = 64  # files that a thread reads, and whose rows are checked together
PASSES = 20  # largest number of listings
PAUSE = 0.5  # seconds before a listed file that was not there is looked for again

Piece = tuple[list[str], list[int], pa.Table]
"""Files, how many rows each has, and these rows in today's schema."""


@dataclass
class Found:
    """The rows of files that were read, and the faults of files that cannot be used."""

    kind: str  # trials or curves
    pieces: list[Piece] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)  # file -> a sentence that names the file and its fault
    files: set[str] = field(default_factory=set)  # those of the pieces

    def rows(self) -> Rows:
        """In the files' order."""
        names = [name for files, _, _ in self.pieces for name in files]
        counts = [count for _, counts, _ in self.pieces for count in counts]
        joined = pa.concat_tables([SCHEMAS[self.kind].empty_table(), *(table for _, _, table in self.pieces)])
        return Rows(joined, names, np.repeat(np.arange(len(counts)), counts))


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
    found = [collect(store, kind, study).problems for store in stores for kind in SCHEMAS]
    faults = [reason for problems in found for reason in problems.values()]
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        said = "put back an intact copy of each, or move it out of the results, and its trial may be trained again"
        raise ValueError(redact(f"study {study!r} cannot go on: {'; '.join(faults[:3])}{more}: {said}"))


def read_file(path: str | Path) -> pd.DataFrame:
    """The trials in one Parquet file at any path, such as a measured landscape.

    Columns are as in `read`, rows in the file's order. Raises FileNotFoundError, and ValueError for a file that cannot
    be read, has another schema, is of a newer format, or holds a row that is not allowed.
    """
    try:
        table = parquet.checked(parquet.parsed(Path(path).read_bytes(), "trials", str(path)), "trials", str(path))
    except Unusable as reason:
        raise ValueError(str(reason)) from reason
    return frame(table, SCHEMAS["trials"])


def _read(results: str | Path, kind: str, study: str | None, order: list[str]) -> pd.DataFrame:
    store, waiting = store_of(results), folders(results)
    try:
        found = collect(store, kind, study)
    except FileNotFoundError:
        if not waiting:
            raise
        found = Found(kind)
    for folder in waiting:
        more = collect(Folder(folder), kind, study)
        found.pieces += [([f"{folder}/{name}" for name in names], *rest) for names, *rest in more.pieces]
        found.problems |= {f"{folder}/{name}": reason for name, reason in more.problems.items()}
        if kind == "trials" and more.files:
            said = f"{len(more.files)} rows of {store.where()} wait in {folder}, and are read from there"
            warnings.warn(said, stacklevel=3)
    rows = found.rows()
    kept, conflicts = reconcile(kind, rows)
    for reason in found.problems.values():
        warnings.warn(redact(f"{reason}; it is left out"), stacklevel=3)
    for chosen, other in conflicts:
        files = [name if name.startswith("/") else store.where(name) for name in (chosen, other)]
        warnings.warn(f"{files[0]} contradicts {files[1]}; the latter is left out", stacklevel=3)
    table = rows.table if kept.all() else rows.table.filter(pa.array(kept))
    return frame(table, SCHEMAS[kind]).sort_values(order, ignore_index=True)


def rows_in(results: str | Path, study: str) -> list[Row]:
    """All rows in a study's intact files, also superseded ones and several of a trial; [] without a results folder."""
    try:
        return rows_of(collect(store_of(results), "trials", study).rows().table)
    except FileNotFoundError:
        return []


def frame(table: pa.Table, schema: pa.Schema) -> pd.DataFrame:
    """Convert a table to a DataFrame as `read` returns it. Raises KeyError for a map that has a name twice."""
    joined = table.combine_chunks()
    converted = joined.to_pandas(maps_as_pydicts="strict", types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    required = {field.name: "int64" for field in schema if field.type == pa.int64() and not field.nullable}
    return pd.DataFrame(converted.astype(required))


def collect(store: Folder | Bucket, kind: str, study: str | None) -> Found:
    """Read all files of a table, or of one study in it. Raises FileNotFoundError if there is no such store.

    `compact` writes the new file before it removes the old ones, so a row is always in one of them, but a listing can
    miss both. So the listing is repeated until it has no new files (or, beside constant writers, PASSES times), but
    where it shows one moment (`at_once`) and each of its files was there. `reconcile` removes rows read twice.
    """
    folder = kind if study is None else f"{kind}/{check_name(study)}"
    found, vanished = Found(kind), set[str]()
    with ThreadPoolExecutor(store.readers) as pool:
        for turn in range(PASSES):
            listed = [name for name in store.listing(folder) if is_visible(name)]
            if not turn and not listed:
                store.require()
            new = [name for name in listed if name not in found.files and name not in found.problems]
            if not new:
                break
            if vanished.issuperset(new):
                time.sleep(PAUSE)  # a listing may be outdated
            of_a_study = [list(names) for _, names in groupby(new, lambda name: name.split("/")[1])]
            batches = [names[at : at + BATCH] for names in of_a_study for at in range(0, len(names), BATCH)]
            for pieces, faults in pool.map(lambda names: _read_batch(store, names), batches):
                found.pieces += pieces
                found.files.update(name for names, _, _ in pieces for name in names)
                first = {name for name, fault in faults.items() if isinstance(fault, FileNotFoundError)} - vanished
                found.problems |= {name: str(fault) for name, fault in faults.items() if name not in first}
                vanished |= first
            if len(listed) < store.at_once and not vanished:
                break
    return found


def _read_batch(store: Folder | Bucket, names: list[str]) -> tuple[list[Piece], dict[str, Exception]]:
    """Read files of one study, together if nothing is wrong with any."""
    together, faults = _together(store, [name for name in names if not is_compacted(name)]), dict[str, Exception]()
    pieces = [] if together is None else [together]
    for name in names if together is None else filter(is_compacted, names):
        try:
            table = load(store, name)
            pieces.append(([name], [table.num_rows], table))
        except (Unusable, OSError) as fault:
            faults[name] = fault
    return pieces, faults


def _together(store: Folder | Bucket, names: list[str]) -> Piece | None:
    """Read files of one study and check their rows at once; None if anything is wrong with any."""
    if not names:
        return None
    kind, study, _ = names[0].split("/")
    try:
        tables = [table_in(store.read(name)) for name in names]
        table = pa.concat_tables(tables).combine_chunks()
        table.validate(full=True)
        usual = all(its.num_rows and its.schema.metadata == SCHEMAS[kind].metadata for its in tables)
        if not usual or not table.schema.equals(SCHEMAS[kind]):
            return None
        return names, [its.num_rows for its in tables], parquet.checked(table, kind, "", study)
    except (Unusable, OSError, ValueError, pa.ArrowException):
        return None
