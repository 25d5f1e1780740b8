"""Draws what `analysis` returns. Figures in, nothing read or written."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tune_cd import balance
from tune_cd.analysis import best_so_far, best_trial

DIAGONAL_STYLES = {"separate": ("--", "#b8860b"), "global": (":", "#444444")}
MARKERS = {"separate": "s", "global": "D", "without": "s", "S1": "^", "S2": "D", "without-tuned": "v"}  # a search's own; the descent has circles
COLOURS = {"separate": "#b8860b", "global": "#444444", "without": "#b8860b", "S1": "#c23b22", "S2": "#444444", "without-tuned": "#56b4e9"}
DESCENT_COLOUR = "#1f5fa8"


def search_figure(trials: pd.DataFrame, averages: tuple[str, ...], batch_size: int, k: int, box: tuple[float, float]) -> Figure:
    """The visited points with the recipes' diagonals, and best-so-far curves; trials: one study's rows.

    averages: the recipes whose diagonals are drawn, at `batch_size` with k per class. box: the range of both Lambdas.
    """
    figure = Figure(figsize=(11, 5), layout="constrained")
    plane, curves = figure.subplots(1, 2)
    draw_plane(plane, trials, averages, batch_size, k, box)
    draw_curves(curves, trials)
    first = trials.iloc[0]
    figure.suptitle(f"{first['dataset']}, {first['loss']} loss, b = {batch_size}: study {first['study']}", fontsize=11)
    return figure


def draw_plane(axes: Axes, trials: pd.DataFrame, averages: tuple[str, ...], batch_size: int, k: int, box: tuple[float, float]) -> None:
    """Every trial in the (Lambda_p, Lambda_e) plane, coloured by validation score, with the recipes' diagonals."""
    low, high = box
    line = np.array([low, high])
    for average in averages:
        positive, entropy = balance.average_weights(average, batch_size, k)
        style, colour = DIAGONAL_STYLES[average]
        axes.plot(line, line * entropy / positive, style, color=colour, linewidth=1.5, label=f"{average} average", zorder=1)
    scored = trials[trials["val_score"].notna()]
    shades = {"vmin": scored["val_score"].min(), "vmax": scored["val_score"].max(), "cmap": "viridis"}
    for search, rows in scored.groupby("search", sort=False):
        drawn = axes.scatter(
            rows["Lambda_p"], rows["Lambda_e"], c=rows["val_score"], marker=MARKERS.get(search, "o"),
            s=60, edgecolors="black", linewidths=0.6, label=f"{search} ({len(rows)} trials)", zorder=3, clip_on=False, **shades,
        )  # fmt: skip
    lost = trials[trials["val_score"].isna()]
    if len(lost):
        axes.scatter(lost["Lambda_p"], lost["Lambda_e"], marker="x", color="#c23b22", s=50, label="diverged or failed", zorder=3)
    best = best_trial(trials)
    if best is not None:
        axes.scatter(best["Lambda_p"], best["Lambda_e"], s=260, facecolors="none", edgecolors="#c23b22", linewidths=2, label="best", zorder=4, clip_on=False)
        axes.figure.colorbar(drawn, ax=axes, label=f"validation {best['metric_name']}")
    axes.set(xscale="log", yscale="log", xlim=box, ylim=box, xlabel=r"$\Lambda_p$ (positive term)", ylabel=r"$\Lambda_e$ (entropy term)")
    axes.set_aspect("equal")
    axes.figure.legend(*axes.get_legend_handles_labels(), fontsize=8, loc="outside lower left", ncols=6, frameon=False, markerscale=0.6)


def draw_curves(axes: Axes, trials: pd.DataFrame) -> None:
    """Best validation score after each trial, a curve a search."""
    for search, rows in trials.groupby("search", sort=False):
        curve = best_so_far(rows)
        colour = COLOURS.get(search, DESCENT_COLOUR)
        axes.step(curve.index, curve, where="post", color=colour, marker=MARKERS.get(search, "o"), markersize=4, label=search)
        if curve.notna().any():
            axes.annotate(f"{curve.iloc[-1]:.3f}", (curve.index[-1], curve.iloc[-1]), textcoords="offset points", xytext=(6, -3), fontsize=8, color=colour)
    metric = trials["metric_name"].iloc[0]
    axes.set(xlabel="trials (training runs)", ylabel=f"best validation {metric} so far")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.margins(x=0.14)  # room for the last values
    axes.legend(loc="lower right")
