"""Comparable parts of a table: rows of one problem and set-up, whose scores have a common scale."""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis.choices import choices_of
from tune_cd.analysis.scores import maps_of

PROBLEM = ("dataset", "task", "loss", "metric_name")
"""Scores of trials that differ in one of these fields have no common scale."""

SET_UP = (
    "network", "memory", "images_seen", "optimizer", "schedule", "weights", "embedding", "image_size", "k", "margin",
    "temperature", "distance", "q", "negatives", "mining", "augmentation", "crop_scale", "crop_size", "projection",
    "projector", "bias", "precision", "learning_rate", "weight_decay", "memory_size", "memory_start", "evaluations",
    "probe_epochs", "probe_steps", "probe_rate", "probe_features", "test", "test_image_size", "distortion",
)  # fmt: skip
"""Fields of a built-in configuration, besides balance and seed, that influence the score: trials that differ in one
belong to different landscapes. A user's own configuration may have any fields; only these are compared, and only if
they were not searched. Set-ups are told apart by the first of these fields that suffice."""

WITHOUT_EFFECT = {
    "learning_rate": ("optimizer", "sgd"), "memory_size": ("memory", "none"), "memory_start": ("memory", "none"),
    "test_image_size": ("test", "split"), "temperature": ("loss", "margin"), "margin": ("loss", "infonce"),
    "q": ("loss", "infonce"),
    **dict.fromkeys(("probe_epochs", "probe_steps", "probe_rate", "probe_features"), ("task", "dml")),
}  # fmt: skip
"""Field of SET_UP -> (another field, its value with which the first has no effect on a training). SGD's rate is part of
Lambda."""


@dataclass(frozen=True, eq=False)
class Part:
    """Trainings whose scores have a common scale: the rows of one problem and set-up, from any number of studies.

    problem: PROBLEM's fields, None if rows do not say; rows without a dataset have their study instead. set_up: the
    fewest fields that tell its set-up from the table's others of this problem. words: the fewest words that tell it
    from all other parts of the table. Both are "" if there is no other.
    """

    problem: dict[str, str | None]
    set_up: str
    words: str
    trials: pd.DataFrame


def require_one(trials: pd.DataFrame, but: Container[str] = ()) -> None:
    """Raise ValueError with the differing values if trials differ in a field of PROBLEM, or of SET_UP outside `but`."""
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
    """The parts of a table, one per problem and set-up; scores of different parts must not be averaged or compared.

    but: fields of SET_UP that may differ within a part. Rows that do not say their set-up, such as lost trainings, get
    the most frequent one of their study and search, or else of their problem.
    """
    rows = _named(trials).reset_index(drop=True)  # concatenated tables repeat index labels
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
    """(words, rows) of every part of `comparable`; the whole table with "" if there is only one."""
    return ((part.words, part.trials) for part in comparable(trials))


def set_ups(trials: pd.DataFrame, but: Container[str] = ()) -> pd.Series:
    """Each trial's SET_UP fields as JSON, without `but` and without the searched ones; "{}" if none is left."""
    asked = zip(maps_of(trials, "params"), choices_of(trials))
    searched = [tuple(sorted({name.split("/")[0] for name in (*h, *chosen)} & set(SET_UP))) for h, chosen in asked]
    left_out = tuple(name for name in SET_UP if name in but)
    texts = [_set_up(config, (*names, *left_out)) for config, names in zip(trials["config"], searched)]
    return pd.Series(texts, index=trials.index, dtype=object)


@lru_cache(maxsize=1 << 17)
def _set_up(config: str, left_out: tuple[str, ...]) -> str:
    said = {name: value for name, value in json.loads(config).items() if value is not None}
    idle = {
        name for name, (other, value) in WITHOUT_EFFECT.items() if other not in left_out and said.get(other) == value
    }
    return json.dumps(
        {name: said[name] for name in SET_UP if name in said and name not in idle and name not in left_out}
    )


def _named(trials: pd.DataFrame) -> pd.DataFrame:
    """The same rows; those without a dataset get that of their study's other rows, or else the study's name."""
    if "dataset" not in trials or not trials["dataset"].isna().any():
        return trials.copy(deep=False)
    studies = trials["study"] if "study" in trials else pd.Series(np.nan, index=trials.index, dtype=object)
    known = trials[["dataset"]].assign(study=studies).dropna().drop_duplicates("study").set_index("study")["dataset"]
    of_study = studies.map(known)
    datasets = trials["dataset"].astype(object)
    datasets = datasets.where(datasets.notna(), of_study.where(of_study.notna(), studies))
    return trials.assign(dataset=datasets)


def _filled(rows: pd.DataFrame) -> pd.Series:
    """The set-up of each row of one problem, with missing ones filled as `comparable` says."""
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
        known = known.where(known.notna(), groups.transform(lambda values: values.mode().get(0, np.nan)).astype(object))
    return known.where(known.notna(), "{}")


def _telling(maps: Sequence[Mapping[Any, Any]], fields: Sequence[str]) -> list[str]:
    """The fewest of these fields, the first ones first, that tell apart all maps that differ."""
    chosen: list[str] = []
    found: set[tuple[str, ...]] = {()}
    for name in fields:
        now = {tuple(_text(one.get(other)) for other in (*chosen, name)) for one in maps}
        if len(now) > len(found):
            chosen, found = [*chosen, name], now
    return chosen


def _text(value: object) -> str:
    """A configuration value of any type as text; equal values give equal texts."""
    return "" if value is None or value != value else json.dumps(value, sort_keys=True)


def _value(set_up: Mapping[str, Any], name: str) -> str:
    return str(set_up.get(name, "default"))


def _differing(said: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields in which set-ups differ. A field that is only absent in some, for lack of effect, does not count."""
    values = {name: {json.dumps(one.get(name)) for one in said} for name in SET_UP}
    return [name for name in SET_UP if len(values[name] - ({"null"} if name in WITHOUT_EFFECT else set())) > 1]
