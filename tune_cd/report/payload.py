"""A results table -> the page's content as JSON types; `page.js` documents how it reads the content."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis import comparable, curves_of
from tune_cd.analysis.parts import parts_of
from tune_cd.analysis.runs import length_in, runs_of
from tune_cd.analysis.scores import score_words
from tune_cd.analysis.tables import cell_text
from tune_cd.report.findings import Findings, findings, is_known
from tune_cd.report.first_screen import chips, images_of, shares_of, use_it, worth
from tune_cd.report.landscape import landscape
from tune_cd.report.numbers import numbers, plain, plain_axis, seconds
from tune_cd.report.words import GLOSSARY, setting, summarise
from tune_cd.results.redaction import hide, redact
from tune_cd.results.rows import DIGEST, SPACE, sign_of

COLUMNS = ("trial_id", "search", "seed", "trial_index", "images_seen", "train_seconds", "direction", "error")
STATES = {"completed": "trained to the end", "stopped": "stopped early"}
STUDIES = "The setting that each study chose by validation; test scores are means over fresh seeds where there are any."


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
    known: by study, where known, the `command` that runs the study again, and `networks`, the file of each search's
    trained network. curves: rows of `results.read_curves`, if the trials have any. A study that raises an error is left
    out, and named in `left_out` and in the notes; numbers that a float cannot hold are gaps. Secrets are hidden.
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
    tables = made("comparison of studies", partial(_compared, several)) if len(studies) > 1 else []
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
    command: str | None = None,
    networks: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    trials = trials.sort_values(["search", "search_seed", "trial_index", "seed"], ignore_index=True)
    found, images, shares = findings(trials), images_of(trials), shares_of(trials)
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
        "ended": max(filter(None, seconds(trials["ended_at"])), default=None),
        "chips": chips(trials, shares, states, images),
        "words": [[head, *said] for head, said in summarise(found, command, images).items()],
        "best": best,
        "setting": setting(found, found.best, " ") if best else [],
        "worth": _worth(found),
        "use": use_it(found, command, network),
        "trials": {column: plain(trials[column]) for column in COLUMNS}
        | {"state": states, "share": numbers(shares, 3), "started": seconds(trials["started_at"])},
        "learning": _learning(trials, curves),
        "curves": _curves(trials),
        "facts": _facts(trials),
    } | landscape(found, trials, np.where(np.isnan(shares), 1.0, shares), best)


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


# Curves and facts -------------------------------------------------------------------------------------------------


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


def _facts(trials: pd.DataFrame) -> list[list[str]]:
    """The fields that all trials share: problem, searches, machines, versions and configuration."""
    first, configs = trials.iloc[0], [json.loads(text) for text in trials["config"].unique()]
    software = [json.loads(text).items() for text in trials["software"].unique()]
    listed = {
        "trials": [f"{number} {search}" for search, number in trials["search"].value_counts(sort=False).items()],
        "commits": trials["git_commit"].dropna(),
        "machines": [*trials["device"].dropna(), *trials["hostname"].dropna()],
        "software": [f"{name} {version}" for versions in software for name, version in versions],
    }
    said = {name: first[name] for name in ("dataset", "task", "loss")} | {"score": first["metric_name"]}
    said |= {name: ", ".join(sorted(set(map(str, texts)))) for name, texts in listed.items()}
    shared = {
        name: value
        for name, value in configs[0].items()
        if name not in (SPACE, DIGEST) and all(name in config and config[name] == value for config in configs)
    }
    hidden = {name: value for name, value in sorted(hide(shared).items()) if value is not None}
    said |= {name: json.dumps(value, ensure_ascii=False) for name, value in hidden.items()}
    return [[name, redact(str(text))] for name, text in said.items() if pd.notna(text) and text != ""]


# Several studies --------------------------------------------------------------------------------------------------


def _compared(trials: pd.DataFrame) -> list[dict[str, Any]]:
    """A table for each task, or own metric, of several studies: the best of each."""
    tables, named = [], trials["dataset"].notna()
    groups = [(_task(part.problem, part.set_up), part.trials) for part in comparable(trials[named])]
    groups += [(f"Studies by their {metric}", rows) for metric, rows in trials[~named].groupby("metric_name")]
    for title, rows in groups:
        if rows["study"].nunique() > 1:
            chosen = [_chosen(findings(own.reset_index(drop=True))) for _, own in rows.groupby("study")]
            smaller = sign_of(rows.iloc[0].get("mode")) < 0
            frame = pd.DataFrame(chosen).sort_values("validation", ascending=smaller, kind="stable")
            frame = frame.dropna(axis=1, how="all")
            cells = [[cell_text(value) for value in row] for row in frame.itertuples(index=False)]
            tables.append({"title": title, "columns": list(frame), "rows": cells, "note": STUDIES})
    return tables


def _task(problem: Mapping[str, str | None], set_up: str) -> str:
    return f"Studies of {', '.join(filter(None, [problem.get('dataset'), problem.get('loss'), set_up]))}"


def _chosen(found: Findings) -> dict[str, Any]:
    """The row of a study in a comparison."""
    best, fresh = found.best, found.fresh
    row = {"study": found.study, "best setting": "none", "validation": None, "test": None}
    if best is not None:
        row |= {"best setting": ", ".join(setting(found, best)), "validation": round(float(best["val_score"]), 4)}
        row["test"] = f"{best['test_score']:.4f}" if is_known(best["test_score"]) else None
        if fresh is not None and fresh.score == "test_score":
            half = f" ±{fresh.value - fresh.low:.4f}" if is_known(fresh.low) else ""
            row["test"] = f"{fresh.value:.4f}{half}"
    completed = int((found.trials["status"] == "completed").sum())
    return row | {"trainings": len(found.trials), "to the end": completed}
