"""What the page draws over a study's parameters: axes, scores, predictions between the trainings, recipes' lines.

Values lie on unit axes (`analysis.axes`): 0 is the low end, 1 the high one, on whatever scale.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.axes import Axis, written
from tune_cd.analysis.importance import Response, response
from tune_cd.analysis.recipes import averages_of
from tune_cd.analysis.scores import (
    SPLITS,
    per_class,
    published_of,
    score_column,
    score_names,
    score_words,
    searching,
    sign_of_score,
    weights_of,
)
from tune_cd.analysis.sublosses import TERMS
from tune_cd.balance import TERM
from tune_cd.report.findings import Findings
from tune_cd.report.numbers import numbers, plain_axis, ticks_of
from tune_cd.report.words import letters, recipe_words

SCORES = 24  # largest number of scores to choose from
CELLS = 24  # predicted scores along an axis
MATTERING = 12  # largest number of parameters whose importance is computed: its cost grows with the cube
SHADED = 6  # largest number of parameters for which predictions are drawn
SURE = 0.6  # deviation, as a share of the prior's, below which a prediction is drawn
NEAR, NARROW = 8, 0.8  # the best trainings that a closer view shows, and the widest view that counts as closer


def landscape(found: Findings, trials: pd.DataFrame, shares: np.ndarray, best: Sequence[int]) -> dict[str, Any]:
    """Axes, importance, predictions and recipes of a study's parameters, and its scores.

    shares: of their full length that trials were trained [n_trials]. best: the rows of the best setting.
    """
    places = {axis.name: axis.at(axis.values_of(trials)) for axis in found.axes}
    varied = [axis for axis in found.axes if len(np.unique(places[axis.name][~np.isnan(places[axis.name])])) > 1]
    at = np.column_stack([places[axis.name] for axis in varied]) if varied else np.empty((len(trials), 0))
    fitted = response(varied, at, shares, found.sign * score_column(trials, "val_score").to_numpy())
    important = _importance(fitted) if fitted is not None and 1 < len(varied) <= MATTERING else []
    params = [_param(axis, column, trials, found) for axis, column in zip(varied, at.T)]
    shaded = fitted is not None and best and 1 < len(varied) <= SHADED
    return {
        "params": params,
        "scores": [_score(name, trials) for name in _scores(trials)],
        "fixed": [f"{letters(axis.name)} {_common(axis, trials)}" for axis in found.axes if axis not in varied],
        "importance": important,
        "axes": _first_axes(varied, important, trials),
        "shades": _shades(fitted, at[best[0]], params, found.sign) if shaded else [],
        "recipes": _recipes(trials, varied, found),
    }


def _param(axis: Axis, at: np.ndarray, trials: pd.DataFrame, found: Findings) -> dict[str, Any]:
    """An axis as the page draws it. near: the part of it in which the best settings lie, where that is a small one."""
    values, least = axis.values_of(trials), float(np.nanmin(at))
    below = [[least, "≤ 0"]] if axis.scale == "log" and least < 0 else []
    return {
        "name": axis.name, "label": letters(axis.name), "scale": axis.scale, "ticks": below + ticks_of(axis),
        "near": _near(axis, at, found), "at": numbers(at, 4),
        "values": values if axis.kind == "category" else numbers(values),
        "order": list(axis.values) if axis.kind == "category" else None,
    }  # fmt: skip


def _near(axis: Axis, at: np.ndarray, found: Findings) -> dict[str, Any] | None:
    """The part of an axis with all whole trainings and the best others; None where it is nearly the whole axis."""
    rows = searching(found.trials).sort_values("val_score", ascending=found.sign < 0, kind="stable")
    shown = at[sorted({*rows.index[:NEAR], *found.trials.index[found.trials["status"] == "completed"]})]
    shown = shown[~np.isnan(shown)]
    if axis.kind != "real" or len(shown) < 3 or found.best is None:
        return None
    room = 0.08 * (shown.max() - shown.min()) + 0.02
    low, high = float(max(0.0, shown.min() - room)), float(min(1.0, shown.max() + room))
    narrow = high - low <= NARROW
    return {"from": round(low, 4), "to": round(high, 4), "ticks": ticks_of(axis, low, high)} if narrow else None


def _common(axis: Axis, trials: pd.DataFrame) -> str:
    return next((written(value) for value in axis.values_of(trials) if value is not None and value == value), "–")


def _importance(fitted: Response) -> list[list[Any]]:
    """[label, share, low, high] of each parameter, the largest share first."""
    found = zip(fitted.axes, fitted.importance())
    return sorted(([letters(axis.name), *numbers(row, 3)] for axis, row in found), key=lambda row: -(row[1] or 0))


def _first_axes(varied: Sequence[Axis], important: Sequence[Sequence[Any]], trials: pd.DataFrame) -> list[int]:
    """The pair shown first: the first weights, else the numbers that matter most, since a category has shapes too."""
    labels, weights = [letters(axis.name) for axis in varied], weights_of(trials)
    order = [n for n, axis in enumerate(varied) if axis.name in weights]
    ranked = [labels.index(str(label)) for label, *_ in important] or [*range(len(varied))]
    order += [] if len(order) > 1 else sorted(ranked, key=lambda n: varied[n].kind == "category")
    return [*dict.fromkeys([*order, 0, 1])][:2]


def _shades(
    fitted: Response, centre: np.ndarray, params: Sequence[Mapping[str, Any]], sign: float
) -> list[dict[str, Any]]:
    """The predicted score of a whole training over each pair of parameters, the others as in the best setting.

    x, y: the parameters; xs, ys: edges of the cells on their axes; z: scores, row by row of ys, None where not known.
    """
    edges = []
    for axis, param in zip(fitted.axes, params):
        low, high = (param["near"]["from"], param["near"]["to"]) if param["near"] else (0.0, 1.0)
        count = len(axis.values) if axis.kind == "category" else CELLS
        room = 0.5 / (count - 1) if axis.kind == "category" else 0.0
        edges.append(np.linspace(low - room, high + room, count + 1))
    shades = []
    for i, j in combinations(range(len(edges)), 2):
        x, y = np.meshgrid(*((edges[n][1:] + edges[n][:-1]) / 2 for n in (i, j)))
        places = np.tile(centre, (x.size, 1))
        places[:, i], places[:, j] = x.ravel(), y.ravel()
        expected, deviation = fitted.predict(places)
        cells = numbers(np.where(deviation < SURE, sign * expected, np.nan), 4)
        shades.append({"x": i, "y": j, "xs": numbers(edges[i], 4), "ys": numbers(edges[j], 4), "z": cells})
    return shades


def _recipes(trials: pd.DataFrame, varied: Sequence[Axis], found: Findings) -> list[dict[str, Any]]:
    """The lines of settings that a recipe reaches by its learning rate alone, over each pair of weights."""
    weights, published, lines = weights_of(trials), published_of(trials), []
    size = np.nan if found.best is None or pd.isna(found.best["batch_size"]) else float(found.best["batch_size"])
    own = [(n, axis) for n, axis in enumerate(varied) if axis.name in weights and axis.scale == "log"]
    for ((i, first), (j, second)), average in product(combinations(own, 2), averages_of(trials)):
        if average == "global" and np.isnan(size):
            continue
        if average == balance.PUBLISHED:
            ratio = published.get(second.name, np.nan) / published.get(first.name, np.nan)
        else:
            ratio = balance.ratio(average, size, per_class(trials))
        x = np.geomspace(first.low, first.high, 2)
        points = [numbers(pair, 5) for pair in zip(first.at(x), second.at(x * ratio))]
        if None not in points[0] + points[1]:
            lines.append({"x": i, "y": j, "label": recipe_words(average), "points": points})
    return lines


def _scores(trials: pd.DataFrame) -> list[str]:
    """The scores to choose from: the splits' own, the terms, the others; without duplicates and pair counts."""
    metric = trials["metric_name"].iloc[0]
    own = {metric, f"val_{metric}", f"test_{metric}"}.difference(SPLITS)  # a user's metric may be "score"
    names = [name for name in score_names(trials) if name not in own and not name.endswith("_pairs")]
    return sorted(names, key=lambda name: (name not in SPLITS, name not in TERMS, not name.startswith(TERM)))[:SCORES]


def _score(name: str, trials: pd.DataFrame) -> dict[str, Any]:
    """A score with its axis; down: smaller is better."""
    label = f"term {name.removeprefix(TERM)}" if name.startswith(TERM) else score_words(trials, name)
    label, values = label.replace("_term", " term") if name in TERMS else label, numbers(score_column(trials, name))
    return {"name": name, "down": sign_of_score(trials, name) < 0, "values": values} | plain_axis(label, values)
