"""Comparable parts of a table: rows of one problem and set-up, whose scores have a common scale.

A row's set-up is what its config says besides what was searched: its digest (`results.rows.DIGEST`), which leaves out
what had no effect, or without one, as in rows of a user's own Tuner, the config as it is.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis.scores import BALANCE, categories, names_in
from tune_cd.results.rows import DIGEST, DRAWN, LENGTHS, RENAMED, RUNS, SPACE, TOLD, config_of

PROBLEM = ("dataset", "task", "loss", "metric_name")
"""Scores of trials that differ in one of these fields have no common scale."""

OF_A_TRIAL = frozenset({*BALANCE, "seed", "until", SPACE, LENGTHS, RUNS, TOLD, DRAWN})
"""Keys of a config that say what a trial is and how it was asked for, and nothing of a set-up."""


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


def require_one(trials: pd.DataFrame) -> None:
    """Raise ValueError, naming the parts, if trials are of several problems or set-ups."""
    parts = [part.words for part in comparable(trials)]
    if len(parts) > 1:
        raise ValueError(f"trials of more than one problem or set-up: {parts}; select one, as `parts_of` does")


def comparable(trials: pd.DataFrame, but: Collection[str] = ()) -> Iterator[Part]:
    """The parts of a table, one per problem and set-up; scores of different parts must not be averaged or compared.

    but: fields of set-ups that may differ within a part. Rows that do not say their set-up, such as lost trainings, get
    the most frequent one of their study and search, or else of their problem.
    """
    rows = _named(trials).reset_index(drop=True)  # concatenated tables repeat index labels
    fields = [name for name in PROBLEM if name in rows]
    told = _telling(rows[fields].drop_duplicates().to_dict("records"))
    for _, problem in rows.groupby(fields, dropna=False) if len(rows) else ():
        said = _filled(problem, set_ups(problem, but))
        maps = {text: json.loads(text) for text in said.unique()}
        telling = _telling(list(maps.values()))
        first = problem.iloc[0]
        of_problem = {name: str(first[name]) if pd.notna(first[name]) else None for name in fields}
        for text, part in problem.groupby(said):
            named = [f"{name}={maps[text][name]}" for name in telling if name in maps[text]]
            set_up = " ".join(named or ["default"] * (len(maps) > 1))
            words = [value for name in told if (value := of_problem[name]) is not None]
            yield Part(of_problem, set_up, " ".join([*words, set_up]).strip(), trials.iloc[part.index])


def parts_of(trials: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(words, rows) of every part of `comparable`; the whole table with "" if there is only one."""
    return ((part.words, part.trials) for part in comparable(trials))


def set_ups(trials: pd.DataFrame, but: Collection[str] = ()) -> pd.Series:
    """The set-up of each row of one problem as JSON, without the fields `but` and those that any row searched; or "{}".

    With `but`, a field with an effect in some row counts in all: memories of two sizes are two experiments.
    """
    if "config" not in trials or trials.empty:
        return pd.Series("{}", index=trials.index, dtype=object)
    searched = names_in(trials, "params").union(categories(trials))
    left_out = OF_A_TRIAL.union(searched, map(RENAMED.format, searched), but)
    digests = [config_of(text).get(DIGEST) for text in trials["config"].unique()] if but else []
    counted = frozenset(name for digest in digests if isinstance(digest, dict) for name in digest)
    return trials["config"].map(lambda config: _set_up(config, left_out, counted)).astype(object)


@lru_cache(maxsize=1 << 17)
def _set_up(config: str, left_out: frozenset[str], counted: frozenset[str]) -> str:
    said = config_of(config)
    digest = said.get(DIGEST)
    if isinstance(digest, dict):
        said = {name: value for name, value in said.items() if name in counted} | digest
    drawn = said.get(DRAWN)
    left_out |= set(drawn) if isinstance(drawn, list) and all(isinstance(name, str) for name in drawn) else set()
    told = {name: value for name, value in _flat(said) if name not in left_out and value is not None}
    return json.dumps(told, sort_keys=not isinstance(digest, dict))


def _flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Names, with "/" between levels as in `params`, and values."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}/")
        else:
            yield f"{above}{name}", value


def _named(trials: pd.DataFrame) -> pd.DataFrame:
    """The same rows; those without a dataset get that of their study's other rows, or else the study's name."""
    if "dataset" not in trials or not trials["dataset"].isna().any():
        return trials.copy(deep=False)
    studies = trials["study"] if "study" in trials else pd.Series(np.nan, index=trials.index, dtype=object)
    known = trials[["dataset"]].assign(study=studies).dropna().drop_duplicates("study").set_index("study")["dataset"]
    datasets = trials["dataset"].astype(object)
    for other in (studies.map(known), studies):
        datasets = datasets.where(datasets.notna(), other)
    return trials.assign(dataset=datasets)


def _filled(rows: pd.DataFrame, said: pd.Series) -> pd.Series:
    """The set-up of each row of one problem, with missing ones filled as `comparable` says."""
    known = said.where(said != "{}")
    if not known.isna().any() or known.isna().all():
        return said
    for by in ([name for name in ("study", "search") if name in rows], []):
        groups = known.groupby([rows[name] for name in by] or np.zeros(len(rows)), dropna=False)
        known = known.where(known.notna(), groups.transform(lambda values: values.mode().get(0, np.nan)).astype(object))
    return known


def _telling(maps: Sequence[Mapping[Any, Any]]) -> list[str]:
    """The fewest of their fields, the first ones first, that tell apart all maps that differ."""
    chosen: list[str] = []
    found: set[tuple[str, ...]] = {()}
    for name in dict.fromkeys(name for one in maps for name in one):
        now = {tuple(_text(one.get(other)) for other in (*chosen, name)) for one in maps}
        if len(now) > len(found):
            chosen, found = [*chosen, name], now
    return chosen


def _text(value: object) -> str:
    """A configuration value of any type as text; equal values give equal texts."""
    return "" if value is None or value != value else json.dumps(value, sort_keys=True)
