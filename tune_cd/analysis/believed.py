"""Expected final scores of paused trials, with their standard deviations.

They are computed from the rows by repeating the search's own inference; they are not stored in any row.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.choices import choice_names, signs
from tune_cd.analysis.runs import runs_of
from tune_cd.analysis.scores import BALANCE, own_column, parameter, searching, varied
from tune_cd.results.observations import mean
from tune_cd.results.rows import SPACE, searched_in
from tune_cd.search.category import Category, text_of
from tune_cd.search.search import LENGTHS, CoordinateDescent
from tune_cd.search.space import Axis, Configuration, Domain, Key, Linear, Space
from tune_cd.search.training import Training, curve_of

SAME = 1e-6  # tolerance of a share
COLUMNS = ("share", "val_score", "end", "deviation")


def believed(trials: pd.DataFrame, ranges: Mapping[str, tuple[float, float]] | None = None) -> pd.DataFrame:
    """One row per paused setting, the most promising first.

    Columns: the varied parameters; share (trained so far, of a full training); val_score (so far, mean over its seeds);
    end and deviation (mean and standard deviation of the score expected at full length).
    trials: rows of one study and one set-up. ranges: parameter -> (lowest, highest) allowed value, widened to the
    values that were tried; a parameter without an entry has the range in the rows' own space, or else of its tried
    values. Empty if no trial paused, or
    if no parameter took several values. See `CoordinateDescent.believed`.
    """
    names, runs = varied(trials), runs_of(searching(trials))
    columns = [*(own_column(name, COLUMNS) for name in names), *COLUMNS]
    placed = np.isfinite([parameter(runs, name) for name in names]).all(axis=0) if names else np.zeros(len(runs), bool)
    runs = runs.take(np.flatnonzero(placed))
    if not runs["paused"].any():
        return pd.DataFrame(columns=columns)
    space = Space(**{name: _domain(runs, name, (ranges or {}).get(name)) for name in names})
    knowledge = balance.of(space) if len(balance.weights_among(names)) > 1 else {}
    search, sign = CoordinateDescent(space, **knowledge, lengths=LENGTHS), float(signs(runs)[0])
    runs = runs.sort_values("run", kind="stable")
    runs["share"] = runs.groupby("trial_id")["share"].cumsum().clip(SAME, 1.0).round(6)
    configurations = [{name: h[name] for name in names} for h in map(_configuration, runs.to_dict("records"))]
    reached: dict[Key, tuple[Configuration, dict[float, list[float]]]] = {}
    for h, share, score in zip(configurations, runs["share"], sign * runs["val_score"].astype(float)):
        reached.setdefault(space.key(h), (h, {}))[1].setdefault(float(share), []).append(float(score))
    history = [
        (h, {share: mean(x for x in scores if not math.isnan(x)) for share, scores in curve.items()})
        for h, curve in reached.values()
    ]
    search.recall(Training(h, curve_of(curve)) for h, curve in history)
    rows = []
    for h, curve in history:
        found, share = search.believed(h), max(curve)
        last = curve[share]
        if share < 1 - SAME and found is not None and last is not None:
            rows.append([*h.values(), share, sign * last, sign * found[0], found[1]])
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("end", key=lambda ends: -sign * ends, ignore_index=True)


def _configuration(row: Mapping[Any, Any]) -> Configuration:
    """Every parameter of a row, the balance's columns among them."""
    return {name: row[name] for name in BALANCE if name in row and pd.notna(row[name])} | searched_in(row)


def _domain(runs: pd.DataFrame, name: str, allowed: tuple[float, float] | None) -> Domain:
    """The axis of a parameter: that of the rows' own space if it allows all values, or else as wide as they are."""
    values = [h[name] for h in map(_configuration, runs.to_dict("records"))]
    for axis in _space_in(runs["config"].iloc[-1]) if allowed is None else ():
        with suppress(ValueError):
            if axis.name == name and [axis.check(value) for value in values]:
                return axis
    if name in choice_names(runs):
        return list({text_of(value): value for value in values}.values())
    low, high = allowed or (math.inf, -math.inf)
    low, high = min(low, *map(float, values)), max(high, *map(float, values))
    return (low, high) if low > 0 else Linear(low, high)


def _space_in(config: str) -> tuple[Axis | Category, ...]:
    """The axes of the space that a row's config has; none without."""
    try:
        return Space.from_json(json.loads(config)[SPACE]).axes
    except (KeyError, TypeError, ValueError):
        return ()
