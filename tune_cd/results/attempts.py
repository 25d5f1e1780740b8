"""Attempts of a trial: their numbers, the choice of the row that counts, and the trials to run again.

A row is final unless the trial failed or stopped early. A row that is not final may be superseded by a later attempt of
the same trial, which starts over or goes on. Of several rows of a trial a final one counts; without a final one, the
latest attempt's counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


def current(rows: Sequence[Row]) -> int:
    """Index of the row that counts among different rows of one trial; among equally good ones, the first to end."""

    def rank(place: int) -> tuple[bool, int, float, int]:
        row, final = rows[place], is_final(rows[place])
        ended = row["ended_at"].timestamp() if row["ended_at"] is not None else inf
        return not final, 0 if final else -row["attempt"], ended, row["attempt"]

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
    again = trials["status"] == "failed" if failed else (trials["failure_kind"] == LOST).fillna(False)
    return again | (trials["error"] == CUT).fillna(False)


@dataclass
class Rows:
    """Rows of several files, with the file of each row."""

    table: pa.Table
    names: list[str]  # of the files
    source: npt.NDArray[np.int_]  # [n rows] indices into `names`

    def file(self, row: int) -> str:
        return self.names[int(self.source[row])]


def reconcile(kind: str, rows: Rows) -> tuple[npt.NDArray[np.bool_], list[tuple[str, str]]]:
    """The rows that count, as a mask [n rows], and the conflicts (file that counts, file that contradicts it)."""
    kept, conflicts = np.ones(rows.table.num_rows, dtype=np.bool_), list[tuple[str, str]]()
    keys = rows.table.select(["study", "trial_id"]).to_pandas().assign(place=range(len(kept)), file=rows.source)
    # a curve has many rows in one file, so the file must be unique, not the row
    unique = "file" if kind == "curves" else "place"
    several = keys.groupby(["study", "trial_id"], sort=False)[unique].transform("nunique") > 1
    choose = _choose_trial if kind == "trials" else _choose_curve
    for _, group in keys[several].groupby(["study", "trial_id"]):
        places = group["place"].tolist()
        chosen, against = choose(dict(zip(places, rows_of(rows.table.take(places)), strict=True)), rows)
        kept[[place for place in places if place not in chosen]] = False
        conflicts += [(rows.file(min(chosen)), rows.file(place)) for place in against]
    return kept, conflicts


def _choose_trial(group: Mapping[int, Row], rows: Rows) -> tuple[set[int], list[int]]:
    """Index of the row that counts, in a set, and indices of rows that contradict it."""
    different = {canonical(row): place for place, row in reversed([*group.items()])}  # of equal rows the first
    places = sorted(different.values())
    chosen = places[current([group[place] for place in places])]
    return {chosen}, [other for other in places if other != chosen and contradicts(group[other], group[chosen])]


def _choose_curve(group: Mapping[int, Row], rows: Rows) -> tuple[set[int], list[int]]:
    """Indices of the rows of the curve that counts, and one row index for each curve of the same attempt that differs.
    The latest attempt's counts, and of its curves the compacted one, which is written after its trial's row."""
    curves: dict[tuple[int, bool, str], list[int]] = {}
    for place, row in group.items():
        file = rows.file(place)
        curves.setdefault((-row["attempt"], not is_compacted(file), file), []).append(place)
    first, *others = sorted(curves)
    content = {key: sorted(canonical(group[place]) for place in places) for key, places in curves.items()}
    against = [curves[key][0] for key in others if key[0] == first[0] and content[key] != content[first]]
    return set(curves[first]), against
