"""The paper's figures and tables of a results table, as files: SVG and PNG, Markdown and LaTeX."""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from tune_cd import balance, plots, tables
from tune_cd.analysis import balance_gain, curves_of, grid, mean_curve, sublosses, summary
from tune_cd.analysis.comparison import grouped
from tune_cd.analysis.scores import BALANCE, parts_of
from tune_cd.report.findings import averages_of, grid_rows, is_grid, per_class
from tune_cd.results import check_name, publish

Made = Iterator[tuple[str, Figure]]


def write_figures(trials: pd.DataFrame, folder: Path) -> list[Path]:
    """Everything that these trials give, in DIR/ and DIR/<study>/; returns the files. Raises OSError where they cannot be written."""
    files: list[Path] = []
    parts: list[tuple[Path, Made]] = [(folder, figures_of_all(trials))]
    for study, rows in trials.groupby("study"):
        for words, part in parts_of(rows):
            place = folder / check_name(str(study))
            parts.append((place / re.sub(r"[^A-Za-z0-9._=-]+", "-", words) if words else place, figures_of(part.reset_index(drop=True))))
    for place, made in parts:
        place.mkdir(parents=True, exist_ok=True)
        for name, figure in made:
            files += plots.save(figure, place / name)
    for name, table in tables_of(trials):
        for ending, text in (("md", tables.markdown(table)), ("tex", tables.latex(table, label=LABELS[name]))):
            publish(folder / f"{name}.{ending}", f"{text}\n".encode())
            files.append(folder / f"{name}.{ending}")
    return files


LABELS = {"methods": "tab:hp_res", "best-values": "tab:best_values", "base-numbers": "table:baselines", "memory": "table:xbm"}
"""File of a table -> its label in the paper, or one of its kind."""


def figures_of(trials: pd.DataFrame) -> Made:
    """The figures of one study, by name; those for which it lacks what they show are left out."""
    score = "test_score" if trials["test_score"].notna().any() else "val_score"
    balanced = trials[list(BALANCE[:2])].notna().all(axis=1).any()
    cells = grid_rows(trials)
    if balanced and is_grid(cells, BALANCE[:2]):
        averages, k, landscape = averages_of(cells), per_class(cells), grid(cells, score)
        yield "landscape", plots.grid_slices(landscape, averages, k)  # fig:hp_omniglot
        for size in landscape.ticks[2]:
            yield f"landscape-{size:g}", plots.plane(landscape, size, averages, k, select=grid(cells))  # fig:hp_tinyimagenet_infonce, fig:ssl_ctr
        if len(landscape.ticks[2]) > 1:
            yield "balance-gain", plots.gain_figure(balance_gain(landscape, k, averages, select=grid(cells)), score)  # fig:balance_gain
    elif balanced:
        yield "path", plots.path_figure(trials)
    terms = sublosses(trials, score)
    if len(terms):
        yield "sub-losses", plots.sublosses_figure(terms, score)  # fig:sublosses
    if trials["ended_at"].notna().any():
        yield "timeline", plots.timeline_figure(trials)


def figures_of_all(trials: pd.DataFrame) -> Made:
    """What compares searches across studies, and what needs no trial at all."""
    curves = curves_of(trials)
    score = "test_score" if trials["test_score"].notna().any() else "val_score"
    if curves:
        timed = all(pd.notna(curve.ended).all() for curve in curves)
        for over in ["trials"] + ["seconds"] * timed + ["gpu_seconds"] * (timed and (trials["gpus"].astype(float) > 0).any()):
            bands = {landscape: {method: mean_curve(own, over) for method, own in grouped(of, "method").items()} for landscape, of in grouped(curves, "landscape").items()}
            yield f"curves-{over.replace('_', '-')}", plots.curves_figure(bands, score)  # fig:hpo_curves, fig:omniglot3D
    if trials["Lambda_p"].isna().all():
        return  # nothing of a loss's two terms
    yield "directions", plots.directions_figure(balance.A_O, balance.A_TH)  # fig:viz_matrix_a
    yield "constraints", plots.constraints_figure()  # fig:constraints
    yield "pipeline", plots.pipeline_figure()  # fig:pipeline


def tables_of(trials: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables, by name; those that would be empty are left out."""
    curves = curves_of(trials)
    if curves:
        methods = {curve.method for curve in curves}
        columns = ["AUC@10", "AUC@20", "n-95"] + ["ΔAUC@20", "p@20"] * ("cd" in methods and len(methods) > 1)
        yield "methods", tables.compared(summary(curves, "cd" if "cd" in methods else None), columns)
    best = tables.best_values(trials)
    if len(best):
        yield "best-values", best
        published = {dataset for dataset, *_ in tables.BASE_NUMBERS}
        if any(str(dataset).split("-")[0] in published for dataset in best["dataset"]):
            yield "base-numbers", tables.base_numbers(trials)
    if set(trials["search"]) >= {"S1", "S3"}:
        yield "memory", tables.memory(trials)
