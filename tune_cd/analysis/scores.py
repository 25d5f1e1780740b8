"""A table's columns for the rest of the analysis: scores by name, parameters in octaves, one problem at a time."""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.balance import PUBLISHED
from tune_cd.results.schema import CONFIRM
from tune_cd.search.directions import WEIGHT
from tune_cd.search.space import KEY_DIGITS, Array

BALANCE = ("Lambda_p", "Lambda_e", "batch_size")
"""The axes of `fig:hp_omniglot`."""

PROBLEM = ("dataset", "task", "loss", "metric_name")
"""Scores of trials that differ in one of these have no common scale."""

SET_UP = (
    "network", "memory", "images_seen", "optimizer", "schedule", "weights", "embedding", "image_size", "k", "margin",
    "temperature", "distance", "q", "augmentation", "crop_scale", "crop_size", "projection", "projector", "bias",
    "precision",
    "learning_rate", "weight_decay", "memory_size", "memory_start", "evaluations", "probe_epochs", "test",
    "test_image_size",
)  # fmt: skip
"""Fields of a built-in training's configuration that its score depends on, besides balance and seed: trials that
differ in one are of different landscapes. A user's own configuration may have any fields; only these are compared,
where they were not searched. Where set-ups have to be told apart, the first ones are named first."""

BEFORE = {
    "weights": "none", "embedding": 0, "crop_scale": 0.25, "crop_size": 0, "projection": "relu", "optimizer": "sgd",
    "weight_decay": 0.0, "schedule": "constant", "precision": "float32", "memory": "none", "test": "split",
    "projector": "", "bias": -10.0,
}  # fmt: skip
"""Fields that came to built-in trainings later than others, and the values of the trainings before that."""

WITHOUT_EFFECT = {
    "learning_rate": ("optimizer", "sgd"), "memory_size": ("memory", "none"), "memory_start": ("memory", "none"),
    "test_image_size": ("test", "split"), "temperature": ("loss", "margin"), "margin": ("loss", "infonce"),
    "q": ("loss", "infonce"), "probe_epochs": ("task", "dml"),
}  # fmt: skip
"""Field of SET_UP -> another field, and its value where the first has no effect on a training (SGD's rate is within
Lambda)."""


@dataclass(frozen=True, eq=False)
class Part:
    """Trainings whose scores have a common scale: the rows of one problem and set-up, from any number of studies.

    problem: PROBLEM's fields, None where rows do not say; where they name no dataset it is their study. set_up: what
    tells its set-up from the table's others of this problem, as few fields as do. words: what tells it from all of the
    table's other parts. Both are "" where there is no other.
    """

    problem: dict[str, str | None]
    set_up: str
    words: str
    trials: pd.DataFrame


def searching(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that a search asked for: all but those that train its choice once more, with fresh seeds."""
    return trials[trials["search"] != CONFIRM] if "search" in trials else trials


def confirming(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials with fresh seeds, of settings that were chosen without them; see `tune_cd.run`'s `--confirm`."""
    return trials[trials["search"] == CONFIRM]


def score_column(trials: pd.DataFrame, name: str) -> pd.Series:
    """A score of every trial as floats, NaN where it was not measured.

    name: a column of the table, or a name in its `scores` map.
    Raises ValueError, with the names there are, for one that no trial has.
    """
    if name in trials:
        values = pd.to_numeric(trials[name], errors="coerce").astype(float)  # some readers give numbers as objects
        if (values.notna() == trials[name].notna()).all():
            return values
    maps = maps_of(trials, "scores")
    if not any(name in scores for scores in maps):
        raise ValueError(f"score {name!r}: one of {score_names(trials)}")
    return pd.Series([scores.get(name, np.nan) for scores in maps], index=trials.index, dtype=float)


def score_names(trials: pd.DataFrame) -> list[str]:
    """The scores that some trial has: the table's own, then those of the `scores` map in alphabetical order."""
    own = [name for name in ("val_score", "test_score", "positive_term", "entropy_term") if trials[name].notna().any()]
    return own + sorted({name for scores in maps_of(trials, "scores") for name in scores}.difference(own))


SPLITS = {"val_score": "validation", "test_score": "test"}
"""A split's score -> its name in words."""


def judged_by(trials: pd.DataFrame) -> str:
    """The score that settings are judged by: of the test split, or where none was tested of the validation split."""
    return "test_score" if trials["test_score"].notna().any() else "val_score"


def score_words(trials: pd.DataFrame, score: str) -> str:
    """A score as an axis says it: "validation r_map", "test r_map"; on a revisited benchmark the test is of another
    metric. "score" where trials have several metrics, and a score's own name where it is neither of the two."""
    split = SPLITS.get(score)
    if split is None or trials.empty:
        return score if split is None else f"{split} score"
    metrics = trials["metric_name"].unique()
    said = (
        (json.loads(text).get("test") for text in trials["config"].unique())
        if score == "test_score" and "config" in trials
        else ()
    )
    benchmark = next((test for test in said if isinstance(test, str)), "split")
    metric = metrics[0] if benchmark == "split" else f"{benchmark} medium mAP"
    return f"{split} {metric if len(metrics) == 1 else 'score'}"


def with_scores(trials: pd.DataFrame) -> pd.DataFrame:
    """The same table with every score of the `scores` map in a column, for analyses that read many of them."""
    maps = maps_of(trials, "scores")
    names = sorted({name for scores in maps for name in scores}.difference(trials.columns))
    columns = {name: np.array([scores.get(name, np.nan) for scores in maps], dtype=float) for name in names}
    return pd.concat([trials, pd.DataFrame(columns, index=trials.index)], axis=1)


def per_class(trials: pd.DataFrame) -> int:
    """k, the items of a class in a batch, as the trials' configurations say; 2 where they do not."""
    said = (json.loads(text).get("k") for text in trials["config"].unique())
    return next((k for k in said if isinstance(k, int) and k), 2)  # rows of lost trainings say nothing


def published_of(trials: pd.DataFrame) -> dict[str, float]:
    """Weight Lambda_<term> -> its published coefficient, of a loss as its trainings' configurations say; else {}."""
    said = (json.loads(text).get(PUBLISHED) for text in trials["config"].unique()) if "config" in trials else ()
    return next((dict(one) for one in said if isinstance(one, dict)), {})


def weights_of(trials: pd.DataFrame) -> list[str]:
    """The weights Lambda_<term> that were searched, of two terms at least: in the terms' order where it is known."""
    maps = maps_of(trials, "params") if "params" in trials else []
    named = sorted({name for params in maps for name in params if name.startswith(WEIGHT)})
    if set(named) == set(BALANCE[:2]):
        return list(BALANCE[:2])
    known = [name for name in published_of(trials) if name in named]
    return (known if len(known) == len(named) else named) if len(named) > 1 else []


def parameter(trials: pd.DataFrame, name: str) -> np.ndarray:
    """Values of a parameter [n_trials], NaN where a trial has none.

    Raises ValueError for one that no trial has, but for the batch size, which rows need not say.
    """
    if name in BALANCE and name in trials and trials[name].notna().any():
        return trials[name].to_numpy(dtype=float, na_value=np.nan)
    maps = maps_of(trials, "params")
    if name != "batch_size" and not any(name in params for params in maps):
        raise ValueError(f"parameter {name!r}: one of {parameter_names(trials)}")
    return np.array([params.get(name, np.nan) for params in maps], dtype=float)


def parameter_of(trial: pd.Series, name: str) -> float:
    """A parameter of one row; NaN where it does not say."""
    value = trial[name] if name in BALANCE else dict(trial["params"]).get(name)
    return float(value) if pd.notna(value) else np.nan


def parameter_names(trials: pd.DataFrame) -> list[str]:
    """The balance's three where trials have them, else every searched parameter: weights of terms first, then in
    alphabetical order."""
    if len(trials) and trials["Lambda_p"].notna().any():
        return list(BALANCE)
    weights = weights_of(trials)
    others = {name for params in maps_of(trials, "params") for name in params}.difference(weights)
    return [*weights, *sorted(others)] or list(BALANCE)


def present(trials: pd.DataFrame) -> list[str]:
    """Those of `parameter_names` that some trial has."""
    return [name for name in parameter_names(trials) if name not in BALANCE or trials[name].notna().any()]


def varied(trials: pd.DataFrame) -> tuple[str, ...]:
    """Those of `present` that took several values."""
    columns = {name: parameter(trials, name) for name in present(trials)}
    return tuple(name for name, values in columns.items() if len(np.unique(values[~np.isnan(values)])) > 1)


def settings(trials: pd.DataFrame) -> pd.DataFrame:
    """Every parameter of every trial, the searched ones and the balance's three, in octaves.

    Equal rows are equal settings.
    """
    table = pd.DataFrame(maps_of(trials, "params"), index=trials.index, dtype=float)
    for name in filter(trials.columns.__contains__, BALANCE):
        given = trials[name].astype(float)
        table[name] = given.fillna(table[name]) if name in table else given
    values = table.to_numpy(dtype=float)
    logs = np.log2(values, out=values.copy(), where=values > 0)
    return pd.DataFrame(np.round(logs, KEY_DIGITS), index=trials.index, columns=table.columns)


def octaves(values: np.ndarray, name: str) -> Array:
    """log2 of a parameter's values, NaN kept. Raises ValueError for one that is not positive."""
    if (values <= 0).any():
        raise ValueError(f"parameter {name!r} = {values[values <= 0][0]:g}: log-scaled parameters are > 0")
    logs: Array = np.log2(values)
    return logs


def require_one(trials: pd.DataFrame, but: Container[str] = ()) -> None:
    """Raises ValueError, saying what there is, if trials differ in a field of PROBLEM, or of SET_UP other than
    `but`."""
    named = _named(trials)
    several = [name for name in PROBLEM if name in named and named[name].nunique() > 1]
    if several:
        there_are = named[several].drop_duplicates().values.tolist()
        raise ValueError(f"trials of more than one {' and '.join(several)}: {there_are}; select one")
    if "config" in trials and len(trials):
        said = [json.loads(text) for text in set_ups(trials, but).unique() if text != "{}"]
        differing = {name: sorted({_value(one, name) for one in said}) for name in _differing(said)}
        if differing:
            fields = ", ".join(f"{name} {values}" for name, values in differing.items())
            raise ValueError(f"trials of more than one set-up: {fields}; select one, as `parts_of` does")


def comparable(trials: pd.DataFrame, but: Container[str] = ()) -> Iterator[Part]:
    """The parts of a table, each of one problem and set-up: scores of different parts are never averaged or chosen
    among.

    but: fields of SET_UP that may differ within a part. Rows that do not say their set-up, as of trainings that were
    lost, count with the most frequent one of their study and search, or else of their problem.
    """
    rows = _named(trials).reset_index(drop=True)  # labels of tables that were put together repeat
    rows["set_up"] = set_ups(rows, but) if "config" in rows else "{}"
    fields = [name for name in PROBLEM if name in rows]
    told = _telling(rows[fields].drop_duplicates().to_dict("records"), fields)
    for _, problem in rows.groupby(fields, dropna=False) if len(rows) else ():
        said = _filled(problem)
        maps = {text: json.loads(text) for text in said.unique()}
        telling = _telling(list(maps.values()), SET_UP)
        first = problem.iloc[0]
        of_problem = {name: str(first[name]) if pd.notna(first[name]) else None for name in fields}
        for text, part in problem.groupby(said):
            set_up = " ".join(
                f"{name}={_value(maps[text], name)}"
                for name in telling
                if name in maps[text] or name not in WITHOUT_EFFECT
            )
            words = [value for name in told if (value := of_problem[name]) is not None]
            words += [set_up] * bool(set_up)
            yield Part(of_problem, set_up, " ".join(words), trials.iloc[part.index])


def parts_of(trials: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The words and the rows of every part of `comparable`: the whole table with "" where there is one."""
    return ((part.words, part.trials) for part in comparable(trials))


def set_ups(trials: pd.DataFrame, but: Container[str] = ()) -> pd.Series:
    """The SET_UP fields other than `but` that each trial's configuration has and no search chose, as JSON; "{}" for
    none.

    Built-in trainings of earlier releases have the fields of BEFORE too: the same training has the same set-up.
    """
    searched = [
        tuple(sorted({name.split("/")[0] for name in params} & set(SET_UP))) for params in maps_of(trials, "params")
    ]
    left_out = tuple(name for name in SET_UP if name in but)
    devices = trials["device"] if "device" in trials else [None] * len(trials)
    on_gpu = [isinstance(device, str) and device != "cpu" for device in devices]
    texts = [
        _set_up(config, (*names, *left_out), gpu) for config, names, gpu in zip(trials["config"], searched, on_gpu)
    ]
    return pd.Series(texts, index=trials.index, dtype=object)


@lru_cache(maxsize=1 << 17)
def _set_up(config: str, left_out: tuple[str, ...], on_gpu: bool) -> str:
    said = json.loads(config)
    if all(said.get(name) is None or name in left_out for name in SET_UP):
        return "{}"  # a user's own
    if on_gpu and "precision" in said and said["precision"] is None:
        said["precision"] = "bfloat16"  # None was the device's usual one
    said = BEFORE | {name: value for name, value in said.items() if value is not None}
    idle = {
        name for name, (other, value) in WITHOUT_EFFECT.items() if other not in left_out and said.get(other) == value
    }
    return json.dumps(
        {name: said[name] for name in SET_UP if name in said and name not in idle and name not in left_out}
    )


def _named(trials: pd.DataFrame) -> pd.DataFrame:
    """The same rows; those that name no dataset have that of their study's other rows, or the study itself."""
    if "dataset" not in trials or not trials["dataset"].isna().any():
        return trials.copy(deep=False)
    studies = trials["study"] if "study" in trials else pd.Series(np.nan, index=trials.index, dtype=object)
    known = trials[["dataset"]].assign(study=studies).dropna().drop_duplicates("study").set_index("study")["dataset"]
    return trials.assign(dataset=trials["dataset"].astype(object).fillna(studies.map(known)).fillna(studies))


def _filled(rows: pd.DataFrame) -> pd.Series:
    """The set-up of each row of one problem, as `comparable` counts those that do not say theirs."""
    known = rows["set_up"].where(rows["set_up"] != "{}")
    if not known.isna().any() or known.isna().all():
        return rows["set_up"]
    for by in (["study", "search"], []):
        fields = [name for name in by if name in rows]
        groups = (
            known.groupby([rows[name] for name in fields], dropna=False)
            if fields
            else known.groupby(np.zeros(len(rows)))
        )
        known = known.fillna(groups.transform(lambda values: values.mode().get(0, np.nan)).astype(object))
    return known.fillna("{}")


def _telling(maps: Sequence[Mapping[Any, Any]], fields: Sequence[str]) -> list[str]:
    """As few of these fields, the first ones first, as tell all of the maps apart that can be."""
    chosen: list[str] = []
    found: set[tuple[str, ...]] = {()}
    for name in fields:
        now = {tuple(_text(one.get(other)) for other in (*chosen, name)) for one in maps}
        if len(now) > len(found):
            chosen, found = [*chosen, name], now
    return chosen


def _text(value: object) -> str:
    """A value of a configuration, of whatever type, so that equal ones are equal texts."""
    return "" if value is None or value != value else json.dumps(value, sort_keys=True)


def _value(set_up: Mapping[str, Any], name: str) -> str:
    return str(set_up.get(name, "default"))


def _differing(said: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields in which set-ups differ. A field without effect in one of them makes no difference by that alone."""
    values = {name: {json.dumps(one.get(name)) for one in said} for name in SET_UP}
    return [name for name in SET_UP if len(values[name] - ({"null"} if name in WITHOUT_EFFECT else set())) > 1]


def completed(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials whose scores count: stopped ones are censored, the others have none."""
    return trials[trials["status"] == "completed"]


def maps_of(trials: pd.DataFrame, field: str) -> list[dict[str, float]]:
    """A map column as dicts, which plain readers of Parquet give as lists of pairs."""
    return [entries if isinstance(entries, dict) else dict(entries) for entries in trials[field]]
