"""A results table -> the page's content as JSON types: trials, cells of the landscape, curves, lines, sentences.

Everything is computed here or in `analysis`; the page only draws and lists. `page.js` says how it reads the content.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis import Curve, cells, curves_of, search_lines
from tune_cd.analysis.runs import counted, runs_of
from tune_cd.analysis.scores import (
    BALANCE,
    parameter,
    parts_of,
    per_class,
    present,
    published_of,
    score_column,
    score_names,
    score_words,
    weights_of,
    with_scores,
)
from tune_cd.report.findings import Ranges, averages_of, findings, grid_rows, is_grid
from tune_cd.report.side_tables import compared_studies, of_study
from tune_cd.report.words import letters, recipe_words, summarise
from tune_cd.results.redaction import redact

DIGITS = 6  # significant ones of every number in the page
TOP = 8  # best cells of a slice that are outlined, as in fig:hp_omniglot
SLIDER_VALUES = 12  # an axis of more values cannot be looked at slice by slice
SCORES = 40  # choices of a score, at most
TERM = "term_"  # how the names of terms begin, other than the positive and the entropy one
LEARNING = 300  # learning curves in one chart, at most
COLUMNS = (
    "trial_id", "search", "search_seed", "seed", "trial_index", "attempt", "direction", "line_position", "status",
    "images_seen", "train_seconds", "hostname", "device", "gpus",
)  # fmt: skip


UNDER_WAY = {
    "head": "Under way",
    "text": "This is what is known so far; the page is written again until the search has ended.",
    "kind": "note",
}


def payload(
    trials: pd.DataFrame,
    title: str,
    *,
    notes: Sequence[str] = (),
    ranges: Mapping[str, Ranges] | None = None,
    commands: Mapping[str, str] | None = None,
    refresh: float | None = None,
    curves: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """The page's content: a study after the other, by name.

    trials: rows of `results.read`, of any number of studies, also none. notes: sentences about the whole. ranges,
    commands: by study, the range of each parameter and the command that runs the study again, where they are known.
    curves: rows of `results.read_curves`, where the trials have any.
    refresh: seconds after which the page looks for a newer one of itself; None: never.
    """
    studies = [
        _study(label, rows.reset_index(drop=True), (ranges or {}).get(name), (commands or {}).get(name), curves)
        for name, label, rows in _parts(trials)
    ]
    for study in studies if refresh is not None else ():  # what to try next is said when it has ended
        study["words"] = [UNDER_WAY, *(sentence for sentence in study["words"] if sentence["kind"] != "next")]
    return {
        "title": title,
        "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "refresh": refresh,
        "notes": [redact(note) for note in notes],
        "tables": compared_studies(trials) if len(studies) > 1 else [],
        "studies": studies,
    }


def _parts(trials: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """(study, label, rows): a study is one part, or one a problem and set-up where its scores have no common scale."""
    for name, rows in trials.groupby("study", sort=True):
        for words, part in parts_of(rows):
            yield str(name), f"{name}: {words}" if words else str(name), part


def _study(
    name: str, trials: pd.DataFrame, ranges: Ranges | None, command: str | None, curves: pd.DataFrame | None
) -> dict[str, Any]:
    trials = trials.sort_values(["search", "search_seed", "trial_index", "seed"], ignore_index=True)
    wide = with_scores(trials)
    found = findings(trials, ranges)
    scores, whole = _scores(trials), grid_rows(trials)
    shown = wide.assign(status=counted(runs_of(trials))["status"])  # a short training's score has its place
    planes = [_plane(trials, shown, axes, scores) for axes in planes_of(trials, found.names)]
    full = planes[0]["grid"] is not None and planes[0]["grid"]["full"]
    return {
        "name": name,
        "study": found.study,
        "facts": _facts(trials),
        "words": [asdict(sentence) for sentence in summarise(found, command)],
        "status": found.status,
        "scores": [{"name": score, "label": _label(score, trials), "marked": not _is_term(score)} for score in scores],
        "trials": _trials(wide, scores),
        "earlier": _earlier(trials),
        "top": TOP,
        "curves": _curves(trials),
        "learning": _learning(trials, curves),
        "tables": of_study(found, whole if full else None),
        "provenance": _provenance(trials),
        **planes[0],
        "planes": [_named(plane) for plane in planes] if len(planes) > 1 else [],
    }


def _named(plane: dict[str, Any]) -> dict[str, Any]:
    """With the name by which it is chosen."""
    return {"name": ", ".join(axis["label"] for axis in plane["axes"][:2]), **plane}


def _plane(trials: pd.DataFrame, shown: pd.DataFrame, axes: list[str], scores: list[str]) -> dict[str, Any]:
    """What is drawn over two parameters, with a slider where there is a third."""
    whole = grid_rows(trials)
    full = is_grid(whole, axes[:2]) and (len(axes) < 3 or is_grid(whole, axes))
    content = _grid(shown.loc[(whole if full else trials).index], axes, scores, full) if axes else None
    return {
        "axes": [{"name": axis, "label": letters(axis), "log": True} for axis in axes],
        "grid": content,
        "averages": _averages(trials, axes, content),
        "lines": _lines(trials, axes),
    }


def _scores(trials: pd.DataFrame) -> list[str]:
    """The scores to choose from: the splits' own, the terms, then the others. Repeated ones and pair counts are left
    out."""
    metric = trials["metric_name"].iloc[0]
    names = [
        name
        for name in score_names(trials)
        if name not in (metric, f"val_{metric}", f"test_{metric}") and not name.endswith("_pairs")
    ]
    first = [name for name in ("val_score", "test_score", "positive_term", "entropy_term") if name in names]
    first += [name for name in names if name.startswith(TERM)]
    return (first + [name for name in names if name not in first])[:SCORES]


def planes_of(trials: pd.DataFrame, names: Sequence[str]) -> list[list[str]]:
    """What to look along: `axes_of`, and of three weights or more every pair of them."""
    pairs = list(combinations(weights_of(trials), 2))
    if len(pairs) < 2:
        return [axes_of(trials, names)]
    return [axes_of(trials, names, pair) for pair in pairs]


def axes_of(trials: pd.DataFrame, names: Sequence[str], plane: Sequence[str] = ()) -> list[str]:
    """Up to three parameters to look along: those of the plane, or the balance's two, or those of most values; the
    third has few values."""
    of_balance = trials[list(BALANCE[:2])].notna().all(axis=1).any()
    balanced = list(plane or (BALANCE[:2] if of_balance else weights_of(trials)[:2]))
    columns = {name: parameter(trials, name) for name in names}
    positive = {name: column for name, column in columns.items() if not (column <= 0).any()}  # axes are logarithmic
    values = {name: len(np.unique(column[~np.isnan(column)])) for name, column in positive.items()}
    others = sorted((name for name in values if name not in balanced), key=lambda name: -values[name])
    axes = [*balanced, *sorted(others[: 2 - len(balanced)])]
    few = [name for name in others if name not in axes and values[name] <= SLIDER_VALUES]
    return axes + few[:1] if len(axes) == 2 else axes


def _grid(wide: pd.DataFrame, axes: list[str], scores: list[str], full: bool) -> dict[str, Any]:
    """Every setting that was tried along the axes: means over trainings, spreads, and which trials they are."""
    tried = cells(wide, "val_score", axes)
    ticks, at = zip(*(np.unique(tried[axis].to_numpy(dtype=float), return_inverse=True) for axis in axes))
    absent = 3 - len(axes)
    measured = {score: cells(wide, score, axes) for score in scores}
    return {
        "full": full,
        "ticks": [_numbers(tick) for tick in ticks] + [[None]] * absent,
        "cells": {
            "at": np.column_stack([*at, *[np.zeros(len(tried), dtype=int)] * absent]).tolist(),
            "trials": [sorted(map(int, rows)) for rows in tried["trials"]],
            "lost": tried["lost"].tolist(),
            "values": {score: _numbers(table["value"]) for score, table in measured.items()},
            "spread": {score: _numbers(table["spread"]) for score, table in measured.items()},
        },
    }


def _averages(trials: pd.DataFrame, axes: list[str], content: dict | None) -> list[dict[str, Any]]:
    """The diagonals of the conventional recipes, one ratio Lambda_e / Lambda_p a value of the slider."""
    published = published_of(trials)
    if content is not None and published.keys() >= set(axes[:2]):
        ratios = [published[axes[1]] / published[axes[0]]] * len(content["ticks"][2])
        return [{"name": balance.PUBLISHED, "label": recipe_words(balance.PUBLISHED), "ratio": ratios}]
    if axes[:2] != list(BALANCE[:2]) or content is None:
        return []
    sizes = (
        content["ticks"][2]
        if axes[2:] == ["batch_size"]
        else [trials["batch_size"].dropna().max() if trials["batch_size"].nunique() == 1 else None]
    )
    averages = []
    for average in averages_of(trials):
        if average == "separate" or None not in sizes:
            averages.append(
                {
                    "name": average,
                    "label": f"{average} average",
                    "ratio": [balance.ratio(average, size or np.nan, per_class(trials)) for size in sizes],
                }
            )
    return averages


def _trials(trials: pd.DataFrame, scores: list[str]) -> dict[str, Any]:
    """The rows as columns; parameters and scores by name below them."""
    columns: dict[str, Any] = {name: _plain(trials[name]) for name in COLUMNS}
    for name, field in (("started", "started_at"), ("ended", "ended_at")):
        seconds = (pd.to_datetime(trials[field], utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
        columns[name] = [None if np.isnan(value) else round(value, 2) for value in seconds]
    columns["error"] = [redact(str(error)) if pd.notna(error) else None for error in trials["error"]]
    columns["params"] = {name: _numbers(parameter(trials, name)) for name in present(trials)}
    columns["scores"] = {name: _numbers(score_column(trials, name)) for name in scores}
    return columns


def _earlier(trials: pd.DataFrame) -> list[list[float]]:
    """[row, start, end] of the runs before the last one of trials that paused and went on."""
    runs = runs_of(trials)[len(trials) :]
    at = dict(zip(trials["trial_id"], range(len(trials))))
    return [
        [at[run.trial_id], round(run.started_at.timestamp(), 2), round(run.ended_at.timestamp(), 2)]
        for run in runs.itertuples()
    ]


def _label(score: str, trials: pd.DataFrame) -> str:
    if score.startswith(TERM):
        return f"term {score.removeprefix(TERM)}"
    return {"positive_term": "positive term", "entropy_term": "entropy term"}.get(score) or score_words(trials, score)


def _is_term(score: str) -> bool:
    """Whether it is a term of the loss, of which less is no worse and more no better."""
    return score.endswith("_term") or score.startswith(TERM)


def _curves(trials: pd.DataFrame) -> list[dict[str, Any]]:
    """Best so far of every search: by validation, and the test score of what was best by then, where there is one."""
    repeated = trials.groupby("search")["search_seed"].nunique().max() > 1
    on_gpus = (trials["gpus"].astype(float) > 0).any()
    curves = []
    tested = curves_of(trials) if trials["test_score"].notna().any() else [None] * len(trials)
    for best, test in zip(curves_of(trials, "val_score"), tested):
        none = np.full(len(best), np.nan)
        curves.append(
            {
                "search": best.method,
                "label": f"{best.method}, seed {best.seed}" if repeated else best.method,
                "seed": best.seed,
                "trials": _numbers(best.clock("trials")),
                "best": _held(best),
                "test": _held(test) if test and test.score == "test_score" else _numbers(none),
                "seconds": _numbers(best.clock("seconds")),
                "gpu_seconds": _numbers(best.clock("gpu_seconds") if on_gpus else none),
            }
        )
    return curves


def _learning(trials: pd.DataFrame, curves: pd.DataFrame | None) -> list[dict[str, Any]]:
    """The learning curve of each row that has one; none where they are more than can be told apart."""
    if curves is None or len(trials) > LEARNING:
        return []
    at = {name: row for row, name in enumerate(trials["trial_id"])}
    mine = curves[(curves["study"] == trials["study"].iloc[0]) & curves["trial_id"].isin(list(at))]
    return [
        {"row": at[name], "images": _numbers(looks["images_seen"]), "scores": _numbers(looks["val_score"])}
        for name, looks in mine.groupby("trial_id", sort=False)
    ]


def _held(curve: Curve) -> list:
    """What a curve reached, nothing before the first score."""
    return _numbers(np.where(np.arange(len(curve)) < curve.waiting, np.nan, curve.reached))


def _lines(trials: pd.DataFrame, axes: Sequence[str]) -> list[dict[str, Any]]:
    """The searches' paths in the plane of the first two axes: line searches in the order of asking."""
    if len(axes) < 2:
        return []
    placed = np.isfinite([parameter(trials, axis) for axis in axes[:2]]).all(axis=0)
    first = trials[placed].drop_duplicates(["search", "search_seed", "trial_index"])
    repeated = trials.groupby("search")["search_seed"].nunique().max() > 1
    return [
        {
            "search": f"{search}, seed {seed}" if repeated else str(search),
            "direction": line.direction,
            "points": [_numbers(point) for point in line.points],
            "trials": [int(row) for row in line.trials],
        }
        for (search, seed), rows in first.groupby(["search", "search_seed"], dropna=False, sort=False)
        for line in search_lines(rows, (axes[0], axes[1]))
    ]


def _facts(trials: pd.DataFrame) -> list[list[str]]:
    first = trials.iloc[0]
    searches = ", ".join(f"{number} {search}" for search, number in trials["search"].value_counts(sort=False).items())
    facts = [
        ["dataset", first["dataset"]],
        ["task", first["task"]],
        ["loss", first["loss"]],
        ["score", first["metric_name"]],
        ["trials", searches],
    ]
    begun, ended = trials["started_at"].min(), trials["ended_at"].max()
    if pd.notna(begun) and pd.notna(ended):
        runs = runs_of(trials)
        busy = (runs["ended_at"] - runs["started_at"]).dt.total_seconds()
        gpu = float((busy * runs["gpus"].astype(float).fillna(0.0)).sum())
        facts += [
            ["wall clock", _duration((ended - begun).total_seconds())],
            ["time of all trials", _duration(float(busy.sum()))],
        ]
        facts += [["GPU time", _duration(gpu)]] if gpu else []
    facts.append(
        ["machines", ", ".join(sorted({*map(str, trials["device"].dropna()), *map(str, trials["hostname"].dropna())}))]
    )
    return [[label, str(text)] for label, text in facts if text is not None and text == text and text != ""]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _provenance(trials: pd.DataFrame) -> list[list[str]]:
    """What all trials had in common: versions, commits, and the configuration."""
    said = [["commits", ", ".join(sorted(map(str, trials["git_commit"].dropna().unique())))]]
    versions = {
        f"{name} {version}" for text in trials["software"].unique() for name, version in json.loads(text).items()
    }
    said += [["software", ", ".join(sorted(versions))]]
    configs = [json.loads(text) for text in trials["config"].unique()]
    shared = {
        name: value
        for name, value in configs[0].items()
        if all(name in config and config[name] == value for config in configs)
    }
    said += [
        [str(name), redact(json.dumps(value, ensure_ascii=False))]
        for name, value in sorted(shared.items())
        if value is not None
    ]
    return [pair for pair in said if pair[1]]


def _plain(column: pd.Series) -> list:
    """A column as JSON types."""
    if pd.api.types.is_numeric_dtype(column):
        return _numbers(column.astype(float))
    return [None if pd.isna(value) else str(value) for value in column]


def _numbers(values: Sequence[float] | np.ndarray | pd.Series) -> list:
    """Numbers with DIGITS significant digits, whole ones without a point; None for NaN and infinities."""
    array = np.asarray(values, dtype=float)
    finite = np.isfinite(array)
    magnitude = np.floor(np.log10(np.abs(array), where=finite & (array != 0), out=np.zeros_like(array)))
    places = np.clip(DIGITS - 1 - magnitude, 0, 22)  # powers of ten up to there are exact, and quotients the nearest
    power = 10.0**places
    rounded = np.where(finite, np.round(np.where(finite, array, 0.0) * power) / power, np.nan)
    whole = finite & (rounded == np.round(rounded)) & (np.abs(rounded) < 2**53)
    kinds = zip(rounded.tolist(), whole.tolist(), finite.tolist())
    return [int(value) if is_whole else value if is_finite else None for value, is_whole, is_finite in kinds]
