"""A results table -> the page's content as JSON types. All is computed here or in `analysis`; the page draws and lists.

A study's values lie on unit axes (`analysis.axes`): 0 is the low end, 1 the high one, on whatever scale. `page.js`
documents how it reads the content.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from tune_cd import balance
from tune_cd.analysis import curves_of
from tune_cd.analysis.axes import Axis, axes_of, written
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
from tune_cd.report.first_screen import cost_words, images_of, setting_words, shares_of, use_it, worth
from tune_cd.report.side_tables import compared_studies, of_study
from tune_cd.report.words import GLOSSARY, Images, letters, summarise
from tune_cd.results.redaction import hide, redact
from tune_cd.results.rows import DIGEST, SPACE, sign_of

SCORES = 24  # largest number of scores to choose from
CELLS = 24  # predicted scores along an axis
MATTERING = 12  # largest number of parameters whose importance is computed: its cost grows with the cube
SHADED = 6  # largest number of parameters for which predictions are drawn
SURE = 0.6  # deviation, as a share of the prior's, below which a prediction is drawn
NEAR, NARROW = 8, 0.8  # the best trainings that a closer view shows, and the widest view that counts as closer
COLUMNS = ("trial_id", "search", "seed", "trial_index", "images_seen", "train_seconds", "direction", "device")
DIGITS = 6  # significant digits of every number on the page
EPOCH = pd.Timestamp(0, tz="UTC").as_unit("us")  # nanoseconds, pandas' default, end in 2262


def payload(
    trials: pd.DataFrame,
    title: str,
    *,
    notes: Sequence[str] = (),
    ranges: Mapping[str, Ranges] | None = None,
    commands: Mapping[str, str] | None = None,
    networks: Mapping[str, Mapping[str, str]] | None = None,
    curves: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """The page's content: one entry per study, the one that ended last first.

    trials: rows of `results.read`, of any number of studies, including none. notes: sentences about the whole page.
    ranges, commands: by study, the range of each parameter and the command that runs the study again, where known.
    networks: by study, the file of each search's trained network. curves: rows of `results.read_curves`, if the trials
    have any. A study that raises an error is left out, and named in `left_out` and in the notes; numbers that a float
    cannot hold are gaps.
    """
    studies: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}

    def made(name: str, make: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        try:
            with np.errstate(all="ignore"):
                found = make()
            json.dumps(found, allow_nan=False)
            return found
        except Exception as error:  # any error: a fault in the rows of one study must not cost the others
            left_out[name] = redact(f"{type(error).__name__}: {error}")
            return []

    for name, rows in trials.groupby("study", sort=True):
        own = [(given or {}).get(name) for given in (ranges, commands, networks)]
        studies += made(f"study {name}", partial(_parts, str(name), rows, *own, curves))
    studies.sort(key=lambda study: -(study["ended"] or 0))
    several = trials[trials["study"].isin({study["study"] for study in studies})]
    tables = made("comparison of studies", partial(compared_studies, several)) if len(studies) > 1 else []
    return {
        "title": redact(title),
        "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "notes": [*map(redact, notes), *(f"{name} could not be shown: {why}" for name, why in left_out.items())],
        "left_out": left_out,
        "glossary": GLOSSARY,
        "tables": tables,
        "studies": studies,
    }


def _parts(name: str, trials: pd.DataFrame, *known: Any) -> list[dict[str, Any]]:
    """A study's entries: one, or one per problem and set-up if scores have no common scale. known: as for `_study`."""
    return [
        _study(f"{name}: {words}" if words else name, part.reset_index(drop=True), *known)
        for words, part in parts_of(trials)
    ]


def _study(
    name: str,
    trials: pd.DataFrame,
    ranges: Ranges | None,
    command: str | None,
    networks: Mapping[str, str] | None,
    curves: pd.DataFrame | None,
) -> dict[str, Any]:
    trials = trials.sort_values(["search", "search_seed", "trial_index", "seed"], ignore_index=True)
    found = findings(trials, ranges)
    axes, shares = axes_of(trials), shares_of(trials)
    paused = runs_of(trials)["paused"].iloc[: len(trials)].to_numpy(dtype=bool)
    at = {axis.name: axis.at(axis.values_of(trials)) for axis in axes}
    varied = [axis for axis in axes if len(np.unique(at[axis.name][~np.isnan(at[axis.name])])) > 1]
    best = _best_rows(found)
    fitted = response(
        varied,
        np.column_stack([at[axis.name] for axis in varied]) if varied else np.empty((len(trials), 0)),
        np.where(np.isnan(shares), 1.0, shares),
        score_column(trials, "val_score").to_numpy(),
    )
    images = images_of(trials)
    network = (networks or {}).get(found.best["search"]) if found.best is not None else None
    important = _importance(fitted) if len(varied) > 1 else []
    params = [_param(axis, at[axis.name], trials, found) for axis in varied]
    first = trials.iloc[0]
    problem = ", ".join(str(first[field]) for field in ("dataset",) if pd.notna(first[field]) and first[field] != "")
    problem += f", {first['loss']} loss" if problem and pd.notna(first["loss"]) else ""
    return {
        "name": name,
        "study": found.study,
        "title": redact(problem or name),
        "ended": max(map(float, filter(None, _seconds(trials["ended_at"]))), default=None),
        "chips": [*_counts(trials, paused), *cost_words(trials, shares), *_splits(images)],
        "words": [hide(asdict(sentence)) for sentence in summarise(found, command, images)],
        "best": None if found.best is None else {"setting": setting_words(axes, found.best), "rows": best},
        "worth": worth(found),
        "importance": important,
        "axes": _first_axes(varied, important, trials),
        "use": [list(way) for way in use_it(found, axes, command, network)],
        "params": params,
        "fixed": [[letters(axis.name), _common(axis, trials)] for axis in axes if axis not in varied],
        "scores": [_score(name, trials) for name in _scores(trials)],
        "trials": _trials(trials, shares, paused),
        "shades": _shades(fitted, at, best[0], params) if best else [],
        "recipes": _recipes(trials, varied, found),
        "only": _slice(varied, at, best),
        "lengths": length_in(json.loads(trials["config"].iloc[0]))[0] or "images seen",
        "learning": _learning(trials, curves),
        "curves": _curves(trials),
        "tables": of_study(found, ranges),
        "facts": _facts(trials),
    }


def _best_rows(found: Findings) -> list[int]:
    """The rows of the best setting, that of the named trial first: the headline, the star and the table agree."""
    if found.best is None:
        return []
    rows = found.trials[(found.trials["setting"] == found.best["setting"]) & (found.trials["status"] == "completed")]
    own = rows["trial_id"] == found.best["trial_id"]
    return [*map(int, rows.index[own]), *map(int, rows.index[~own])]


def _param(axis: Axis, at: np.ndarray, trials: pd.DataFrame, found: Findings) -> dict[str, Any]:
    """An axis as the page draws it. near: the part of it in which the best settings lie, where that is a small one."""
    values = axis.values_of(trials)
    shown = values if axis.kind == "category" else numbers(values)
    return {
        "name": axis.name,
        "label": letters(axis.name),
        "scale": axis.scale,
        "kind": axis.kind,
        "ticks": _ticks(axis, 0.0, 1.0, at),
        "near": _near(axis, at, found),
        "at": numbers(at, 4),
        "values": shown,
        **({"order": list(axis.values)} if axis.kind == "category" else {}),
    }


def _ticks(axis: Axis, low: float, high: float, at: np.ndarray) -> list[list[Any]]:
    ticks = [[round(place, 4), text] for place, text in axis.ticks(low, high)]
    below = axis.scale == "log" and low <= 0 and np.nanmin(at) < 0
    return ([[float(np.nanmin(at)), "≤ 0"]] if below else []) + ticks


def _near(axis: Axis, at: np.ndarray, found: Findings) -> dict[str, Any] | None:
    """The part of an axis with all whole trainings and the best others; None where it is nearly the whole."""
    smaller = sign_of(found.trials.iloc[0].get("mode")) < 0
    rows = searching(found.trials).sort_values("val_score", ascending=smaller, kind="stable")
    kept = {*rows.index[:NEAR], *found.trials.index[found.trials["status"] == "completed"]}
    shown = at[sorted(kept)]
    shown = shown[~np.isnan(shown)]
    if axis.kind != "real" or len(shown) < 3 or found.best is None:
        return None
    room = 0.08 * (shown.max() - shown.min()) + 0.02
    low, high = max(0.0, shown.min() - room), min(1.0, shown.max() + room)
    if high - low > NARROW:
        return None
    return {"from": round(float(low), 4), "to": round(float(high), 4), "ticks": _ticks(axis, low, high, np.ones(1))}


def _common(axis: Axis, trials: pd.DataFrame) -> str:
    return next((written(value) for value in axis.values_of(trials) if value is not None and value == value), "–")


def _importance(fitted: Response | None) -> list[list[Any]]:
    if fitted is None or len(fitted.axes) > MATTERING:
        return []
    found = zip(fitted.axes, fitted.importance())
    return sorted(([letters(axis.name), *numbers(row, 3)] for axis, row in found), key=lambda row: -(row[1] or 0))


def _first_axes(varied: Sequence[Axis], important: Sequence[Sequence[Any]], trials: pd.DataFrame) -> list[int]:
    """The pair of parameters that is shown first: the first weights, else those that matter most."""
    labels, weights = [letters(axis.name) for axis in varied], weights_of(trials)
    order = [n for n, axis in enumerate(varied) if axis.name in weights]
    order += [] if len(order) > 1 else [labels.index(str(label)) for label, *_ in important]
    return [*dict.fromkeys([*order, 0, 1])][:2]


def _shades(
    fitted: Response | None, at: Mapping[str, np.ndarray], best: int, params: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The predicted score of a whole training over each pair of parameters, the others as in the best setting."""
    if fitted is None or not 1 < len(fitted.axes) <= SHADED:
        return []
    centre = np.array([at[axis.name][best] for axis in fitted.axes])
    views = [param["near"] or {"from": 0.0, "to": 1.0} for param in params]
    steps = [
        axis.at(axis.values)
        if axis.kind == "category"
        else view["from"] + (np.arange(CELLS) + 0.5) / CELLS * (view["to"] - view["from"])
        for axis, view in zip(fitted.axes, views)
    ]
    shades = []
    for i, j in combinations(range(len(fitted.axes)), 2):
        x, y = np.meshgrid(steps[i], steps[j])
        places = np.tile(centre, (x.size, 1))
        places[:, i], places[:, j] = x.ravel(), y.ravel()
        expected, deviation = fitted.predict(places)
        cells = np.where(deviation < SURE, expected, np.nan)
        shades.append({"x": i, "y": j, "xs": numbers(steps[i], 4), "ys": numbers(steps[j], 4), "z": numbers(cells, 4)})
    return shades


def _slice(varied: Sequence[Axis], at: Mapping[str, np.ndarray], best: Sequence[int]) -> str:
    """The slice that is shown first, "parameter:value" of the best setting, where a grid hides itself; else ""."""
    if len(varied) < 3 or not best:
        return ""
    places = pd.DataFrame({axis.name: at[axis.name] for axis in varied[:2]})
    crowded = len(places) > 1.5 * len(places.drop_duplicates())
    few = [n for n, axis in enumerate(varied) if n > 1 and 1 < len(np.unique(at[axis.name])) <= 12]
    if not crowded or not few:
        return ""
    place = np.flatnonzero(np.isclose(at[varied[few[0]].name], at[varied[few[0]].name][best[0]]))
    return f"{few[0]}:@{place[0]}"


def _scores(trials: pd.DataFrame) -> list[str]:
    """The scores to choose from: the splits' own, the terms, the others; without duplicates and pair counts."""
    metric = trials["metric_name"].iloc[0]
    own = (metric, f"val_{metric}", f"test_{metric}")
    names = [name for name in score_names(trials) if name not in own and not name.endswith("_pairs")]
    first = [name for name in ("val_score", "test_score", "positive_term", "entropy_term") if name in names]
    first += [name for name in names if name.startswith(TERM)]
    return (first + [name for name in names if name not in first])[:SCORES]


def _score(name: str, trials: pd.DataFrame) -> dict[str, Any]:
    """A score with its label; down: smaller is better."""
    labels = {"positive_term": "positive term", "entropy_term": "entropy term"}
    label = labels.get(name) or score_words(trials, name)
    label = f"term {name.removeprefix(TERM)}" if name.startswith(TERM) else label
    down = sign_of(trials.iloc[0].get("mode")) < 0 if name in SPLITS else "term" in name
    return {"name": name, "label": label, "down": down, "values": numbers(score_column(trials, name))}


def _trials(trials: pd.DataFrame, shares: np.ndarray, paused: np.ndarray) -> dict[str, Any]:
    """The rows as columns. state: one word, the same everywhere on the page. share: of the full length, if known."""
    words = {"completed": "finished", "stopped": "stopped"}
    columns: dict[str, Any] = {name: plain(trials[name]) for name in COLUMNS}
    columns["state"] = [
        "paused" if rests else words.get(str(status), str(status)) for status, rests in zip(trials["status"], paused)
    ]
    columns["share"] = numbers(shares, 3)
    columns["started"] = _seconds(trials["started_at"])
    columns["error"] = [redact(str(error)) if pd.notna(error) else None for error in trials["error"]]
    return columns


def _seconds(times: pd.Series) -> list[float | None]:
    """Times in seconds since 1970; None for missing ones."""
    seconds = (pd.to_datetime(times, utc=True) - EPOCH).dt.total_seconds()
    return [None if np.isnan(value) else round(value, 2) for value in seconds]


def _recipes(trials: pd.DataFrame, varied: Sequence[Axis], found: Findings) -> list[dict[str, Any]]:
    """The lines of settings that a recipe reaches by its learning rate alone, over each pair of weights."""
    weights, averages, lines = weights_of(trials), averages_of(trials), []
    published, names = published_of(trials), [axis.name for axis in varied]
    size = np.nan if found.best is None or pd.isna(found.best["batch_size"]) else float(found.best["batch_size"])
    for first, second in combinations([axis for axis in varied if axis.name in weights and axis.scale == "log"], 2):
        for average in averages:
            if average == balance.PUBLISHED:
                ratio = published.get(second.name, np.nan) / published.get(first.name, np.nan)
            elif average == "global" and np.isnan(size):
                continue
            else:
                ratio = balance.ratio(average, size, per_class(trials))
            x = np.geomspace(first.low, first.high, 2)
            at = {"x": names.index(first.name), "y": names.index(second.name)}
            points = [numbers(pair, 5) for pair in zip(first.at(x), second.at(x * ratio))]
            if None not in points[0] + points[1]:
                lines.append(at | {"label": f"{average} {'weights' if average == 'published' else 'average'}",
                                   "points": points})  # fmt: skip
    return lines


def _learning(trials: pd.DataFrame, curves: pd.DataFrame | None) -> list[dict[str, Any]]:
    """The learning curve of each row that has one of two looks or more."""
    if curves is None or curves.empty:
        return []
    at = {name: row for row, name in enumerate(trials["trial_id"])}
    mine = curves[(curves["study"] == trials["study"].iloc[0]) & curves["trial_id"].isin(list(at))]
    return [
        {"row": at[name], "x": numbers(looks["images_seen"]), "y": numbers(looks["val_score"], 5)}
        for name, looks in mine.sort_values("images_seen", kind="stable").groupby("trial_id", sort=False)
        if len(looks) > 1
    ]


def _curves(trials: pd.DataFrame) -> list[dict[str, Any]]:
    """The best score so far of every search, over whole trainings' worth of images."""
    repeated = trials.groupby("search")["search_seed"].nunique().max() > 1
    return [
        {
            "label": f"{curve.method}, seed {curve.seed}" if repeated else curve.method,
            "search": curve.method,
            "x": numbers(curve.clock("trials"), 4),
            "y": numbers(np.where(np.arange(len(curve)) < curve.waiting, np.nan, curve.reached), 5),
        }
        for curve in curves_of(trials, "val_score")
    ]


def _counts(trials: pd.DataFrame, paused: np.ndarray) -> list[str]:
    """How many trainings there are, and how they ended."""
    status, resting = trials["status"].value_counts(), int(paused.sum())
    stopped = int(status.get("stopped", 0)) - resting
    ends = {"to the end": int(status.get("completed", 0)), "paused": resting, "stopped early": stopped}
    ends |= {name: int(status.get(name, 0)) for name in ("diverged", "failed")}
    said = ", ".join(f"{count:,} {end}" for end, count in ends.items() if count)
    return [f"{len(trials):,} training{'s' * (len(trials) != 1)}: {said}"]


def _splits(images: Images) -> list[str]:
    counts = {"validate": images.val, "test": images.test}
    said = [f"{count:,} {verb}" for verb, count in counts.items() if count is not None]
    return [f"images: {', '.join(said)}"] if said else []


def _facts(trials: pd.DataFrame) -> list[list[str]]:
    """The fields that all trials share: problem, searches, machines, versions and configuration."""
    first = trials.iloc[0]
    searches = ", ".join(f"{number} {search}" for search, number in trials["search"].value_counts(sort=False).items())
    said = [[name, first[name]] for name in ("dataset", "task", "loss")] + [["score", first["metric_name"]]]
    said += [["trials", searches], ["commits", ", ".join(sorted(map(str, trials["git_commit"].dropna().unique())))]]
    machines = {*map(str, trials["device"].dropna()), *map(str, trials["hostname"].dropna())}
    said.append(["machines", ", ".join(sorted(machines))])
    versions = {
        f"{name} {version}" for text in trials["software"].unique() for name, version in json.loads(text).items()
    }
    said.append(["software", ", ".join(sorted(versions))])
    kept = {name for params in trials["params"] for name in dict(params)}
    configs = [json.loads(text) for text in trials["config"].unique()]
    shared = {
        name: value
        for name, value in configs[0].items()
        if name not in (SPACE, DIGEST) and all(name in config and config[name] == value for config in configs)
    }
    values = sorted((name, value) for name, value in hide(shared, kept=list(kept)).items() if value is not None)
    said += [[name, json.dumps(value, ensure_ascii=False)] for name, value in values]
    return [[label, redact(str(text))] for label, text in said if pd.notna(text) and text != ""]


def plain(column: pd.Series) -> list:
    """A column as a list of JSON types; None for missing values."""
    if pd.api.types.is_numeric_dtype(column):
        return numbers(column.astype(float))
    return [None if pd.isna(value) else str(value) for value in column]


def numbers(values: Sequence[float] | np.ndarray | pd.Series, digits: int = DIGITS) -> list:
    """Numbers with so many significant digits, whole ones as int; None for NaN and infinities."""
    array = np.asarray(values, dtype=float)
    finite = np.isfinite(array)
    magnitude = np.floor(np.log10(np.abs(array), where=finite & (array != 0), out=np.zeros_like(array)))
    places = np.clip(digits - 1 - magnitude, 0, 22)  # powers of ten are exact up to 22, so quotients round once
    power = 10.0**places
    rounded = np.where(finite, np.round(np.where(finite, array, 0.0) * power) / power, np.nan)
    whole = finite & (rounded == np.round(rounded)) & (np.abs(rounded) < 2**53)
    kinds = zip(rounded.tolist(), whole.tolist(), finite.tolist())
    return [int(value) if is_whole else value if is_finite else None for value, is_whole, is_finite in kinds]
