"""Landscapes M(h) as fields of coloured cells (`fig:hp_omniglot`, `fig:hp_tinyimagenet_infonce`, `fig:ssl_ctr`).

A cell extends half-way, in log space, to its neighbours on either side. The settings that a conventional recipe reaches
by its learning rate alone are a diagonal: dashed for the separate average, dotted for the global one, dashed with two
dots for the published weights of other losses.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tune_cd import balance
from tune_cd.analysis.gain import reachable
from tune_cd.analysis.grids import Grid
from tune_cd.analysis.scores import BALANCE, SPLITS
from tune_cd.balance import WEIGHT
from tune_cd.plots.style import (
    AVERAGES,
    BALANCED,
    BLACK,
    COLOUR_MAP,
    HOLE,
    LOST,
    METHODS,
    NORMAL,
    SMALL,
    cased,
    empty_figure,
    label,
    log_axis,
    new_figure,
    outside_legend,
    symbol,
)

TOP = 8  # best cells of a slice that are outlined
LONELY = 0.5  # octaves from an axis's only tick to its cell's edges
NOTHING: Mapping[str, float] = {}
TALL = 3.5  # inches that the label of the y axis needs
INSET = 0.07  # share of a cell between its edge and the square that outlines it


def grid_slices(
    grid: Grid,
    averages: Sequence[str] = balance.AVERAGES,
    k: int = 2,
    published: Mapping[str, float] = NOTHING,
) -> Figure:
    """`fig:hp_omniglot`: a square per batch size with the averages' diagonals, the TOP best cells outlined.

    grid: of two axes, or of three with a slice for each value of the last. averages: drawn if the axes are (Lambda_p,
    Lambda_e, batch_size). k: items per class in a batch. published: weight -> coefficient of another loss, drawn if the
    first two axes are such weights: as a diagonal, or as a point in each slice if the last axis is a third weight.
    Raises ValueError for other numbers of axes, an unknown average, and, if the global average is to be drawn, a batch
    size that is NaN or not a multiple of k.
    """
    slices = _slices(grid)
    if not np.isfinite(grid.values).any():
        return empty_figure(f"No cell of the grid has a {grid.words or label(grid.score)}: no trial has completed.")
    columns = len(slices) if len(slices) <= 3 else 2 if len(slices) == 4 else 3 if len(slices) <= 9 else 4
    rows = -(-len(slices) // columns)
    shape = _shape(grid)
    side = {1: 4.2, 2: 3.3}.get(columns, 2.75)  # inches
    figure = new_figure(max(side * columns * min(1, shape) + 1.3, 5), max(side * rows * min(1, 1 / shape), TALL) + 1.2)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    scale = Normalize(np.nanmin(grid.values), np.nanmax(grid.values))
    for panel, (tick, place) in zip(panels.flat, slices):
        _draw_slice(panel, grid, place, scale, _diagonals(grid, averages, tick, k, published))
        _draw_published(panel, grid, tick, published)
        panel.set_title(
            f"{symbol(grid.names[2])} = {tick:g}" if tick is not None and np.isfinite(tick) else "", fontsize=NORMAL
        )
    if columns > 1 and np.log10(grid.ticks[0][-1] / grid.ticks[0][0]) < 2:  # tick labels are numbers, wider than powers
        for panel in panels.flat:
            panel.tick_params(axis="x", labelrotation=60)
    for panel in panels.flat[len(slices) :]:
        panel.set_visible(False)
    for panel in panels.flat[max(0, len(slices) - columns) : len(slices)]:
        panel.tick_params(labelbottom=True)  # also above an empty place of the last row
    if len(slices) == 1:
        _name_axes(panels[0, 0], grid)
    else:
        figure.supxlabel(label(grid.names[0]), fontsize=NORMAL)
        figure.supylabel(label(grid.names[1]), fontsize=NORMAL)
    figure.colorbar(
        ScalarMappable(scale, COLOUR_MAP), ax=panels, label=(grid.words or label(grid.score)), shrink=0.9, aspect=30
    )
    _legend(figure, grid, _shown(grid, averages, published))
    return figure


def plane(
    grid: Grid,
    batch_size: float,
    averages: Sequence[str] = balance.AVERAGES,
    k: int = 2,
    select: Grid | None = None,
) -> Figure:
    """`fig:hp_tinyimagenet_infonce`, `fig:ssl_ctr`: one slice, its best cell and the best that each average reaches.

    batch_size: the slice. select: the grid in which the best cells are chosen, such as the validation score's; None:
    `grid` itself, as in the paper's figures. Raises ValueError as `grid_slices`, and for a batch size that the grid
    does not have.
    """
    slices = dict(_slices(grid))
    if batch_size not in slices:
        raise ValueError(f"batch_size {batch_size}: one of {list(slices)}")
    place, named = slices[batch_size], f"{symbol(grid.names[2])} = {batch_size:g}"
    values = grid.values[place]
    if not np.isfinite(values).any():
        return empty_figure(f"No cell with {named} has a {grid.words or label(grid.score)}: no trial has completed.")
    shape = _shape(grid)
    figure = new_figure(max(7.6 * min(1, shape), 7), max(5.3 * min(1, 1 / shape), TALL) + 1.4)
    axes = figure.subplots()
    scale = Normalize(np.nanmin(values), np.nanmax(values))
    shown = _shown(grid, averages)
    _draw_slice(axes, grid, place, scale, _diagonals(grid, averages, batch_size, k))
    marked = {"best": np.isfinite(values)} | {average: _reached(grid, average, k, place) for average in shown}
    chosen_by = values if select is None else np.where(np.isfinite(values), select.values[place], np.nan)
    by = "" if select is None or select.score == grid.score else f" by {SPLITS.get(select.score, select.score)}"
    handles = _mark_best(axes, grid, values, marked, chosen_by, by)
    _name_axes(axes, grid)
    axes.set_title(named, fontsize=NORMAL)
    figure.colorbar(ScalarMappable(scale, COLOUR_MAP), ax=axes, label=(grid.words or label(grid.score)))
    _legend(figure, grid, shown, handles, place)
    return figure


def cell_edges(ticks: np.ndarray) -> np.ndarray:
    """Edges [n + 1] of cells around ascending ticks [n]: half-way in log space; outer edges mirror the inner ones."""
    x = np.log2(np.asarray(ticks, dtype=float))
    if len(x) == 1:
        return 2.0 ** (x + np.array([-LONELY, LONELY]))
    middle = (x[1:] + x[:-1]) / 2
    return 2.0 ** np.concatenate([[2 * x[0] - middle[0]], middle, [2 * x[-1] - middle[-1]]])


def top_cells(values: np.ndarray, k: int) -> np.ndarray:
    """Indices [<= k, 2] of the k largest of values [n, m], largest first, ties in order; NaN is left out."""
    flat = np.where(np.isnan(values), -np.inf, values).ravel()
    order = np.argsort(-flat, kind="stable")[: min(k, np.isfinite(values).sum())]
    return np.stack(np.unravel_index(order, values.shape), axis=1)


def _slices(grid: Grid) -> list[tuple[float | None, tuple]]:
    """(value of the last axis, index of the slice in the grid's arrays); None for a grid of two axes."""
    if len(grid.names) == 2:
        return [(None, (slice(None), slice(None)))]
    if len(grid.names) != 3:
        raise ValueError(f"a grid over {grid.names}: 2 or 3 axes can be drawn")
    return [(tick, (slice(None), slice(None), i)) for i, tick in enumerate(grid.ticks[2].tolist())]


def _name_axes(axes: Axes, grid: Grid) -> None:
    axes.set_xlabel(label(grid.names[0]), fontsize=NORMAL)
    axes.set_ylabel(label(grid.names[1]), fontsize=NORMAL)


def _shape(grid: Grid) -> float:
    """Width of a slice divided by its height."""
    if min(map(len, grid.ticks[:2])) == 0:
        return 1.0
    width, height = (np.log2(edges[-1] / edges[0]) for edges in map(cell_edges, grid.ticks[:2]))
    return float(np.clip(width / height, 0.4, 2.5))


def _shown(grid: Grid, averages: Sequence[str], published: Mapping[str, float] = NOTHING) -> list[str]:
    """The recipes that can be drawn in this grid; they concern the balance, not other parameters."""
    if set(grid.names[:2]) <= published.keys():
        return [balance.PUBLISHED]
    return list(averages) if grid.names == BALANCE else []


def _diagonals(
    grid: Grid, averages: Sequence[str], tick: float | None, k: int, published: Mapping[str, float] = NOTHING
) -> dict[str, float]:
    """recipe -> ratio of the second weight to the first, which is the same at any learning rate."""
    if set(grid.names) <= published.keys() and tick is not None:
        return {}  # in a slice of a third weight it is a point
    return {
        name: published[grid.names[1]] / published[grid.names[0]]
        if name == balance.PUBLISHED
        else balance.ratio(name, tick, k)
        for name in _shown(grid, averages, published)
    }


def _draw_published(axes: Axes, grid: Grid, tick: float | None, published: Mapping[str, float]) -> None:
    """Draw the point of the published weights in the slice in which the third weight is `tick`."""
    if tick is None or not set(grid.names) <= published.keys():
        return
    style, rate = METHODS[balance.PUBLISHED], tick / published[grid.names[2]]
    place = [rate * published[name] for name in grid.names[:2]]
    edges = [cell_edges(ticks) for ticks in grid.ticks[:2]]
    if all(edge[0] <= at <= edge[-1] for at, edge in zip(place, edges)):
        look = {"linestyle": "none", "marker": style.marker, "color": style.colour, "markeredgecolor": BLACK}
        axes.plot(*place, label=balance.PUBLISHED, zorder=7, markersize=7.5, **look)


def _reached(grid: Grid, average: str, k: int, place: tuple) -> np.ndarray:
    """Cells [n_p, n_e] of the slice that a recipe reaches; with one Lambda_e those that the diagonal crosses."""
    return reachable(grid, average, k, within=LONELY if len(grid.ticks[1]) == 1 else None)[place]


def _draw_slice(axes: Axes, grid: Grid, place: tuple, scale: Normalize, diagonals: dict[str, float]) -> None:
    """Draw cells, hatches for cells without a value, diagonals and outlines."""
    x, y = map(cell_edges, grid.ticks[:2])
    values = np.ma.masked_invalid(grid.values[place].T)
    mesh = axes.pcolormesh(x, y, values, cmap=COLOUR_MAP, norm=scale, rasterized=True)  # vector cells show seams
    mesh.set_label("cells")
    for name, (colour, hatch), where in _without_value(grid, place):
        if where.any():
            look = {"facecolor": colour, "edgecolor": "#9A9A9A", "linewidth": 0, "hatch": hatch}
            axes.add_collection(PolyCollection(_squares(x, y, np.argwhere(where)), label=name, **look))
    for average, ratio in diagonals.items():
        style = METHODS[average]
        ends = np.array([min(x[0], y[0] / ratio), max(x[-1], y[-1] / ratio)])
        look = {"color": style.colour, "linestyle": style.line, "linewidth": 1.8, "path_effects": cased(3.4)}
        axes.plot(ends, ends * ratio, label=average, zorder=3, **look)
    best = top_cells(grid.values[place], TOP)
    if len(best):
        outline = {"facecolor": "none", "edgecolor": BALANCED.colour, "linewidth": 1.3, "path_effects": cased(2.6)}
        axes.add_collection(PolyCollection(_squares(x, y, best, INSET), **outline, label="top", zorder=4))
    log_axis(axes.xaxis, x[0], x[-1], grid.ticks[0])
    log_axis(axes.yaxis, y[0], y[-1], grid.ticks[1])
    axes.tick_params(labelsize=SMALL)
    axes.set_box_aspect(1 / _shape(grid))


def _without_value(grid: Grid, place: tuple) -> list[tuple[str, tuple[str, str], np.ndarray]]:
    """(name, (colour, hatch), cells) of the two kinds of cells without a value."""
    missing, lost = np.isnan(grid.values[place]), grid.lost[place] > 0
    return [("not tried", HOLE, missing & ~lost), ("did not complete", LOST, missing & lost)]


def _squares(x: np.ndarray, y: np.ndarray, cells: np.ndarray, inset: float = 0.0) -> np.ndarray:
    """Corners [n, 4, 2] of cells [n, 2] between edges x and y, moved inwards by the share `inset` in octaves."""
    at, up = np.log2(x), np.log2(y)
    low = np.array([[at[i], up[j]] for i, j in cells])
    high = np.array([[at[i + 1], up[j + 1]] for i, j in cells])
    low, high = low + inset * (high - low), high - inset * (high - low)
    corners = [(low[:, 0], low[:, 1]), (high[:, 0], low[:, 1]), (high[:, 0], high[:, 1]), (low[:, 0], high[:, 1])]
    return 2.0 ** np.array(corners).transpose(2, 0, 1)


def _mark_best(
    axes: Axes, grid: Grid, values: np.ndarray, among: dict[str, np.ndarray], chosen_by: np.ndarray, by: str
) -> list[Line2D]:
    """Mark the best cell of each set by the score `chosen_by`; returns handles with its value and place in words.

    by: the name of that score, in words.
    """
    handles = []
    for name, cells in among.items():
        found = top_cells(np.where(cells, chosen_by, np.nan), 1)
        style = AVERAGES.get(name, BALANCED)
        marker, size = ("*", 20) if name == "best" else (style.marker, 7.5)
        text = f"best{by}" if name == "best" else f"best{by} with {name} average"
        if len(found) == 0:
            handles.append(
                Line2D([], [], linestyle="none", marker=marker, color=style.colour, label=f"{text}: no value")
            )
            continue
        p, e = found[0]
        h = grid.ticks[0][p], grid.ticks[1][e]
        where = ", ".join(f"{symbol(axis)} = {value:.3g}" for axis, value in zip(grid.names, h))
        handles += axes.plot(
            *h, linestyle="none", marker=marker, markersize=size, color=style.colour, markeredgecolor=BLACK,
            label=f"{text}: {values[p, e]:.3f} at {where}", zorder=6 if name == "best" else 7,
        )  # fmt: skip
    return handles


def _legend(
    figure: Figure,
    grid: Grid,
    averages: Sequence[str],
    handles: Sequence[Line2D] = (),
    place: tuple | None = None,
) -> None:
    """Add a legend of every line, mark and hatch outside the axes."""
    place = place or (Ellipsis,)
    entries: list[Artist] = []
    for average in averages:
        style, of_weights = METHODS[average], average == balance.PUBLISHED
        look = {"color": style.colour, "linestyle": style.line, "linewidth": 1.8}
        if of_weights and len(grid.names) == 3 and grid.names[2].startswith(WEIGHT):
            look = {"color": style.colour, "linestyle": "none", "marker": style.marker, "markeredgecolor": BLACK}
        text = f"reached by the {average} {'weights' if of_weights else 'average'}"
        entries.append(Line2D([], [], label=text, **look))
    several = place == (Ellipsis,) and len(_slices(grid)) > 1
    best = f"the best {TOP} of each {symbol(grid.names[2])}" if several else f"the best {TOP}"
    entries.append(Patch(facecolor="none", edgecolor=BALANCED.colour, linewidth=1.3, label=best))
    for name, (colour, hatch), where in _without_value(grid, place):
        if where.any():
            entries.append(Patch(facecolor=colour, edgecolor="#9A9A9A", linewidth=0.5, hatch=hatch, label=name))
    if handles:
        figure.legend(handles=handles, loc="outside lower left", fontsize=NORMAL, frameon=False)
        figure.legend(handles=entries, loc="outside lower right", fontsize=SMALL, frameon=False)
    else:
        outside_legend(figure, entries, "upper")
