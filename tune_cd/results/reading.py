"""The results as tables: every file that can be read, every trial once."""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tune_cd.results.attempts import Rows, reconcile
from tune_cd.results.parquet import SCHEMAS, Unusable, is_visible, load, parsed
from tune_cd.results.schema import check_name
from tune_cd.results.store import Bucket, Folder, store_of

READERS = 8  # threads that read files: one would do on a local disk, several hide a network file system's latency
LOOKS = 4  # at a file that is listed and cannot be opened, before it is given up: stores fail, and listings are late
PASSES = 20  # listings, at most
PAUSE = 0.05  # seconds before such a file is looked at again; doubled each time


@dataclass
class Found:
    """The content of some files: the rows of each, and the reasons for which others cannot be used."""

    tables: dict[str, pa.Table]  # file -> its rows in today's schema
    problems: dict[str, str]  # file -> a sentence that names it

    def rows(self, kind: str) -> Rows:
        counts = [table.num_rows for table in self.tables.values()]
        joined = pa.concat_tables([SCHEMAS[kind].empty_table(), *self.tables.values()])
        return Rows(joined, list(self.tables), np.repeat(np.arange(len(counts)), counts))


def read(results: str | Path, study: str | None = None) -> pd.DataFrame:
    """All trials, or one study's, ordered by study, search, trial_index and trial_id; an empty table without any.

    Columns are those of `TRIALS`: maps are dicts, times are in UTC, integers that may be null are Int64. Every trial
    is one row: of several rows with one study and trial_id, one that is final counts before others, which failed or
    stopped, and of these that of the latest attempt (`attempts`); and of others that differ, which should not be, the
    one that ended first, with a warning that names both files. A file that cannot be read, has another schema or is of
    a newer format is named in a warning and left out.
    Raises FileNotFoundError if there is no folder `results`, ValueError for a study that is no name.
    """
    return _read(results, "trials", study, ["study", "search", "trial_index", "trial_id"])


def read_curves(results: str | Path, study: str | None = None) -> pd.DataFrame:
    """All learning curves, or one study's, ordered by study, trial_id and images_seen; otherwise as `read`.

    Of several curves with one study and trial_id, that of the latest attempt.
    """
    return _read(results, "curves", study, ["study", "trial_id", "images_seen"])


def read_file(path: str | Path) -> pd.DataFrame:
    """The trials in one Parquet file, wherever it lies, such as a measured landscape: as `read`, in the file's order.

    Raises FileNotFoundError, and ValueError for a file that cannot be read, has another schema, is of a newer format,
    or has a study's or trial's name that is not allowed.
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
    required = {field.name: "int64" for field in schema if field.type == pa.int64() and not field.nullable}
    return pd.DataFrame(converted.astype(required))


def collect(store: Folder | Bucket, kind: str, study: str | None) -> Found:
    """All readable files of a table, or of one study's. Raises FileNotFoundError where there is no such store.

    Rows move from file to file while this runs: `compact` writes the new file before it removes the old ones, so a row
    is always in one of them, but a listing that was begun before can miss both. So it is repeated until it has nothing
    new (or, beside writers that do not pause, PASSES times: files that are new by then were written since). A row that
    was read twice is sorted out by `reconcile`.
    """
    folder = kind if study is None else f"{kind}/{check_name(study)}"
    store.require()
    found = Found({}, {})
    looks: dict[str, int] = {}
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
