"""Conventional recipes: what each reaches by its learning rate alone (`ssec:ctrm_norm`), and the gain over it."""

from dataclasses import dataclass
from math import inf

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.axes import axes_of
from tune_cd.analysis.confirmation import Mean, fresh_mean, paired
from tune_cd.analysis.grids import grid_rows, is_grid
from tune_cd.analysis.means import best_trial, means_over_settings
from tune_cd.analysis.scores import (
    optimizer_of,
    parameter,
    parameter_of,
    per_class,
    places,
    published_of,
    searching,
    weights_of,
)

RECIPES = (*balance.AVERAGES, balance.PUBLISHED)

ON_DIAGONAL = 1e-6
"""Octaves. A setting this close to a diagonal is on it."""


@dataclass(frozen=True)
class Recipe:
    """The best setting that a recipe reaches by its learning rate alone.

    learning_rate: None under Adam, which has its own and divides by the joint scale of the weights. gain: of another
    setting over it. fresh: its own score with fresh seeds. tried: how many settings on its diagonal with its batch size
    completed, diverged or were stopped. gap: octaves between the neighbours of its learning rate among them; inf if one
    is missing. end: "lower" or "upper" if a weight is at that end of its range, else None.
    """

    average: str
    best: pd.Series
    learning_rate: float | None
    gain: Mean
    fresh: Mean | None
    tried: int
    gap: float
    end: str | None


def averages_of(trials: pd.DataFrame) -> tuple[str, ...]:
    """The recipes with which a table's trials can be compared; for built-in trainings the same as in `tune_cd.run`.

    InfoNCE has one balance only, its own (`subsec:infonce_loss`), and so has a user's module:function of two terms of
    equal weight. The global average is defined only for batches of whole classes. A loss with published weights is
    compared with these.
    """
    published = published_of(trials)
    if published or not trials[["Lambda_p", "Lambda_e"]].notna().all(axis=1).any():
        return (balance.PUBLISHED,) if len(published) > 1 else ()
    sizes, k, losses = trials["batch_size"], per_class(trials), trials["loss"].dropna().astype(str)
    whole = sizes.notna().all() and ((sizes > k) & (sizes % k == 0)).all()
    own = (losses == "infonce") | losses.str.contains(":")
    return balance.AVERAGES if whole and not own.any() else ("separate",)


def on_diagonal(trials: pd.DataFrame, average: str, k: int, within: float | pd.Series = ON_DIAGONAL) -> pd.DataFrame:
    """The trials that a recipe with this average reaches by its learning rate alone, from any search.

    average: one of `balance.AVERAGES`, or "published" for the coefficients in the trials' configurations.
    within: largest distance in octaves of each weight after the first, one value or one per trial. Trials that lack a
    weight are left out. Raises ValueError for another average.
    """
    if average not in RECIPES:
        raise ValueError(f"average {average!r}: one of {list(RECIPES)}")
    names = weights_of(trials)
    values = np.array([parameter(trials, name) for name in names]).reshape(len(names), len(trials))
    known = (np.isfinite(values) & (values > 0)).all(axis=0) & bool(names)
    rows, values = trials[known], values[:, known]
    sizes, at = np.unique(rows["batch_size"].astype(float), return_inverse=True)
    shares = np.array([_ratios(rows, names, average, size, k) for size in sizes]).reshape(len(sizes), len(names))
    away = np.log2(values) - np.log2(values[:1]) - np.log2(shares[at].T)
    allowed = within if isinstance(within, float) else within[rows.index].to_numpy()
    return rows[(np.abs(away) <= allowed + 1e-9).all(axis=0)]


def _ratios(trials: pd.DataFrame, names: list[str], average: str, batch_size: float, k: int) -> list[float]:
    """A recipe's weights as multiples of the first one; NaN, which matches no trial, where they are not known."""
    if average != balance.PUBLISHED:
        try:
            return [1.0, balance.ratio(average, batch_size, k)] if len(names) == 2 else [np.nan] * len(names)
        except ValueError:  # no batch of this size has that average
            return [np.nan] * len(names)
    published = published_of(trials)
    return [published.get(name, np.nan) / published.get(names[0], np.nan) for name in names]


def recipe_of(trials: pd.DataFrame, means: pd.DataFrame, best: pd.Series, average: str) -> Recipe | None:
    """What a recipe reaches; None if no completed trial is within its reach.

    trials: of one study, with `setting` numbers. means: their `means_over_settings`. best: the setting whose gain is
    told. The cells of a grid count up to half a step away, as in `analysis.reachable`.
    """
    k, within, cells = per_class(trials), pd.Series(ON_DIAGONAL, index=means.index), grid_rows(means)
    weights = weights_of(cells)
    if is_grid(cells, weights):
        within[cells.index] = np.median(np.diff(np.unique(places(parameter(cells, weights[1]))))) / 2
    line = on_diagonal(means, average, k, within)
    reached = best_trial(line)
    if reached is None:
        return None
    known = line[line["status"].isin(["completed", "diverged", "stopped"])]
    size, sizes = reached["batch_size"], known["batch_size"]
    same = sizes.isna() if pd.isna(size) else sizes == size
    first = weights_of(line)[0]
    away = np.log2(parameter(known[same], first) / parameter_of(reached, first))
    gap = min(-away[away < -1e-9], default=inf) + min(away[away > 1e-9], default=inf)
    own = [axis for axis in axes_of(trials) if axis.name in weights_of(trials)]
    ends = [end for axis in own if (end := axis.end(parameter_of(reached, axis.name)))]
    rate = _rate(reached, average, published_of(trials), k) if optimizer_of(trials) == "sgd" else None
    gain, fresh = paired(trials, best, reached), fresh_mean(trials, reached)
    return Recipe(average, reached, rate, gain, fresh, int(same.sum()), gap, max(ends, default=None))


def _rate(reached: pd.Series, average: str, published: dict[str, float], k: int) -> float:
    """The learning rate of a setting that a recipe reaches."""
    if average == balance.PUBLISHED:
        return next(parameter_of(reached, name) / coefficient for name, coefficient in published.items())
    separate = average == "separate"
    positive = 1.0 if separate else balance.average_weights(average, int(reached["batch_size"]), k)[0]
    return float(reached["Lambda_p"] / positive)


def chosen(trials: pd.DataFrame, means: pd.DataFrame) -> pd.Series | None:
    """The best setting by validation of the study's own search, without recipes: a row of `means_over_settings`.

    None if that search completed no trial, and for a table with several searches or only recipes. trials: with
    `setting` numbers. means: `means_over_settings` of all that was searched.
    """
    rows = searching(trials)
    asked = rows[~rows["search"].isin(RECIPES)]
    if asked["search"].nunique() != 1:
        return None
    return best_trial(means if len(asked) == len(rows) else means_over_settings(asked))
