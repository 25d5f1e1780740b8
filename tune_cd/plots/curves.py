"""How fast searches find a good balance (`fig:hpo_curves`, `fig:omniglot3D`)."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tune_cd.plots.style import (
    BLACK,
    LABELS,
    NORMAL,
    SMALL,
    Style,
    empty_figure,
    label,
    new_figure,
    outside_legend,
    plain,
    rows_and_columns,
    styles_of,
)

Bands = Mapping[str, Mapping[str, pd.DataFrame]]

LETTERS = 11.5  # of a title per inch
TARGET = {"color": BLACK, "linewidth": 0.8, "linestyle": (0, (2, 3)), "label": "within 5 % of the best"}


def curves_figure(bands: Bands, score: str, target: Mapping[str, float] | None = None) -> Figure:
    """`fig:hpo_curves`, `fig:omniglot3D`: mean best-so-far curves, a panel per problem, a curve and band per method.

    bands: problem -> method -> result of `analysis.mean_curve`: mean, low, high, indexed by "trials" or "seconds", the
    x axis. target: problem -> a score that is drawn as a line, 95 % of the best, or of a loss 105 %. score: a column's
    name, or the words of the y axis. Raises ValueError for curves over different indices.
    """
    problems = {
        problem: {m: c for m, c in methods.items() if c["mean"].notna().any()} for problem, methods in bands.items()
    }
    problems = {problem: methods for problem, methods in problems.items() if methods}
    if not problems:
        return empty_figure("There is no curve to draw: no trial has completed.")
    names = sorted({str(curve.index.name) for methods in problems.values() for curve in methods.values()})
    if len(names) > 1:
        raise ValueError(f"curves over {names} on one figure: all over the same is required")
    styles = styles_of(method for methods in problems.values() for method in methods)
    figure, panels = _panels(list(problems))
    for panel in panels[:, 0]:
        panel.set_ylabel(f"{LABELS[score]} of the best so far" if score in LABELS else score, fontsize=NORMAL)
    for panel, (problem, methods) in zip(panels.flat, problems.items()):
        _draw_curves(panel, methods, styles)
        if target and problem in target:
            panel.axhline(target[problem], **TARGET)
        panel.set_xlabel(label(names[0]), fontsize=NORMAL)
    handles = [
        Line2D([], [], color=s.colour, linestyle=s.line, marker=s.marker, linewidth=1.8, markersize=5.5, label=m)
        for m, s in styles.items()
    ]
    if target and set(target) & set(problems):
        handles.append(Line2D([], [], **TARGET))
    outside_legend(figure, handles, "lower")
    return figure


def _panels(problems: Sequence[str]) -> tuple[Figure, np.ndarray]:
    """A figure with one panel per problem; titles wider than a panel are broken."""
    rows, columns = rows_and_columns(len(problems))
    width, height = max(6.4, 3.4 * columns), 3.1 * rows + 0.7 if len(problems) > 1 else 4.4
    titles = [fill(problem, int(width / columns * LETTERS), break_on_hyphens=False) for problem in problems]
    figure = new_figure(width, height + 0.15 * rows * max(title.count("\n") for title in titles))
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel, title in zip(panels.flat, titles):
        panel.set_title(title, fontsize=NORMAL)
    for panel in panels.flat[len(problems) :]:
        panel.set_visible(False)
    return figure, panels


def _draw_curves(axes: Axes, methods: Mapping[str, pd.DataFrame], styles: Mapping[str, Style]) -> None:
    """Draw bands below step curves of the means; markers are offset so that those of different curves stay apart."""
    for i, (method, curve) in enumerate(methods.items()):
        style, every = styles[method], max(1, len(curve) // 8)
        band = {"color": style.colour, "alpha": 0.15, "linewidth": 0, "label": method}
        axes.fill_between(curve.index, curve["low"], curve["high"], step="post", **band)
        marks = {"marker": style.marker, "markersize": 5, "markevery": ((i * every) // max(1, len(methods)), every)}
        line = {"color": style.colour, "linestyle": style.line, "linewidth": 1.7, "drawstyle": "steps-post"}
        axes.plot(curve.index, curve["mean"], label=method, zorder=3, **line, **marks)
    over_trials = next(iter(methods.values())).index.name == "trials"
    if not over_trials:
        axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=over_trials))
    axes.tick_params(labelsize=SMALL)
    plain(axes)
