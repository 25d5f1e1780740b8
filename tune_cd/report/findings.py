"""Findings on a study's table as values: the best setting, its gains and their uncertainty. `words` makes sentences."""

from functools import cached_property
from math import isfinite

import numpy as np
import pandas as pd

from tune_cd.analysis import best_trial
from tune_cd.analysis.axes import Axis, axes_of
from tune_cd.analysis.confirmation import fresh_mean, paired
from tune_cd.analysis.means import alike, means_over_settings, setting_numbers
from tune_cd.analysis.recipes import averages_of, chosen, recipe_of
from tune_cd.analysis.runs import runs_of
from tune_cd.analysis.scores import judged_by, parameter_of, searching
from tune_cd.results.rows import length_in, sign_of


class Findings:
    """The findings on one study. Rows such as `best` are of `means_over_settings`; None means no finding.

    best: the best setting of the study's own search. For a table with several searches, or if that search completed no
    trial, the best of all. ahead: the best of all if it is another setting, as when a baseline was better by
    validation. fresh: the best's score over seeds that were not used for choosing. recipes: what conventional recipes
    reach, and the best's gain over each. missing: the names of those that no completed trial reaches. first: the first
    setting that the search tried, where no recipe is compared, and first_gain the gain over it, if it completed. sign:
    -1 where a smaller score is better, else 1.

    trials: its rows, at least one. Raises ValueError for several studies.
    """

    def __init__(self, trials: pd.DataFrame):
        if trials["study"].nunique() != 1:
            raise ValueError(f"trials of studies {sorted(trials['study'].unique())}: one study is required")
        self.trials = trials = trials.assign(setting=setting_numbers(trials))
        self.study, self.sign = str(trials["study"].iloc[0]), sign_of(trials.iloc[0].get("mode"))
        self.means = means = means_over_settings(searching(trials))
        top, choice = best_trial(means), chosen(trials, means)
        self.best = best = top if choice is None else choice
        self.ahead = top if best is not None and top["val_score"] != best["val_score"] else None
        self.fresh = None if best is None else fresh_mean(trials, best)
        averages = () if best is None else averages_of(trials)
        reached = {average: recipe_of(trials, means, best, average) for average in averages}
        self.recipes = tuple(recipe for recipe in reached.values() if recipe is not None)
        self.missing = tuple(average for average, recipe in reached.items() if recipe is None)
        self.first = None if averages else _first(means, best)
        whole = self.first is not None and self.first["status"] == "completed"
        self.first_gain = paired(trials, best, self.first) if whole else None

    @cached_property
    def axes(self) -> list[Axis]:
        """The axis of every parameter."""
        return axes_of(self.trials)

    @cached_property
    def short(self) -> tuple[float, float, float] | None:
        """(share of a full training, the best's validation score there, the first setting's), at the longest at which
        both paused; None if the first setting is not compared, completed, or never paused beside the best."""
        if self.best is None or self.first is None or self.first_gain is not None:
            return None
        runs = runs_of(self.trials)
        best, first = (
            runs[runs["paused"] & (runs["setting"] == row["setting"])].groupby("run")["val_score"].mean().dropna()
            for row in (self.best, self.first)
        )
        lengths, whole = best.index.intersection(first.index), length_in(self.first["config"])[1]
        return (lengths.max() / whole, best[lengths.max()], first[lengths.max()]) if len(lengths) else None

    @property
    def edges(self) -> dict[str, str]:
        """Parameter of the best setting -> the end of its range that it is at ("lower" or "upper"), others left out."""
        numbers = [axis for axis in self.axes if axis.kind != "category" and self.best is not None]
        ends = {axis.name: axis.end(parameter_of(self.best, axis.name)) for axis in numbers}
        return {name: end for name, end in ends.items() if end is not None}

    @property
    def alike(self) -> pd.DataFrame:
        """The settings `alike` to the best; no rows if there is no best."""
        return self.means[:0] if self.best is None else alike(self.means, self.best)

    @property
    def noise(self) -> tuple[float, int]:
        """(pooled standard deviation over seeds of one setting, its degrees of freedom); (NaN, 0) without repeats.

        Trainings of an unknown seed may be one and the same, and count for none.
        """
        ended = self.trials[(self.trials["status"] == "completed") & self.trials["seed"].notna()]
        groups = ended.drop_duplicates(["setting", "seed"]).groupby("setting")[judged_by(self.trials)]
        variances, freedom = groups.var(ddof=1), groups.count() - 1
        total = int(freedom[variances.notna()].sum())
        return (float(np.sqrt((variances * freedom).sum() / total)), total) if total else (np.nan, 0)

    @property
    def ahead_by(self) -> float:
        """Validation score of the best less that of the next setting; NaN for a single one."""
        others = self.means[(self.means["status"] == "completed") & (self.means["setting"] != self.best["setting"])]
        scores = self.sign * others["val_score"].dropna()
        return float(self.sign * self.best["val_score"] - scores.max()) if len(scores) else np.nan


def _first(means: pd.DataFrame, best: pd.Series | None) -> pd.Series | None:
    """The first setting of the best's search, however it ended; None for a grid, and for a single setting."""
    if best is None or best["search"] == "grid":
        return None
    own = means[means["search"] == best["search"]].sort_values("trial_index", kind="stable")
    return own.iloc[0] if len(own) > 1 else None


def is_known(value: float | None) -> bool:
    """Whether a value is a finite number."""
    return value is not None and pd.notna(value) and isfinite(value)
