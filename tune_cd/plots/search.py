"""What a study's searches found: every trial in the plane of both weights, and the best so far after each."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tune_cd import balance
from tune_cd.analysis import best_so_far, best_trial, parts_of
from tune_cd.plots.style import AVERAGES, BLACK, COLOUR_MAP, LARGE, VERMILION, label, plain, styles_of


def search_figure(
    trials: pd.DataFrame,
    averages: tuple[str, ...],
    batch_size: int,
    k: int,
    box: tuple[float, float],
    runs: pd.DataFrame | None = None,
) -> Figure:
    """The visited points with the recipes' diagonals, and best-so-far curves.

    trials: one study's rows, a row a setting; where its searches pause with the column `paused` (`analysis.runs`), and
    runs: all rows, for the curves. averages: the recipes whose diagonals are drawn, at `batch_size` with k per class.
    box: the range of both Lambdas.
    """
    figure = Figure(figsize=(11, 5.3), layout="constrained")
    figure.get_layout_engine().set(wspace=0.04, h_pad=0.1)
    plane, curves = figure.subplots(1, 2)
    draw_plane(plane, trials if "paused" in trials else trials.assign(paused=False), averages, batch_size, k, box)
    draw_curves(curves, trials if runs is None else runs)
    first = trials.iloc[0]
    sizes = sorted(trials["batch_size"].dropna().unique()) or [batch_size]
    b = f"b = {sizes[0]}" if len(sizes) == 1 else f"b = {', '.join(map(str, sizes))}"
    figure.suptitle(f"{first['dataset']}, {first['loss']} loss, {b}: study {first['study']}", fontsize=LARGE)
    return figure


def draw_plane(
    axes: Axes, trials: pd.DataFrame, averages: tuple[str, ...], batch_size: int, k: int, box: tuple[float, float]
) -> None:
    """Every trial in the (Lambda_p, Lambda_e) plane, coloured by validation score, with the recipes' diagonals."""
    at = f" at b = {batch_size}" if trials["batch_size"].nunique() > 1 else ""
    line = np.array(box)
    for average in averages:
        look = {"linestyle": AVERAGES[average].line, "color": AVERAGES[average].colour, "linewidth": 1.5}
        ratio = balance.ratio(average, batch_size, k)
        axes.plot(line, line * ratio, label=f"{average} average{at}", zorder=1, **look)
    _draw_trials(axes, trials)
    axes.set(xscale="log", yscale="log", xlim=box, ylim=box, xlabel=label("Lambda_p"), ylabel=label("Lambda_e"))
    axes.set_aspect("equal")
    axes.figure.legend(
        *axes.get_legend_handles_labels(), fontsize=8, loc="outside lower left", ncols=3, frameon=False, markerscale=0.6
    )


def _draw_trials(axes: Axes, trials: pd.DataFrame) -> None:
    """A mark a trial, by its search and score, a small one where it paused; crosses for those without a score; a ring
    around the best."""
    scored = trials[trials["val_score"].notna()]
    shades = {"vmin": scored["val_score"].min(), "vmax": scored["val_score"].max(), "cmap": COLOUR_MAP}
    mark = {"edgecolors": BLACK, "linewidths": 0.6, "clip_on": False}
    styles = styles_of(trials["search"])
    for search, rows in scored.groupby("search", sort=False):
        size = np.where(rows["paused"], 22, 60)
        look = {"marker": styles[search].marker, "label": f"{search} ({len(rows)} trials)", "s": size, **mark, **shades}
        drawn = axes.scatter(rows["Lambda_p"], rows["Lambda_e"], c=rows["val_score"], zorder=3, **look)
    lost = trials[trials["val_score"].isna()]
    if len(lost):
        cross = {"marker": "x", "color": VERMILION, "s": 50, "label": "diverged or failed"}
        axes.scatter(lost["Lambda_p"], lost["Lambda_e"], zorder=3, **cross)
    whole = trials[~trials["paused"]]
    bests = [trial for trial in (best_trial(rows) for _, rows in parts_of(whole)) if trial is not None]
    if bests:
        text = "best" if len(bests) == 1 else "best of each set-up"
        places = pd.DataFrame(bests)[["Lambda_p", "Lambda_e"]].to_numpy(dtype=float).T
        ring = {"s": 260, "facecolors": "none", "edgecolors": VERMILION, "linewidths": 2, "clip_on": False}
        axes.scatter(*places, label=text, zorder=4, **ring)
        axes.figure.colorbar(drawn, ax=axes, label=f"validation {bests[0]['metric_name']}")


def draw_curves(axes: Axes, trials: pd.DataFrame) -> None:
    """Best validation score after each trial, a curve a search."""
    styles = styles_of(trials["search"])
    for search, rows in trials.groupby("search", sort=False):
        curve = best_so_far(rows)
        style = styles[search]
        look = {"color": style.colour, "linestyle": style.line, "marker": style.marker, "markersize": 5}
        axes.step(curve.index, curve, where="post", label=search, **look)
        if curve.notna().any():
            last = curve.index[-1], curve.iloc[-1]
            place = {"textcoords": "offset points", "xytext": (6, -3), "fontsize": 8, "color": style.colour}
            axes.annotate(f"{last[1]:.3f}", last, **place)
    metric = trials["metric_name"].iloc[0]
    axes.set(xlabel=label("trials"), ylabel=f"best validation {metric} so far")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    plain(axes)
    axes.margins(x=0.14)  # room for the last values
    axes.figure.legend(*axes.get_legend_handles_labels(), fontsize=8, loc="outside lower right", ncols=3, frameon=False)
