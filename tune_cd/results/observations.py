"""Observations for a search that continues, from rows of the table: one `Training` for each configuration."""

import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from math import fsum
from typing import Any

import pandas as pd

from tune_cd.results.rows import finite, length_in, reached_in, runs_in, searched_in, sign_of, told_in
from tune_cd.search.category import text_of
from tune_cd.search.protocol import ROUNDING
from tune_cd.search.space import Configuration
from tune_cd.search.training import Proposal, Training, curve_of

UNKNOWN_SHARE = 0.5
"""The share of its full length at which a stopped trial counts if no length is known."""


def trainings(
    trials: pd.DataFrame, full_length: tuple[str, float] | None = None, again: Collection[Hashable] = ()
) -> list[Training]:
    """What is known of every configuration in these rows of the results table, each search's in the order of asking.
    Larger values are better, whatever the rows' `mode`.

    The earlier runs that a row lists count as well. Several trials of one configuration (with other seeds) give their
    mean at each share, without those that failed there; if all failed, so did the configuration.
    full_length: (name of the length in a row's `scores`, or "images_seen"; its value at the end of a whole training).
    A completed row of a shorter full length, or that ended below, counts at its own share. Stopped rows without a
    length are then left out, with a warning; without full_length they count at UNKNOWN_SHARE.
    again: index of the rows that are run again, of which only the earlier runs count.
    """
    known: dict[tuple[tuple[str, str], ...], Training] = {}
    reached: dict[tuple[tuple[str, str], ...], dict[float, list[float]]] = {}
    unknown = []
    for place, row in trials.sort_values(["study", "search", "trial_index"]).to_dict("index").items():
        h, sign = searched_in(row), sign_of(row.get("mode"))
        config = row.get("config", "{}")
        values: dict[float, list[float]] = {}  # share -> the score of the last run that ended there; [] if it failed
        runs: list[dict[Any, Any]] = []
        if full_length is not None:
            values = {min(1.0, length / full_length[1]): [sign * value] for length, value in told_in(config)}
            earlier = [{"status": "stopped", "scores": {}} | run for run in runs_in(config)] if not values else []
            runs = [run for run in earlier if reached_in(run, full_length[0]) > 0]
        if place not in again and not (values and row["status"] == "stopped"):
            runs.append(row)
        for run in runs:
            share = _share(run, config, full_length)
            if share is None:
                unknown.append(h)
                continue
            score = finite(run["val_score"]) if run["status"] in ("completed", "stopped") else None
            values[share] = [] if score is None else [sign * score]
        key = tuple(sorted((name, text_of(value)) for name, value in h.items()))
        known.setdefault(key, _first(h, {str(name): value for name, value in row.items()}))
        for share, scores in values.items():
            reached.setdefault(key, {}).setdefault(share, []).extend(scores)
    if unknown:
        said = f"{len(unknown)} stopped trials do not say how far they were trained, such as {unknown[0]}"
        warnings.warn(f"{said}: they have no score {full_length and full_length[0]!r}, and are left out", stacklevel=2)
    curves = {key: curve_of({at: mean(scores) for at, scores in ends.items()}) for key, ends in reached.items()}
    return [replace(known[key], curve=curve) for key, curve in curves.items()]


def mean(values: Iterable[float]) -> float | None:
    """The mean over a configuration's trials; None without any. Exact summation: their order does not matter."""
    listed = list(values)
    return fsum(value / len(listed) for value in listed) if listed else None


def _first(h: Configuration, row: Mapping[str, Any]) -> Training:
    """A configuration as it was asked for, without any value."""
    direction, position = row.get("direction"), row.get("line_position")
    if not isinstance(direction, str):
        return Training(h)
    origin = Proposal(h, direction, 0.0 if position is None or pd.isna(position) else float(position))
    return Training(h, origin=origin, trial_index=int(row["trial_index"]))


def _share(run: Mapping[str, Any], config: str, full_length: tuple[str, float] | None) -> float | None:
    """The share of a whole training at which a run of a trial of this config ended; None: stopped, not known where."""
    stopped = run["status"] == "stopped"
    if full_length is None:
        return UNKNOWN_SHARE if stopped else 1.0
    (name, whole), (own_name, own) = full_length, length_in(config)
    length = own if run["status"] == "completed" and own_name == name and own > 0 else reached_in(run, name)
    if length > 0:
        share = length / whole
        return 1.0 if share >= 1 - ROUNDING else share
    return None if stopped else 1.0
