"""How well the learning rate alone was tuned: the trials on a conventional recipe's diagonal (`ssec:ctrm_norm`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
import pandas as pd

from tune_cd import balance

ON_DIAGONAL = 1e-6
"""Octaves. A setting this near to a diagonal is on it."""

AT_EDGE = 0.1
"""Octaves. A value this near to the end of its range is at the end."""


@dataclass(frozen=True)
class RateSearch:
    """The settings on one diagonal, at the batch size of the best of them.

    settings: how many were trained, or begun. below, above: octaves from the best learning rate to the next lower and
    the next higher one that was; inf where there is none. end: "lower" or "upper" where the best one is at the end of
    the range, else None.
    """

    settings: int
    below: float
    above: float
    end: str | None

    @property
    def gap(self) -> float:
        """Octaves between the neighbours of the best learning rate. Beyond the end of a range nothing is missing."""
        return (0.0 if self.end == "lower" else self.below) + (0.0 if self.end == "upper" else self.above)

    @property
    def exhausted(self) -> bool:
        """Whether the best learning rate is bracketed as closely as a baseline's search brackets it."""
        return self.gap <= balance.RATE_RESOLUTION + 1e-9


def on_diagonal(trials: pd.DataFrame, average: str, k: int, within: float | pd.Series = ON_DIAGONAL) -> pd.DataFrame:
    """The trials that a recipe with this average reaches by its learning rate alone, whichever search asked for them.

    within: octaves of Lambda_e, for all or by trial. Trials without the two weights are left out.
    """
    rows = trials[trials["Lambda_p"].notna() & trials["Lambda_e"].notna()]
    sizes, at = np.unique(rows["batch_size"].astype(float), return_inverse=True)
    ratios = np.array([balance.ratio(average, size, k) for size in sizes])
    away = np.log2((rows["Lambda_e"] / rows["Lambda_p"]).astype(float)) - np.log2(ratios[at])
    near: pd.DataFrame = rows[away.abs() <= (within if isinstance(within, float) else within[rows.index]) + 1e-9]
    return near


def rate_search(trials: pd.DataFrame, best: pd.Series, ranges: Mapping[str, tuple[float, float]]) -> RateSearch:
    """trials: those of `on_diagonal`, one row a setting. best: the best of them. ranges: parameter -> (lowest, highest)
    value that was allowed; where it is unknown, no end is seen."""
    known = trials[trials["status"].isin(["completed", "diverged", "stopped"])]
    same = known["batch_size"].isna() if pd.isna(best["batch_size"]) else known["batch_size"] == best["batch_size"]
    away = np.log2(known[same]["Lambda_p"].astype(float) / best["Lambda_p"])
    below, above = -away[away < -1e-9], away[away > 1e-9]
    return RateSearch(
        int(same.sum()),
        float(below.min()) if len(below) else inf,
        float(above.min()) if len(above) else inf,
        _end(best, ranges),
    )


def _end(best: pd.Series, ranges: Mapping[str, tuple[float, float]]) -> str | None:
    """At which end of the ranges a setting lies on the joint direction."""
    weights = [name for name in ("Lambda_p", "Lambda_e") if name in ranges]
    if any(np.log2(ranges[name][1] / best[name]) < AT_EDGE for name in weights):
        return "upper"
    return "lower" if any(np.log2(best[name] / ranges[name][0]) < AT_EDGE for name in weights) else None
