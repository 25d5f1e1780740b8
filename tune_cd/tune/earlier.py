"""Rows of the results table that a searcher starts from."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.search.space import Space


def rows_of(path: str | Path, study: str | None, resume: bool, known: Sequence[str]) -> pd.DataFrame:
    """The rows of a results folder, or of one study in it, for a search to start from.

    resume: the rows belong to this same search; a missing results folder gives an empty table and a warning.
    known: statuses of usable rows. These rows must share one metric, and without resume there must be at least one.

    Raises ValueError if the rows do not fit, see `Adapter.from_results`.
    """
    trials = _of_one_search(path, study) if resume else results.read(path, study)
    of_use = trials[trials["status"].isin(known)]
    if (of_use.empty and not resume) or of_use["metric_name"].nunique() > 1:
        names = sorted(of_use["metric_name"].unique())
        raise ValueError(
            f"{path}, study {study}: {len(of_use)} of {len(trials)} trials {' or '.join(known)}, with metrics "
            f"{names}; one metric is needed"
        )
    return trials


def check_scores(of: str, metric: str, mode: str) -> None:
    """Check that a table's scores, named `of`, are the values that a search of this metric and mode maximises.

    With mode "min" these are negated: "-loss" for the metric "loss". Warns if the scores are of another metric. Raises
    ValueError if they are of this metric with the other sign.
    """
    ours, other = (metric, f"-{metric}") if mode == "max" else (f"-{metric}", metric)
    if of == other:
        raise ValueError(
            f"the table's scores are {of!r}, and mode {mode!r} needs {ours!r}: ResultsCallback must have had the "
            "mode of the Tuner"
        )
    if of != ours:
        warnings.warn(f"the table's scores are {of!r}, and count as {ours!r}, which is searched for", stacklevel=2)


def inside(known: Sequence[tuple[Any, ...]], space: Space) -> list[tuple[Any, ...]]:
    """Keep the observations, tuples (h, ...), with h inside the space; warn of the number left out."""
    kept = []
    for h, *said in known:
        try:
            kept.append((space.check(h), *said))
        except ValueError:
            continue
    if outside := len(known) - len(kept):
        warnings.warn(f"{outside} of {len(known)} known trials lie outside {space} and are left out", stacklevel=2)
    return kept


def _of_one_search(path: str | Path, study: str | None) -> pd.DataFrame:
    if study is None:
        raise ValueError("to resume, name the study")
    merge(path)
    try:
        trials = results.read(path, study)
    except FileNotFoundError:
        warnings.warn(f"there is no results folder {path} yet: the search of study {study} begins", stacklevel=4)
        return results.TRIALS.empty_table().to_pandas()
    if trials["search"].nunique() > 1:
        raise ValueError(
            f"{path}, study {study}: trials of several searches, {sorted(trials['search'].unique())}; one search "
            "is resumed"
        )
    return trials
