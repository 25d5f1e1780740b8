"""A results table -> the page's content as JSON types; `page.js` documents how it reads the content."""

import json
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis import comparable, curves_of
from tune_cd.analysis.parts import parts_of
from tune_cd.analysis.runs import runs_of
from tune_cd.analysis.scores import score_words
from tune_cd.analysis.tables import cell_text
from tune_cd.report.findings import Findings, is_known
from tune_cd.report.first_screen import chips, images_of, shares_of, use_it, worth
from tune_cd.report.landscape import landscape
from tune_cd.report.numbers import numbers, plain, plain_axis, seconds
from tune_cd.report.words import GLOSSARY, setting, summarise
from tune_cd.results.redaction import hide, redact
from tune_cd.results.rows import DIGEST, IMAGES, SPACE, config_of, length_in, reached_in
from tune_cd.results.schema import CUT

COLUMNS = ("trial_id", "search", "seed", "trial_index", "images_seen", "train_seconds", "direction", "error")
STATES = {"completed": "trained to the end", "stopped": "stopped early"}
STUDIES = "The setting that each study chose by validation; test scores are means over fresh seeds where there are any."
ORDER = ["search", "search_seed", "trial_index", "seed"]
NOTES = 5  # largest number of notes that are listed


def payload(
    trials: pd.DataFrame,
    title: str,
    *,
    notes: Sequence[str] = (),
    known: Mapping[str, Mapping[str, Any]] | None = None,
    curves: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """The page's content: one entry per study, the one that ended last first.

    trials: rows of `results.read`, of any number of studies, including none. notes: sentences about the whole page, of
    which the first NOTES are listed. known: by study, where known, the `command` that runs the study again, and
    `networks`, the file of each search's trained network. curves: rows of `results.read_curves`, if the trials have
    any. Numbers that a float cannot hold are gaps. Secrets are hidden. A study whose rows cannot be shown has an entry
    with the error, `failed`, in its place.
    """
    listed = [*notes[:NOTES], *[f"… and {len(notes) - NOTES} more of these"][: len(notes) > NOTES]]
    studies: list[dict[str, Any]] = []
    trials, parts = trials.reset_index(drop=True), list[tuple[pd.Index, Findings]]()
    with np.errstate(all="ignore"):
        for name, own in trials.groupby("study", sort=True):
            try:
                found, said = _findings(own), (known or {}).get(str(name), {})
                studies += [hide(_study(entry, one, curves, **said), inf) for entry, (_, one) in found.items()]
                parts += found.values()
            except Exception as error:  # other programs' rows may hold anything, and cost no other study its place
                failed = redact(f"{type(error).__name__}: {error}")
                studies.append(_heading(str(name), own) | {"failed": failed})
        tables = hide(_compared(trials, parts), inf) if len(parts) > 1 else []
    own_names = {one["name"] for study in studies for one in study.get("params", ())}  # a user's b is no batch size
    return {
        "title": redact(title),
        "notes": [*map(redact, listed)],
        "glossary": {word: meaning for word, meaning in GLOSSARY.items() if word not in own_names},
        "tables": tables,
        "studies": sorted(studies, key=lambda study: -(study["ended"] or 0)),
    }


def _findings(own: pd.DataFrame) -> dict[str, tuple[pd.Index, Findings]]:
    """Name of an entry -> (rows, findings) of each problem and set-up of a study, whose scores have no common scale."""
    return {
        ": ".join(filter(None, [str(own["study"].iloc[0]), words])): (
            rows.index, Findings(rows.sort_values(ORDER, ignore_index=True)),
        ) for words, rows in parts_of(own)
    }  # fmt: skip


def unshown(studies: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Study -> the error, of those of a page that could not be shown."""
    return {study["study"]: study["failed"] for study in studies if "failed" in study}


def _heading(name: str, trials: pd.DataFrame) -> dict[str, Any]:
    ended = max(filter(None, seconds(trials["ended_at"])), default=None)
    return {"name": name, "study": str(trials["study"].iloc[0]), "title": name, "ended": ended, "chips": []}


def _study(
    name: str,
    found: Findings,
    curves: pd.DataFrame | None,
    command: str | None = None,
    networks: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    trials = found.trials.drop(columns="setting")
    images, shares = images_of(trials), shares_of(trials)
    paused = runs_of(trials)["paused"].iloc[: len(trials)]
    states = ["cut off" if error == CUT else "paused" if rests else STATES.get(status, status)
              for status, error, rests in zip(trials["status"], trials["error"], paused)]  # fmt: skip
    best, first = _best_rows(found), trials.iloc[0]
    network = (networks or {}).get(found.best["search"]) if best else None
    problem = [str(first["dataset"])] if pd.notna(first["dataset"]) and first["dataset"] else []
    problem += [f"{first['loss']} loss"] if problem and pd.notna(first["loss"]) else []
    return (
        _heading(name, trials)
        | {
            "title": ", ".join(problem) or name,
            "chips": chips(trials, shares, states, images),
            "words": [[head, *said] for head, said in summarise(found, command, images).items()],
            "best": best,
            "setting": setting(found, found.best, " ") if best else [],
            "worth": worth(found),
            "use": use_it(found, command, network),
            "trials": {column: plain(trials[column]) for column in COLUMNS}
            | {"state": states, "share": numbers(shares, 3), "started": seconds(trials["started_at"])},
            "learning": _learning(trials, curves),
            "curves": _curves(trials),
            "facts": _facts(trials),
        }
        | landscape(found, trials, np.where(np.isnan(shares), 1.0, shares), best)
    )


def _best_rows(found: Findings) -> list[int]:
    """The rows of the best setting, that of the named trial first: the headline, the star and the table agree."""
    if found.best is None:
        return []
    rows = found.trials[(found.trials["setting"] == found.best["setting"]) & (found.trials["status"] == "completed")]
    return sorted(map(int, rows.index), key=lambda row: rows["trial_id"][row] != found.best["trial_id"])


# Curves and facts -------------------------------------------------------------------------------------------------


def _lines(lines: list[dict[str, Any]], across: str, up: str) -> dict[str, Any]:
    """Lines x, y with their common axes."""
    x, y = ([value for line in lines for value in line[name] if value is not None] for name in "xy")
    return {"lines": lines if y else [], "x": plain_axis(across, x, zero=True), "y": plain_axis(up, y)}


def _learning(trials: pd.DataFrame, curves: pd.DataFrame | None) -> dict[str, Any]:
    """The learning curve of each row that has one of two looks or more."""
    at, lines = {name: row for row, name in enumerate(trials["trial_id"])}, []
    length, whole = length_in(trials["config"].iloc[0])
    if curves is not None and len(curves):
        mine = curves[(curves["study"] == trials["study"].iloc[0]) & curves["trial_id"].isin(list(at))]
        for name, looks in mine.sort_values("images_seen", kind="stable").groupby("trial_id", sort=False):
            if len(looks) > 1 and looks["val_score"].notna().any():
                reached = [reached_in(look, length) for look in looks.to_dict("records")]
                x, y = numbers(reached), numbers(looks["val_score"], 5)
                lines.append({"row": at[name], "x": x, "y": y})
    across = length if length != IMAGES else "images seen" if is_known(whole) else "reports"  # of one's own trainable
    return _lines(lines, across, score_words(trials, "val_score"))


def _curves(trials: pd.DataFrame) -> dict[str, Any]:
    """The best score so far of every search: over whole trainings' worth where trainings pause, else over trials."""
    lines, curves = [], curves_of(trials, "val_score")
    for curve in curves:
        reached = np.where(np.arange(len(curve)) < curve.waiting, np.nan, curve.reached)
        lines.append({"search": curve.method, "x": numbers(curve.clock("trials"), 4), "y": numbers(reached, 5)})
    pauses = any(curve.shares is not None for curve in curves)
    return _lines(lines, "whole trainings' worth" if pauses else "trials ended", score_words(trials, "val_score"))


def _facts(trials: pd.DataFrame) -> list[list[str]]:
    """The score, how many trials each search asked for, the first one's versions, and the configuration of all."""
    first, configs = trials.iloc[0], [config_of(text) for text in trials["config"].unique()]
    asked = ", ".join(f"{number} {search}" for search, number in trials["search"].value_counts(sort=False).items())
    versions = ", ".join(f"{name} {version}" for name, version in json.loads(first["software"]).items())
    said = {"score": first["metric_name"], "trials": asked, "commit": first["git_commit"], "software": versions}
    for name, value in sorted(hide(configs[0]).items()):
        shared = all(config.get(name) == configs[0][name] for config in configs)
        if shared and value is not None and name not in (SPACE, DIGEST):
            said[name] = json.dumps(value, ensure_ascii=False)
    return [[name, redact(str(text))] for name, text in said.items() if pd.notna(text) and text != ""]


# Several studies --------------------------------------------------------------------------------------------------


def _compared(trials: pd.DataFrame, parts: Sequence[tuple[pd.Index, Findings]]) -> list[dict[str, Any]]:
    """A table for each task, or own metric: the best of each study. parts: (rows, findings) of every entry."""
    shown = trials.loc[[row for index, _ in parts for row in index]]
    tables, named = [], shown["dataset"].notna()
    groups = [(_task(part.problem, part.set_up), part.trials.index) for part in comparable(shown[named])]
    groups += [(f"Studies by their {metric}", rows.index) for metric, rows in shown[~named].groupby("metric_name")]
    for title, rows in groups:
        members = [found for index, found in parts if len(index.intersection(rows))]
        if len({found.study for found in members}) > 1:
            smaller = members[0].sign < 0
            frame = pd.DataFrame(map(_chosen, members)).sort_values("validation", ascending=smaller, kind="stable")
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
        row |= {"best setting": ", ".join(setting(found, best)), "validation": float(best["val_score"])}
        row["test"] = f"{best['test_score']:.4f}" if is_known(best["test_score"]) else None
        if fresh is not None and fresh.score == "test_score":
            half = f" ±{fresh.value - fresh.low:.4f}" if is_known(fresh.low) else ""
            row["test"] = f"{fresh.value:.4f}{half}"
    completed = int((found.trials["status"] == "completed").sum())
    return row | {"trainings": len(found.trials), "to the end": completed}
