"""The results as tables: every file that can be read, every trial once."""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tune_cd.results.parquet import (
    SCHEMAS,
    Unusable,
    canonical,
    contradict,
    first_choice,
    is_compacted,
    is_visible,
    load,
    parsed,
    rows_of,
)
from tune_cd.results.schema import check_name
from tune_cd.results.store import Bucket, Folder, store_of

READERS = 8  # threads that read files: one would do on a local disk, several hide a network file system's latency
LOOKS = 4  # at a file that is listed and cannot be opened, before it is given up: stores fail, and listings are late
PASSES = 20  # listings, at most
PAUSE = 0.05  # seconds before such a file is looked at again; doubled each time


@dataclass
class Rows:
    """Rows of several files, and which file each is from."""

    table: pa.Table
    names: list[str]  # of the files
    source: np.ndarray  # [n rows] places in `names`

    def file(self, row: int) -> str:
        return self.names[self.source[row]]


@dataclass
class Found:
    """What lies in some files: the rows of each, and why others cannot be used."""

    tables: dict[str, pa.Table]  # file -> its rows in today's schema
    problems: dict[str, str]  # file -> a sentence that names it

    def rows(self, kind: str) -> Rows:
        counts = [table.num_rows for table in self.tables.values()]
        joined = pa.concat_tables([SCHEMAS[kind].empty_table(), *self.tables.values()])
        return Rows(joined, list(self.tables), np.repeat(np.arange(len(counts)), counts))


def read(results: str | Path, study: str | None = None) -> pd.DataFrame:
    """All trials, or one study's, ordered by study, search, trial_index and trial_id; no rows where there are no trials yet.

    Columns are those of `TRIALS`: maps are dicts, times are in UTC, integers that may be null are Int64. Every trial
    is one row: of several rows with one study and trial_id, one that did not fail counts before one that failed, of
    failed ones that of the latest attempt; and of others that differ, which should not be, the one that ended first,
    with a warning that names both files. A file that cannot be read, has another schema or is of a newer format is
    named in a warning and left out.
    Raises FileNotFoundError if there is no folder `results`, ValueError for a study that is no name.
    """
    return _read(results, "trials", study, ["study", "search", "trial_index", "trial_id"])


def read_curves(results: str | Path, study: str | None = None) -> pd.DataFrame:
    """All learning curves, or one study's, ordered by study, trial_id and images_seen; otherwise as `read`.

    Of several curves with one study and trial_id, that of the latest attempt.
    """
    return _read(results, "curves", study, ["study", "trial_id", "images_seen"])


def read_file(path: str | Path) -> pd.DataFrame:
    """The trials in one Parquet file, wherever it lies, such as a measured landscape; as `read` gives them, in the file's order.

    Raises FileNotFoundError, and ValueError for a file that cannot be read, has another schema, is of a newer format, or has a study
    or trial whose name is not allowed.
    """
    try:
        trials = frame(parsed(Path(path).read_bytes(), "trials", str(path)), SCHEMAS["trials"])
    except Unusable as reason:
        raise ValueError(str(reason)) from reason
    for name in {*trials["study"], *trials["trial_id"]}:
        check_name(name)
    return trials


def _read(results: str | Path, kind: str, study: str | None, order: list[str]) -> pd.DataFrame:
    store = store_of(results)
    found = collect(store, kind, study)
    rows = found.rows(kind)
    kept, conflicts = reconcile(kind, rows)
    for reason in found.problems.values():
        warnings.warn(f"{reason}; it is left out", stacklevel=3)
    for chosen, other in conflicts:
        warnings.warn(f"{store.where(chosen)} contradicts {store.where(other)}; the latter is left out", stacklevel=3)
    table = rows.table if kept.all() else rows.table.filter(pa.array(kept))
    return frame(table, SCHEMAS[kind]).sort_values(order, ignore_index=True)


def frame(table: pa.Table, schema: pa.Schema) -> pd.DataFrame:
    """The table as `read` gives it. Raises KeyError for a map that has a name twice."""
    joined = table.combine_chunks()
    converted = joined.to_pandas(maps_as_pydicts="strict", types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return converted.astype(
        {field.name: "int64" for field in schema if field.type == pa.int64() and not field.nullable}
    )


def collect(store: Folder | Bucket, kind: str, study: str | None) -> Found:
    """All readable files of a table, or of one study's. Raises FileNotFoundError where there is no such store.

    Rows move from file to file while this runs: `compact` writes the new file before it removes the old ones, so a row is
    always in one of them, but a listing that was begun before can miss both. So it is repeated until it has nothing new
    (or, beside writers who do not pause, PASSES times: what is new by then was written since); a row that was read twice is
    sorted out by `reconcile`.
    """
    folder = kind if study is None else f"{kind}/{check_name(study)}"
    store.require()
    found, looks = Found({}, {}), {}
    with ThreadPoolExecutor(READERS) as pool:
        for _ in range(PASSES):
            listed = [name for name in store.listing(folder) if is_visible(name)]
            new = [name for name in listed if name not in found.tables and name not in found.problems]
            if not new:
                break
            if looks and all(name in looks for name in new):  # only such as could not be opened
                time.sleep(PAUSE * 2 ** max(looks[name] for name in new))
            for name, outcome in zip(new, pool.map(lambda name: _outcome(store, name), new), strict=True):
                if isinstance(outcome, pa.Table):
                    found.tables[name] = outcome
                    continue
                looks[name] = looks.get(name, 0) + 1
                if isinstance(outcome, Unusable) or looks[name] == LOOKS:
                    found.problems[name] = str(outcome)
    return found


def _outcome(store: Folder | Bucket, name: str) -> pa.Table | Exception:
    try:
        return load(store, name)
    except (Unusable, OSError) as reason:
        return reason


def reconcile(kind: str, rows: Rows) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """Which rows count [n rows of booleans], and the conflicts among them: (the file that counts, one that contradicts it)."""
    kept, conflicts = np.ones(rows.table.num_rows, dtype=bool), []
    keys = rows.table.select(["study", "trial_id"]).to_pandas()
    # a curve has many rows in one file, so what must be unique is not the row, but the file
    unit = keys.assign(file=rows.source).drop_duplicates() if kind == "curves" else keys
    repeated = unit[unit.duplicated(["study", "trial_id"], keep=False)][["study", "trial_id"]].drop_duplicates()
    if repeated.empty:
        return kept, conflicts
    doubtful = np.flatnonzero(pd.MultiIndex.from_frame(keys).isin(pd.MultiIndex.from_frame(repeated)))
    groups: dict[tuple, list[tuple[int, dict]]] = {}
    for index, row in zip(doubtful.tolist(), rows_of(rows.table.take(pa.array(doubtful))), strict=True):
        groups.setdefault((row["study"], row["trial_id"]), []).append((index, row))
    choose = _choose_trial if kind == "trials" else _choose_curve
    for group in groups.values():
        chosen, against = choose(group, rows)
        kept[[index for index, _ in group if index not in chosen]] = False
        conflicts += [(rows.file(min(chosen)), rows.file(index)) for index in against]
    return kept, conflicts


def _choose_trial(group: list[tuple[int, dict]], rows: Rows) -> tuple[set[int], list[int]]:
    """The row that counts, and rows that contradict it."""
    different = {canonical(row): (index, row) for index, row in reversed(group)}  # equal ones are one: the first
    candidates = sorted(different.values(), key=lambda pair: pair[0])
    index, row = candidates[first_choice([row for _, row in candidates])]
    return {index}, [other for other, its in candidates if other != index and contradict(row, its)]


def _choose_curve(group: list[tuple[int, dict]], rows: Rows) -> tuple[set[int], list[int]]:
    """The rows of the curve that counts, and a row each of other curves of the same attempt, if they differ.

    The latest attempt's; of one attempt's, that which was compacted, since only a finished trial's is.
    """
    curves: dict[tuple, list[tuple[int, dict]]] = {}
    for index, row in group:
        curves.setdefault((-row["attempt"], not is_compacted(rows.file(index)), rows.file(index)), []).append(
            (index, row)
        )
    first, *others = sorted(curves)
    held = sorted(canonical(row) for _, row in curves[first])
    against = [
        curves[key][0][0]
        for key in others
        if key[0] == first[0] and sorted(canonical(row) for _, row in curves[key]) != held
    ]
    return {index for index, _ in curves[first]}, against
