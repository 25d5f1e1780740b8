"""Attempts of a trial: their numbers, the choice of the row that counts, and the trials to run again.

A row is final unless the trial failed or stopped early. A row that is not final may be superseded by a later attempt of
the same trial, which starts over or goes on. Of several rows of a trial a final one counts; without a final one, the
latest attempt's counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tune_cd.results.parquet import canonical, is_compacted, rows_of
from tune_cd.results.schema import CUT, LOST, Row

UNFINISHED = ("failed", "stopped")
"""Statuses of rows that are not final."""

Indexed = tuple[int, Row]
"""(index in its table, row)."""


def is_final(row: Mapping[str, Any]) -> bool:
    """Whether the row can no longer be superseded by a later attempt."""
    return row["status"] not in UNFINISHED


def current(rows: Sequence[Row]) -> int:
    """Index of the row that counts among different rows of one trial; among equally good ones, the first to end."""

    def rank(place: int) -> tuple[bool, int, float, int]:
        row = rows[place]
        ended = row["ended_at"].timestamp() if row["ended_at"] is not None else float("inf")
        return (not is_final(row), 0 if is_final(row) else -row["attempt"], ended, row["attempt"])

    return min(range(len(rows)), key=rank)


def contradicts(other: Row, chosen: Row) -> bool:
    """Whether `other` contradicts `chosen`, the row that counts and a different row of the same trial."""
    if is_final(chosen):
        return is_final(other)
    return not is_final(other) and bool(chosen["attempt"] == other["attempt"])


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
    chosen = trials["status"] == "failed"
    chosen = chosen if failed else chosen & (trials["failure_kind"] == LOST).fillna(False)
    return chosen | were_cut(trials)


def were_cut(trials: pd.DataFrame) -> "pd.Series[bool]":
    """Mask of the trials that the end of their experiment cut off."""
    return (trials["error"] == CUT).fillna(False)


def final_trials(trials: pa.Table) -> list[str]:
    """The ids of trials that did not fail. Their curves are complete: a curve is written before its row and grows only
    in later attempts."""
    return list(trials.filter(pc.not_equal(trials["status"], "failed"))["trial_id"].to_pylist())


@dataclass
class Rows:
    """Rows of several files, with the file of each row."""

    table: pa.Table
    names: list[str]  # of the files
    source: npt.NDArray[np.int_]  # [n rows] indices into `names`

    def file(self, row: int) -> str:
        return self.names[int(self.source[row])]


def reconcile(kind: str, rows: Rows) -> tuple[npt.NDArray[np.bool_], list[tuple[str, str]]]:
    """Choose the rows that count: a mask [n rows], and the conflicts (file that counts, file that contradicts it)."""
    kept = np.ones(rows.table.num_rows, dtype=np.bool_)
    conflicts: list[tuple[str, str]] = []
    keys = rows.table.select(["study", "trial_id"]).to_pandas()
    # a curve has many rows in one file, so the file must be unique, not the row
    unit = keys.assign(file=rows.source).drop_duplicates() if kind == "curves" else keys
    repeated = unit[unit.duplicated(["study", "trial_id"], keep=False)][["study", "trial_id"]].drop_duplicates()
    if repeated.empty:
        return kept, conflicts
    doubtful = np.flatnonzero(pd.MultiIndex.from_frame(keys).isin(pd.MultiIndex.from_frame(repeated)))
    groups: dict[tuple[str, str], list[Indexed]] = {}
    for index, row in zip(doubtful.tolist(), rows_of(rows.table.take(pa.array(doubtful))), strict=True):
        groups.setdefault((row["study"], row["trial_id"]), []).append((index, row))
    choose = _choose_trial if kind == "trials" else _choose_curve
    for group in groups.values():
        chosen, against = choose(group, rows)
        kept[[index for index, _ in group if index not in chosen]] = False
        conflicts += [(rows.file(min(chosen)), rows.file(index)) for index in against]
    return kept, conflicts


def _choose_trial(group: list[Indexed], rows: Rows) -> tuple[set[int], list[int]]:
    """Index of the row that counts, in a set, and indices of rows that contradict it."""
    different = {canonical(row): (index, row) for index, row in reversed(group)}  # of equal rows the first
    candidates = sorted(different.values(), key=lambda pair: pair[0])
    index, row = candidates[current([row for _, row in candidates])]
    return {index}, [other for other, its in candidates if other != index and contradicts(its, row)]


def _choose_curve(group: list[Indexed], rows: Rows) -> tuple[set[int], list[int]]:
    """Indices of the rows of the curve that counts, and one row index for each curve of the same attempt that differs.

    The latest attempt's curve counts. Of several curves of this attempt the compacted one counts, since a curve is
    compacted only after its trial's row is stored.
    """
    curves: dict[tuple[int, bool, str], list[Indexed]] = {}
    for index, row in group:
        file = rows.file(index)
        curves.setdefault((-row["attempt"], not is_compacted(file), file), []).append((index, row))
    first, *others = sorted(curves)
    content = {key: sorted(canonical(row) for _, row in curve) for key, curve in curves.items()}
    against = [curves[key][0][0] for key in others if key[0] == first[0] and content[key] != content[first]]
    return {index for index, _ in curves[first]}, against
