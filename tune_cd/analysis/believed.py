"""Expected final scores of paused trials, with their standard deviations.

They are computed from the rows by repeating the search's own inference; they are not stored in any row.
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.runs import runs_of
from tune_cd.analysis.scores import own_column, parameter, searching, varied
from tune_cd.results.observations import mean
from tune_cd.search.search import LENGTHS, CoordinateDescent
from tune_cd.search.space import Array, Linear, Space
from tune_cd.search.training import Training, curve_of

SAME = 1e-6  # tolerance of a share
COLUMNS = ("share", "val_score", "end", "deviation")


def believed(trials: pd.DataFrame, ranges: Mapping[str, tuple[float, float]] | None = None) -> pd.DataFrame:
    """One row per paused setting, the most promising first.

    Columns: the varied parameters; share (trained so far, of a full training); val_score (so far, mean over its seeds);
    end and deviation (mean and standard deviation of the score expected at full length).
    trials: rows of one study and one set-up. ranges: parameter -> (lowest, highest) allowed value, widened to the
    values that were tried; a parameter without an entry has the range of its tried values. Empty if no trial paused, or
    if no parameter took several values. See `CoordinateDescent.believed`.
    """
    names, runs = varied(trials), runs_of(searching(trials))
    columns = [*(own_column(name, COLUMNS) for name in names), *COLUMNS]
    placed = np.isfinite([parameter(runs, name) for name in names]).all(axis=0) if names else np.zeros(len(runs), bool)
    runs = runs.take(np.flatnonzero(placed))
    if not runs["paused"].any():
        return pd.DataFrame(columns=columns)
    space = Space(**{name: _domain(parameter(runs, name), (ranges or {}).get(name)) for name in names})
    knowledge = balance.of(space) if len(balance.weights_among(names)) > 1 else {}
    search = CoordinateDescent(space, **knowledge, lengths=LENGTHS)
    runs = runs.sort_values("images_seen", kind="stable")
    runs["share"] = runs.groupby("trial_id")["share"].cumsum().clip(SAME, 1.0).round(6)
    reached: dict[tuple[float, ...], dict[float, list[float]]] = {}
    told = (runs["share"].astype(float), runs["val_score"].astype(float))
    for *setting, share, score in np.column_stack([*(parameter(runs, name) for name in names), *told]).tolist():
        reached.setdefault(tuple(setting), {}).setdefault(share, []).append(score)
    history = [
        (
            dict(zip(names, setting)),
            {share: mean(x for x in scores if not math.isnan(x)) for share, scores in curve.items()},
        )
        for setting, curve in reached.items()
    ]
    search.recall(Training(h, curve_of(curve)) for h, curve in history)
    rows = []
    for h, curve in history:
        found, share = search.believed(h), max(curve)
        if share < 1 - SAME and found is not None:
            rows.append([*h.values(), share, curve[share], *found])
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("end", ascending=False, ignore_index=True)


def _domain(values: Array, allowed: tuple[float, float] | None) -> tuple[float, float] | Linear:
    low, high = allowed or (math.inf, -math.inf)
    low, high = min(low, float(values.min())), max(high, float(values.max()))
    return (low, high) if low > 0 else Linear(low, high)
