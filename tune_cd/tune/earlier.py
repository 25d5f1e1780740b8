"""Rows of the results table that a searcher begins with."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.search.space import Space


def rows_of(path: str | Path, study: str | None, resume: bool, known: Sequence[str]) -> pd.DataFrame:
    """The rows of a results folder, or of one study in it, that a search can begin with.

    resume: they are this same search's; a study without any is begun, with a warning.
    known: statuses of rows of which one is needed, unless it is resumed, and which must share one metric.

    Raises ValueError where they do not fit, see `Adapter.from_results`.
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
    """Whether a table's scores, of the metric `of`, are what a search of this metric and mode is told: the larger the
    better, so "-loss" where the smallest loss is searched for.

    Warns where they are of another metric. Raises ValueError where they are of this one, and of the other sign.
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
    """Of what is known of configurations, each a tuple (h, ...), that of those inside the space; a warning says how
    many are not."""
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
