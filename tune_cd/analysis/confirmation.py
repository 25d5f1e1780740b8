"""The gain of tuning over a conventional recipe, on seeds not used for choosing; see `tune_cd.run`'s `--confirm`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.means import best_trial, means_over_settings, setting_numbers
from tune_cd.analysis.parts import comparable
from tune_cd.analysis.rates import on_diagonal
from tune_cd.analysis.scores import confirming, per_class, searching, weights_of

GAINS = ("dataset", "loss", "batch_size", "study", "search", "tuned", "seeds", "fresh")
"""Columns of `gains` besides those of each recipe."""

RECIPES = (*balance.AVERAGES, balance.PUBLISHED)


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
    values = _by_seed(confirming(trials), of, score).dropna().to_numpy(dtype=float)
    return mean_of(values, score) if len(values) else None


def paired(trials: pd.DataFrame, best: pd.Series, reached: pd.Series) -> Mean:
    """The score of `best` less that of `reached`, over the seeds with which both completed.

    Only fresh seeds count where there is a common one. Without any common seed: the difference of their means, with 0
    seeds.
    """
    score = "test_score" if pd.notna(best["test_score"]) and pd.notna(reached["test_score"]) else "val_score"
    for rows in (confirming(trials), searching(trials)):
        pairs = (_by_seed(rows, best, score) - _by_seed(rows, reached, score)).dropna().to_numpy(dtype=float)
        if len(pairs):
            return mean_of(pairs, score)
    return Mean(score, float(best[score] - reached[score]), np.nan, np.nan, 0)


def chosen(trials: pd.DataFrame) -> pd.Series | None:
    """The best setting by validation of the study's own search, without recipes: a row of `means_over_settings`.

    None if that search completed no trial, and for a table with several searches or only recipes. trials: with
    `setting` numbers.
    """
    rows = searching(trials)
    asked = rows[~rows["search"].isin(RECIPES)]
    return best_trial(means_over_settings(asked)) if asked["search"].nunique() == 1 else None


def gains(trials: pd.DataFrame) -> pd.DataFrame:
    """The setting chosen by each study's search, compared with the best learning rate of each recipe of RECIPES.

    One row per study of one problem and set-up. Columns: GAINS and, for every recipe that the study has trials for,
    NAME (its score), gain_NAME, low_NAME and high_NAME (the paired gain and its 95 % interval). Scores are of the test
    split where there is one. They are means over the fresh seeds if every setting of the row has some (`fresh`),
    otherwise over the seeds used for choosing. All settings are chosen by validation.
    """
    rows = [row for part in comparable(trials) for _, one in part.trials.groupby("study") if (row := _gain(one))]
    averages = [name for name in RECIPES if any(name in row for row in rows)]
    columns = [f"{prefix}{name}" for name in averages for prefix in ("", "gain_", "low_", "high_")]
    return pd.DataFrame(rows, columns=[*GAINS, *columns])


def _gain(trials: pd.DataFrame) -> dict[str, Any] | None:
    """The row of one study; None if its search or all of its recipes completed no trial."""
    trials = trials.reset_index(drop=True)
    trials = trials.assign(setting=setting_numbers(trials))
    means = means_over_settings(searching(trials))
    best = chosen(trials)
    if best is None or not weights_of(trials) or pd.isna(best["batch_size"]):
        return None
    asked = {name: best_trial(on_diagonal(means, name, per_class(trials))) for name in RECIPES
             if name in set(trials["search"])}  # fmt: skip
    reached = {name: setting for name, setting in asked.items() if setting is not None}
    if not reached:
        return None
    settings = {"tuned": best, **reached}
    anew = {name: mean for name, setting in settings.items() if (mean := fresh_mean(trials, setting)) is not None}
    fresh = len(anew) == len(settings)
    row = {name: best[name] for name in ("dataset", "loss", "batch_size", "study", "search")}
    row |= {"fresh": fresh, "seeds": anew["tuned"].seeds if fresh else best["seeds"]}
    row |= {name: anew[name].value if fresh else _score(setting) for name, setting in settings.items()}
    for name, setting in reached.items():
        gain = paired(trials if fresh else searching(trials), best, setting)
        row |= {f"gain_{name}": gain.value, f"low_{name}": gain.low, f"high_{name}": gain.high}
    return row


def _score(row: pd.Series) -> float:
    return float(row["test_score"] if pd.notna(row["test_score"]) else row["val_score"])


def _by_seed(trials: pd.DataFrame, of: pd.Series, score: str) -> pd.Series:
    same = (trials["setting"] == of["setting"]) & (trials["status"] == "completed")
    first: pd.Series = trials[same].groupby("seed")[score].first()
    return first
