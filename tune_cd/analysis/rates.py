"""How well the learning rate alone was tuned: the trials on a conventional recipe's diagonal (`ssec:ctrm_norm`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.scores import BALANCE, parameter, parameter_of, published_of, weights_of
from tune_cd.balance import WEIGHT
from tune_cd.search.space import AT_END

ON_DIAGONAL = 1e-6
"""Octaves. A setting this close to a diagonal is on it."""


@dataclass(frozen=True)
class RateSearch:
    """The settings on one diagonal, at the batch size of the best of them.

    settings: how many completed, diverged or were stopped. below, above: octaves from the best learning rate to the
    next lower and the next higher one of them; inf if there is none. end: "lower" or "upper" if the best one is at that
    end of the range, else None. The end of a range is no neighbour.
    """

    settings: int
    below: float
    above: float
    end: str | None

    @property
    def gap(self) -> float:
        """Octaves between the neighbours of the best learning rate; inf if one is missing."""
        return self.below + self.above

    @property
    def exhausted(self) -> bool:
        """Whether the best learning rate is bracketed as closely as a baseline's search brackets it."""
        return self.gap <= balance.RATE_RESOLUTION + 1e-9


def on_diagonal(trials: pd.DataFrame, average: str, k: int, within: float | pd.Series = ON_DIAGONAL) -> pd.DataFrame:
    """The trials that a recipe with this average reaches by its learning rate alone, from any search.

    average: one of `balance.AVERAGES`, or "published" for the coefficients in the trials' configurations.
    within: largest distance in octaves of each weight after the first, one value or one per trial. Trials that lack a
    weight are left out.
    """
    names = weights_of(trials)
    values = np.array([parameter(trials, name) for name in names]).reshape(len(names), len(trials))
    known = (np.isfinite(values) & (values > 0)).all(axis=0) & bool(names)
    rows, values = trials[known], values[:, known]
    sizes, at = np.unique(rows["batch_size"].astype(float), return_inverse=True)
    shares = np.array([_ratios(rows, names, average, size, k) for size in sizes]).reshape(len(sizes), len(names))
    away = np.log2(values) - np.log2(values[:1]) - np.log2(shares[at].T)
    allowed = within if isinstance(within, float) else within[rows.index].to_numpy()
    near: pd.DataFrame = rows[(np.abs(away) <= allowed + 1e-9).all(axis=0)]
    return near


def _ratios(trials: pd.DataFrame, names: list[str], average: str, batch_size: float, k: int) -> list[float]:
    """A recipe's weights as multiples of the first one; NaN, which matches no trial, where they are not known."""
    if average != balance.PUBLISHED:
        try:
            return [1.0, balance.ratio(average, batch_size, k)] if len(names) == 2 else [np.nan] * len(names)
        except ValueError:  # no batch of this size has that average
            return [np.nan] * len(names)
    published = published_of(trials)
    return [published.get(name, np.nan) / published.get(names[0], np.nan) for name in names]


def rate_search(trials: pd.DataFrame, best: pd.Series, ranges: Mapping[str, tuple[float, float]]) -> RateSearch:
    """How closely the learning rate was tuned on one diagonal.

    trials: those of `on_diagonal`, one row per setting. best: the best of them. ranges: parameter -> (lowest, highest)
    allowed value; for a parameter without an entry no end is detected.
    """
    known = trials[trials["status"].isin(["completed", "diverged", "stopped"])]
    same = known["batch_size"].isna() if pd.isna(best["batch_size"]) else known["batch_size"] == best["batch_size"]
    first = next(iter(weights_of(trials)), BALANCE[0])
    away = np.log2(parameter(known[same], first)) - np.log2(parameter_of(best, first)) if same.any() else np.empty(0)
    below, above = -away[away < -1e-9], away[away > 1e-9]
    return RateSearch(
        int(same.sum()),
        float(below.min()) if len(below) else inf,
        float(above.min()) if len(above) else inf,
        _end(best, ranges),
    )


def _end(best: pd.Series, ranges: Mapping[str, tuple[float, float]]) -> str | None:
    """The end ("lower" or "upper") of its range that some weight of the setting is at; None if none is at an end."""
    weights = {name: parameter_of(best, name) for name in ranges if name.startswith(WEIGHT)}
    if any(np.log2(ranges[name][1] / value) < AT_END for name, value in weights.items()):
        return "upper"
    return "lower" if any(np.log2(value / ranges[name][0]) < AT_END for name, value in weights.items()) else None
