"""Comparison of search methods by curves: the numbers of `tab:hp_res` and `tab:ablation`, intervals and tests."""

from collections.abc import Sequence
from math import inf, isfinite, nan
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis.curves import Curve, auc_at, n_to_reach, padded
from tune_cd.analysis.intervals import half_interval_of

FEWEST = 8  # searches for a bootstrap interval: with 5 it would hold the mean in 83 % of cases, with 2 in 50 %
BUDGETS = (5, 10, 20, 50)
RESAMPLES = 1000
TIME_STEP = 0.1
"""Precision of t-95, in durations of a typical trial (of real trials in seconds). A 10,000th of the longest search is
used instead where it is coarser."""
POINTS = 200  # points of a mean curve over time


def mean_curve(curves: Sequence[Curve], over: str = "trials", seed: int = 0) -> pd.DataFrame:
    """The mean best-so-far curve of one method, with a 95 % bootstrap interval over searches (`fig:hpo_curves`).

    Indexed by `over`: the number of trials, or POINTS times up to the end of the longest search (a search that ended
    keeps its last value). Columns: mean, low, high, and searches (their number). low and high are NaN for fewer than
    FEWEST searches; mean, low and high are NaN until the first search has a score. Raises ValueError for an empty list,
    for several methods or landscapes, for unknown times, and as `Curve.clock`.
    """
    of = sorted({(curve.method, curve.landscape) for curve in curves})
    if len(of) != 1:
        raise ValueError(f"{len(curves)} curves of {of}: one method on one landscape is required")
    ends = [curve.clock(over)[-1] for curve in curves]
    timeless = int((~np.isfinite(ends)).sum())
    if timeless:
        said = f"trials of {timeless} searches do not say when they began and ended; 'trials' is possible"
        raise ValueError(f"over {over!r}: {said}")
    clock = np.arange(1.0, max(ends) + 1) if over == "trials" else np.linspace(0.0, max(ends), POINTS)
    reached = np.stack([curve.at(clock, over) for curve in curves])  # [n_curves, n_points]
    low, high = (
        np.quantile(_resampled(reached, seed), [0.025, 0.975], axis=0)
        if len(curves) >= FEWEST
        else np.full((2, len(clock)), np.nan)
    )
    first = min((curve.clock(over)[curve.waiting] for curve in curves if curve.waiting < len(curve)), default=inf)
    reached[:, clock < first - 1e-9], low[clock < first - 1e-9], high[clock < first - 1e-9] = nan, nan, nan
    index = pd.Index(clock.astype(int) if over == "trials" else clock, name=over)
    return pd.DataFrame({"mean": reached.mean(0), "low": low, "high": high, "searches": len(curves)}, index=index)


def summary(curves: Sequence[Curve], reference: str | None = None) -> pd.DataFrame:
    """One row per landscape and method, in order of appearance.

    auc5 to auc50 (BUDGETS): AUC@k of the best so far; *_ci: half the 95 % interval over trajectories (Student's t).
    n95: the first number of trials at which the mean curve reaches 95 % of the best that any method reached on that
    landscape; inf if it never does. n95_low, n95_high: the interval of 95 % of bootstrap resamples; NaN for fewer than
    FEWEST searches. t95: the same in wall-clock time, in the curves' own unit, NaN where times are unknown (with trials
    of equal length it counts rounds of all workers). stuck: share of searches that end below 95 %. d5 to d50: AUC@k
    less the reference method's, mean over pairs of equal seeds (several searches with one seed count as their mean),
    positive where this method is better; *_ci; and *_p: two-sided p of Wilcoxon's signed-rank test over those pairs,
    not corrected for the number of tests. These are NaN without a reference, and for the reference itself.
    Raises ValueError if the reference is not among the methods.
    """
    if reference is not None and reference not in {curve.method for curve in curves}:
        raise ValueError(f"reference {reference!r}: one of {sorted({curve.method for curve in curves})} is required")
    rows = []
    for landscape, of_landscape in grouped(curves, "landscape").items():
        methods = grouped(of_landscape, "method")
        best = max(float((curve.sign * curve.reached).max()) for curve in of_landscape)
        target = best - 0.05 * abs(best)
        for method, searches in methods.items():
            row: dict[str, Any] = {"landscape": landscape, "method": method, "trajectories": len(searches)}
            paired = [] if reference is None else methods.get(reference, [])
            rows.append(row | _numbers(searches, target) | _differences(searches, paired))
    return pd.DataFrame(rows)


def grouped(curves: Sequence[Curve], field: str) -> dict[Any, list[Curve]]:
    """Curves by one of their fields, in order of appearance."""
    groups: dict[Any, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(getattr(curve, field), []).append(curve)
    return groups


def _numbers(searches: list[Curve], target: float) -> dict[str, float]:
    """The numbers of one method. target: signed so that larger is better, as the curves below; the means are not."""
    sign, reached = searches[0].sign, [search.sign * search.by_trial for search in searches]
    row: dict[str, float] = {"trials": max(map(len, reached)), "best": sign * max(curve.max() for curve in reached)}
    for k in BUDGETS:
        row[f"auc{k}"] = sign * auc_at(k, reached)
        row[f"auc{k}_ci"] = half_interval_of([auc_at(k, [curve]) for curve in reached])
    row["n95"] = n_to_reach(target, reached) or inf
    row["n95_low"], row["n95_high"] = _n_interval(target, reached)
    row["t95"] = _time_to_reach(target, searches)
    row["stuck"] = float(np.mean([not curve[-1] >= target for curve in reached]))
    return row


def _differences(searches: list[Curve], reference: list[Curve]) -> dict[str, float]:
    from scipy.stats import wilcoxon  # slow to import, and a study's own summary does not need it

    ours, theirs = ({} if searches is reference else _by_seed(searches)), _by_seed(reference)
    row = {}
    for k in BUDGETS:
        gains = [auc_at(k, curves) - auc_at(k, theirs[seed]) for seed, curves in ours.items() if seed in theirs]
        row[f"d{k}"] = float(np.mean(gains)) if gains else np.nan
        row[f"d{k}_ci"] = half_interval_of(gains)
        row[f"d{k}_p"] = float(wilcoxon(gains).pvalue) if len(gains) > 1 and any(gains) else np.nan
    return row


def _by_seed(searches: list[Curve]) -> dict[int, list[np.ndarray]]:
    """Best-so-far curves by seed of the search, larger is better; those of one seed will count as their mean."""
    return {
        seed: [curve.sign * curve.by_trial for curve in curves] for seed, curves in grouped(searches, "seed").items()
    }


def _resampled(values: np.ndarray, seed: int = 0) -> np.ndarray:
    """Means over resampled trajectories [RESAMPLES, length] of values [n_trajectories, length]."""
    weights = np.random.default_rng(seed).multinomial(len(values), [1 / len(values)] * len(values), RESAMPLES)
    return weights @ values / len(values)


def _n_interval(target: float, curves: list[np.ndarray]) -> tuple[float, float]:
    """The 2.5 and 97.5 % quantiles of `n_to_reach` over resampled trajectories.

    inf where the target is not reached; NaN for fewer than FEWEST trajectories.
    """
    if len(curves) < FEWEST:
        return nan, nan
    reached = _resampled(padded(max(map(len, curves)), curves)) >= target  # [RESAMPLES, length]
    counts = np.where(reached.any(1), reached.argmax(1) + 1.0, inf)
    low, high = np.quantile(counts, [0.025, 0.975], method="inverted_cdf")
    return float(low), float(high)


def _time_to_reach(target: float, searches: list[Curve]) -> float:
    """The first time at which the mean best-so-far is at least `target`; inf if never, NaN if no times are known."""
    last = np.max([search.ended[-1] for search in searches])
    if not isfinite(last):
        return nan
    step = max(TIME_STEP, last / 10_000)
    clock = np.arange(step, last + step, step)
    signed = [search.sign * search.at(clock, "seconds") for search in searches]
    reached = np.flatnonzero(np.mean(signed, axis=0) >= target)
    return float(clock[reached[0]]) if len(reached) else inf
