"""Expected final scores of paused trials, with their standard deviations.

They are computed from the rows by repeating the search's own inference; they are not stored in any row.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

import pandas as pd

from tune_cd import balance
from tune_cd.analysis.choices import choice_names, signs
from tune_cd.analysis.runs import counter_in, runs_of
from tune_cd.analysis.scores import own_column, searching, varied
from tune_cd.results import trainings
from tune_cd.results.rows import SPACE
from tune_cd.search.category import Category, text_of
from tune_cd.search.search import LENGTHS, CoordinateDescent
from tune_cd.search.space import Axis, Domain, Linear, Space

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
    names, rows = varied(trials), searching(trials)
    columns = [*(own_column(name, COLUMNS) for name in names), *COLUMNS]
    runs = runs_of(rows)
    if not names or not runs["paused"].any():
        return pd.DataFrame(columns=columns)
    said = json.loads(runs.loc[runs["paused"], "config"].iloc[0])
    unknown = (runs["paused"] & (runs["run"] == 0)).iloc[: len(rows)].to_numpy()
    found = trainings(rows[~unknown], counter_in(said) or ("images_seen", float(said["images_seen"])))
    known = [replace(one, h={name: one.h[name] for name in names}) for one in found if one.h.keys() >= {*names}]
    asked = {name: [one.h[name] for one in known] for name in names}
    space = Space(**{name: _domain(rows, name, values, (ranges or {}).get(name)) for name, values in asked.items()})
    knowledge = balance.of(space) if len(balance.weights_among(names)) > 1 else {}
    search, sign = CoordinateDescent(space, **knowledge, lengths=LENGTHS), float(signs(runs)[0])
    search.recall(known)
    table = []
    for one in known:
        end = search.believed(one.h)
        if one.share < 1 - SAME and end is not None and one.values:
            table.append([*one.h.values(), one.share, sign * one.last, sign * end[0], end[1]])
    ends = pd.DataFrame(table, columns=columns)
    return ends.sort_values("end", key=lambda end: -sign * end, ignore_index=True)


def _domain(trials: pd.DataFrame, name: str, values: Sequence[Any], allowed: tuple[float, float] | None) -> Domain:
    """The axis of a parameter: that of the rows' own space if it allows all values, or else as wide as they are."""
    for axis in _space_in(trials["config"].iloc[-1]) if allowed is None else ():
        with suppress(ValueError):
            if axis.name == name and [axis.check(value) for value in values]:
                return axis
    if name in choice_names(trials):
        return list({text_of(value): value for value in values}.values())
    low, high = allowed or (inf, -inf)
    low, high = min(low, *map(float, values)), max(high, *map(float, values))
    return (low, high) if low > 0 else Linear(low, high)


def _space_in(config: str) -> tuple[Axis | Category, ...]:
    """The axes of the space that a row's config has; none without."""
    try:
        return Space.from_json(json.loads(config)[SPACE]).axes
    except (KeyError, TypeError, ValueError):
        return ()
