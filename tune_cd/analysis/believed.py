"""What is believed of trainings that paused: how they would score at their ends.

It follows from the rows, as the search's own belief follows from what it was told: no row stores it.
"""

import math
from collections.abc import Mapping

import pandas as pd

from tune_cd.analysis.runs import runs_of
from tune_cd.analysis.scores import parameter, searching, varied
from tune_cd.results.observations import mean
from tune_cd.search.pausing_descent import PausingDescent
from tune_cd.search.space import Array, Linear, Space

SAME = 1e-6  # of a share


def believed(trials: pd.DataFrame, ranges: Mapping[str, tuple[float, float]] | None = None) -> pd.DataFrame:
    """A row a setting that paused, the most promising first.

    Its columns are the varied parameters, share (trained so far, of a whole training), val_score (so far, the mean over
    its seeds), end and deviation: what is believed of val_score at full length, and the standard deviation of that.
    trials: one study's, of one set-up. ranges: what each parameter was allowed; without, from the least to the largest.
    Empty where nothing pauses, or one value of each parameter was tried. See `PausingDescent.believed`.
    """
    names, runs = varied(trials), runs_of(searching(trials))
    if not names or not runs["paused"].any():
        return pd.DataFrame(columns=[*names, "share", "val_score", "end", "deviation"])
    search = PausingDescent(Space(**{name: _domain(parameter(runs, name), (ranges or {}).get(name)) for name in names}))
    runs = runs.assign(**{name: parameter(runs, name) for name in names}).sort_values("images_seen", kind="stable")
    runs["share"] = runs.groupby("trial_id")["share"].cumsum().clip(SAME, 1.0).round(6)
    reached: dict[tuple[float, ...], dict[float, list[float]]] = {}
    for *setting, share, score in runs[[*names, "share", "val_score"]].astype(float).to_numpy().tolist():
        reached.setdefault(tuple(setting), {}).setdefault(share, []).append(score)
    history = [
        (
            dict(zip(names, setting)),
            {share: mean(x for x in scores if not math.isnan(x)) for share, scores in looks.items()},
        )
        for setting, looks in reached.items()
    ]
    search.recall(history)
    rows = []
    for h, looks in history:
        found, share = search.believed(h), max(looks)
        if share < 1 - SAME and found is not None:
            rows.append({**h, "share": share, "val_score": looks[share], "end": found[0], "deviation": found[1]})
    table = pd.DataFrame(rows, columns=[*names, "share", "val_score", "end", "deviation"])
    return table.sort_values("end", ascending=False, ignore_index=True)


def _domain(values: Array, allowed: tuple[float, float] | None) -> tuple[float, float] | Linear:
    low, high = allowed or (math.inf, -math.inf)
    low, high = min(low, float(values.min())), max(high, float(values.max()))
    return (low, high) if low > 0 else Linear(low, high)
