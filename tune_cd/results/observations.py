"""Observations for a search that continues, from rows of the table: one for each configuration."""

import warnings
from collections.abc import Collection, Iterable
from math import fsum
from typing import Any

import pandas as pd

from tune_cd.results.rows import runs_in
from tune_cd.search.protocol import Told

Params = dict[str, Any]


def history(trials: pd.DataFrame) -> list[Told]:
    """The value of every configuration in these rows of the results table, each search's in the order of asking.

    Of several trials of one configuration (with other seeds) the value is the mean over those that completed. If none
    completed, it is the best score of a stopped trial, censored; without one it is None.
    """
    rows = trials.sort_values(["study", "search", "trial_index"])
    repeats: dict[tuple[tuple[str, Any], ...], list[tuple[str, float]]] = {}
    for params, status, score in zip(rows["params"], rows["status"], rows["val_score"]):
        repeats.setdefault(tuple(sorted(params.items())), []).append((status, score))
    return [_observation(dict(params), ends) for params, ends in repeats.items()]


def looks(
    trials: pd.DataFrame, key: str, amount: float, again: Collection[Any] = ()
) -> list[tuple[Params, dict[float, float | None]]]:
    """(configuration, {share of the full length: value}) of every configuration in these rows, in the order of asking.

    The earlier runs that a row lists count as well. key: name of the length in a row's `scores`, or "images_seen".
    amount: the length of a whole training. again: index of the rows of which only the earlier runs count. Stopped rows
    without a length are left out, with a warning. Several trials of one configuration at the same share give their
    mean. None: the configuration failed or diverged there.
    """
    reached: dict[tuple[tuple[str, Any], ...], dict[float, list[float]]] = {}
    unknown = []
    for place, row in trials.sort_values(["study", "search", "trial_index"]).to_dict("index").items():
        values: dict[float, list[float]] = {}  # share -> the score of the last run that ended there; [] if it failed
        for run in [*({"status": "stopped", "scores": {}} | run for run in runs_in(row.get("config", "{}"))), row]:
            seen = run["images_seen"] if key == "images_seen" else run["scores"].get(key)
            known = not pd.isna(seen) and seen > 0
            if (run is row and place in again) or (run is not row and not known):
                continue
            if run["status"] == "stopped" and not known:
                unknown.append(row["params"])
                continue
            at = 1.0 if run["status"] == "completed" or not known else min(1.0, seen / amount)
            values[at] = [run["val_score"]] if run["status"] in ("completed", "stopped") else []
        if values:
            ends = reached.setdefault(tuple(sorted(row["params"].items())), {})
            for at, scores in values.items():
                ends.setdefault(at, []).extend(scores)
    if unknown:
        said = f"{len(unknown)} stopped trials do not say how far they were trained, such as {unknown[0]}"
        warnings.warn(f"{said}: they have no score {key!r}, and are left out", stacklevel=2)
    return [
        (dict(params), {at: mean(values) for at, values in sorted(ends.items())}) for params, ends in reached.items()
    ]


def mean(values: Iterable[float]) -> float | None:
    """The mean over a configuration's trials; None without any. Exact summation: their order does not matter."""
    listed = list(values)
    try:
        return fsum(listed) / len(listed) if listed else None
    except OverflowError:
        return fsum(value / len(listed) for value in listed)


def _observation(params: Params, ends: list[tuple[str, float]]) -> Told:
    value = mean(score for status, score in ends if status == "completed")
    stopped = [score for status, score in ends if status == "stopped"]
    if value is None and stopped:
        return Told(params, max(stopped), censored=True)
    return Told(params, value)
