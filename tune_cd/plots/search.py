"""A study's searches: every trial in the planes of the weights, and the best-so-far curves."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tune_cd import balance
from tune_cd.analysis import best_so_far, best_trial, parts_of
from tune_cd.analysis.scores import BALANCE, parameter, parameter_of, published_of, signs
from tune_cd.plots.style import BLACK, COLOURS, LARGE, METHODS, VERMILION, label, plain, rows_and_columns, styles_of

AXES = (1e-200, 1e200)
"""Range of a logarithmic axis, whose margins and ticks lie beyond it."""


def search_figure(
    trials: pd.DataFrame,
    averages: tuple[str, ...],
    batch_size: int,
    k: int,
    box: tuple[float, float],
    runs: pd.DataFrame | None = None,
    weights: Sequence[str] = BALANCE[:2],
) -> Figure:
    """The trials in the plane of each pair of weights with the recipes' diagonals, and best-so-far curves.

    trials: one study's rows, one per setting; with the column `paused` (`analysis.runs`) if its searches pause.
    runs: all rows, for the curves; None: `trials`. averages: the recipes whose diagonals are drawn, at `batch_size`
    with k items per class. box: the range of all weights. weights: their names.
    """
    pairs = list(combinations(weights, 2))
    rows, columns = rows_and_columns(len(pairs) + 1)
    figure = Figure(figsize=(5.5 * columns, 4.7 * rows + 0.6), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for unused in panels[len(pairs) + 1 :]:
        unused.remove()
    *planes, curves = panels[: len(pairs) + 1]
    known = trials if "paused" in trials else trials.assign(paused=False)
    for axes, pair in zip(planes, pairs, strict=True):
        draw_plane(axes, known, averages, batch_size, k, box, pair)
    scored = next((one for axes in planes for one in axes.collections if one.get_array() is not None), None)
    if scored is not None:
        figure.colorbar(scored, ax=planes, label=f"validation {trials['metric_name'].iloc[0]}")
    look = {"fontsize": 8, "loc": "outside lower left", "ncols": 3, "frameon": False, "markerscale": 0.6}
    figure.legend(*(planes[0] if planes else curves).get_legend_handles_labels(), **look)
    draw_curves(curves, trials if runs is None else runs)
    first, sizes = trials.iloc[0], sorted(trials["batch_size"].dropna().unique()) or [batch_size]
    b = f"b = {', '.join(map(str, sizes))}"
    figure.suptitle(f"{first['dataset']}, {first['loss']} loss, {b}: study {first['study']}", fontsize=LARGE)
    return figure


def draw_plane(
    axes: Axes,
    trials: pd.DataFrame,
    averages: tuple[str, ...],
    batch_size: int,
    k: int,
    box: tuple[float, float],
    pair: tuple[str, str] = BALANCE[:2],
) -> None:
    """Draw every trial in the plane of two weights, coloured by validation score, with the recipes' diagonals."""
    at = f" at b = {batch_size}" if trials["batch_size"].nunique() > 1 else ""
    line = np.clip(box, *AXES)
    look = {"xlabel": label(pair[0]), "ylabel": label(pair[1])}
    axes.set(xscale="log", yscale="log", xlim=line, ylim=line, **look)  # first: margins of a wide range would overflow
    for average in averages:
        look = {"linestyle": METHODS[average].line, "color": METHODS[average].colour, "linewidth": 1.5}
        if average == balance.PUBLISHED:
            published = published_of(trials)
            ratio, words = published[pair[1]] / published[pair[0]], "published weights"
        else:
            ratio, words = balance.ratio(average, batch_size, k), f"{average} average{at}"
        axes.plot(line, line * ratio, label=words, zorder=1, **look)
    _draw_trials(axes, trials, pair)
    axes.set_aspect("equal")


def _draw_trials(axes: Axes, trials: pd.DataFrame, pair: tuple[str, str]) -> None:
    """Draw a marker per trial by search and score, small if it paused, a cross without score; a ring around the
    best."""
    scored, lost = trials[trials["val_score"].notna()], trials[trials["val_score"].isna()]
    shades = {"vmin": scored["val_score"].min(), "vmax": scored["val_score"].max(), "cmap": COLOURS[signs(trials)[0]]}
    mark = {"edgecolors": BLACK, "linewidths": 0.6, "clip_on": False, "zorder": 3}
    styles = styles_of(trials["search"])
    for search, rows in scored.groupby("search", sort=False):
        size, text = np.where(rows["paused"], 22, 60), f"{search} ({len(rows)} trials)"
        look = {"marker": styles[search].marker, "label": text, "s": size, "c": rows["val_score"], **mark, **shades}
        axes.scatter(*(parameter(rows, name) for name in pair), **look)
    if len(lost):
        cross = {"marker": "x", "color": VERMILION, "s": 50, "label": "diverged or failed"}
        axes.scatter(*(parameter(lost, name) for name in pair), zorder=3, **cross)
    whole = trials[~trials["paused"]]
    bests = [trial for trial in (best_trial(rows) for _, rows in parts_of(whole)) if trial is not None]
    if bests:
        text = "best of all" if len(bests) == 1 else "best of each set-up"
        ring = {"s": 260, "facecolors": "none", "edgecolors": VERMILION, "linewidths": 2, "clip_on": False}
        axes.scatter(*([parameter_of(best, name) for best in bests] for name in pair), label=text, zorder=4, **ring)


def draw_curves(axes: Axes, trials: pd.DataFrame) -> None:
    """Draw the best validation score after each trial, one curve per search."""
    styles = styles_of(trials["search"])
    for search, rows in trials.groupby("search", sort=False):
        curve, style = best_so_far(rows), styles[search]
        look = {"color": style.colour, "linestyle": style.line, "marker": style.marker, "markersize": 5}
        axes.step(curve.index, curve, where="post", label=search, **look)
    axes.set(xlabel=label("trials"), ylabel=f"best validation {trials['metric_name'].iloc[0]} so far")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    plain(axes)
    axes.figure.legend(*axes.get_legend_handles_labels(), fontsize=8, loc="outside lower right", ncols=3, frameon=False)
