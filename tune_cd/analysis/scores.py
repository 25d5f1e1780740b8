"""A table's columns as the rest of the analysis wants them: scores by name, parameters in octaves, one problem at a time."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from tune_cd.space import KEY_DIGITS

BALANCE = ("Lambda_p", "Lambda_e", "batch_size")
"""The axes of `fig:hp_omniglot`."""

PROBLEM = ("dataset", "task", "loss", "metric_name")
"""Scores of trials that differ in one of these have no common scale."""

SET_UP = (
    "network", "weights", "embedding", "image_size", "images_seen", "evaluations", "probe_epochs", "k", "margin", "temperature", "distance", "q", "augmentation",
    "crop_scale", "crop_size", "projection", "optimizer", "learning_rate", "weight_decay", "schedule", "precision",
    "memory", "memory_size", "memory_start", "test", "test_image_size",
)  # fmt: skip
"""Fields of a built-in training's configuration that its score depends on beside the balance and the seed: trials that differ in one
are of different landscapes. A user's own configuration may have any fields; only these are compared, where they were not searched."""

FORMER = {
    "weights": "none", "embedding": 0, "crop_scale": 0.25, "crop_size": 0, "projection": "relu", "optimizer": "sgd",
    "weight_decay": 0.0, "schedule": "constant", "precision": "float32", "memory": "none", "test": "split",
}  # fmt: skip
"""Fields that came to built-in trainings later than others, and what those before were: rows without them say this."""

IDLE = {"memory_size": ("memory", "none"), "memory_start": ("memory", "none"), "test_image_size": ("test", "split")}
"""Fields of built-in trainings that have no effect where another one has this value: there they are left out."""


def score_column(trials: pd.DataFrame, name: str) -> pd.Series:
    """A score of every trial as floats, NaN where it was not measured: a column of the table, or a name in its `scores` map.

    Raises ValueError, with the names there are, for one that no trial has.
    """
    if name in trials and (pd.api.types.is_numeric_dtype(trials[name]) or not trials[name].notna().any()):
        return trials[name].astype(float)
    maps = maps_of(trials, "scores")
    if not any(name in scores for scores in maps):
        raise ValueError(f"score {name!r}: one of {score_names(trials)}")
    return pd.Series([scores.get(name, np.nan) for scores in maps], index=trials.index, dtype=float)


def score_names(trials: pd.DataFrame) -> list[str]:
    """The scores that some trial has: the table's own, then those of the `scores` map in alphabetical order."""
    own = [name for name in ("val_score", "test_score", "positive_term", "entropy_term") if trials[name].notna().any()]
    return own + sorted({name for scores in maps_of(trials, "scores") for name in scores}.difference(own))


def with_scores(trials: pd.DataFrame) -> pd.DataFrame:
    """The same table with a column for every score of the `scores` map that it has no column for: to be asked for many of them."""
    maps = maps_of(trials, "scores")
    names = sorted({name for scores in maps for name in scores}.difference(trials.columns))
    columns = {name: np.array([scores.get(name, np.nan) for scores in maps], dtype=float) for name in names}
    return pd.concat([trials, pd.DataFrame(columns, index=trials.index)], axis=1)


def parameter(trials: pd.DataFrame, name: str) -> np.ndarray:
    """Values of a parameter [n_trials], NaN where a trial has none. Raises ValueError for one that no trial has, but for the batch
    size, which rows need not say."""
    if name in BALANCE and name in trials and trials[name].notna().any():
        return trials[name].astype(float).to_numpy()
    maps = maps_of(trials, "params")
    if name != "batch_size" and not any(name in params for params in maps):
        raise ValueError(f"parameter {name!r}: one of {parameter_names(trials)}")
    return np.array([params.get(name, np.nan) for params in maps], dtype=float)


def parameter_of(trial: pd.Series, name: str) -> float:
    """A parameter of one row; NaN where it does not say."""
    value = trial[name] if name in BALANCE else dict(trial["params"]).get(name)
    return float(value) if pd.notna(value) else np.nan


def parameter_names(trials: pd.DataFrame) -> list[str]:
    """The balance's three where trials have them, else every searched parameter in alphabetical order."""
    if len(trials) and trials["Lambda_p"].notna().any():
        return list(BALANCE)
    return sorted({name for params in maps_of(trials, "params") for name in params}) or list(BALANCE)


def present(trials: pd.DataFrame) -> list[str]:
    """Those of `parameter_names` that some trial has."""
    return [name for name in parameter_names(trials) if name not in BALANCE or trials[name].notna().any()]


def settings(trials: pd.DataFrame) -> pd.DataFrame:
    """Every parameter of every trial, the searched ones and the balance's three, in octaves: equal rows are equal settings."""
    table = pd.DataFrame(maps_of(trials, "params"), index=trials.index, dtype=float)
    for name in filter(trials.columns.__contains__, BALANCE):
        given = trials[name].astype(float)
        table[name] = given.fillna(table[name]) if name in table else given
    values = table.to_numpy(dtype=float)
    logs = np.log2(values, out=values.copy(), where=values > 0)
    return pd.DataFrame(np.round(logs, KEY_DIGITS), index=trials.index, columns=table.columns)


def octaves(values: np.ndarray, name: str) -> np.ndarray:
    """log2 of a parameter's values, NaN kept. Raises ValueError for one that is not positive."""
    if (values <= 0).any():
        raise ValueError(f"parameter {name!r} = {values[values <= 0][0]:g}: log-scaled parameters are > 0")
    return np.log2(values)


def require_one(trials: pd.DataFrame, fields: Sequence[str] = PROBLEM) -> None:
    """Raises ValueError, saying what there is, if trials differ in one of these fields, or in their set-up."""
    several = [name for name in fields if name in trials and trials[name].nunique() > 1]
    if several:
        raise ValueError(f"trials of more than one {' and '.join(several)}: {trials[several].drop_duplicates().values.tolist()}; select one")
    if "config" in trials and len(trials):
        said = [json.loads(text) for text in set_ups(trials).unique() if text != "{}"]
        differing = {name: sorted({str(one.get(name)) for one in said}) for name in _differing(said)}
        if differing:
            raise ValueError(f"trials of more than one set-up: {', '.join(f'{name} {values}' for name, values in differing.items())}; select one, as `parts_of` does")


def parts_of(trials: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of every problem and set-up that a table mixes, with what tells each from the others; the whole table with "" where
    there is one. Rows that do not say their set-up, as of trainings that were lost, count with the most frequent one of their problem."""
    keys = trials.reset_index(drop=True)  # labels of tables that were put together repeat
    keys = keys.assign(set_up=set_ups(keys) if "config" in keys else "{}")
    fields = [name for name in PROBLEM if name in keys and keys[name].nunique(dropna=False) > 1]
    for problem, rows in keys.groupby(fields, dropna=False) if fields else [((), keys)]:
        known = rows["set_up"][rows["set_up"] != "{}"]
        said = rows["set_up"].where(rows["set_up"] != "{}", known.mode()[0]) if len(known) else rows["set_up"]
        maps = {text: json.loads(text) for text in said.unique()}
        differing = _differing(maps.values())
        for text, part in rows.groupby(said):
            words = [str(value) for value in problem if pd.notna(value)] + [f"{name}={maps[text].get(name)}" for name in differing]
            yield " ".join(words), trials.iloc[part.index]


def set_ups(trials: pd.DataFrame) -> pd.Series:
    """The SET_UP fields that each trial's configuration has, but for those that were searched, as JSON; "{}" for none.

    Built-in trainings of earlier releases have the fields of FORMER too, so that the same training has the same set-up.
    """
    searched = [tuple(sorted({name.split("/")[0] for name in params} & set(SET_UP))) for params in maps_of(trials, "params")]
    devices = trials["device"] if "device" in trials else [None] * len(trials)
    on_gpu = [isinstance(device, str) and device != "cpu" for device in devices]
    return pd.Series(list(map(_set_up, trials["config"], searched, on_gpu)), index=trials.index, dtype=object)


@lru_cache(maxsize=1 << 17)
def _set_up(config: str, searched: tuple[str, ...], on_gpu: bool) -> str:
    said = json.loads(config)
    if {"network", "task", "images_seen"} <= said.keys():
        if on_gpu and "precision" in said and said["precision"] is None:
            said["precision"] = "bfloat16"  # None was the device's usual one
        said = FORMER | {name: value for name, value in said.items() if value is not None}
        said = {name: value for name, value in said.items() if name not in IDLE or said[IDLE[name][0]] != IDLE[name][1]}
    return json.dumps({name: said[name] for name in SET_UP if said.get(name) is not None and name not in searched})


def _differing(said: Iterable[dict]) -> list[str]:
    """The fields in which set-ups differ; that one has no field of IDLE is no difference."""
    values = {name: {json.dumps(one.get(name)) for one in said} for name in SET_UP}
    return [name for name in SET_UP if len(values[name] - ({"null"} if name in IDLE else set())) > 1]


def completed(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials whose scores count: stopped ones are censored, the others have none."""
    return trials[trials["status"] == "completed"]


def maps_of(trials: pd.DataFrame, field: str) -> list[dict]:
    """A map column as dicts, which plain readers of Parquet give as lists of pairs."""
    return [entries if isinstance(entries, dict) else dict(entries) for entries in trials[field]]
