"""What the table says of configurations, for a search that continues: (configuration, value), one observation each."""

import warnings
from collections.abc import Iterable
from math import fsum
from typing import Any

import pandas as pd

from tune_cd.search.protocol import Told

Params = dict[str, Any]


def history(trials: pd.DataFrame) -> list[Told]:
    """The value of every configuration in these rows of the results table, a search's in asking order.

    Of several trials of one configuration (with other seeds), the mean of those that completed; where none did, the
    best score at which one was stopped, censored; else None.
    """
    rows = trials.sort_values(["study", "search", "trial_index"])
    repeats: dict[tuple[tuple[str, Any], ...], list[tuple[str, float]]] = {}
    for params, status, score in zip(rows["params"], rows["status"], rows["val_score"]):
        repeats.setdefault(tuple(sorted(params.items())), []).append((status, score))
    return [_observation(dict(params), ends) for params, ends in repeats.items()]


def looks(trials: pd.DataFrame, key: str, amount: float) -> list[tuple[Params, dict[float, float | None]]]:
    """What every configuration in these rows has reached, by the share of its full length, in asking order.

    key, amount: what a row's `scores` (or images_seen) says of its length, and that of a whole training. Stopped rows
    that do not say it are left out, with a warning. Of several trials of one configuration the mean; None: it failed,
    or diverged.
    """
    reached: dict[tuple[tuple[str, Any], ...], dict[float, list[float]]] = {}
    unknown = []
    for row in trials.sort_values(["study", "search", "trial_index"]).to_dict("records"):
        seen = row["images_seen"] if key == "images_seen" else row["scores"].get(key)
        known = not pd.isna(seen) and seen > 0
        if row["status"] == "stopped" and not known:
            unknown.append(row["params"])
            continue
        at = 1.0 if row["status"] == "completed" or not known else min(1.0, seen / amount)
        values = reached.setdefault(tuple(sorted(row["params"].items())), {}).setdefault(at, [])
        values += [row["val_score"]] if row["status"] in ("completed", "stopped") else []
    if unknown:
        said = f"{len(unknown)} stopped trials do not say how far they were trained, such as {unknown[0]}"
        warnings.warn(f"{said}: they have no score {key!r}, and are left out", stacklevel=2)
    return [
        (dict(params), {at: mean(values) for at, values in sorted(ends.items())}) for params, ends in reached.items()
    ]


def mean(values: Iterable[float]) -> float | None:
    """The mean over a configuration's trials, to the same digit in whatever order they ended; None without any."""
    listed = list(values)
    return fsum(listed) / len(listed) if listed else None


def _observation(params: Params, ends: list[tuple[str, float]]) -> Told:
    value = mean(score for status, score in ends if status == "completed")
    stopped = [score for status, score in ends if status == "stopped"]
    if value is None and stopped:
        return Told(params, max(stopped), censored=True)
    return Told(params, value)
