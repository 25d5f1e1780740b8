"""The page's small tables: paused trainings, and studies of one task compared."""

from typing import Any

import pandas as pd

from tune_cd.analysis import comparable
from tune_cd.analysis.believed import believed
from tune_cd.analysis.parts import Part
from tune_cd.analysis.tables import cell_text
from tune_cd.report.findings import Findings, Ranges, findings, is_known
from tune_cd.report.words import letters, setting
from tune_cd.results.rows import sign_of

PAUSED = 8  # number of listed trainings
BELIEVED = (
    f"The {PAUSED} most promising; validation so far, and what is expected of it after a whole training, ± a standard "
    "deviation. On measured landscapes two of them hold 6 to 9 of 10 ends, which are 0.01 to 0.03 lower than expected."
)
STUDIES = "The setting that each study chose by validation; test scores are means over fresh seeds where there are any."


def paused_trainings(trials: pd.DataFrame, ranges: Ranges | None = None) -> list[dict[str, Any]]:
    """A table of the most promising paused trainings, [] without any. ranges: the allowed ranges, where known."""
    top = believed(trials, ranges).head(PAUSED)
    end = [f"{end:.4f} ± {deviation:.4f}" for end, deviation in zip(top["end"], top["deviation"])]
    said = {"validation": top["val_score"].map("{:.4f}".format), "paused at": top["share"].map("{:.0%}".format)}
    shown = top.drop(columns=["share", "val_score", "end", "deviation"]).rename(columns=letters)
    return [_table("Paused trainings", shown.assign(**said, **{"believed to end at": end}), BELIEVED)] if end else []


def compared_studies(trials: pd.DataFrame) -> list[dict[str, Any]]:
    """A table for each task, or own metric, of several studies: the best of each."""
    tables, named = [], trials["dataset"].notna()
    groups = [(_title(part), part.trials) for part in comparable(trials[named])]
    groups += [(f"Studies by their {metric}", rows) for metric, rows in trials[~named].groupby("metric_name")]
    for title, rows in groups:
        if rows["study"].nunique() > 1:
            chosen = [_chosen(findings(own.reset_index(drop=True))) for _, own in rows.groupby("study")]
            smaller = sign_of(rows.iloc[0].get("mode")) < 0
            frame = pd.DataFrame(chosen).sort_values("validation", ascending=smaller, kind="stable")
            tables.append(_table(title, frame.dropna(axis=1, how="all"), STUDIES))
    return tables


def _title(part: Part) -> str:
    said = [part.problem.get(name) for name in ("dataset", "loss")]
    return f"Studies of {', '.join(filter(None, [*said, part.set_up]))}"


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
    return row | {"trainings": len(found.trials), "to the end": found.status.get("completed", 0)}


def _table(title: str, frame: pd.DataFrame, note: str) -> dict[str, Any]:
    rows = [[cell_text(value) for value in row] for row in frame.itertuples(index=False)]
    return {"title": title, "columns": list(map(str, frame.columns)), "rows": rows, "note": note}
