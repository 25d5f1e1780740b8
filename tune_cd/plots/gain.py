"""The gain of balancing, and the relation of the loss's terms to the score (`fig:balance_gain`, `fig:sublosses`)."""

from itertools import combinations

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
    COLOURS,
    NORMAL,
    SMALL,
    batch_axis,
    empty_figure,
    label,
    new_figure,
    plain,
    rows_and_columns,
)

MARKERS = "osD^vP"
"""Markers of the batch sizes in `sublosses_figure`."""


def gain_figure(gain: pd.DataFrame, score: str = "score", by: str = "") -> Figure:
    """`fig:balance_gain`: the best score at each batch size, with the balance tuned and with each average's.

    gain: the result of `analysis.balance_gain`. score: the score's name, for the label; by: the name of the score by
    which cells were chosen, if it is another.
    """
    if not gain["best"].notna().any():
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
        gains = gain[[f"gain_{name}" for name in averages]]
        least = gains.eq(gains.min(axis=1), axis=0).to_numpy()  # of the better average
        conventional = gain[averages].where(least).max(axis=1)
        axes.fill_between(gain.index, conventional, gain["best"], color=BALANCED.colour, alpha=0.10, linewidth=0)
        than = f"{averages[0]} average" if len(averages) == 1 else "better of the averages"
        words = f"balancing gains {gains.min(axis=1).mean():+.3f} over the {than}, mean over batch sizes"
        axes.set_title(words, fontsize=NORMAL)
    batch_axis(axes.xaxis, gain.index)
    axes.set_xlabel(label("batch_size"))
    axes.set_ylabel(f"{label(score)} of the best by {by}" if by else f"best {label(score)}")
    plain(axes)
    axes.legend(fontsize=NORMAL, frameon=False)
    return figure


def sublosses_figure(table: pd.DataFrame, score: str = "score", sign: float = 1.0) -> Figure:
    """`fig:sublosses`: settings over the terms after training, by score (colour) and batch size (marker).

    With more than two terms there is a panel for each pair of them. table: the result of `analysis.sublosses`. Up to
    six batch sizes have a marker of their own. sign: -1 if a smaller score is better, as of `Grid`.
    """
    if table.empty:
        return empty_figure("No completed trial has measured all terms of the loss.")
    terms = list(table)[: list(table).index("score")]
    pairs = list(combinations(terms, 2))
    rows, columns = rows_and_columns(len(pairs))
    figure = new_figure(4.6 * columns + 1.8, 4.4 * rows + 0.8)
    panels = figure.subplots(rows, columns, squeeze=False)
    table = table.sort_values("score", kind="stable", ascending=sign > 0)  # the best are drawn last, on top
    shades = ScalarMappable(Normalize(table["score"].min(), table["score"].max()), COLOURS[sign])
    for panel, pair in zip(panels.flat, pairs):
        handles = _draw_settings(panel, table, pair, shades)
        panel.set_xlabel(label(pair[0]))
        panel.set_ylabel(label(pair[1]))
        plain(panel)
        panel.margins(0.05)
        if handles and panel is panels.flat[0]:
            panel.legend(handles=handles, fontsize=SMALL, frameon=True, framealpha=0.85)
    for panel in panels.flat[len(pairs) :]:
        panel.set_visible(False)
    figure.colorbar(shades, ax=panels, label=label(score))
    panels[0, 0].set_title(f"{len(table)} settings, means over their trainings", fontsize=NORMAL)
    return figure


def _draw_settings(axes: Axes, table: pd.DataFrame, pair: tuple[str, str], shades: ScalarMappable) -> list[Line2D]:
    """Draw settings by score (colour) and batch size (marker); returns handles if there are several sizes."""
    sizes = sorted(table["batch_size"].dropna().unique())
    groups = [("settings", "o", table)]
    if len(sizes) <= len(MARKERS) and table["batch_size"].notna().all():
        groups = [(f"b = {size:g}", MARKERS[i], table[table["batch_size"] == size]) for i, size in enumerate(sizes)]
    handles = []
    for name, marker, rows in groups:
        x, y, score = (rows[column].astype(float) for column in (*pair, "score"))
        look = {"marker": marker, "s": 38, "edgecolors": BLACK, "linewidths": 0.5}
        axes.scatter(x, y, c=score, cmap=shades.cmap, norm=shades.norm, label=name, zorder=3, **look)
        shape = {"linestyle": "none", "marker": marker, "color": "#BBBBBB", "markeredgecolor": BLACK}
        handles.append(Line2D([], [], label=name, **shape))
    return handles if len(groups) > 1 else []
