"""Means over the seeds of a setting, and the best setting."""

from collections.abc import Sequence
from math import nan

import numpy as np
import pandas as pd

from tune_cd.analysis.scores import maps_of, settings, signs
from tune_cd.results.observations import mean

SETTING = ("study", "search", "search_seed", "trial_index")
"""Columns that identify a setting that a search asked for; rows that agree in them are trainings of several seeds."""


ALIKE = 0.01
"""Settings whose scores differ from the best one's by at most this share of it are alike: "very little difference
between the few-best settings", says `ssec:best_hp_values`."""


def best_trial(trials: pd.DataFrame) -> pd.Series | None:
    """The completed trial with the best validation score by its `mode`, the first asked of equal ones; or None.
    Raises ValueError for trials of several metrics."""
    scored = trials[(trials["status"] == "completed") & trials["val_score"].notna()].sort_values(
        "trial_index", kind="stable"
    )
    if len(metrics := sorted(scored["metric_name"].unique())) > 1:
        raise ValueError(f"trials of more than one metric: {metrics}; select one")
    worth = scored["val_score"].to_numpy(dtype=float) * signs(scored)
    return scored.iloc[int(worth.argmax())] if len(scored) else None


def alike(means: pd.DataFrame, best: pd.Series) -> pd.DataFrame:
    """The settings within ALIKE of this one by validation, above or below, itself included."""
    return means[(means["val_score"] - best["val_score"]).abs() <= ALIKE * abs(best["val_score"])]


def means_over_seeds(trials: pd.DataFrame, by: Sequence[str] = SETTING) -> pd.DataFrame:
    """One row per setting: scores are means over its completed seeds; other columns are from the first of its rows.

    Further columns: `seeds`, the number of completed trainings; `trained`, the number with those that did not complete;
    `val_std` and `test_std`, standard deviations, NaN for one seed. Trainings of an unknown seed may be one and the
    same: they count in the mean, but as one training where no other completed, and not in the deviations. by: columns
    that identify a setting: SETTING, within each search, or `setting`, from `setting_numbers`.
    """
    setting = list(by)
    lost = trials["status"] != "completed"
    rows = trials.assign(lost=lost).sort_values([*setting, "lost", "seed"], ignore_index=True)
    means = rows.drop_duplicates(setting, ignore_index=True).drop(columns="lost")
    at, n = rows.groupby(setting, dropna=False, sort=False).ngroup().to_numpy(), len(means)  # each row's row of `means`
    completed, places = rows[~rows["lost"]], at[~rows["lost"]]
    seeded = completed["seed"].notna().to_numpy()

    def averaged(values: pd.Series) -> list[float]:
        """The mean of every setting's values."""
        measured: list[list[float]] = [[] for _ in range(n)]
        for value, place in zip(values.tolist(), places.tolist()):
            if value == value:
                measured[place].append(value)
        return [nan if (average := mean(found)) is None else average for found in measured]

    for name in ("val", "test"):
        scores = completed[f"{name}_score"].astype(float)
        means[f"{name}_score"] = averaged(scores)
        means[f"{name}_std"] = scores.where(seeded).groupby(places).std().reindex(range(n)).to_numpy()
    measured = pd.DataFrame(maps_of(completed, "scores"), index=completed.index, dtype=float)
    averages = {name: averaged(measured[name]) for name in measured}
    maps = [
        {name: values[row] for name, values in averages.items() if values[row] == values[row]} if known else own
        for row, (known, own) in enumerate(zip(np.bincount(places, minlength=n), maps_of(means, "scores")))
    ]
    means["scores"] = pd.Series(maps, index=means.index, dtype=object)
    known = np.bincount(places[seeded], minlength=n)
    means["seeds"] = np.maximum(known, np.bincount(places, minlength=n) > 0)
    means["trained"] = means["seeds"] + np.bincount(at[rows["lost"]], minlength=n)
    return means[[*setting, *(name for name in means if name not in setting)]]


def setting_numbers(trials: pd.DataFrame) -> pd.Series:
    """A number for every setting, the same in all searches; each trial without parameters is its own setting."""
    at = settings(trials).dropna(axis=1, how="all")
    return at.groupby(list(at), dropna=False).ngroup() if len(at.columns) else pd.Series(range(len(at)), index=at.index)


def means_over_settings(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per setting as `means_over_seeds`, over all searches; a training that two searches asked for counts once.

    trials: rows of one problem and set-up; with the column `setting` if `setting_numbers` are already known.
    """
    if "setting" not in trials:
        trials = trials.reset_index(drop=True)
        trials = trials.assign(setting=setting_numbers(trials))
    rows = trials.assign(lost=trials["status"] != "completed").sort_values(["lost", "trial_index"], kind="stable")
    rows = rows[~rows.duplicated(["setting", "seed"]) | rows["seed"].isna()]
    return means_over_seeds(rows.drop(columns="lost"), by=("setting",))
