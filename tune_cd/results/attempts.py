"""Attempts of a trial: their numbers, the choice of the row that counts, and the trials to run again.

A row is final unless the trial failed or stopped early. A row that is not final may be superseded by a later attempt of
the same trial, which starts over or goes on. Of several rows of a trial a final one counts; without a final one, the
latest attempt's counts. Of several curves the latest attempt's counts.
"""

import json
from collections.abc import Mapping
from math import inf
from typing import Any

import pandas as pd

from tune_cd.results.schema import CUT, LOST, Row

UNFINISHED = ("failed", "stopped")
"""Statuses of rows that are not final."""


def is_final(row: Mapping[str, Any]) -> bool:
    """Whether the row can no longer be superseded by a later attempt."""
    return row["status"] not in UNFINISHED


def rank(row: Row) -> tuple[Any, ...]:
    """The place of a row among those of its trial: the smallest counts, of equally good ones the first to end.

    Different rows contradict each other if both are final or of one attempt: if their ranks agree in two numbers."""
    ended = inf if row["ended_at"] is None else row["ended_at"].timestamp()
    return (0, 0, ended, row["attempt"]) if is_final(row) else (1, -row["attempt"], ended, 0)


def canonical(row: Mapping[str, Any]) -> str:
    """A row as text, equal for equal rows: NaN equals NaN, and the order of a map does not matter."""
    return json.dumps(row, sort_keys=True, default=str)


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
