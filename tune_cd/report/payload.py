"""A results table -> the page's content as JSON types: trials, cells of the landscape, curves, lines, sentences.

All computations are done here or in `analysis`; the page only draws and lists. `page.js` documents how it reads the
content.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from tune_cd.analysis import Curve, curves_of
from tune_cd.analysis.parts import parts_of
from tune_cd.analysis.runs import counted, runs_of
from tune_cd.analysis.scores import parameter, present, score_column, score_names, score_words, with_scores
from tune_cd.balance import TERM
from tune_cd.report.findings import Ranges, findings, grid_rows
from tune_cd.report.plain import numbers, plain
from tune_cd.report.planes import planes_of
from tune_cd.report.side_tables import compared_studies, of_study
from tune_cd.report.words import summarise
from tune_cd.results.redaction import hide, redact

TOP = 8  # best cells of a slice that are outlined, as in fig:hp_omniglot
SCORES = 40  # largest number of scores to choose from
LEARNING = 300  # largest number of learning curves in one chart
EPOCH = pd.Timestamp(0, tz="UTC").as_unit("us")  # nanoseconds, pandas' default, end in 2262
COLUMNS = (
    "trial_id", "search", "search_seed", "seed", "trial_index", "attempt", "direction", "line_position", "status",
    "images_seen", "train_seconds", "hostname", "device", "gpus",
)  # fmt: skip


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
    """The page's content: one entry per study, by name.

    trials: rows of `results.read`, of any number of studies, including none. notes: sentences about the whole page.
    ranges, commands: by study, the range of each parameter and the command that runs the study again, where known.
    networks: by study, the file of each search's trained network. curves: rows of `results.read_curves`, if the trials
    have any. A study that
    raises an error is left out, and named in `left_out` and in the notes; numbers that a float cannot hold are gaps.
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
    several = trials[trials["study"].isin({study["study"] for study in studies})]
    tables = made("comparison of studies", partial(compared_studies, several)) if len(studies) > 1 else []
    return {
        "title": redact(title),
        "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "notes": [*map(redact, notes), *(f"{name} could not be shown: {why}" for name, why in left_out.items())],
        "left_out": left_out,
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
    wide = with_scores(trials)
    found = findings(trials, ranges)
    scores, whole = _scores(trials), grid_rows(trials)
    shown = wide.assign(status=counted(runs_of(trials))["status"])  # paused trainings have scores to show
    planes = planes_of(trials, shown, found.names, scores)
    full = planes[0]["grid"] is not None and planes[0]["grid"]["full"]
    return planes[0] | {
        "name": name,
        "study": found.study,
        "facts": _facts(trials),
        "words": [hide(asdict(sentence)) for sentence in summarise(found, command, networks)],
        "status": found.status,
        "scores": [{"name": score, "label": _label(score, trials), "marked": not _is_term(score)} for score in scores],
        "trials": _trials(wide, scores),
        "earlier": _earlier(trials),
        "top": TOP,
        "curves": _curves(trials),
        "learning": _learning(trials, curves),
        "tables": of_study(found, whole if full else None, ranges),
        "provenance": _provenance(trials),
        "planes": planes if len(planes) > 1 else [],
    }


def _scores(trials: pd.DataFrame) -> list[str]:
    """The scores to choose from: the splits' own, the terms, the others; without duplicates and pair counts."""
    metric = trials["metric_name"].iloc[0]
    names = [
        name
        for name in score_names(trials)
        if name not in (metric, f"val_{metric}", f"test_{metric}") and not name.endswith("_pairs")
    ]
    first = [name for name in ("val_score", "test_score", "positive_term", "entropy_term") if name in names]
    first += [name for name in names if name.startswith(TERM)]
    return (first + [name for name in names if name not in first])[:SCORES]


def _trials(trials: pd.DataFrame, scores: list[str]) -> dict[str, Any]:
    """The rows as columns, with parameters and scores nested by name."""
    columns: dict[str, Any] = {name: plain(trials[name]) for name in COLUMNS}
    columns |= {"started": _seconds(trials["started_at"]), "ended": _seconds(trials["ended_at"])}
    columns["error"] = [redact(str(error)) if pd.notna(error) else None for error in trials["error"]]
    columns["params"] = {name: numbers(parameter(trials, name)) for name in present(trials)}
    columns["scores"] = {name: numbers(score_column(trials, name)) for name in scores}
    return columns


def _seconds(times: pd.Series) -> list[float | None]:
    """Times in seconds since 1970; None for missing ones."""
    seconds = (pd.to_datetime(times, utc=True) - EPOCH).dt.total_seconds()
    return [None if np.isnan(value) else round(value, 2) for value in seconds]


def _earlier(trials: pd.DataFrame) -> list[list[float | None]]:
    """[row, start, end] of the runs before the last one, of trials that paused and went on."""
    runs = runs_of(trials)[len(trials) :]
    at = dict(zip(trials["trial_id"], range(len(trials))))
    times = zip(runs["trial_id"], _seconds(runs["started_at"]), _seconds(runs["ended_at"]))
    return [[at[name], start, end] for name, start, end in times if start is not None and end is not None]


def _label(score: str, trials: pd.DataFrame) -> str:
    if score.startswith(TERM):
        return f"term {score.removeprefix(TERM)}"
    return {"positive_term": "positive term", "entropy_term": "entropy term"}.get(score) or score_words(trials, score)


def _is_term(score: str) -> bool:
    """Whether a score is a term of the loss, whose largest value is not the best."""
    return score.endswith("_term") or score.startswith(TERM)


def _curves(trials: pd.DataFrame) -> list[dict[str, Any]]:
    """Best-so-far curves of every search: the validation score, and the test score of the incumbent if there is one."""
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
                "trials": numbers(best.clock("trials")),
                "best": _held(best),
                "test": _held(test) if test and test.score == "test_score" else numbers(none),
                "seconds": numbers(best.clock("seconds")),
                "gpu_seconds": numbers(best.clock("gpu_seconds") if on_gpus else none),
            }
        )
    return curves


def _learning(trials: pd.DataFrame, curves: pd.DataFrame | None) -> list[dict[str, Any]]:
    """The learning curve of each row that has one; empty for more rows than can be told apart."""
    if curves is None or len(trials) > LEARNING:
        return []
    at = {name: row for row, name in enumerate(trials["trial_id"])}
    mine = curves[(curves["study"] == trials["study"].iloc[0]) & curves["trial_id"].isin(list(at))]
    return [
        {"row": at[name], "images": numbers(looks["images_seen"]), "scores": numbers(looks["val_score"])}
        for name, looks in mine.groupby("trial_id", sort=False)
    ]


def _held(curve: Curve) -> list:
    """The values of a best-so-far curve; None before the first score."""
    return numbers(np.where(np.arange(len(curve)) < curve.waiting, np.nan, curve.reached))


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
    return [[label, redact(str(text))] for label, text in facts if text is not None and text == text and text != ""]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _provenance(trials: pd.DataFrame) -> list[list[str]]:
    """The versions and commits of all trials, and the configuration values that they share."""
    names = present(trials)
    said = [["commits", ", ".join(sorted(map(str, trials["git_commit"].dropna().unique())))]]
    versions = {
        f"{name} {version}" for text in trials["software"].unique() for name, version in json.loads(text).items()
    }
    said += [["software", ", ".join(sorted(versions))]]
    configs = [hide(json.loads(text), kept=names) for text in trials["config"].unique()]
    shared = {
        name: value
        for name, value in configs[0].items()
        if all(name in config and config[name] == value for config in configs)
    }
    said += [
        [name, json.dumps(value, ensure_ascii=False)] for name, value in sorted(shared.items()) if value is not None
    ]
    return [pair for pair in said if pair[1]]
