"""Attempts of a trial: their numbers, the choice of the row that counts, and the trials to run again.

A row is final unless the trial failed or stopped early. A row that is not final may be superseded by a later attempt of
the same trial, which starts over or goes on. Of several rows of a trial a final one counts; without a final one, the
latest attempt's counts. Of several curves the latest attempt's counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from tune_cd.results.parquet import canonical, is_compacted, rows_of
from tune_cd.results.schema import CUT, LOST, Row

UNFINISHED = ("failed", "stopped")
"""Statuses of rows that are not final."""


def is_final(row: Mapping[str, Any]) -> bool:
    """Whether the row can no longer be superseded by a later attempt."""
    return row["status"] not in UNFINISHED


def current(rows: Sequence[Row]) -> Row:
    """The row that counts among different rows of one trial; among equally good ones, the first to end."""
    return min(rows, key=_rank)


def _rank(row: Row) -> tuple[Any, ...]:
    ended = inf if row["ended_at"] is None else row["ended_at"].timestamp()
    return (False, 0, ended, row["attempt"]) if is_final(row) else (True, -row["attempt"], ended, 0)


def refusal(stored: Row, row: Row) -> str | None:
    """The reason why `row` must not supersede a different stored row of its trial; None if it may."""
    held = f"holds attempt {stored['attempt']}, {stored['status']}"
    if is_final(stored):
        changed = [name for name in stored if canonical({name: stored[name]}) != canonical({name: row[name]})]
        return f"{held}, which never changes; refused: attempt {row['attempt']}, which differs in {changed}"
    if row["attempt"] <= stored["attempt"]:
        return f"{held}; only a later attempt may supersede it, not attempt {row['attempt']}"
    return None


def next_attempt(stored: Mapping[str, Any] | None) -> int:
    """The attempt number of a trial's next run. stored: the row that counts, None for a trial without rows."""
    return 0 if stored is None else int(stored["attempt"]) + 1


def has_ended(stored: Mapping[str, Any] | None, attempt: int) -> bool:
    """Whether this attempt of a trial has ended: its row is final, or belongs to this attempt or a later one."""
    return stored is not None and (is_final(stored) or bool(stored["attempt"] >= attempt))


def to_retry(trials: pd.DataFrame, failed: bool = False) -> "pd.Series[bool]":
    """Mask of the trials to run again: the lost ones, or with `failed` all that failed, and those that were `CUT`.

    trials: one row a trial.
    """
    again = trials["status"] == "failed" if failed else (trials["failure_kind"] == LOST).fillna(False)
    return again | (trials["error"] == CUT).fillna(False)


@dataclass
class Rows:
    """Rows of several files."""

    table: pa.Table
    files: list[str]  # [n rows]: the file of each row
    problems: dict[str, str] = field(default_factory=dict)  # file that is left out -> a sentence that names its fault


def reconcile(kind: str, rows: Rows) -> tuple[npt.NDArray[np.bool_], list[tuple[str, str]]]:
    """The rows that count, as a mask [n rows], and the conflicts (file that counts, file that contradicts it).

    The rows of a trial in one file are one curve. Final rows contradict each other if they differ, and so do others,
    and curves, of the same attempt. Of such curves the compacted one counts, which is written after its trial's row.
    """
    kept, conflicts, curves = np.ones(rows.table.num_rows, dtype=np.bool_), list[tuple[str, str]](), kind == "curves"
    keys = rows.table.select(["study", "trial_id"]).to_pandas().assign(place=range(len(kept)), file=rows.files)
    unit = "file" if curves else "place"
    several = keys.groupby(["study", "trial_id"], sort=False)[unit].transform("nunique") > 1
    for _, group in keys[several].groupby(["study", "trial_id"]):
        held: dict[str, tuple[Any, list[int], str]] = {}  # content -> (rank, its places in the table, file)
        for _, same in group.groupby(unit):
            its, file = rows_of(rows.table.take(same["place"].to_numpy())), same["file"].iloc[0]
            rank = (-its[0]["attempt"], not is_compacted(file)) if curves else _rank(its[0])
            content = "\n".join(sorted(map(canonical, its)))
            held.setdefault(content, (rank, same["place"].tolist(), file))
        (best, chosen, file), *others = sorted(held.values())
        kept[group["place"]] = False
        kept[chosen] = True
        alike = 1 if curves else 2  # so much of a rank is the same for rows that contradict each other
        conflicts += [(file, other) for rank, _, other in others if rank[:alike] == best[:alike]]
    return kept, conflicts
