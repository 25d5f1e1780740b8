"""Trajectories -> the numbers of `tab:hp_res` and `tab:ablation`, with 95 % intervals -> Markdown."""

from collections.abc import Sequence
from math import inf, isfinite

import numpy as np
import pandas as pd

from tune_cd.analysis import auc_at, n_to_reach
from tune_cd.replay.simulation import Trajectory

Z = 1.96  # standard errors in a 95 % interval of a mean
BUDGETS = (5, 10, 20, 50)
RESAMPLES = 1000
TIME_STEP = 0.1
"""t-95 is found to this precision, in durations of a typical trial."""


def summary(trajectories: Sequence[Trajectory], reference: str | None = None) -> pd.DataFrame:
    """One row a landscape and method, in order of appearance.

    auc5 to auc50 (BUDGETS): AUC@k of what was reached; *_ci: half the 95 % interval over trajectories (normal approximation).
    n95: first number of trials at which the mean curve reaches 95 % of the best any of the methods reached on that
    landscape, inf if it does not; n95_low, n95_high: 95 % of bootstrap resamples. t95: the same in simulated time (with
    trials of equal length: rounds of all workers); gpu95: the workers' time used up by then.
    stuck: share of trajectories that end below 95 %. d5 to d50 (and *_ci): AUC@k less the reference method's, over
    the pairs of equal seeds; NaN without a reference, and for the reference itself.
    Raises ValueError for a reference that was not run.
    """
    if reference is not None and reference not in {trajectory.method for trajectory in trajectories}:
        raise ValueError(f"reference {reference!r}: one of {sorted({t.method for t in trajectories})} is required")
    rows = []
    for landscape, of_landscape in _grouped(trajectories, "landscape").items():
        methods = _grouped(of_landscape, "method")
        target = 0.95 * max(trajectory.curve.max() for trajectory in of_landscape)
        for method, searches in methods.items():
            row = {"landscape": landscape, "method": method, "trajectories": len(searches)}
            rows.append(row | _numbers(searches, target) | _differences(searches, methods.get(reference, [])))
    return pd.DataFrame(rows)


def markdown(table: pd.DataFrame, columns: Sequence[str] = ("AUC@10", "AUC@20", "n-95"), per_table: int = 4) -> str:
    """A summary as Markdown tables: methods down, landscapes across, at most `per_table` of them side by side.

    columns: names in CELLS. Raises ValueError for any other.
    """
    _check_columns(columns)
    names = list(table["landscape"].unique())
    tables = []
    for first in range(0, len(names), per_table):
        group = names[first : first + per_table]
        rows = [["method", *(f"{name} {column}" for name in group for column in columns)]]
        for method in table["method"].unique():
            rows.append([method, *(_cell(table, name, method, column) for name in group for column in columns)])
        tables.append(_aligned(rows))
    return "\n\n".join(tables)


def across_methods(table: pd.DataFrame, columns: Sequence[str]) -> str:
    """A summary as Markdown tables, one a column: landscapes down, methods across. Raises ValueError as `markdown`."""
    _check_columns(columns)
    methods = list(table["method"].unique())
    tables = []
    for column in columns:
        rows = [[name, *(_cell(table, name, method, column) for method in methods)] for name in table["landscape"].unique()]
        tables.append(_aligned([[column, *methods], *rows]))
    return "\n\n".join(tables)


CELLS = {
    **{f"AUC@{k}": lambda row, k=k: _mean(row[f"auc{k}"], row[f"auc{k}_ci"]) for k in BUDGETS},
    "n-95": lambda row: _counts(row.n95, row.n95_low, row.n95_high, row.trials),
    "t-95": lambda row: f"{row.t95:.1f}" if isfinite(row.t95) else "never",
    "stuck": lambda row: f"{row.stuck:.1%}",
    "GPU time": lambda row: f"{row.gpu95:.0f}" if isfinite(row.gpu95) else "never",
    **{f"ΔAUC@{k}": lambda row, k=k: _mean(row[f"d{k}"], row[f"d{k}_ci"], "+") for k in BUDGETS},
}
"""Column of a printed table -> its cell from a row of the summary."""


def _check_columns(columns: Sequence[str]) -> None:
    unknown = [column for column in columns if column not in CELLS]
    if unknown:
        raise ValueError(f"columns {unknown}: any of {list(CELLS)}")


def _cell(table: pd.DataFrame, landscape: str, method: str, column: str) -> str:
    found = table[(table["landscape"] == landscape) & (table["method"] == method)]
    return CELLS[column](found.iloc[0]) if len(found) else ""


def _grouped(trajectories: Sequence[Trajectory], field: str) -> dict[str, list[Trajectory]]:
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(getattr(trajectory, field), []).append(trajectory)
    return groups


def _numbers(searches: list[Trajectory], target: float) -> dict[str, float]:
    curves = [search.curve for search in searches]
    row: dict[str, float] = {"trials": max(map(len, curves))}
    for k in BUDGETS:
        row[f"auc{k}"] = auc_at(k, curves)
        row[f"auc{k}_ci"] = _half_interval([auc_at(k, [curve]) for curve in curves])
    row["n95"] = n_to_reach(target, curves) or inf
    row["n95_low"], row["n95_high"] = _n_interval(target, curves)
    row["t95"] = _time_to_reach(target, searches)
    row["gpu95"] = _time_used(row["t95"], searches)
    row["stuck"] = float(np.mean([curve[-1] < target for curve in curves]))
    return row


def _differences(searches: list[Trajectory], reference: list[Trajectory]) -> dict[str, float]:
    theirs = {search.seed: search.curve for search in reference}
    pairs = [(search.curve, theirs[search.seed]) for search in searches if search.seed in theirs and searches is not reference]
    row = {}
    for k in BUDGETS:
        gains = [auc_at(k, [one]) - auc_at(k, [other]) for one, other in pairs]
        row[f"d{k}"] = float(np.mean(gains)) if gains else np.nan
        row[f"d{k}_ci"] = _half_interval(gains)
    return row


def _half_interval(values: Sequence[float]) -> float:
    return float(Z * np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def _n_interval(target: float, curves: list[np.ndarray]) -> tuple[float, float]:
    """The 2.5 and 97.5 % quantiles of `n_to_reach` over resampled trajectories; inf where it is not reached."""
    length = max(map(len, curves))
    padded = np.stack([np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves])
    weights = np.random.default_rng(0).multinomial(len(curves), [1 / len(curves)] * len(curves), RESAMPLES)
    reached = weights @ padded / len(curves) >= target  # [RESAMPLES, length]
    counts = np.where(reached.any(1), reached.argmax(1) + 1.0, inf)
    low, high = np.quantile(counts, [0.025, 0.975], method="inverted_cdf")
    return float(low), float(high)


def _time_to_reach(target: float, searches: list[Trajectory]) -> float:
    """When the mean over searches of what was reached by then first is at least `target`; inf: never."""
    clock = np.arange(TIME_STEP, max(search.trials[-1].ended for search in searches) + TIME_STEP, TIME_STEP)
    total = np.zeros(len(clock))
    for search in searches:
        ends = np.array([trial.ended for trial in search.trials])
        total += np.array([-inf, *search.curve])[np.searchsorted(ends, clock + 1e-9, side="right")]
    reached = np.flatnonzero(total / len(searches) >= target)
    return float(clock[reached[0]]) if len(reached) else inf


def _time_used(until: float, searches: list[Trajectory]) -> float:
    """Time that trials have run until then, the mean over searches; inf for never."""
    used = [sum(max(0.0, min(trial.ended, until) - trial.started) for trial in search.trials) for search in searches]
    return float(np.mean(used)) if isfinite(until) else inf


def _mean(value: float, half: float, sign: str = "") -> str:
    if not isfinite(value):
        return "-"
    return f"{value:{sign}.3f} ±{half:.3f}" if isfinite(half) else f"{value:{sign}.3f}"


def _counts(n: float, low: float, high: float, trials: int) -> str:
    n, low, high = (f"{count:.0f}" if isfinite(count) else f">{trials}" for count in (n, low, high))
    return f"{n} ({low} to {high})"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    rule = ["-" * width for width in widths]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths)] for row in (rows[0], rule, *rows[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
