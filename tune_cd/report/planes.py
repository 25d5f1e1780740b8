"""The page's landscapes: the cells, recipes and paths over two parameters, and a slider over a third."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis import search_lines
from tune_cd.analysis.grids import cells_of
from tune_cd.analysis.scores import BALANCE, parameter, per_class, published_of, weights_of
from tune_cd.report.findings import averages_of, grid_rows, is_grid
from tune_cd.report.plain import numbers
from tune_cd.report.words import letters, recipe_words

TOLD = "val_score"
"""The score that a search is told: a training without it counts as lost."""

LARGEST = 1e100
"""Largest value on a logarithmic axis, and the inverse of the smallest one: a browser hangs over a wider one."""

SLIDER_VALUES = 12  # largest number of values that can be viewed slice by slice


def planes_of(
    trials: pd.DataFrame, shown: pd.DataFrame, names: Sequence[str], scores: list[str]
) -> list[dict[str, Any]]:
    """The content drawn over each selectable pair of parameters, the default one first; at least one.

    shown: the trials with every score in a column. names: the parameters that varied. scores: the scores to choose
    from.
    """
    return [_named(_plane(trials, shown, axes, scores)) for axes in _pairs(trials, names)]


def _pairs(trials: pd.DataFrame, names: Sequence[str]) -> list[list[str]]:
    """The axes of each plane: `axes_of`, or for three or more weights one set of axes per pair of weights."""
    pairs = list(combinations(weights_of(trials), 2))
    if len(pairs) < 2:
        return [axes_of(trials, names)]
    return [axes_of(trials, names, pair) for pair in pairs]


def _named(plane: dict[str, Any]) -> dict[str, Any]:
    """The plane with the name by which it is selected."""
    return {"name": ", ".join(axis["label"] for axis in plane["axes"][:2]), **plane}


def _plane(trials: pd.DataFrame, shown: pd.DataFrame, axes: list[str], scores: list[str]) -> dict[str, Any]:
    """The content drawn over two parameters, with a slider if there is a third."""
    for axis in axes[:2]:
        values = parameter(trials, axis)
        trials = trials[~((values > LARGEST) | (np.abs(values) < 1 / LARGEST) & (values != 0))]
    whole = grid_rows(trials)
    full = is_grid(whole, axes[:2]) and (len(axes) < 3 or is_grid(whole, axes))
    content = _grid(shown.loc[(whole if full else trials).index], axes, scores, full) if axes else None
    return {
        "axes": [{"name": axis, "label": letters(axis), "log": True} for axis in axes],
        "grid": content,
        "averages": _averages(trials, axes, content),
        "lines": _lines(trials, axes),
    }


def axes_of(trials: pd.DataFrame, names: Sequence[str], plane: Sequence[str] = ()) -> list[str]:
    """Up to three parameters for the axes and the slider.

    The axes are those of `plane`, or else the first two weights, or else the parameters with most values. The slider is
    a parameter with at most SLIDER_VALUES values.
    """
    of_balance = trials[list(BALANCE[:2])].notna().all(axis=1).any()
    balanced = list(plane or (BALANCE[:2] if of_balance else weights_of(trials)[:2]))
    columns = {name: parameter(trials, name) for name in names}
    positive = {name: column for name, column in columns.items() if not (column <= 0).any()}  # axes are logarithmic
    values = {name: len(np.unique(column[~np.isnan(column)])) for name, column in positive.items()}
    others = sorted((name for name in values if name not in balanced), key=lambda name: -values[name])
    axes = [*balanced, *sorted(others[: 2 - len(balanced)])]
    few = [name for name in others if name not in axes and values[name] <= SLIDER_VALUES]
    return axes + few[:1] if len(axes) == 2 else axes


def _grid(wide: pd.DataFrame, axes: list[str], scores: list[str], full: bool) -> dict[str, Any]:
    """Every setting that was tried along the axes: means over trainings, spreads, and the rows of its trials."""
    measured = cells_of(wide, {TOLD, *scores}, axes)
    tried = measured[TOLD]
    places = tried.iloc[:, : len(axes)].to_numpy(dtype=float).T
    ticks, at = zip(*(np.unique(along, return_inverse=True) for along in places))
    absent = 3 - len(axes)
    return {
        "full": full,
        "ticks": [numbers(tick) for tick in ticks] + [[None]] * absent,
        "cells": {
            "at": np.column_stack([*at, *[np.zeros(len(tried), dtype=int)] * absent]).tolist(),
            "trials": [sorted(map(int, rows)) for rows in tried["trials"]],
            "lost": tried["lost"].tolist(),
            "values": {score: numbers(measured[score]["value"]) for score in scores},
            "spread": {score: numbers(measured[score]["spread"]) for score in scores},
        },
    }


def _averages(trials: pd.DataFrame, axes: list[str], content: dict | None) -> list[dict[str, Any]]:
    """The diagonals of the recipes: one ratio of the second weight to the first per value of the slider."""
    published = published_of(trials)
    if content is not None and published.keys() >= set(axes[:2]):
        ratios = [published[axes[1]] / published[axes[0]]] * len(content["ticks"][2])
        return [{"name": balance.PUBLISHED, "label": recipe_words(balance.PUBLISHED), "ratio": ratios}]
    if axes[:2] != list(BALANCE[:2]) or content is None:
        return []
    sizes = (
        content["ticks"][2]
        if axes[2:] == ["batch_size"]
        else [trials["batch_size"].dropna().max() if trials["batch_size"].nunique() == 1 else None]
    )
    averages = []
    for average in averages_of(trials):
        if average == "separate" or None not in sizes:
            averages.append(
                {
                    "name": average,
                    "label": f"{average} average",
                    "ratio": [balance.ratio(average, size or np.nan, per_class(trials)) for size in sizes],
                }
            )
    return averages


def _lines(trials: pd.DataFrame, axes: Sequence[str]) -> list[dict[str, Any]]:
    """The searches' paths in the plane of the first two axes: line searches in the order of asking."""
    if len(axes) < 2:
        return []
    placed = np.isfinite([parameter(trials, axis) for axis in axes[:2]]).all(axis=0)
    first = trials[placed].drop_duplicates(["search", "search_seed", "trial_index"])
    repeated = trials.groupby("search")["search_seed"].nunique().max() > 1
    return [
        {
            "search": f"{search}, seed {seed}" if repeated else str(search),
            "direction": line.direction,
            "points": [numbers(point) for point in line.points],
            "trials": [int(row) for row in line.trials],
        }
        for (search, seed), rows in first.groupby(["search", "search_seed"], dropna=False, sort=False)
        for line in search_lines(rows, (axes[0], axes[1]))
    ]
