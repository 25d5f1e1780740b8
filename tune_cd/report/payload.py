"""A results table -> the page's content as JSON types. All is computed here or in `analysis`; the page draws and lists.

A study's values lie on unit axes (`analysis.axes`): 0 is the low end, 1 the high one, on whatever scale. `page.js`
documents how it reads the content.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis import curves_of
from tune_cd.analysis.axes import Axis, written
from tune_cd.analysis.importance import Response, response
from tune_cd.analysis.parts import parts_of
from tune_cd.analysis.runs import length_in, runs_of
from tune_cd.analysis.scores import (
    SPLITS,
    per_class,
    published_of,
    score_column,
    score_names,
    score_words,
    searching,
    weights_of,
)
from tune_cd.balance import TERM
from tune_cd.report.findings import Findings, Ranges, averages_of, findings
from tune_cd.report.first_screen import chips, images_of, shares_of, use_it, worth
from tune_cd.report.side_tables import compared_studies, paused_trainings
from tune_cd.report.words import GLOSSARY, letters, recipe_words, setting, summarise
from tune_cd.results.redaction import hide, redact
from tune_cd.results.rows import DIGEST, SPACE, sign_of

SCORES = 24  # largest number of scores to choose from
CELLS = 24  # predicted scores along an axis
MATTERING = 12  # largest number of parameters whose importance is computed: its cost grows with the cube
SHADED = 6  # largest number of parameters for which predictions are drawn
SURE = 0.6  # deviation, as a share of the prior's, below which a prediction is drawn
NEAR, NARROW = 8, 0.8  # the best trainings that a closer view shows, and the widest view that counts as closer
FEW = 12  # largest number of values of a parameter that slices
COLUMNS = ("trial_id", "search", "seed", "trial_index", "images_seen", "train_seconds", "direction", "error")
STATES = {"completed": "trained to the end", "stopped": "stopped early"}
EPOCH = pd.Timestamp(0, tz="UTC").as_unit("us")  # nanoseconds, pandas' default, end in 2262


def payload(
    trials: pd.DataFrame,
    title: str,
    *,
    notes: Sequence[str] = (),
    known: Mapping[str, Mapping[str, Any]] | None = None,
    curves: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """The page's content: one entry per study, the one that ended last first.

    trials: rows of `results.read`, of any number of studies, including none. notes: sentences about the whole page.
    known: by study, where known, `ranges` of each parameter, the `command` that runs the study again, and `networks`,
    the file of each search's trained network. curves: rows of `results.read_curves`, if the trials have any. A study
    that raises an error is left out, and named in `left_out` and in the notes; numbers that a float cannot hold are
    gaps. Secrets are hidden.
    """
    studies: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}

    def made(name: str, make: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        try:
            with np.errstate(all="ignore"):
                found = hide(make())
            json.dumps(found, allow_nan=False)
            return found
        except Exception as error:  # any error: a fault in the rows of one study must not cost the others
            left_out[name] = redact(f"{type(error).__name__}: {error}")
            return []

    for name, rows in trials.groupby("study", sort=True):
        studies += made(f"study {name}", partial(_parts, str(name), rows, curves, **(known or {}).get(str(name), {})))
    studies.sort(key=lambda study: -(study["ended"] or 0))
    several = trials[trials["study"].isin({study["study"] for study in studies})]
    tables = made("comparison of studies", partial(compared_studies, several)) if len(studies) > 1 else []
    return {
        "title": redact(title),
        "notes": [*map(redact, notes), *(f"{name} could not be shown: {why}" for name, why in left_out.items())],
        "left_out": left_out,
        "glossary": GLOSSARY,
        "tables": tables,
        "studies": studies,
    }


def _parts(name: str, trials: pd.DataFrame, curves: pd.DataFrame | None, **known: Any) -> list[dict[str, Any]]:
    """A study's entries: one, or one per problem and set-up if scores have no common scale."""
    return [
        _study(f"{name}: {words}" if words else name, part.reset_index(drop=True), curves, **known)
        for words, part in parts_of(trials)
    ]


def _study(
    name: str,
    trials: pd.DataFrame,
    curves: pd.DataFrame | None,
    ranges: Ranges | None = None,
    command: str | None = None,
    networks: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    trials = trials.sort_values(["search", "search_seed", "trial_index", "seed"], ignore_index=True)
    found, images, shares = findings(trials, ranges), images_of(trials), shares_of(trials)
    paused = runs_of(trials)["paused"].iloc[: len(trials)]
    states = ["paused" if rests else STATES.get(status, status) for status, rests in zip(trials["status"], paused)]
    best, first = _best_rows(found), trials.iloc[0]
    network = (networks or {}).get(found.best["search"]) if best else None
    problem = [str(first["dataset"])] if pd.notna(first["dataset"]) and first["dataset"] else []
    problem += [f"{first['loss']} loss"] if problem and pd.notna(first["loss"]) else []
    return {
        "name": name,
        "study": found.study,
        "title": ", ".join(problem) or name,
        "ended": max(filter(None, _seconds(trials["ended_at"])), default=None),
        "chips": chips(trials, shares, states, images),
        "words": [[head, *said] for head, said in summarise(found, command, images).items()],
        "best": best,
        "setting": setting(found, found.best, " ") if best else [],
        "worth": _worth(found),
        "use": use_it(found, command, network),
        "scores": [_score(name, trials) for name in _scores(trials)],
        "trials": {column: plain(trials[column]) for column in COLUMNS}
        | {"state": states, "share": numbers(shares, 3), "started": _seconds(trials["started_at"])},
        "learning": _learning(trials, curves),
        "curves": _curves(trials),
        "tables": paused_trainings(trials, ranges),
        "facts": _facts(trials),
    } | _space(trials, found, np.where(np.isnan(shares), 1.0, shares))


def _best_rows(found: Findings) -> list[int]:
    """The rows of the best setting, that of the named trial first: the headline, the star and the table agree."""
    if found.best is None:
        return []
    rows = found.trials[(found.trials["setting"] == found.best["setting"]) & (found.trials["status"] == "completed")]
    own = rows["trial_id"] == found.best["trial_id"]
    return [*map(int, rows.index[own]), *map(int, rows.index[~own])]


def _worth(found: Findings) -> dict[str, Any]:
    told = worth(found)
    values = [row[name] for row in told["rows"] for name in ("value", "low", "high")]
    return told | {"axis": plain_axis(told["label"], values, room=0.08)}


# Parameters and scores --------------------------------------------------------------------------------------------


def _space(trials: pd.DataFrame, found: Findings, shares: np.ndarray) -> dict[str, Any]:
    """What is drawn of the parameters: their axes, importance, predictions and recipes."""
    places = {axis.name: axis.at(axis.values_of(trials)) for axis in found.axes}
    varied = [axis for axis in found.axes if len(np.unique(places[axis.name][~np.isnan(places[axis.name])])) > 1]
    at = np.column_stack([places[axis.name] for axis in varied]) if varied else np.empty((len(trials), 0))
    fitted = response(varied, at, shares, score_column(trials, "val_score").to_numpy())
    important = _importance(fitted) if fitted is not None and 1 < len(varied) <= MATTERING else []
    params = [_param(axis, column, trials, found) for axis, column in zip(varied, at.T)]
    best = _best_rows(found)
    shaded = fitted is not None and best and 1 < len(varied) <= SHADED
    return {
        "params": params,
        "fixed": [f"{letters(axis.name)} {_common(axis, trials)}" for axis in found.axes if axis not in varied],
        "importance": important,
        "axes": _first_axes(varied, important, trials),
        "shades": _shades(fitted, at[best[0]], params) if shaded else [],
        "recipes": _recipes(trials, varied, found),
        "only": _slice(at, best),
    }


def _param(axis: Axis, at: np.ndarray, trials: pd.DataFrame, found: Findings) -> dict[str, Any]:
    """An axis as the page draws it. near: the part of it in which the best settings lie, where that is a small one."""
    values, least = axis.values_of(trials), float(np.nanmin(at))
    below = [[least, "≤ 0"]] if axis.scale == "log" and least < 0 else []
    return {
        "name": axis.name,
        "label": letters(axis.name),
        "scale": axis.scale,
        "kind": axis.kind,
        "ticks": below + _ticks(axis),
        "near": _near(axis, at, found),
        "at": numbers(at, 4),
        "values": values if axis.kind == "category" else numbers(values),
        "order": list(axis.values) if axis.kind == "category" else None,
    }


def _ticks(axis: Axis, low: float = 0.0, high: float = 1.0) -> list[list[Any]]:
    return [[round(place, 4), text] for place, text in axis.ticks(low, high)]


def _near(axis: Axis, at: np.ndarray, found: Findings) -> dict[str, Any] | None:
    """The part of an axis with all whole trainings and the best others; None where it is nearly the whole."""
    smaller = sign_of(found.trials.iloc[0].get("mode")) < 0
    rows = searching(found.trials).sort_values("val_score", ascending=smaller, kind="stable")
    shown = at[sorted({*rows.index[:NEAR], *found.trials.index[found.trials["status"] == "completed"]})]
    shown = shown[~np.isnan(shown)]
    if axis.kind != "real" or len(shown) < 3 or found.best is None:
        return None
    room = 0.08 * (shown.max() - shown.min()) + 0.02
    low, high = float(max(0.0, shown.min() - room)), float(min(1.0, shown.max() + room))
    narrow = high - low <= NARROW
    return {"from": round(low, 4), "to": round(high, 4), "ticks": _ticks(axis, low, high)} if narrow else None


def _common(axis: Axis, trials: pd.DataFrame) -> str:
    return next((written(value) for value in axis.values_of(trials) if value is not None and value == value), "–")


def _importance(fitted: Response) -> list[list[Any]]:
    """[label, share, low, high] of each parameter, the largest share first."""
    found = zip(fitted.axes, fitted.importance())
    return sorted(([letters(axis.name), *numbers(row, 3)] for axis, row in found), key=lambda row: -(row[1] or 0))


def _first_axes(varied: Sequence[Axis], important: Sequence[Sequence[Any]], trials: pd.DataFrame) -> list[int]:
    """The pair of parameters that is shown first: the first weights, else those that matter most."""
    labels, weights = [letters(axis.name) for axis in varied], weights_of(trials)
    order = [n for n, axis in enumerate(varied) if axis.name in weights]
    order += [] if len(order) > 1 else [labels.index(str(label)) for label, *_ in important]
    return [*dict.fromkeys([*order, 0, 1])][:2]


def _shades(fitted: Response, centre: np.ndarray, params: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The predicted score of a whole training over each pair of parameters, the others as in the best setting.

    x, y: the parameters; xs, ys: edges of the cells on their axes; z: scores, row by row of ys, None where not known.
    """
    edges = []
    for axis, param in zip(fitted.axes, params):
        low, high = (param["near"]["from"], param["near"]["to"]) if param["near"] else (0.0, 1.0)
        count = len(axis.values) if axis.kind == "category" else CELLS
        room = 0.5 / (count - 1) if axis.kind == "category" else 0.0
        edges.append(np.linspace(low - room, high + room, count + 1))
    shades = []
    for i, j in combinations(range(len(edges)), 2):
        x, y = np.meshgrid(*((edges[n][1:] + edges[n][:-1]) / 2 for n in (i, j)))
        places = np.tile(centre, (x.size, 1))
        places[:, i], places[:, j] = x.ravel(), y.ravel()
        expected, deviation = fitted.predict(places)
        cells = numbers(np.where(deviation < SURE, expected, np.nan), 4)
        shades.append({"x": i, "y": j, "xs": numbers(edges[i], 4), "ys": numbers(edges[j], 4), "z": cells})
    return shades


def _slice(at: np.ndarray, best: Sequence[int]) -> list[int] | None:
    """[parameter, row] of the slice that is shown first, the best setting's, where a grid hides itself."""
    crowded = len(at) > 1.5 * len(np.unique(at[:, :2], axis=0))
    few = [n for n in range(2, at.shape[1]) if len(np.unique(at[:, n])) <= FEW]
    return [few[0], best[0]] if crowded and few and best else None


def _recipes(trials: pd.DataFrame, varied: Sequence[Axis], found: Findings) -> list[dict[str, Any]]:
    """The lines of settings that a recipe reaches by its learning rate alone, over each pair of weights."""
    weights, published, lines = weights_of(trials), published_of(trials), []
    size = np.nan if found.best is None or pd.isna(found.best["batch_size"]) else float(found.best["batch_size"])
    own = [(n, axis) for n, axis in enumerate(varied) if axis.name in weights and axis.scale == "log"]
    for ((i, first), (j, second)), average in product(combinations(own, 2), averages_of(trials)):
        if average == "global" and np.isnan(size):
            continue
        if average == balance.PUBLISHED:
            ratio = published.get(second.name, np.nan) / published.get(first.name, np.nan)
        else:
            ratio = balance.ratio(average, size, per_class(trials))
        x = np.geomspace(first.low, first.high, 2)
        points = [numbers(pair, 5) for pair in zip(first.at(x), second.at(x * ratio))]
        if None not in points[0] + points[1]:
            lines.append({"x": i, "y": j, "label": recipe_words(average), "points": points})
    return lines


def _scores(trials: pd.DataFrame) -> list[str]:
    """The scores to choose from: the splits' own, the terms, the others; without duplicates and pair counts."""
    metric = trials["metric_name"].iloc[0]
    own = (metric, f"val_{metric}", f"test_{metric}")
    names = [name for name in score_names(trials) if name not in own and not name.endswith("_pairs")]
    first = [name for name in ("val_score", "test_score", "positive_term", "entropy_term") if name in names]
    return list(dict.fromkeys([*first, *(name for name in names if name.startswith(TERM)), *names]))[:SCORES]


def _score(name: str, trials: pd.DataFrame) -> dict[str, Any]:
    """A score with its axis; down: smaller is better."""
    labels = {"positive_term": "positive term", "entropy_term": "entropy term"}
    label = f"term {name.removeprefix(TERM)}" if name.startswith(TERM) else score_words(trials, name)
    down = sign_of(trials.iloc[0].get("mode")) < 0 if name in SPLITS else "term" in name
    values = numbers(score_column(trials, name))
    return {"name": name, "down": down, "values": values} | plain_axis(labels.get(name, label), values)


def plain_axis(label: str, values: Sequence[float | None], zero: bool = False, room: float = 0.04) -> dict[str, Any]:
    """The linear axis of plain numbers as the page draws it, with room on both sides; zero: from 0 on."""
    known = [value for value in values if value is not None] or [0.0, 1.0]
    low, high = min([0.0] * zero + known), max(known)
    half = high / 2 - low / 2 or abs(high) / 20 or 0.5  # halves: the range may be as wide as a float allows
    low, high = (low if zero else low - 2 * room * half), high + 2 * room * half
    low, high = (float(np.clip(end, -1.79e308, 1.79e308)) for end in (low, high))
    return {"label": label, "low": low, "high": high, "ticks": _ticks(Axis("", "real", "linear", low, high))}


# Curves, rows and facts -------------------------------------------------------------------------------------------


def _lines(lines: list[dict[str, Any]], across: str, up: str) -> dict[str, Any]:
    """Lines x, y with their common axes."""
    x, y = ([value for line in lines for value in line[name] if value is not None] for name in "xy")
    return {"lines": lines if y else [], "x": plain_axis(across, x, zero=True), "y": plain_axis(up, y)}


def _learning(trials: pd.DataFrame, curves: pd.DataFrame | None) -> dict[str, Any]:
    """The learning curve of each row that has one of two looks or more."""
    at, lines = {name: row for row, name in enumerate(trials["trial_id"])}, []
    if curves is not None and len(curves):
        mine = curves[(curves["study"] == trials["study"].iloc[0]) & curves["trial_id"].isin(list(at))]
        for name, looks in mine.sort_values("images_seen", kind="stable").groupby("trial_id", sort=False):
            if len(looks) > 1 and looks["val_score"].notna().any():
                x, y = numbers(looks["images_seen"]), numbers(looks["val_score"], 5)
                lines.append({"row": at[name], "x": x, "y": y})
    across = length_in(json.loads(trials["config"].iloc[0]))[0] or "images seen"
    return _lines(lines, across, score_words(trials, "val_score"))


def _curves(trials: pd.DataFrame) -> dict[str, Any]:
    """The best score so far of every search, over whole trainings' worth of images."""
    lines = []
    for curve in curves_of(trials, "val_score"):
        reached = np.where(np.arange(len(curve)) < curve.waiting, np.nan, curve.reached)
        lines.append({"search": curve.method, "x": numbers(curve.clock("trials"), 4), "y": numbers(reached, 5)})
    return _lines(lines, "whole trainings' worth", score_words(trials, "val_score"))


def _seconds(times: pd.Series) -> list[float | None]:
    """Times in seconds since 1970; None for missing ones."""
    seconds = (pd.to_datetime(times, utc=True) - EPOCH).dt.total_seconds()
    return [None if np.isnan(value) else round(value, 2) for value in seconds]


def _facts(trials: pd.DataFrame) -> list[list[str]]:
    """The fields that all trials share: problem, searches, machines, versions and configuration."""
    first, configs = trials.iloc[0], [json.loads(text) for text in trials["config"].unique()]
    searches = trials["search"].value_counts(sort=False)
    software = [json.loads(text) for text in trials["software"].unique()]
    said: dict[str, Any] = {name: first[name] for name in ("dataset", "task", "loss")} | {
        "score": first["metric_name"],
        "trials": ", ".join(f"{number} {search}" for search, number in searches.items()),
        "commits": _listed(trials["git_commit"].dropna()),
        "machines": _listed([*trials["device"].dropna(), *trials["hostname"].dropna()]),
        "software": _listed(f"{name} {version}" for versions in software for name, version in versions.items()),
    }
    shared = {
        name: value
        for name, value in configs[0].items()
        if name not in (SPACE, DIGEST) and all(name in config and config[name] == value for config in configs)
    }
    for name, value in sorted(hide(shared).items()):
        if value is not None:
            said[name] = json.dumps(value, ensure_ascii=False)
    return [[name, redact(str(text))] for name, text in said.items() if pd.notna(text) and text != ""]


def _listed(texts: Iterable[Any]) -> str:
    return ", ".join(sorted(set(map(str, texts))))


def plain(column: pd.Series) -> list:
    """A column as a list of JSON types; None for missing values."""
    if pd.api.types.is_numeric_dtype(column):
        return numbers(column.astype(float))
    return [None if pd.isna(value) else str(value) for value in column]


def numbers(values: Any, digits: int = 6) -> list:
    """Numbers [n] with so many significant digits, whole ones as int; None for NaN and infinities."""
    told = (_rounded(value, digits) if isfinite(value) else None for value in np.asarray(values, float).tolist())
    return [int(value) if value is not None and value.is_integer() and abs(value) < 2**53 else value for value in told]


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}") if abs(value) < 10**digits else float(round(value))
