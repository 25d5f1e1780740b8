"""Scores on seeds that were not used for choosing, and differences in pairs of seeds; see `tune_cd.run --confirm`."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.scores import confirming, searching


@dataclass(frozen=True)
class Mean:
    """A mean score over seeds, with its 95 % interval (Student's t; NaN for fewer than two seeds)."""

    score: str  # test_score, or val_score where there is no test
    value: float
    low: float
    high: float
    seeds: int


def mean_of(values: np.ndarray, score: str) -> Mean:
    """The mean and interval of values [n_seeds], at least one."""
    mean, half = float(values.mean()), half_interval_of(values)
    return Mean(score, mean, mean - half, mean + half, len(values))


def fresh_mean(trials: pd.DataFrame, of: pd.Series) -> Mean | None:
    """The score of the setting `of` over fresh seeds; None without any. trials: with `setting` numbers."""
    score = "test_score" if pd.notna(of["test_score"]) else "val_score"
    values = by_seed(confirming(trials), of, score).dropna().to_numpy(dtype=float)
    return mean_of(values, score) if len(values) else None


def paired(trials: pd.DataFrame, best: pd.Series, reached: pd.Series) -> Mean:
    """The score of `best` less that of `reached`, over the seeds with which both completed.

    Only fresh seeds count where there is a common one. Without any common seed: the difference of their means, with 0
    seeds.
    """
    score = "test_score" if pd.notna(best["test_score"]) and pd.notna(reached["test_score"]) else "val_score"
    for rows in (confirming(trials), searching(trials)):
        pairs = (by_seed(rows, best, score) - by_seed(rows, reached, score)).dropna().to_numpy(dtype=float)
        if len(pairs):
            return mean_of(pairs, score)
    return Mean(score, float(best[score] - reached[score]), np.nan, np.nan, 0)


def by_seed(trials: pd.DataFrame, of: pd.Series, score: str) -> pd.Series:
    """The score of the completed trainings of a setting, indexed by their known seeds."""
    same = (trials["setting"] == of["setting"]) & (trials["status"] == "completed")
    return trials[same].groupby("seed")[score].first()
