"""Landscapes M(h) as fields of coloured cells (`fig:hp_omniglot`, `fig:hp_tinyimagenet_infonce`, `fig:ssl_ctr`).

A cell extends half-way, in log space, to its neighbours on either side. A setting that was not tried is paler, in the
colour of the nearest one that was. The settings that a conventional recipe reaches by its learning rate alone are a
diagonal: dashed for the separate average, dotted for the global one, dashed with two dots for the published weights of
other losses.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.spatial import KDTree

from tune_cd import balance
from tune_cd.analysis.axes import written
from tune_cd.analysis.gain import reachable
from tune_cd.analysis.grids import Grid
from tune_cd.analysis.scores import BALANCE, SPLITS
from tune_cd.analysis.tables import decimals
from tune_cd.plots.style import (
    AVERAGES,
    BALANCED,
    BLACK,
    COLOUR_MAP,
    COLOURS,
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
    rows_and_columns,
    symbol,
)

PALE = 0.75  # opacity of settings that were not tried
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
    first two axes are such weights and the last is not. Raises ValueError for other numbers of axes, values that are
    no positive numbers on the first two, an unknown average, and, if the global one is drawn, no multiple of k.
    """
    slices = _slices(grid)
    if not np.isfinite(grid.values).any():
        return empty_figure(f"No cell of the grid has a {_words(grid)}: no trial has completed.")
    recipes = [_recipes(grid, averages, tick, k, published) for tick, _ in slices]
    rows, columns = rows_and_columns(len(slices), 3 if len(slices) <= 9 else 4)
    shape, side = _shape(grid), {1: 4.2, 2: 3.3}.get(columns, 2.75)  # inches
    figure = new_figure(max(side * columns * min(1, shape) + 1.3, 5), max(side * rows * min(1, 1 / shape), TALL) + 1.2)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat
    scale = Normalize(np.nanmin(grid.values), np.nanmax(grid.values))
    narrow = columns > 1 and np.log10(grid.ticks[0][-1] / grid.ticks[0][0]) < 2  # labels are numbers, wider than powers
    for n, (panel, (tick, place), lines) in enumerate(zip(panels, slices, recipes)):
        _draw_slice(panel, grid, place, scale, lines)
        panel.set_title(_title(grid, tick), fontsize=NORMAL)
        below = {"labelbottom": True} if n >= len(slices) - columns else {}  # also above an empty place of the last row
        panel.tick_params(axis="x", labelrotation=60 * narrow, **below)
    for panel in panels[len(slices) :]:
        panel.set_visible(False)
    figure.supxlabel(label(grid.names[0]), fontsize=NORMAL)
    figure.supylabel(label(grid.names[1]), fontsize=NORMAL)
    shades = ScalarMappable(scale, COLOURS[grid.sign])
    figure.colorbar(shades, ax=list(panels), label=_words(grid), shrink=0.9, aspect=30)
    of_each = f" of each {symbol(grid.names[2])}" if len(slices) > 1 else ""
    drawn = {name: line for lines in recipes for name, line in lines.items()}
    outside_legend(figure, _entries(grid, (Ellipsis,), drawn, of_each), "upper")
    return figure


def plane(
    grid: Grid,
    batch_size: float | None,
    averages: Sequence[str] = balance.AVERAGES,
    k: int = 2,
    select: Grid | None = None,
) -> Figure:
    """`fig:hp_tinyimagenet_infonce`, `fig:ssl_ctr`: one slice, its best cell and the best that each average reaches.

    batch_size: the slice, a value of the last axis; None or NaN where trials do not say it. select: the grid in which
    the best cells are chosen, such as the validation score's; None: `grid` itself, as in the paper's figures. Raises
    ValueError as `grid_slices`, and for a batch size that the grid does not have.
    """
    slices, batch_size = dict(_slices(grid)), None if batch_size != batch_size else batch_size
    if batch_size not in slices:
        raise ValueError(f"{' '.join(grid.names[2:])} {batch_size}: one of {list(slices)}")
    place, named = slices[batch_size], _title(grid, batch_size)
    values, shape = grid.values[place], _shape(grid)
    if not np.isfinite(values).any():
        return empty_figure(f"No cell{f' with {named}' * bool(named)} has a {_words(grid)}: no trial has completed.")
    figure = new_figure(max(7.6 * min(1, shape), 7), max(5.3 * min(1, 1 / shape), TALL) + 1.4)
    axes, scale = figure.subplots(), Normalize(np.nanmin(values), np.nanmax(values))
    recipes = _recipes(grid, averages, batch_size, k)
    _draw_slice(axes, grid, place, scale, recipes)
    within = LONELY if len(grid.ticks[1]) == 1 else None  # of one Lambda_e the cells that the diagonal crosses
    marked = {"best": np.isfinite(values)}
    marked |= {average: reachable(grid, average, k, within)[place] for average in recipes}
    chosen_by = np.where(np.isfinite(values), (select or grid).sign * (select or grid).values[place], np.nan)
    by = "" if select is None or select.score == grid.score else f" by {SPLITS.get(select.score, select.score)}"
    handles = _mark_best(axes, grid, values, marked, chosen_by, by)
    axes.set(xlabel=label(grid.names[0]), ylabel=label(grid.names[1]))
    axes.set_title(named, fontsize=NORMAL)
    figure.colorbar(ScalarMappable(scale, COLOURS[grid.sign]), ax=axes, label=_words(grid))
    figure.legend(handles=handles, loc="outside lower left", fontsize=SMALL, frameon=False, labelspacing=1)
    entries = _entries(grid, place, recipes)
    figure.legend(handles=entries, loc="outside lower right", fontsize=SMALL, frameon=False)
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
    """(value of the last axis, index of the slice in the grid's arrays); None for one of two axes, and for NaN."""
    if len(grid.names) not in (2, 3):
        raise ValueError(f"a grid over {grid.names}: 2 or 3 axes can be drawn")
    for name, ticks in zip(grid.names[:2], grid.ticks):
        if len(ticks) and (ticks.dtype == object or ticks[0] <= 0):
            raise ValueError(f"axis {name} with the value {ticks[0]}: cells are drawn at positive numbers")
    if len(grid.names) == 2:
        return [(None, (slice(None), slice(None)))]
    return [(None if t != t else t, (slice(None), slice(None), i)) for i, t in enumerate(grid.ticks[2].tolist())]


def _title(grid: Grid, tick: float | None) -> str:
    return "" if tick is None else f"{symbol(grid.names[2])} = {written(tick)}"


def _shape(grid: Grid) -> float:
    """Width of a slice divided by its height."""
    if min(map(len, grid.ticks[:2])) == 0:
        return 1.0
    width, height = (np.log2(edges[-1] / edges[0]) for edges in map(cell_edges, grid.ticks[:2]))
    return float(np.clip(width / height, 0.4, 2.5))


def _words(grid: Grid) -> str:
    return grid.words or label(grid.score)


def _recipes(
    grid: Grid, averages: Sequence[str], tick: float | None, k: int, published: Mapping[str, float] = NOTHING
) -> dict[str, np.ndarray]:
    """recipe -> the ends [2, 2] of its diagonal in a slice. Recipes concern the balance, not other parameters."""
    (first, second, *third), size = grid.names, np.nan if tick is None else tick
    (left, right), (low, high) = (cell_edges(ticks)[[0, -1]] for ticks in grid.ticks[:2])
    if {first, second} <= published.keys() and not published.keys() & {*third}:
        ratios = {balance.PUBLISHED: published[second] / published[first]}
    else:
        ratios = {name: balance.ratio(name, size, k) for name in averages} if grid.names == BALANCE else {}
    ends = {name: np.array([min(left, low / ratio), max(right, high / ratio)]) for name, ratio in ratios.items()}
    return {name: np.column_stack([x, x * ratios[name]]) for name, x in ends.items()}


def _look(recipe: str) -> dict[str, Any]:
    """How a recipe's diagonal is drawn."""
    style = METHODS[recipe]
    return {"color": style.colour, "linestyle": style.line, "linewidth": 1.8}


def _draw_slice(axes: Axes, grid: Grid, place: tuple, scale: Normalize, recipes: dict[str, np.ndarray]) -> None:
    """Draw cells, hatches for cells without a value, diagonals and outlines."""
    x, y = map(cell_edges, grid.ticks[:2])
    values = np.ma.masked_invalid(grid.values[place].T)
    look = {"cmap": COLOURS[grid.sign], "norm": scale, "rasterized": True}  # vector cells show seams
    mesh = axes.pcolormesh(x, y, values, **look)
    mesh.set_label("cells")
    near = _nearest(grid, place)
    if np.isfinite(near).any():
        pale = np.ma.masked_invalid(near.T)
        axes.pcolormesh(x, y, pale, **look, alpha=PALE, label="nearest")
    for name, (colour, hatch), where in _without_colour(grid, place, near):
        if where.any():
            look = {"facecolor": colour, "edgecolor": "#9A9A9A", "linewidth": 0, "hatch": hatch}
            axes.add_collection(PolyCollection(_squares(x, y, np.argwhere(where)), label=name, **look))
    for recipe, line in recipes.items():
        axes.plot(*line.T, label=recipe, **_look(recipe), path_effects=cased(3.4), zorder=3)
    best = top_cells(grid.sign * grid.values[place], TOP)
    if len(best):
        outline = {"facecolor": "none", "edgecolor": BALANCED.colour, "linewidth": 1.3, "path_effects": cased(2.6)}
        axes.add_collection(PolyCollection(_squares(x, y, best, INSET), **outline, label="top", zorder=4))
    log_axis(axes.xaxis, x[0], x[-1], grid.ticks[0])
    log_axis(axes.yaxis, y[0], y[-1], grid.ticks[1])
    axes.tick_params(labelsize=SMALL)
    axes.set_box_aspect(1 / _shape(grid))


def _without_colour(grid: Grid, place: tuple, near: np.ndarray) -> list[tuple[str, tuple[str, str], np.ndarray]]:
    """(name, (colour, hatch), cells) of the two kinds of cells without a colour. near: as `_nearest` has it."""
    missing, lost = np.isnan(grid.values[place]), grid.lost[place] > 0
    return [("not tried", HOLE, missing & ~lost & np.isnan(near)), ("without a score", LOST, missing & lost)]


def _nearest(grid: Grid, place: tuple) -> np.ndarray:
    """Of settings that were not tried, the value of the nearest one that was, in octaves; NaN of others, and where that
    one did not complete. [n_p, n_e], or all slices."""
    at = np.stack(np.meshgrid(*map(np.log2, grid.ticks[:2]), indexing="ij"), axis=-1)
    values, found = grid.values[place], np.full(grid.values[place].shape, np.nan)
    untried = np.isnan(values) & (grid.lost[place] == 0)
    for one in np.ndindex(values.shape[2:]):
        part = (slice(None), slice(None), *one)
        if untried[part].any() and not untried[part].all():
            _, nearest = KDTree(at[~untried[part]]).query(at[untried[part]])
            found[part][untried[part]] = values[part][~untried[part]][nearest]
    return found


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

    chosen_by: larger is better. by: the name of that score, in words.
    """
    handles, digits = [], decimals(np.nanmax(np.abs(values)))
    for name, cells in among.items():
        found = top_cells(np.where(cells, chosen_by, np.nan), 1)
        style, text = AVERAGES.get(name, BALANCED), f"best{by}" if name == "best" else f"best{by} with {name} average"
        marker, size, order = ("*", 20, 6) if name == "best" else (style.marker, 7.5, 7)
        h = [ticks[n] for ticks, n in zip(grid.ticks, found[0])] if len(found) else [np.nan, np.nan]
        where = ", ".join(f"{symbol(axis)} = {value:.3g}" for axis, value in zip(grid.names, h))
        said = f"{values[tuple(found[0])]:.{digits}f} at {where}" if len(found) else "no value"
        look = {"linestyle": "none", "marker": marker, "markersize": size, "color": style.colour, "zorder": order}
        handles += axes.plot(*h, **look, markeredgecolor=BLACK, label=f"{text}: {said}")
    return handles


def _entries(grid: Grid, place: tuple, recipes: Mapping[str, np.ndarray], of_each: str = "") -> list[Artist]:
    """A legend's entries of every line, outline and hatch."""
    entries: list[Artist] = []
    for recipe in recipes:
        what = "weights" if recipe == balance.PUBLISHED else "average"
        entries.append(Line2D([], [], label=f"reached by the {recipe} {what}", **_look(recipe)))
    outline = {"facecolor": "none", "edgecolor": BALANCED.colour, "linewidth": 1.3}
    entries.append(Patch(**outline, label=f"the best {TOP}{of_each}"))
    near = _nearest(grid, place)
    if np.isfinite(near).any():
        entries.append(Patch(facecolor=COLOUR_MAP(0.6), alpha=PALE, label="not tried: as the nearest that was"))
    for name, (colour, hatch), where in _without_colour(grid, place, near):
        if where.any():
            entries.append(Patch(facecolor=colour, edgecolor="#9A9A9A", linewidth=0.5, hatch=hatch, label=name))
    return entries
