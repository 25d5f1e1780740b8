"""Best-so-far curves of searches over their trials, and numbers computed from them (`fig:hpo_curves`)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tune_cd.analysis.means import SETTING, means_over_seeds
from tune_cd.analysis.parts import comparable
from tune_cd.analysis.runs import SEARCH, counted, runs_of
from tune_cd.analysis.scores import score_column, searching, signs
from tune_cd.results.rows import simulated_end

Values = Sequence[float] | np.ndarray
"""The best so far of a search after each trial."""

OVER = ("trials", "seconds")
"""The x axes of best-so-far: ended trials (where they pause, full trainings' worth); time since the first one began."""

TOLD = "val_score"
"""The score that a search is told."""

RUN = (*SETTING, "run")
"""Columns that identify one run of a setting whose trainings pause between runs."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The best so far of one search after each trial, in the order they ended.

    It is vizier's ConvergenceCurve with a clock.

    landscape: the searched landscape, a replay's or a dataset. seed: of the search. reached [n]: the reported score of
    the search's incumbent; during the first `waiting` trials, which have no incumbent, the landscape's worst score
    `low`. ended [n]: seconds (in replays durations of a typical trial) since the search began, NaN if rows do not say.
    score: name of the reported score. shares [n]: for a search whose trials pause, the share of a full training in each
    run; None: every value is a trial. sign: 1 if larger scores are better, -1 if smaller ones are. Raises ValueError
    for arrays of different lengths or without a trial.
    """

    landscape: str
    method: str
    seed: int
    reached: np.ndarray
    low: float
    ended: np.ndarray
    study: str = ""
    waiting: int = 0
    score: str = "test_score"
    shares: np.ndarray | None = None
    sign: float = 1.0

    def __post_init__(self) -> None:
        lengths = {len(self.reached), len(self.ended), len(self.reached if self.shares is None else self.shares)}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(f"a curve of {sorted(lengths)} trials: at least one, and as many times as values")

    def __len__(self) -> int:
        return len(self.reached)

    def clock(self, over: str) -> np.ndarray:
        """The place of each value on the axis `over` [n]. Raises ValueError if `over` is not in OVER."""
        if over not in OVER:
            raise ValueError(f"over {over!r}: one of {list(OVER)}")
        if over == "seconds":
            return self.ended
        return np.arange(1.0, len(self) + 1) if self.shares is None else np.cumsum(self.shares)

    @property
    def by_trial(self) -> np.ndarray:
        """The best so far after each trial, or where trials pause after each full training's worth of images, the last
        one begun."""
        if self.shares is None:
            return self.reached
        return self.at(np.arange(1.0, max(1.0, np.ceil(self.shares.sum() - 1e-6)) + 1), "trials")

    def at(self, clock: np.ndarray, over: str) -> np.ndarray:
        """The best so far at each of these points of an axis.

        Before the first trial ended it is `low`, after the last trial the last value.
        """
        return np.array([self.low, *self.reached])[np.searchsorted(self.clock(over), clock + 1e-9, side="right")]


def curves_of(trials: pd.DataFrame, score: str = "test_score") -> list[Curve]:
    """One curve per landscape, search and search seed of every study, in that order; searches without a row have none.

    Where trainings pause, each run is a value, because the weights of a short training are usable. Paused runs are not
    tested, so on a landscape with a search that pauses every curve shows the score that the search was told, TOLD.

    score: the reported score, of the trial that is best by TOLD. Trainings of one setting with several seeds are one
    trial, with their mean score. On a landscape where no trial has `score`, TOLD is reported; where only some trials
    have it, the others are ignored. A landscape is named by its dataset (by its study if rows name none), and by the
    fields of problem and set-up that differ within the table. Wall-clock time begins with a search's first trial, and
    does not stop between two runs of one study.
    """
    trials = searching(trials)
    if trials.empty:
        return []
    rows = _settings(counted(runs_of(trials))).assign(landscape=_landscapes)
    rows["told"] = score_column(rows, TOLD).where(rows["status"] == "completed")
    reported = score_column(rows, score)
    landscapes = rows["landscape"]
    absent = reported.isna().groupby(landscapes).transform("all") | rows["pauses"].groupby(landscapes).transform("any")
    rows["reported"] = reported.where(~absent, rows["told"]).where(rows["told"].notna())
    rows["told"] = rows["told"].where(rows["reported"].notna())
    rows["score"] = np.where(absent, TOLD, score)
    lowest = (rows["reported"] * signs(rows)).groupby(rows["landscape"]).min().to_dict()
    groups = rows.assign(search_seed=rows["search_seed"].astype("Int64").fillna(0)).groupby(
        ["landscape", "study", "search", "search_seed"], sort=False
    )
    curves = [_curve(group, lowest[group["landscape"].iloc[0]]) for _, group in groups]
    return sorted(curves, key=lambda curve: (curve.landscape, curve.method, curve.seed, curve.study))


def best_so_far(trials: pd.DataFrame, score: str = "val_score") -> pd.Series:
    """A score of one search's incumbent after each trial in the order of asking, indexed by number from 1; NaN before
    the first completed one. The incumbent is the best by TOLD of the trials that have the score, as in `curves_of`.

    If trials pause: after each run, as they ended, indexed by full trainings' worth of images. Trainings of one setting
    with several seeds are one trial, with their mean score. trials: rows of the results table. Raises ValueError for
    trials of several studies, searches or search seeds.
    """
    several = [name for name in SEARCH if trials[name].nunique() > 1]
    if several:
        found = trials[several].drop_duplicates().values.tolist()
        raise ValueError(f"trials of more than one {' and '.join(several)}: {found}")
    rows = _settings(counted(runs_of(trials)))
    rows = rows.sort_values("ended_at" if rows["pauses"].any() else "trial_index", kind="stable")
    index = pd.Index(rows["share"].cumsum(), name="trials")
    if rows.empty:
        return pd.Series(index=index, name=score, dtype=float)
    reported, told = score_column(rows, score), signs(rows) * score_column(rows, TOLD)
    counts = (rows["status"] == "completed") & np.isfinite(told) & np.isfinite(reported)
    at = _incumbents(told.where(counts, -np.inf).to_numpy())
    return pd.Series(np.where(at >= 0, reported.to_numpy()[at], np.nan), index=index, name=score)


def auc_at(k: int, curves: Sequence[Values]) -> float:
    """AUC@k: the mean of best-so-far over the first k trials, averaged over trajectories [n][trials].

    One that ended early keeps its last value. A NaN, as before its first success, makes the mean NaN: put there what a
    failure counts. Where trials pause take `Curve.by_trial`. Raises ValueError for k < 1 or an empty trajectory.
    """
    return float(padded(k, curves).mean())


def n_to_reach(target: float, curves: Sequence[Values]) -> int | None:
    """The first number of trials at which the mean best-so-far curve is at least `target`; None if it never is.

    Larger values are better, so those of a loss are negated: with sign 1, or -1 for a loss, n-95 is
    `n_to_reach(sign * best - 0.05 * abs(best), [sign * curve for curve in curves])`, curves being of `best_so_far` and
    best the best value that any compared method reached.
    """
    means = padded(max(map(np.size, curves), default=0), curves).mean(0)
    reached = np.flatnonzero(means >= target)
    return int(reached[0]) + 1 if len(reached) else None


def padded(k: int, curves: Sequence[Values]) -> np.ndarray:
    """The first k values of each trajectory [n, k]; shorter ones are continued by their last value.

    Raises ValueError as `auc_at`.
    """
    arrays = [np.asarray(curve, dtype=float) for curve in curves]
    if k < 1 or not arrays or any(array.ndim != 1 or len(array) == 0 for array in arrays):
        said = "k >= 1, and a list of trajectories with at least one trial in each, are required"
        raise ValueError(f"k = {k}, {len(curves)} trajectories: {said}")
    return np.stack([np.pad(array[:k], (0, max(0, k - len(array))), mode="edge") for array in arrays])


def _settings(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs' means over seeds, from the first start to the last end of all seeds."""
    means = means_over_seeds(runs, RUN)
    if len(means) == len(runs):
        return means
    groups = runs.groupby(list(RUN), dropna=False)
    times = groups.agg(started_at=("started_at", "min"), ended_at=("ended_at", "max"))
    return means.drop(columns=list(times)).merge(times, left_on=list(RUN), right_index=True, how="left")


def _landscapes(trials: pd.DataFrame) -> pd.Series:
    """The landscape of each trial's search, named as `curves_of` says."""
    parts = list(comparable(trials))
    datasets = {part.problem.get("dataset") for part in parts}
    only = f"{datasets.pop() or ''} " if len(datasets) == 1 else ""  # else a part's words begin with its dataset
    names = pd.Series("", index=trials.index, dtype=object)
    for part in parts:
        names[part.trials.index] = f"{only}{part.words}".strip()
    return names


def _curve(rows: pd.DataFrame, low: float) -> Curve:
    """The curve of one search's rows, which have columns `landscape`, `told`, `reported` and `score`. low: the worst of
    its landscape, signed so that larger is better."""
    simulated = rows["config"].map(simulated_end).astype(float) if "config" in rows else np.nan
    rows = rows.assign(simulated=simulated).sort_values(["ended_at", "simulated", "trial_index"], kind="stable")
    first, sign = rows.iloc[0], float(signs(rows)[0])
    told, low = (sign * rows["told"]).fillna(-np.inf).to_numpy(), sign * low
    last = _incumbents(told)
    reported = rows["reported"].to_numpy(dtype=float)
    shares = rows["share"].to_numpy(dtype=float) if first["pauses"] else None
    return Curve(
        first["landscape"], first["search"], int(first["search_seed"]), np.where(last >= 0, reported[last], low), low,
        _ended(rows), first["study"], int((last < 0).sum()), first["score"], shares, sign,
    )  # fmt: skip


def _incumbents(told: np.ndarray) -> np.ndarray:
    """The place of the best so far after each of these values [n], the first of equal ones; -1 while all are -inf."""
    better = told > np.concatenate([[-np.inf], np.maximum.accumulate(told)[:-1]])
    return np.maximum.accumulate(np.where(better, np.arange(len(told)), -1))


def _ended(rows: pd.DataFrame) -> np.ndarray:
    """`ended` of a curve, in the order of the rows; lost trials without times, which changed nothing, count as last."""
    times = rows[["started_at", "ended_at"]].apply(pd.to_datetime, utc=True)
    ended = (times["ended_at"] - times["started_at"].min()).dt.total_seconds()
    return ended.where(ended.notna() | (rows["status"] == "completed"), ended.max()).to_numpy()
