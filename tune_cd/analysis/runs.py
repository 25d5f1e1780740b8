"""The runs of trials that paused. Such a trial is one row; its configuration lists its runs before the last."""

from typing import Any

import numpy as np
import pandas as pd

from tune_cd.results.rows import FULL_LENGTH, LENGTHS, RUNS, config_of, length_in, reached_in, runs_in

SEARCH = ["study", "search", "search_seed"]


def runs_of(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per run: the rows of `trials`, then the earlier runs of trials that went on after a pause.

    Further columns. pauses: whether the trial's search pauses trials. paused: whether the run ended in a pause; its
    val_score is then the best so far. share: the share of a full training that the run trained, 1 for a trial of a
    search that does not pause. run: tells a setting's runs apart, and is the same for all its seeds.
    """
    rows = trials.reset_index(drop=True).assign(run=0.0, share=1.0, paused=False, pauses=False)
    if rows.empty or "config" not in rows:
        return rows
    whole = rows["config"].map(_whole).astype(float)
    listed = rows["config"].str.contains(f'"{RUNS}": [', regex=False) & whole.notna()
    rows["paused"] = (rows["status"] == "stopped") & whole.notna()
    if not (listed | rows["paused"]).any():
        return rows
    rows["whole"], rows["pauses"] = whole, listed | rows["paused"]
    rows["pauses"] = rows.groupby(SEARCH, dropna=False)["pauses"].transform("any").astype(bool)
    earlier = [run for _, row in rows[listed].iterrows() for run in _earlier(row.to_dict())]
    if earlier:
        more = pd.DataFrame(earlier, dtype=object)  # also for a column that is null in all of them
        rows = pd.concat([rows, more.astype({name: rows[name].dtype for name in rows})], ignore_index=True)
    reached = [reached_in(row, length_in(row["config"])[0]) for row in rows.to_dict("records")]
    images = pd.Series(reached, index=rows.index).fillna(0.0)
    rows["run"] = images.where(rows["pauses"], 0.0)
    rows["share"] = _shares(rows, images).where(rows["pauses"], 1.0)
    return rows.drop(columns="whole")


def counted(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with paused ones marked as completed, because the weights of a short training are usable."""
    return runs.assign(status=runs["status"].where(~runs["paused"], "completed"))


def _whole(config: str) -> float:
    """The length of a full training of a search that may pause; NaN if the configuration does not say."""
    said = config_of(config)
    return length_in(config)[1] if FULL_LENGTH not in said or isinstance(said.get(LENGTHS), list) else np.nan


def _earlier(row: dict[Any, Any]) -> list[dict[Any, Any]]:
    """The earlier runs of a row's trial, before its last one, as rows."""
    untested = {"status": "stopped", "test_score": np.nan, "paused": True, "failure_kind": None, "error": None}
    runs = []
    for attempt, run in enumerate(runs_in(row["config"])):
        times = {name: pd.to_datetime(run[name], utc=True) for name in ("started_at", "ended_at")}
        runs.append({**row, **untested, **run, **times, "attempt": attempt})
    return runs


def _shares(rows: pd.DataFrame, images: pd.Series) -> pd.Series:
    """The share of a full training that each run added, by its images beyond those of the previous run."""
    ordered = images.sort_values(kind="stable")
    before = ordered.groupby([rows["study"], rows["trial_id"]]).shift(fill_value=0.0).reindex(rows.index)
    return ((images - before) / rows["whole"]).clip(0.0, 1.0).fillna(1.0)
