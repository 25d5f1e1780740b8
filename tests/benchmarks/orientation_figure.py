"""Comparison of A_O and A_I over a family of ridges, with measured landscapes placed among them."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullLocator

from tune_cd.plots.style import BLACK, BLUE, LARGE, NORMAL, VERMILION, cased, empty_figure, new_figure, outside_legend

COLOURS = LinearSegmentedColormap.from_list("A_O to A_I", [BLUE, "#F7F7F7", VERMILION])
MARKERS = "oDsv^P"
"""Markers of the measured landscapes; they repeat after six."""


def orientation_figure(family: pd.DataFrame, measured: pd.DataFrame) -> Figure:
    """AUC@20 of A_I less A_O (colour) over angle and aspect of ridges, a panel per floor share (across) and shelf
    (down).

    family: one row per ridge: aspect, angle, floor_share, shelf, difference, half (of its 95 % interval), the last two
    as shares of the ridge's height; a ridge of aspect 1 has one row. A cell whose interval excludes 0 is marked + (A_I
    ahead) or - (A_O ahead). measured: one row per landscape: its name, the same fields, and angle_low, angle_high,
    aspect_low, aspect_high. Each is drawn in the panel nearest to its floor share and shelf, and filled with the colour
    of its own difference.
    """
    if family.empty:
        return empty_figure("There is no ridge to draw.")
    shares, shelves = (np.sort(family[name].unique()) for name in ("floor_share", "shelf"))
    differences = np.concatenate([family["difference"], measured["difference"]]).astype(float)
    scale = Normalize(-np.nanmax(np.abs(differences)), np.nanmax(np.abs(differences)))
    figure = new_figure(2.4 * len(shares) + 1.8, 2.3 * len(shelves) + 1.4)
    panels = figure.subplots(len(shelves), len(shares), sharex=True, sharey=True, squeeze=False)
    for axes, (shelf, share) in zip(panels.flat, [(shelf, share) for shelf in shelves for share in shares]):
        _draw_family(axes, family[(family["floor_share"] == share) & (family["shelf"] == shelf)], scale)
        axes.set_title(
            f"{f'shelf of {100 * shelf:g} %' if shelf else 'flat floor'}, {100 * share:g} % of the box", fontsize=NORMAL
        )
    handles = []
    for n, (_, landscape) in enumerate(measured.iterrows()):
        at = _nearest(shelves, landscape["shelf"]), _nearest(np.log(1 - shares), np.log(1 - landscape["floor_share"]))
        handles.append(_draw_measured(panels[at], landscape, MARKERS[n % len(MARKERS)], scale))
    figure.supxlabel(
        "angle of the ridge to the joint direction (degrees, positive towards $\\Lambda_e$)", fontsize=NORMAL
    )
    figure.supylabel("aspect: length of the ridge by its width", fontsize=NORMAL)
    text = "AUC@20 of $A_I$ less that of $A_O$, share of the height\n+ and −: more than the 95 % interval"
    figure.colorbar(ScalarMappable(scale, COLOURS), ax=panels, label=text)
    if handles:
        outside_legend(figure, handles, "upper")
    return figure


def _draw_family(axes: Axes, rows: pd.DataFrame, scale: Normalize) -> None:
    """Draw each ridge as a cell; a round one is as wide as the panel."""
    angles, aspects = np.sort(rows["angle"].unique()), np.sort(rows["aspect"].unique())
    columns, edges = _edges(angles), np.exp(_edges(np.log(aspects)))
    for _, row in rows.iterrows():
        at, up = np.searchsorted(angles, row["angle"]), np.searchsorted(aspects, row["aspect"])
        alone = (rows["aspect"] == row["aspect"]).sum() == 1
        left, right = (columns[0], columns[-1]) if alone else columns[at : at + 2]
        axes.fill_between([left, right], edges[up], edges[up + 1], color=COLOURS(scale(row["difference"])), linewidth=0)
        if abs(row["difference"]) > row["half"]:
            middle = (left + right) / 2, np.sqrt(edges[up] * edges[up + 1])
            axes.text(
                *middle,
                "+" if row["difference"] > 0 else "−",
                ha="center",
                va="center",
                fontsize=LARGE,
                color=BLACK,
                alpha=0.55,
            )
    axes.set(yscale="log", xlim=(columns[0], columns[-1]), ylim=(edges[0], edges[-1]))
    axes.xaxis.set_major_locator(FixedLocator(angles[:: max(1, (len(angles) - 1) // 2)]))
    axes.yaxis.set_major_locator(FixedLocator(aspects))
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.yaxis.set_minor_locator(NullLocator())


def _draw_measured(axes: Axes, landscape: pd.Series, marker: str, scale: Normalize) -> Line2D:
    """Draw a landscape at its place with 95 % intervals, clipped to the panel; returns a handle for the legend."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    inset = (top / bottom) ** 0.05
    x = np.clip([landscape[f"angle{end}"] for end in ("", "_low", "_high")], left, right)
    y = np.clip([landscape[f"aspect{end}"] for end in ("", "_low", "_high")], bottom, top)
    middle = np.clip(x[0], left, right), np.clip(y[0], bottom * inset, top / inset)
    axes.plot(x[1:], [middle[1]] * 2, color=BLACK, linewidth=1.1, path_effects=cased(3), zorder=3)
    axes.plot([middle[0]] * 2, y[1:], color=BLACK, linewidth=1.1, path_effects=cased(3), zorder=3)
    colour = COLOURS(scale(landscape["difference"]))
    text = f"{landscape['landscape']}: {landscape['difference']:+.2f} ±{landscape['half']:.2f}"
    look = {
        "linestyle": "none",
        "marker": marker,
        "color": colour,
        "markeredgecolor": BLACK,
        "markeredgewidth": 1.4,
        "markersize": 10,
    }
    axes.plot(*middle, label=text, path_effects=cased(4), zorder=4, **look)
    return Line2D([], [], label=text, **look)


def _nearest(values: np.ndarray, value: float) -> int:
    return int(np.argmin(np.abs(values - value)))


def _edges(middles: np.ndarray) -> np.ndarray:
    """Edges [n + 1] of cells around n ascending midpoints."""
    if len(middles) == 1:
        return middles[0] + np.array([-0.5, 0.5])
    inner = (middles[1:] + middles[:-1]) / 2
    return np.concatenate([[2 * middles[0] - inner[0]], inner, [2 * middles[-1] - inner[-1]]])
