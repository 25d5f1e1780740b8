"""The page's small tables: what is read rather than looked at."""

from typing import Any

import pandas as pd

from tune_cd.analysis import balance_gain, curves_of, grid, subloss_statistics, sublosses, summary
from tune_cd.analysis.comparison import grouped
from tune_cd.report.findings import Findings, averages_of, per_class
from tune_cd.report.words import LETTERS
from tune_cd.tables import best_values, cell_text, compared, memory_modes

HEADS = LETTERS | {
    "val_score": "validation", "test_score": "test", "best_Lambda_p": "its Λp", "best_Lambda_e": "its Λe", "gain_separate": "gain over separate",
    "gain_global": "gain over global", "alike_Lambda_p": "their Λp", "alike_Lambda_e": "their Λe", "positive_term": "positive", "entropy_term": "entropy",
    "recall_at_1": "R@1", "rank_of_best": "rank in the best tenth", "metric_name": "metric",
}  # fmt: skip
"""Column of a table -> what stands above it."""

AUC = "AUC@k: mean over the first k trials of the test score of the best so far; n-95: trials to 95 % of the best any search reached."
ALIKE = "alike: settings within 1 % of the best validation score, and the range of their weights."
TERMS = "Spearman's rank correlation with the validation score over settings, and a term's mean rank in the best tenth of them (0: the lowest of all)."
PAIRS = "t-95: seconds until then. Δ: less {reference}'s, in pairs of equal seeds; p: Wilcoxon's, uncorrected."


def of_study(found: Findings, whole: pd.DataFrame | None) -> list[dict[str, Any]]:
    """A study's tables; those that would say nothing are left out. whole: its trials that make up a grid, where some do."""
    trials, tables = found.trials, []
    if whole is not None and averages_of(whole) and whole["batch_size"].notna().all():
        tables.append(_gain(whole))
    best = best_values(trials)
    if len(best):
        tables.append(_table("Best balance", best, ALIKE))
    curves = curves_of(trials)
    if len(curves) > 1:
        numbers = compared(summary(curves), ["AUC@5", "AUC@10", "AUC@20", "n-95"]).droplevel(0, axis=1)
        tables.append(_table("Searches", numbers.reset_index(), AUC))
    terms = sublosses(trials)
    if len(terms) > 2:
        tables.append(_table("Both terms and the score", subloss_statistics(terms).reset_index(), TERMS))
    return tables


def compared_studies(trials: pd.DataFrame) -> list[dict[str, Any]]:
    """Several studies beside each other: memory modes, their searches where they are on one landscape, and the best of each."""
    tables = []
    for study, rows in trials.groupby("study"):
        if set(rows["search"]) >= {"S1", "S3"}:
            modes = memory_modes(rows).reset_index(names="balance")
            tables.append(_table(f"Cross-batch memory, {study}", modes, "Best of each mode by validation; R@1 on the test split."))
    for landscape, curves in grouped(curves_of(trials), "landscape").items():
        if len({curve.study for curve in curves}) > 1:
            reference = "cd" if any(curve.method == "cd" for curve in curves) else curves[0].method
            columns = ["searches", "AUC@10", "AUC@20", "n-95", "t-95", "ΔAUC@20", "p@20"]
            numbers = compared(summary(curves, reference), columns).droplevel(0, axis=1)
            tables.append(_table(f"Searches on {landscape}, all studies", numbers.reset_index(), f"{AUC} {PAIRS.format(reference=reference)}"))
    best = pd.concat([best_values(rows).assign(study=study) for study, rows in trials.groupby("study")])
    if len(best):
        tables.append(_table("Best balances", best[["study", *(name for name in best if name != "study")]], ALIKE))
    return tables


def _gain(whole: pd.DataFrame) -> dict[str, Any]:
    score = "test_score" if whole["test_score"].notna().any() else "val_score"
    averages = averages_of(whole)
    gain = balance_gain(grid(whole, score), per_class(whole), averages, select=grid(whole))
    columns = ["best", "best_Lambda_p", "best_Lambda_e", *averages, *(f"gain_{average}" for average in averages)]
    means = gain.filter(like="gain_").mean().dropna()
    mean = ", ".join(f"{value:+.4f} over the {name.removeprefix('gain_')} average" for name, value in means.items()) or "not known"
    split = "test" if score == "test_score" else "validation"
    note = f"Scores of the {split} split, each cell chosen by validation. Mean over batch sizes: {mean}."
    return _table("What balancing gains at each batch size", gain[columns].reset_index(), note)


def _table(title: str, frame: pd.DataFrame, note: str) -> dict[str, Any]:
    rows = [[cell_text(value) for value in row] for row in frame.itertuples(index=False)]
    return {"title": title, "columns": [HEADS.get(str(name), str(name)) for name in frame.columns], "rows": rows, "note": note}
