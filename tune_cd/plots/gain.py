"""What balancing gains, and how both terms of the loss relate to the score (`fig:balance_gain`, `fig:sublosses`)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tune_cd.plots.style import (
    AVERAGES,
    BALANCED,
    BLACK,
    COLOUR_MAP,
    NORMAL,
    SMALL,
    batch_axis,
    empty_figure,
    label,
    new_figure,
    plain,
)

MARKERS = "osD^vP"
"""One a batch size, in `sublosses_figure`."""


def gain_figure(gain: pd.DataFrame, score: str = "val_score") -> Figure:
    """`fig:balance_gain`: the best score at each batch size, with the balance tuned and with each average's.

    gain: what `analysis.balance_gain` returns. score: the score's name, for the label.
    """
    if gain.empty or not gain["best"].notna().any():
        return empty_figure("No batch size has a best score: no trial has completed.")
    if gain.index.isna().any():
        return empty_figure("The trials do not say their batch size.")
    figure = new_figure(6.6, 4.2)
    axes = figure.subplots()
    averages = [name.removeprefix("gain_") for name in gain if name.startswith("gain_")]
    for name in ("best", *averages):
        style = AVERAGES.get(name, BALANCED)
        text = "balanced" if name == "best" else f"{name} average"
        look = {"color": style.colour, "linestyle": style.line, "marker": style.marker}
        axes.plot(gain.index, gain[name], linewidth=2, markersize=6.5, label=text, **look)
    if averages:
        conventional = gain[averages].max(axis=1)
        axes.fill_between(gain.index, conventional, gain["best"], color=BALANCED.colour, alpha=0.10, linewidth=0)
        than = f"{averages[0]} average" if len(averages) == 1 else "better of the averages"
        axes.set_title(
            f"balancing gains {mean_gain(gain):+.3f} over the {than}, mean over batch sizes", fontsize=NORMAL
        )
    batch_axis(axes.xaxis, gain.index)
    axes.set_xlabel(label("batch_size"))
    axes.set_ylabel(f"best {label(score)}")
    plain(axes)
    axes.legend(fontsize=NORMAL, frameon=False)
    return figure


def sublosses_figure(table: pd.DataFrame, score: str = "val_score") -> Figure:
    """`fig:sublosses`: a setting a point, its place both terms after training, its colour the score, its shape the
    batch size.

    table: what `analysis.sublosses` returns. Up to six batch sizes have a shape of their own. The settings that no
    other beats in both terms, the table's `front` where it has one, are joined by a line.
    """
    if table.empty:
        return empty_figure("No completed trial has measured both terms of the loss.")
    figure = new_figure(6.4, 5.2)
    axes = figure.subplots()
    table = table.sort_values("score", kind="stable")  # the best on top
    sizes = sorted(table["batch_size"].dropna().unique())
    few = len(sizes) <= len(MARKERS) and table["batch_size"].notna().all()
    scale = Normalize(table["score"].min(), table["score"].max())
    groups = [("settings", "o", table)]
    if few:
        groups = [(f"b = {size:g}", MARKERS[i], table[table["batch_size"] == size]) for i, size in enumerate(sizes)]
    shapes = [_draw_settings(axes, rows, marker, name, scale) for name, marker, rows in groups]
    handles = shapes if len(groups) > 1 else []
    if "front" in table and table["front"].astype(bool).sum() > 1:
        front = table[table["front"].astype(bool)].sort_values("positive_term")
        joined = {"color": BLACK, "linestyle": ":", "linewidth": 1, "label": "none is lower in both", "zorder": 2}
        handles += axes.plot(front["positive_term"], front["entropy_term"], **joined)
    axes.set_xlabel(label("positive_term"))
    axes.set_ylabel(label("entropy_term"))
    figure.colorbar(ScalarMappable(scale, COLOUR_MAP), ax=axes, label=label(score))
    axes.set_title(f"{len(table)} settings, means over their trainings", fontsize=NORMAL)
    plain(axes)
    axes.margins(0.05)
    if handles:
        axes.legend(handles=handles, fontsize=SMALL, frameon=True, framealpha=0.85)
    return figure


def _draw_settings(axes: Axes, rows: pd.DataFrame, marker: str, name: str, scale: Normalize) -> Line2D:
    """Settings as points, their colour the score; a handle for the legend."""
    x, y, score = (rows[column].astype(float) for column in ("positive_term", "entropy_term", "score"))
    look = {"marker": marker, "s": 38, "edgecolors": BLACK, "linewidths": 0.5}
    axes.scatter(x, y, c=score, cmap=COLOUR_MAP, norm=scale, label=name, zorder=3, **look)
    return Line2D([], [], linestyle="none", marker=marker, color="#BBBBBB", markeredgecolor=BLACK, label=name)


def mean_gain(gain: pd.DataFrame) -> float:
    """Mean over batch sizes of the best score less the best of the averages."""
    averages = [name.removeprefix("gain_") for name in gain if name.startswith("gain_")]
    return float(np.nanmean(gain["best"] - gain[averages].max(axis=1)))
