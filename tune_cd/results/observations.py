"""Observations for a search that continues, from rows of the table: one `Training` for each configuration."""

import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from math import fsum
from typing import Any

import pandas as pd

from tune_cd.results.rows import FULL_LENGTH, config_of, finite, runs_in, searched_in, sign_of, told_in
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
        told = told_in(config) if full_length else []
        own = _full_length_of(config, full_length[0]) if full_length else None
        # share -> the score of the last run that ended there; [] if it failed
        values = {min(1.0, length / full_length[1]): [sign * value] for length, value in told} if full_length else {}
        for run in [*({"status": "stopped", "scores": {}} | run for run in runs_in(config)), row]:
            if told and run["status"] == "stopped":
                continue
            share = _share(run, full_length, own)
            if (run is row and place in again) or (run is not row and _length(run, full_length) is None):
                continue
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


def _length(run: Mapping[str, Any], full_length: tuple[str, float] | None) -> float | None:
    """How far a run was trained, in the unit of full_length; None: unknown."""
    if full_length is None:
        return None
    seen = run["images_seen"] if full_length[0] == "images_seen" else run["scores"].get(full_length[0])
    return None if pd.isna(seen) or seen <= 0 else float(seen)


def _full_length_of(config: str, name: str) -> float | None:
    """The length `name` of a whole training by a row's own config; None: it does not say."""
    said = config_of(config)
    match said.get(FULL_LENGTH):
        case [own_name, own] if own_name == name:
            return finite(own)
    return finite(said.get(name)) if name == "images_seen" else None  # of our own set-ups


def _share(run: Mapping[str, Any], full_length: tuple[str, float] | None, own: float | None) -> float | None:
    """The share of a whole training at which a run ended; None: it was stopped, nobody knows where. own: see
    `_full_length_of`."""
    length = own if own and run["status"] == "completed" else _length(run, full_length)
    if full_length is not None and length is not None:
        share = length / full_length[1]
        return 1.0 if share >= 1 - ROUNDING else share
    if run["status"] == "stopped":
        return UNKNOWN_SHARE if full_length is None else None
    return 1.0
