"""The page's small tables."""

from typing import Any

import pandas as pd

from tune_cd.analysis import comparable, curves_of
from tune_cd.analysis.believed import believed
from tune_cd.analysis.comparison import grouped
from tune_cd.analysis.parts import Part
from tune_cd.analysis.tables import MEMORY_FIELDS, cell_text, memory_modes
from tune_cd.report.findings import Findings, Ranges, findings, is_known
from tune_cd.report.printed import HEADS, methods, readable, searched
from tune_cd.report.words import parameters_of, setting
from tune_cd.results.rows import sign_of

SEARCHES = ("AUC@5", "AUC@10", "AUC@20", "n-95")
PAUSED = 8  # number of listed trainings
BELIEVED = (
    f"The {PAUSED} most promising; validation so far, and what is expected of it after a whole training, ± a standard "
    "deviation. On measured landscapes two of them hold 6 to 9 of 10 ends, which are 0.01 to 0.03 lower than expected."
)
MODES = "Best of each mode by validation; R@1 on the test split."
STUDIES = "The setting that each study chose by validation; test scores are means over fresh seeds where there are any."


def of_study(found: Findings, ranges: Ranges | None = None) -> list[dict[str, Any]]:
    """A study's tables, without empty ones. ranges: the allowed ranges, if they are known."""
    tables = []
    paused = believed(found.trials, ranges)
    if len(paused):
        tables.append(_table("Paused trainings", _promising(paused), BELIEVED))
    curves = curves_of(found.trials)
    compared = methods(curves, SEARCHES) if len(curves) > 1 else None
    if compared is not None:
        tables.append(_table("Searches", compared[0].reset_index(), compared[1]))
    return tables


def compared_studies(trials: pd.DataFrame) -> list[dict[str, Any]]:
    """Tables that compare studies: the best of each, searches on a common landscape, and memory modes."""
    tables, named = [], trials["dataset"].notna()
    groups = [(_title(part), part.trials) for part in comparable(trials[named])]
    groups += [(f"Studies by their {metric}", rows) for metric, rows in trials[~named].groupby("metric_name")]
    for title, rows in groups:
        if rows["study"].nunique() > 1:
            chosen = [_chosen(str(name), own) for name, own in rows.groupby("study")]
            smaller = sign_of(rows.iloc[0].get("mode")) < 0
            frame = pd.DataFrame(chosen).sort_values("validation", ascending=smaller, kind="stable")
            tables.append(_table(title, frame.dropna(axis=1, how="all"), STUDIES))
    for landscape, curves in grouped(curves_of(trials), "landscape").items():
        several = len({curve.study for curve in searched(curves)}) > 1
        compared = methods(curves, ("searches", *SEARCHES[1:], "t-95", "ΔAUC@20", "p@20")) if several else None
        if compared is not None:
            tables.append(_table(f"Searches on {landscape}, all studies", compared[0].reset_index(), compared[1]))
    for study, rows in trials.groupby("study"):
        for part in comparable(rows, but=MEMORY_FIELDS):
            if set(part.trials["search"]) >= {"S1", "S3"}:
                modes = memory_modes(part.trials).reset_index(names="balance")
                name = f"{study}: {part.words}" if part.words else study
                tables.append(_table(f"Cross-batch memory, {name}", readable(modes), MODES))
    return tables


def _title(part: Part) -> str:
    said = [part.problem.get(name) for name in ("dataset", "loss")]
    return f"Studies of {', '.join(filter(None, [*said, part.set_up]))}"


def _chosen(study: str, trials: pd.DataFrame) -> dict[str, Any]:
    """The row of a study in a comparison."""
    found = findings(trials.reset_index(drop=True))
    counts = {"trainings": len(trials), "to the end": found.status.get("completed", 0)}
    if found.best is None:
        return {"study": study, "best setting": "none", "validation": None, "test": None} | counts
    test = f"{found.best['test_score']:.4f}" if is_known(found.best["test_score"]) else None
    if found.fresh is not None and found.fresh.score == "test_score":
        half = f" ±{found.fresh.value - found.fresh.low:.4f}" if is_known(found.fresh.low) else ""
        test = f"{found.fresh.value:.4f}{half}"
    return {
        "study": study,
        "best setting": setting(found.best, parameters_of(found)),
        "validation": round(float(found.best["val_score"]), 4),
        "test": test,
    } | counts


def _promising(paused: pd.DataFrame) -> pd.DataFrame:
    """The most promising paused trainings, formatted for the page."""
    top = paused.head(PAUSED)
    end = [f"{end:.4f} ± {deviation:.4f}" for end, deviation in zip(top["end"], top["deviation"])]
    share, score = top["share"].map("{:.0%}".format), top["val_score"].map("{:.4f}".format)
    shown = top.assign(**{"paused at": share, "val_score": score, "believed to end at": end})
    return shown.drop(columns=["share", "end", "deviation"])


def _table(title: str, frame: pd.DataFrame, note: str) -> dict[str, Any]:
    rows = [[cell_text(value) for value in row] for row in frame.itertuples(index=False)]
    return {
        "title": title,
        "columns": [HEADS.get(str(name), str(name)) for name in frame.columns],
        "rows": rows,
        "note": note,
    }
