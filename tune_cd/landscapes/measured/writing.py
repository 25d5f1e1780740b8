"""The file of a measured landscape: one row per training, its looks as lists, and its description as JSON."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tune_cd.analysis.parts import require_one
from tune_cd.analysis.scores import maps_of, parameter, score_column, weights_of
from tune_cd.analysis.sublosses import terms_of
from tune_cd.balance import PUBLISHED

TRAINED = ("batch_size", "seed")
"""Axes other than the weights."""
CURVE = "_curve"
HELD_BACK = "held_back"
DIGITS, TERM_DIGITS = 5, 4  # significant digits kept of a score's curve, of a term's
ABOUT = b"tune_cd.landscape"
DIRTY = "-dirty"  # behind a commit that tracked files differ from, see `results.rows.git_commit`


def stored(name: str) -> str:
    """Column that holds the curve of the validation score or of a term."""
    return name if name == "validation" else f"{name}{CURVE}"


def write(
    path: Path, trials: pd.DataFrame, curves: pd.DataFrame, about: Mapping[str, Any], held_back: Collection[str] = ()
) -> None:
    """Write a landscape's file from rows of the two results tables.

    about: facts that are not in the rows, such as command, images and processor; see `Measured`. held_back: ids of the
    trials between the cells. Raises ValueError for no trials, trials of several problems or set-ups, fewer than two
    weights, a trial that neither completed nor diverged, one without a curve, a setting trained twice with one seed.
    """
    name = path.stem
    if trials.empty:
        raise ValueError(f"{name}: no trials")
    ended = trials["status"].isin(["completed", "diverged"])
    if not ended.all():
        raise ValueError(f"{name}: {list(trials.loc[~ended, 'trial_id'])} neither completed nor diverged")
    require_one(trials)
    dirty = sorted({commit for commit in trials["git_commit"].dropna() if commit.endswith(DIRTY)})
    if dirty:
        raise ValueError(f"{name}: trained by {dirty}, with changes that are in no commit: nobody can train it again")
    weights = weights_of(trials)
    if len(weights) < 2:
        raise ValueError(f"{name}: weights {weights}: those of two terms at least are required")
    terms = terms_of(weights)
    rows = trials.assign(**{weight: parameter(trials, weight) for weight in weights})
    rows = rows.assign(**{term: score_column(trials, term) for term in terms if term not in rows})
    rows = rows.sort_values([*TRAINED, *weights]).set_index("trial_id")
    twice = rows.index[rows.duplicated([*weights, *TRAINED])].tolist()
    if twice:
        raise ValueError(f"{name}: {twice} repeat a setting and seed")
    looks = _with_terms(curves, terms).sort_values("images_seen").groupby("trial_id")
    missing = sorted(set(rows.index) - set(looks.groups))
    if missing:
        raise ValueError(f"{name}: {missing} have no curve")
    columns = _columns(rows, looks, weights, terms) | {HELD_BACK: pa.array(rows.index.isin(list(held_back)))}
    table = pa.table(columns).replace_schema_metadata({ABOUT: json.dumps(_about(rows, weights) | dict(about))})
    pq.write_table(table, path, compression="zstd", compression_level=19, use_dictionary=True)


def _with_terms(curves: pd.DataFrame, terms: Sequence[str]) -> pd.DataFrame:
    """Curves with a column per term; for losses other than the paper's these come from the looks' scores."""
    missing = [term for term in terms if term not in curves]
    if not missing:
        return curves
    looks = maps_of(curves, "scores")
    return curves.assign(**{term: [scores.get(f"train_{term}", np.nan) for scores in looks] for term in missing})


def _columns(rows: pd.DataFrame, looks: Any, weights: Sequence[str], terms: Sequence[str]) -> dict[str, pa.Array]:
    """rows: indexed by trial_id. looks: the curves' rows, ascending, by trial_id."""
    digits = {"val_score": DIGITS} | dict.fromkeys(terms, TERM_DIGITS)
    return {
        **{weight: pa.array(rows[weight], pa.float64()) for weight in weights},
        "batch_size": pa.array(rows["batch_size"].astype(int), pa.int32()),
        "seed": pa.array(rows["seed"].astype(int), pa.int32()),
        "status": pa.array(rows["status"], pa.string()),
        **{
            name: pa.array(_rounded(rows[name], 6), pa.float32(), from_pandas=True)
            for name in ("val_score", "test_score", *terms)
        },
        "best_at": pa.array(rows["best_at"], pa.int32(), from_pandas=True),
        "seconds": pa.array(_seconds(rows).round(1), pa.float32()),
        "images": pa.array(looks["images_seen"].agg(list)[rows.index], pa.list_(pa.int32())),
        **{
            stored("validation" if held == "val_score" else held): pa.array(
                [_rounded(values, kept) for values in looks[held].agg(list)[rows.index]], pa.list_(pa.float32())
            )
            for held, kept in digits.items()
        },
    }


def _about(rows: pd.DataFrame, weights: Sequence[str]) -> dict[str, Any]:
    """Description of a landscape from its rows, see `Measured.about`."""
    first = rows.iloc[0]
    setup = json.loads(first["config"])
    published = setup.pop(PUBLISHED, None)
    return {
        "dataset": first["dataset"], "task": first["task"], "loss": first["loss"], "metric": first["metric_name"],
        "setup": {name: value for name, value in setup.items() if name not in (*weights, *TRAINED)},
        **({PUBLISHED: published} if published else {}),
        "commits": sorted(rows["git_commit"].dropna().unique()), "software": json.loads(first["software"]),
        "device": first["device"], "started": rows["started_at"].min().isoformat(timespec="seconds"),
        "ended": rows["ended_at"].max().isoformat(timespec="seconds"), "trainings": len(rows),
        "hours": round(_hours(rows), 2),
    }  # fmt: skip


def _seconds(rows: pd.DataFrame) -> pd.Series:
    return (rows["ended_at"] - rows["started_at"]).dt.total_seconds()


def _hours(rows: pd.DataFrame) -> float:
    """Hours of one device. Trainings that began together on it (a pack) share it, and count once."""
    lots = rows.groupby(["hostname", "started_at"], dropna=False)["ended_at"].max().reset_index()
    return float(_seconds(lots).sum()) / 3600


def _rounded(values: Sequence[float] | pd.Series, digits: int) -> list[float]:
    """Values to `digits` significant digits: further ones are noise, and do not compress."""
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, float)]
