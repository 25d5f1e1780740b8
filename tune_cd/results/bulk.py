"""Writes many finished trials at once, in one file a study; used by replays."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tune_cd.results.attempts import reconcile
from tune_cd.results.compaction import ORDER, merge
from tune_cd.results.parquet import ConflictingRow, compacted_name, serialise_many, table_of
from tune_cd.results.reading import Found, collect
from tune_cd.results.schema import TRIALS
from tune_cd.results.store import Bucket, Folder, store_of
from tune_cd.results.writing import checked_row

NEW = "the rows to be written"


def write_trials(results: str | Path, rows: Iterable[Mapping[str, Any]]) -> Path | str:
    """Store the rows of one study (fields as for `write_trial`) in one compacted file; return the study's folder.

    Rows that the study has already are merged into the same file; equal rows are stored once. The new file is written
    whole under its own name before any other is removed, so an interrupted write loses no stored rows.
    Raises ConflictingRow if a stored row contradicts a new one; nothing is written then. Raises ValueError for rows
    that are not allowed, no rows, several studies, or two rows of one trial; OSError if the store fails.
    """
    listed = [checked_row(row) for row in rows]
    studies, trials = {row["study"] for row in listed}, {row["trial_id"] for row in listed}
    if len(studies) != 1 or len(trials) < len(listed):
        given = f"{len(listed)} rows of {len(trials)} trials in studies {sorted(studies)}"
        raise ValueError(f"{given}: of one study, one a trial, are required")
    store, study = store_of(results), studies.pop()
    table = table_of(listed, TRIALS)
    held = collect(store, "trials", study) if store.listing(f"trials/{study}") else Found({}, {})
    _refuse_contradictions(store, held, table)
    data = serialise_many(table.sort_by([(name, "ascending") for name in ORDER["trials"]]))
    store.write(compacted_name("trials", study, data), data)
    merge(store, "trials", study, collect(store, "trials", study))
    return store.where(f"trials/{study}")


def _refuse_contradictions(store: Folder | Bucket, held: Found, table: pa.Table) -> None:
    both = Found({**held.tables, NEW: table}, {})
    for chosen, other in reconcile("trials", both.rows("trials"))[1]:
        if NEW in (chosen, other):
            place = store.where(other if chosen == NEW else chosen)
            said = "holds other rows of the same trials, which never change; nothing was written"
            raise ConflictingRow(f"{place} {said}")
