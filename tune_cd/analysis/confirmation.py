"""What tuning gains over a conventional recipe, with seeds that had no part in choosing; see `tune_cd.run`'s
`--confirm`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis.curves import best_trial, means_over_settings, setting_numbers
from tune_cd.analysis.intervals import half_interval_of
from tune_cd.analysis.parts import comparable
from tune_cd.analysis.rates import on_diagonal
from tune_cd.analysis.scores import confirming, per_class, searching, weights_of

GAINS = ("dataset", "loss", "batch_size", "study", "search", "tuned", "seeds", "fresh")
"""Columns of `gains` beside those of each average."""

RECIPES = (*balance.AVERAGES, balance.PUBLISHED)


@dataclass(frozen=True)
class Mean:
    """The mean of a score over seeds, and its 95 % interval (Student's t; NaN below two seeds)."""

    score: str  # test_score, or val_score where there is no test
    value: float
    low: float
    high: float
    seeds: int


def mean_of(values: np.ndarray, score: str) -> Mean:
    """values [n_seeds], at least one."""
    mean, half = float(values.mean()), half_interval_of(values)
    return Mean(score, mean, mean - half, mean + half, len(values))


def fresh_mean(trials: pd.DataFrame, of: pd.Series) -> Mean | None:
    """A setting's score with fresh seeds; None where it was not trained with any. trials: with `setting` numbers."""
    score = "test_score" if pd.notna(of["test_score"]) else "val_score"
    values = _by_seed(confirming(trials), of, score).dropna().to_numpy(dtype=float)
    return mean_of(values, score) if len(values) else None


def paired(trials: pd.DataFrame, best: pd.Series, reached: pd.Series) -> Mean:
    """What the one setting's score is more than the other's, over the seeds that both were completed with; over fresh
    ones alone where there are any. Without a common seed it is the difference of their means, of 0 seeds."""
    score = "test_score" if pd.notna(best["test_score"]) and pd.notna(reached["test_score"]) else "val_score"
    for rows in (confirming(trials), searching(trials)):
        pairs = (_by_seed(rows, best, score) - _by_seed(rows, reached, score)).dropna().to_numpy(dtype=float)
        if len(pairs):
            return mean_of(pairs, score)
    return Mean(score, float(best[score] - reached[score]), np.nan, np.nan, 0)


def chosen(trials: pd.DataFrame) -> pd.Series | None:
    """What the search asked for found best by validation, whatever the recipes beside it came to: a row of
    `means_over_settings`. None where it completed nothing, and of a table with several searches or recipes alone.
    trials: with `setting` numbers."""
    rows = searching(trials)
    asked = rows[~rows["search"].isin(RECIPES)]
    return best_trial(means_over_settings(asked)) if asked["search"].nunique() == 1 else None


def gains(trials: pd.DataFrame) -> pd.DataFrame:
    """What each study's search chose, beside what each recipe of RECIPES reaches by its learning rate.

    One row a study of one problem and set-up, with columns GAINS and, for every recipe that the study has trials for,
    NAME (its score), gain_NAME, low_NAME and high_NAME (the paired gain and its 95 % interval). Scores are of the
    test split where there is one, means over the fresh seeds where every setting of the row has some (`fresh`), else
    over the seeds that chose. All are chosen by validation.
    """
    rows = [row for part in comparable(trials) for _, one in part.trials.groupby("study") if (row := _gain(one))]
    averages = [name for name in RECIPES if any(name in row for row in rows)]
    columns = [f"{prefix}{name}" for name in averages for prefix in ("", "gain_", "low_", "high_")]
    return pd.DataFrame(rows, columns=[*GAINS, *columns])


def _gain(trials: pd.DataFrame) -> dict[str, Any] | None:
    """The row of one study; None where its search completed nothing, or no recipe did."""
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
