"""Best-so-far curves and the numbers the paper reads off them (`fig:hpo_curves`, `tab:hp_res`)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def best_so_far(trials: pd.DataFrame, score: str = "val_score") -> pd.Series:
    """Best score after each trial of one search, indexed by the number of trials (from 1); NaN before the first number.

    trials: rows of the results table. Raises ValueError if they are of more than one study or search.
    """
    several = [name for name in ("study", "search") if trials[name].nunique() > 1]
    if several:
        raise ValueError(f"trials of more than one {' and '.join(several)}: {trials[several].drop_duplicates().values.tolist()}")
    values = trials.sort_values("trial_index")[score].to_numpy(dtype=float)
    finite = np.where(np.isfinite(values), values, -np.inf)
    curve = np.maximum.accumulate(finite) if len(finite) else finite
    return pd.Series(np.where(np.isneginf(curve), np.nan, curve), index=pd.RangeIndex(1, len(curve) + 1, name="trials"), name=score)


def best_trial(trials: pd.DataFrame) -> pd.Series | None:
    """The completed trial with the best validation score, of equal ones the first asked; None where there is none."""
    scored = trials[trials["status"] == "completed"].sort_values("trial_index")
    return scored.loc[scored["val_score"].idxmax()] if len(scored) else None


def means_over_seeds(trials: pd.DataFrame) -> pd.DataFrame:
    """One row a setting of a search: scores are means over its completed seeds, `seeds` is how many, and `val_std`,
    `test_std` their standard deviations (NaN for one); the rest is the first of its rows'.
    """
    setting = ["study", "search", "trial_index"]
    rows = trials.assign(lost=trials["status"] != "completed").sort_values(["lost", "seed"]).drop_duplicates(setting)
    means, completed = rows.drop(columns="lost").set_index(setting), trials[trials["status"] == "completed"].groupby(setting)
    for name in ("val", "test"):
        means[f"{name}_score"], means[f"{name}_std"] = completed[f"{name}_score"].mean(), completed[f"{name}_score"].std()
    means["seeds"] = completed.size().reindex(means.index, fill_value=0)
    if (means["seeds"] > 1).any():
        scores = completed["scores"].agg(lambda maps: pd.DataFrame(list(maps)).mean().to_dict())
        means["scores"] = scores.reindex(means.index).where(means["seeds"] > 0, means["scores"])
    return means.reset_index().sort_values(setting, ignore_index=True)


def auc_at(k: int, curves: Sequence[Sequence[float]]) -> float:
    """AUC@k: the mean of best-so-far over the first k trials, averaged over trajectories [n][trials].

    A trajectory that ended early keeps its last value. Raises ValueError for k < 1 or an empty trajectory.
    """
    return float(_first(k, curves).mean())


def n_to_reach(target: float, curves: Sequence[Sequence[float]]) -> int | None:
    """The first number of trials at which the mean best-so-far curve reaches `target`; None if it never does.

    n-95 is `n_to_reach(0.95 * best, curves)`, best being the best value any compared method reached.
    """
    mean = _first(max(map(len, curves), default=0), curves).mean(0)
    reached = np.flatnonzero(mean >= target)
    return int(reached[0]) + 1 if len(reached) else None


def _first(k: int, curves: Sequence[Sequence[float]]) -> np.ndarray:
    """[n, k], short trajectories continued by their last value."""
    if k < 1 or not len(curves) or any(len(curve) == 0 for curve in curves):
        raise ValueError(f"k = {k}, {len(curves)} trajectories: k >= 1 and at least one trial in each are required")
    arrays = [np.asarray(curve, dtype=float)[:k] for curve in curves]
    return np.stack([np.pad(array, (0, k - len(array)), mode="edge") for array in arrays])
