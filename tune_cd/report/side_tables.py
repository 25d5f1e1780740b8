"""The page's small tables."""

from typing import Any

import pandas as pd

from tune_cd.analysis import balance_gain, comparable, curves_of, grid, subloss_statistics, sublosses
from tune_cd.analysis.believed import believed
from tune_cd.analysis.comparison import grouped
from tune_cd.analysis.scores import SPLITS, judged_by, per_class
from tune_cd.analysis.tables import MEMORY_FIELDS, best_values, cell_text, memory_modes
from tune_cd.report.findings import Findings, Ranges, averages_of
from tune_cd.report.printed import HEADS, WITHIN, methods, readable, searched

SEARCHES = ("AUC@5", "AUC@10", "AUC@20", "n-95")
TERMS = (
    "Spearman's rank correlation with the validation score over settings, and a term's mean rank in the best tenth of "
    "them (0: the lowest of all)."
)
PAUSED = 8  # number of listed trainings
BELIEVED = (
    f"The {PAUSED} most promising; validation so far, and what is expected of it after a whole training, ± a standard "
    "deviation. On measured landscapes two of them hold 6 to 9 of 10 ends, which are 0.01 to 0.03 lower than expected."
)
MODES = "Best of each mode by validation; R@1 on the test split."


def of_study(found: Findings, whole: pd.DataFrame | None, ranges: Ranges | None = None) -> list[dict[str, Any]]:
    """A study's tables, without empty ones.

    whole: its trials that make up a grid, if there is one. ranges: the allowed ranges, if they are known.
    """
    trials, tables = found.trials, []
    if whole is not None and "separate" in averages_of(whole) and whole["batch_size"].notna().all():
        tables.append(_gain(whole))
    best = best_values(trials)
    if len(best):
        tables.append(_table("Best balance", readable(best), WITHIN))
    paused = believed(trials, ranges)
    if len(paused):
        tables.append(_table("Paused trainings", _promising(paused), BELIEVED))
    curves = curves_of(trials)
    compared = methods(curves, SEARCHES) if len(curves) > 1 else None
    if compared is not None:
        tables.append(_table("Searches", compared[0].reset_index(), compared[1]))
    terms = sublosses(trials)
    if len(terms) > 2:
        tables.append(_table("The terms and the score", subloss_statistics(terms).reset_index(), TERMS))
    return tables


def compared_studies(trials: pd.DataFrame) -> list[dict[str, Any]]:
    """Tables that compare studies: memory modes, searches on a common landscape, and the best of each study."""
    tables = []
    for study, rows in trials.groupby("study"):
        for part in comparable(rows, but=MEMORY_FIELDS):
            if set(part.trials["search"]) >= {"S1", "S3"}:
                modes = memory_modes(part.trials).reset_index(names="balance")
                name = f"{study}: {part.words}" if part.words else study
                tables.append(_table(f"Cross-batch memory, {name}", readable(modes), MODES))
    for landscape, curves in grouped(curves_of(trials), "landscape").items():
        several = len({curve.study for curve in searched(curves)}) > 1
        compared = methods(curves, ("searches", *SEARCHES[1:], "t-95", "ΔAUC@20", "p@20")) if several else None
        if compared is not None:
            tables.append(_table(f"Searches on {landscape}, all studies", compared[0].reset_index(), compared[1]))
    best = best_values(trials, each=["study"])
    if len(best):
        tables.append(_table("Best balances", readable(best), WITHIN))
    return tables


def _gain(whole: pd.DataFrame) -> dict[str, Any]:
    score = judged_by(whole)
    averages = averages_of(whole)
    gain = balance_gain(grid(whole, score), per_class(whole), averages, select=grid(whole))
    columns = ["best", "best_Lambda_p", "best_Lambda_e", *averages, *(f"gain_{average}" for average in averages)]
    means = gain.filter(like="gain_").mean().dropna()
    gains = [f"{value:+.4f} over the {name.removeprefix('gain_')} average" for name, value in means.items()]
    note = f"Scores of the {SPLITS[score]} split, each cell chosen by validation. "
    note += f"Mean over batch sizes: {', '.join(gains) or 'not known'}."
    return _table("What balancing gains at each batch size", readable(gain[columns].reset_index()), note)


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
