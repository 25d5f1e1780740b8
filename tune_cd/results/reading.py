"""Reads the results as tables, with every trial once."""

import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from tune_cd.results.attempts import canonical, rank
from tune_cd.results.parquet import SCHEMAS, Unusable, is_compacted, is_visible, load, parsed, rows_of
from tune_cd.results.redaction import redact
from tune_cd.results.schema import Row, check_name, check_trial
from tune_cd.results.store import Store, store_of
from tune_cd.results.study_files import require_begun

PASSES = 20  # largest number of listings
TOGETHER = 100  # files that become one table at once: a table of a single row takes 75 kB


def read(results: str | Path, study: str | None = None, *, missing: bool = False) -> pd.DataFrame:
    """All trials, or one study's, ordered by study, search, trial_index and trial_id; an empty table if none has ended.

    Columns are those of `TRIALS`: maps are dicts, times are in UTC, integers that may be null are Int64. Every trial
    is one row: the final one, else the latest attempt's (`attempts`). Of rows that contradict each other, which should
    not happen, the one that ended first counts, and a warning names both files. A file that cannot be read, has another
    schema or is of another format is named in a warning and left out.
    Raises FileNotFoundError if there is no folder `results`, and ValueError for a study whose name is not allowed, or
    where the folder, unless it is empty, lacks the study or results. missing: an empty table where they are missing.
    """
    return _read(results, "trials", study, ["study", "search", "trial_index", "trial_id"], missing)


def read_curves(results: str | Path, study: str | None = None, *, missing: bool = False) -> pd.DataFrame:
    """All learning curves, or one study's, ordered by study, trial_id and images_seen; otherwise as `read`.

    Of several curves with the same study and trial_id, the latest attempt's counts.
    """
    return _read(results, "curves", study, ["study", "trial_id", "images_seen"], missing)


def read_file(path: str | Path) -> pd.DataFrame:
    """The trials in one Parquet file at any path, such as a measured landscape.

    Columns are as in `read`, rows in the file's order. Raises FileNotFoundError, and ValueError for a file that cannot
    be read, has another schema, is of another format, or holds a row that is not allowed.
    """
    try:
        table = parsed(Path(path).read_bytes(), "trials", str(path))
        for row in rows_of(table):
            check_trial(row)
    except Unusable as reason:
        raise ValueError(str(reason)) from reason
    except ValueError as reason:
        raise ValueError(f"{path}: {reason}") from reason
    return frame(table, SCHEMAS["trials"])


def rows_in(results: str | Path, study: str) -> list[Row]:
    """All rows in a study's intact files, also superseded ones and several of a trial; [] without a results folder."""
    return rows_of(collect(store_of(results), "trials", study, missing=True).table)


def check_whole(results: str | Path, study: str) -> None:
    """Check that a study that goes on has no file that cannot be used: its trials would be trained again.

    Raises ValueError naming such files, and FileNotFoundError as `read`.
    """
    store = store_of(results)
    faulty = [problem for kind in SCHEMAS for problem in collect(store, kind, study).problems.values()]
    if faulty:
        more = f"; and {len(faulty) - 3} more" if len(faulty) > 3 else ""
        said = "put back an intact copy of each, or move it out of the results, and its trial may be trained again"
        raise ValueError(redact(f"study {study!r} cannot go on: {'; '.join(faulty[:3])}{more}: {said}"))


def frame(table: pa.Table, schema: pa.Schema) -> pd.DataFrame:
    """Convert a table to a DataFrame as `read` returns it."""
    converted = table.combine_chunks().to_pandas(
        maps_as_pydicts="lossy", types_mapper={pa.int64(): pd.Int64Dtype()}.get
    )
    required = {field.name: "int64" for field in schema if field.type == pa.int64() and not field.nullable}
    return pd.DataFrame(converted.astype(required))


@dataclass
class Rows:
    """Rows of several files."""

    table: pa.Table
    files: list[str]  # [n rows]: the file of each row
    problems: dict[str, str] = field(default_factory=dict)  # file that is left out -> a sentence that names its fault


def collect(store: Store, kind: str, study: str | None, missing: bool = False) -> Rows:
    """Read all files of a table, or of one study in it. Raises FileNotFoundError without a store, unless `missing`.

    `compact` writes the new file before it removes the old ones, so a row is always in one of them, but a listing can
    miss both. So the listing is repeated until it has no new files (or, beside constant writers, PASSES times), but
    where it shows one moment (`at_once`) and each of its files was there. `counting` removes rows read twice.
    """
    folder, seen = kind if study is None else f"{kind}/{check_name(study)}", set[str]()
    tables, files, problems = [SCHEMAS[kind].empty_table()], list[str](), dict[str, str]()
    with ThreadPoolExecutor(store.readers) as pool:
        for turn in range(PASSES):
            listed = [name for name in store.listing(folder, recursive=True) if is_visible(name)]
            new = [name for name in listed if name not in seen]
            if not (turn or listed or missing):
                store.require()
            size = max(1, min(TOGETHER, -(-len(new) // store.readers)))
            for part in pool.map(partial(_load, store, kind), (new[n : n + size] for n in range(0, len(new), size))):
                tables.append(part.table)
                files += part.files
                problems |= part.problems
            seen.update(new)
            if not new or (len(listed) < store.at_once and seen == {*files, *problems}):
                break
    return Rows(pa.concat_tables(tables).combine_chunks(), files, problems)


def _load(store: Store, kind: str, names: list[str]) -> Rows:
    """The rows of files, without those that another process has removed."""
    tables, files, problems = [SCHEMAS[kind].empty_table()], list[str](), dict[str, str]()
    for name in names:
        try:
            tables.append(load(store, name))
            files += [name] * tables[-1].num_rows
        except FileNotFoundError:
            pass
        except OSError as reason:
            problems[name] = str(reason)
    return Rows(pa.concat_tables(tables).combine_chunks(), files, problems)


def counting(kind: str, rows: Rows) -> tuple[npt.NDArray[np.bool_], Counter[tuple[str, str]]]:
    """The rows that count, as a mask [n rows], and the conflicts: (file that counts, file that contradicts it) -> in
    how many trials.

    Of rows of a trial the smallest `rank` counts. Of curves the latest attempt's does, of one attempt the one in the
    trial's own file: its run was repeated after the other was compacted.
    """
    keys = rows.table.select(["study", "trial_id", "attempt"]).to_pandas()
    keys = keys.assign(place=range(len(keys)), file=rows.files, own=[not is_compacted(file) for file in rows.files])
    trial = ["study", "trial_id"]
    if kind == "curves":
        newest = keys.sort_values(["attempt", "own", "file"]).groupby(trial, sort=False)["file"].transform("last")
        return (newest.sort_index() == keys["file"]).to_numpy(dtype=np.bool_), Counter()
    kept, conflicts = np.ones(len(keys), dtype=np.bool_), Counter[tuple[str, str]]()
    for _, several in keys[keys.duplicated(trial, keep=False)].groupby(trial):
        held = zip(rows_of(rows.table.take(several["place"].to_numpy())), several["place"], several["file"])
        different = {canonical(row): (rank(row), place, file) for row, place, file in held}
        (best, chosen, file), *others = sorted(different.values())
        kept[several["place"]] = False
        kept[chosen] = True
        conflicts.update((file, other) for its, _, other in others if its[:2] == best[:2])
    return kept, conflicts


def sentences(store: Store, conflicts: Counter[tuple[str, str]]) -> list[str]:
    """A sentence for each two files that contradict each other."""
    pairs = ((store.where(one), store.where(other), n) for (one, other), n in conflicts.items())
    return [f"{one} contradicts {other}{f' in {n} trials' * (n > 1)}" for one, other, n in pairs]


def _read(results: str | Path, kind: str, study: str | None, order: list[str], missing: bool) -> pd.DataFrame:
    store = store_of(results)
    rows = collect(store, kind, study, missing)
    if not (rows.files or missing):
        require_begun(results, study)
    kept, conflicts = counting(kind, rows)
    said = [f"{problem}; it is left out" for problem in rows.problems.values()]
    said += [f"{sentence}; the latter is left out" for sentence in sentences(store, conflicts)]
    for sentence in said:
        warnings.warn(redact(sentence), stacklevel=3)
    table = rows.table if kept.all() else rows.table.filter(pa.array(kept))
    return frame(table, SCHEMAS[kind]).sort_values(order, ignore_index=True)
