"""Findings on a study's table as values: the best setting, its gains and their uncertainty. `words` makes sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isfinite

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis import RateSearch, best_trial, on_diagonal, rate_search
from tune_cd.analysis.axes import Axis, axes_of
from tune_cd.analysis.choices import choice_names
from tune_cd.analysis.confirmation import RECIPES, Mean, chosen, fresh_mean, paired
from tune_cd.analysis.means import means_over_settings, setting_numbers
from tune_cd.analysis.rates import ON_DIAGONAL
from tune_cd.analysis.runs import runs_of
from tune_cd.analysis.scores import (
    judged_by,
    octaves,
    optimizer_of,
    parameter,
    parameter_of,
    per_class,
    published_of,
    searching,
    varied,
    weights_of,
)
from tune_cd.analysis.tables import ALIKE
from tune_cd.results.rows import sign_of
from tune_cd.search.space import AT_END

BASELINES = (*RECIPES, "without", "S1", "S2")
"""Searches that accompany the study's own search."""

LATE = 0.25  # the best counts as late in this last share of its search's trials

Ranges = Mapping[str, tuple[float, float]]
"""Parameter -> (lowest, highest) allowed value."""


@dataclass(frozen=True)
class Recipe:
    """The best trial that a conventional recipe reaches by its learning rate alone, and the gain of the best over it.

    gain: that of `Findings.best` on the test split (on validation without a test), over fresh seeds if both were
    trained with some. low, high: its 95 % interval over the seeds that both were trained with (Student's t on the
    pairs); NaN for fewer than two. pairs: the number of these seeds. fresh: the recipe's own score with fresh seeds.
    rates: how closely its learning rate was tuned. grid_step: octaves between the cells of a grid, in which the cells
    nearest to the diagonal count; None if settings are exactly on it. learning_rate: None under Adam, which has its own
    rate and divides by the joint scale of the weights.
    """

    average: str
    best: pd.Series
    learning_rate: float | None
    gain: float
    low: float
    high: float
    pairs: int
    fresh: Mean | None
    rates: RateSearch
    grid_step: float | None


class Findings:
    """The findings on one study. Rows such as `best` are of `means_over_settings`; None means no finding.

    best: the best setting of the study's own search. For a table with several searches, or if that search completed no
    trial, the best of all. ahead: the best of all if it is another setting, as when a baseline was better by
    validation. recipes, missing: the recipes that some completed trial reaches, and the names of the others. first: the
    first setting that its search tried, where no recipe is compared. fresh, ahead_fresh: scores over seeds that were
    not used for choosing. seeds, unfinished: trainings of the best setting that completed, used for choosing, and that
    did not. names: the searched parameters that took several values.

    trials: its rows, at least one. ranges: the ranges that the search began with, if they are known; they have grown
    as far as the trials reach. Raises ValueError for several studies.
    """

    def __init__(self, trials: pd.DataFrame, ranges: Ranges | None = None):
        if trials["study"].nunique() != 1:
            raise ValueError(f"trials of studies {sorted(trials['study'].unique())}: one study is required")
        self.trials = trials = trials.assign(setting=setting_numbers(trials))
        self.study, self.names = str(trials["study"].iloc[0]), varied(trials)
        of_grid = _extremes(trials, self.names) if is_grid(trials, self.names) else {}  # of others it is not known
        self.ranges = grown(ranges, trials) if ranges else of_grid
        self.status = {str(status): int(number) for status, number in trials["status"].value_counts().items()}
        self.means = means = means_over_settings(searching(trials))
        top, choice = best_trial(means), chosen(trials)
        self.best = best = top if choice is None else choice
        self.ahead = top if best is not None and top["setting"] != best["setting"] else None
        self.fresh = None if best is None else fresh_mean(trials, best)
        self.ahead_fresh = None if self.ahead is None else fresh_mean(trials, self.ahead)
        self.seeds = 0 if best is None else int(best["seeds"])
        self.unfinished = 0 if best is None else int(best["trained"] - best["seeds"])
        averages = () if best is None else averages_of(trials)
        found = {average: _recipe(trials, means, best, average, self.ranges) for average in averages}
        self.recipes = tuple(recipe for recipe in found.values() if recipe is not None)
        self.missing = tuple(average for average, recipe in found.items() if recipe is None)
        self.first = None if averages else _first(means, best)
        self.first_gain = None if self.first is None else paired(trials, best, self.first)

    @cached_property
    def axes(self) -> list[Axis]:
        """The axis of every parameter."""
        return axes_of(self.trials)

    @cached_property
    def alike(self) -> pd.DataFrame:
        """The settings within ALIKE of the best, above or below; no rows if there is no best."""
        if self.best is None:
            return self.means[:0]
        score = self.best["val_score"]
        return self.means[(self.means["val_score"] - score).abs() <= ALIKE * abs(score)]

    @cached_property
    def alike_ranges(self) -> dict[str, tuple[float, float]]:
        """(least, largest) value of each number among them."""
        categories = choice_names(self.trials)
        return _extremes(self.alike, [name for name in self.names if name not in categories])

    @cached_property
    def edges(self) -> dict[str, str]:
        """Parameter of the best setting -> the end of its range that it is at ("lower" or "upper"), others left out."""
        edges = {}
        for name in self.names if self.best is not None else ():
            value, (low, high) = parameter_of(self.best, name), self.ranges.get(name, (np.nan, np.nan))
            if not low > 0:  # the range is unknown, or the axis is not logarithmic
                continue
            if np.log2(value / low) < AT_END:
                edges[name] = "lower"
            elif np.log2(high / value) < AT_END:
                edges[name] = "upper"
        return edges

    @cached_property
    def late(self) -> bool:
        """Whether the best was among the last trials of its search, so that more trials might find a better one."""
        best, trials = self.best, self.trials
        if best is None or best["search"] in ("grid", *BASELINES):
            return False
        own = (trials["search_seed"] == best["search_seed"]) | pd.isna(best["search_seed"])
        asked = trials[(trials["search"] == best["search"]) & own]["trial_index"].unique()
        return len(asked) >= 8 and float((asked > best["trial_index"]).mean()) < LATE

    @cached_property
    def noise(self) -> tuple[float, int]:
        """(pooled standard deviation over seeds of one setting, its degrees of freedom); (NaN, 0) without repeats.

        Trainings of an unknown seed may be one and the same, and count for none.
        """
        ended = self.trials[(self.trials["status"] == "completed") & self.trials["seed"].notna()]
        groups = ended.drop_duplicates(["setting", "seed"]).groupby("setting")[judged_by(self.trials)]
        variances, freedom = groups.var(ddof=1), groups.count() - 1
        total = int(freedom[variances.notna()].sum())
        return (float(np.sqrt((variances * freedom).sum() / total)), total) if total else (np.nan, 0)

    @cached_property
    def ahead_by(self) -> float:
        """Validation score of the best less that of the next setting; NaN for a single one."""
        others = self.means[(self.means["status"] == "completed") & (self.means["setting"] != self.best["setting"])]
        sign, scores = sign_of(self.best.get("mode")), others["val_score"].dropna()
        return float(sign * self.best["val_score"] - (sign * scores).max()) if len(scores) else np.nan

    @cached_property
    def spent(self) -> int:
        """What `--num-samples` counts, of the longest search: settings, or whole trainings' worth with pauses."""
        asked = self.trials[~self.trials["search"].isin(BASELINES)]
        runs = runs_of(asked if len(asked) else self.trials)
        if runs["pauses"].any():
            return ceil(runs.groupby(["search", "seed"], dropna=False)["share"].sum().max())
        return int(runs.groupby("search")["trial_index"].nunique().max())


def findings(trials: pd.DataFrame, ranges: Ranges | None = None) -> Findings:
    """The findings on one study: see `Findings`."""
    return Findings(trials, ranges)


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


def grid_rows(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that may make up a grid: those of the search `grid` if it was run, else all."""
    asked = trials["search"] == "grid"
    return trials[asked] if asked.any() else trials


def is_grid(trials: pd.DataFrame, names: Sequence[str]) -> bool:
    """Whether the trials fill at least half of the product of the values of two or more parameters."""
    columns = {name: parameter(trials, name) for name in names}
    if len(names) < 2 or not len(trials) or any((column <= 0).any() for column in columns.values()):
        return False
    at = pd.DataFrame({name: np.round(octaves(column, name), 9) for name, column in columns.items()}).dropna()
    sizes = [at[name].nunique() for name in names]
    return bool(min(sizes[:2]) >= 3 and len(at.drop_duplicates()) >= 0.5 * np.prod(sizes))


def _recipe(trials: pd.DataFrame, means: pd.DataFrame, best: pd.Series, average: str, ranges: Ranges) -> Recipe | None:
    k = per_class(trials)
    within, step = pd.Series(ON_DIAGONAL, index=means.index), None
    cells = grid_rows(means)
    weights = weights_of(cells)
    if is_grid(cells, weights):  # its cells count up to half a step away, as in `analysis.reachable`
        step = float(np.median(np.diff(np.unique(np.round(octaves(parameter(cells, weights[1]), weights[1]), 9)))))
        within[cells.index] = step / 2
    on_line = on_diagonal(means, average, k, within)
    reached = best_trial(on_line)
    if reached is None:
        return None
    gain = paired(trials, best, reached)
    sgd = optimizer_of(trials) == "sgd"
    rate = _rate(reached, average, published_of(trials), k) if sgd else None
    rates = rate_search(on_line, reached, ranges)
    fresh = fresh_mean(trials, reached)
    return Recipe(average, reached, rate, gain.value, gain.low, gain.high, gain.seeds, fresh, rates, step)


def _rate(reached: pd.Series, average: str, published: Mapping[str, float], k: int) -> float:
    """The learning rate of a setting that a recipe reaches."""
    if average == balance.PUBLISHED:
        return next(parameter_of(reached, name) / coefficient for name, coefficient in published.items())
    separate = average == "separate"
    positive = 1.0 if separate else balance.average_weights(average, int(reached["batch_size"]), k)[0]
    return float(reached["Lambda_p"] / positive)


def grown(ranges: Ranges, trials: pd.DataFrame) -> Ranges:
    """The ranges, as wide as the trials need."""
    tried = _extremes(trials, list(ranges))
    return {name: (np.fmin(low, tried[name][0]), np.fmax(high, tried[name][1])) for name, (low, high) in ranges.items()}


def _extremes(trials: pd.DataFrame, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """(least, largest) value of each parameter in some trials."""
    columns = {name: pd.Series(parameter(trials, name)) for name in names}
    return {name: (float(column.min()), float(column.max())) for name, column in columns.items()}


def _first(means: pd.DataFrame, best: pd.Series | None) -> pd.Series | None:
    """The first setting of the best's search that completed; None if that is the best, and for a grid."""
    if best is None or best["search"] == "grid":
        return None
    own = means[(means["search"] == best["search"]) & (means["status"] == "completed") & means["val_score"].notna()]
    first = own.sort_values("trial_index", kind="stable").iloc[0]
    return None if first["setting"] == best["setting"] else first


def is_known(value: float | None) -> bool:
    """Whether a value is a finite number."""
    return value is not None and pd.notna(value) and isfinite(value)
