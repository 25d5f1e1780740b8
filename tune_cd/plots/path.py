"""A search's line searches over the plane of two parameters, of the balance or a user's own."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tune_cd.analysis import best_trial, search_lines
from tune_cd.analysis.path import ON_LINE, Line
from tune_cd.analysis.scores import BALANCE, parameter, require_parameters
from tune_cd.plots.style import (
    BLACK,
    COLOUR_MAP,
    DIRECTIONS,
    NORMAL,
    SMALL,
    VERMILION,
    Style,
    cased,
    empty_figure,
    label,
    log_axis,
    new_figure,
    outside_legend,
    styles_of,
    symbol,
)
from tune_cd.search.protocol import OFF_LINES

MARGIN, MARGIN_SHARE = 1.0, 0.06  # octaves around the points, and the least share of their span
CROWDED = 30.0  # square points by which a number may overlap others
SIDE = 400.0  # points: approximate side of the axes, for placing the numbers
RING = {"linestyle": "none", "marker": "o", "fillstyle": "none"}


def path_figure(
    trials: pd.DataFrame, batch_size: int | None = None, plane: tuple[str, str] = ("Lambda_p", "Lambda_e")
) -> Figure:
    """Every line search as a line through its points; trials numbered in the order of asking, start and best marked.

    trials: rows of one study. If it has several searches or search seeds, those with line searches are preferred, and
    among these the one that found the best is drawn. batch_size: only its trials; None: all, seen along the axis of the
    batch size. A setting that was trained with several seeds is drawn once, with its mean. plane: the two parameters,
    which must be > 0. Numbers that would overlap are left out. Raises ValueError for trials of more than one study, and
    for parameters that no trial has.
    """
    if trials["study"].nunique() > 1:
        raise ValueError(f"trials of more than one study: {sorted(trials['study'].unique())}")
    rows, of = _one_search(trials)
    rows = _placed(rows, batch_size, plane)
    if rows.empty:
        size = "" if batch_size is None else f" and b = {batch_size}"
        return empty_figure(f"There is no trial with {plane[0]} and {plane[1]}{size}.")
    figure = new_figure(7.6, 6.9)
    axes = figure.subplots()
    drawn = search_lines(rows, plane)
    low, high = _box(np.vstack([rows[["x", "y"]].to_numpy(dtype=float), *(line.points for line in drawn)]))
    styles = styles_of((line.direction for line in drawn), DIRECTIONS)
    handles = _draw_lines(axes, drawn, styles)
    handles += _draw_points(axes, rows)
    _number(axes, rows, low, high)
    for axis, set_label, i in ((axes.xaxis, axes.set_xlabel, 0), (axes.yaxis, axes.set_ylabel, 1)):
        log_axis(axis, low[i], high[i])
        set_label(label(plane[i]), fontsize=NORMAL)
    axes.set_aspect("equal")
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.set_axisbelow(True)
    completed = next((found for found in axes.collections if found.get_label() == "completed"), None)
    if completed is not None:
        figure.colorbar(completed, ax=axes, label=f"validation {rows['metric_name'].iloc[0]}", shrink=0.9)
    axes.set_title(_title(rows, of), fontsize=NORMAL)
    outside_legend(figure, handles, "lower")
    return figure


def _placed(rows: pd.DataFrame, batch_size: int | None, plane: tuple[str, str]) -> pd.DataFrame:
    """One row per setting, with its mean score, whether it was lost, and its coordinates x, y."""
    lost = rows["status"] != "completed"
    means = rows["val_score"].where(~lost).groupby(rows["trial_index"]).transform("mean")
    rows = rows.assign(lost=lost, val_score=means).sort_values(["trial_index", "lost"], kind="stable")
    rows = rows.drop_duplicates("trial_index")
    if batch_size is not None:
        rows = rows[rows["batch_size"] == batch_size]
    require_parameters(rows, [name for name in plane if name not in BALANCE])
    x, y = (parameter(rows, name) for name in plane)
    on_log_axes = (x > 0) & (y > 0) & np.isfinite(x) & np.isfinite(y)
    return rows.assign(x=x, y=y)[on_log_axes]


def _title(rows: pd.DataFrame, of: str) -> str:
    first, sizes = rows.iloc[0], rows["batch_size"].dropna().unique()
    b = f", b = {sizes[0]:g}" if len(sizes) == 1 else ", all batch sizes" if len(sizes) else ""
    return f"{first['search']}{of}, study {first['study']}{b}: {len(rows)} trials in the order of asking"


def _one_search(trials: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The trials of the search to draw, and words such as "the best of 3 searches"; all rows if there are no trials."""
    by = [name for name in ("search", "search_seed") if name in trials]
    searches = [rows for _, rows in trials.groupby(by, dropna=False)]
    on_lines = [rows for rows in searches if not rows["direction"].dropna().isin(OFF_LINES).all()] or searches
    if not on_lines:
        return trials, ""
    best = [best_trial(rows) for rows in on_lines]
    at = int(np.argmax([-np.inf if trial is None else trial["val_score"] for trial in best]))
    return on_lines[at], f" (the best of {len(on_lines)} searches)" if len(on_lines) > 1 else ""


def _box(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Limits of both axes around points [n, 2], with a margin; both axes span the same number of octaves."""
    x = np.log2(points)
    span = np.ptp(x, axis=0).max()
    middle, half = (x.min(0) + x.max(0)) / 2, span / 2 + max(MARGIN, MARGIN_SHARE * span)
    return 2.0 ** (middle - half), 2.0 ** (middle + half)


def _draw_lines(axes: Axes, drawn: list[Line], styles: dict[str, Style]) -> list[Line2D]:
    """Draw each line through its points from end to end; a line across the plane is a ring."""
    for line in drawn:
        style, x = styles[line.direction], np.log2(line.points)
        along = np.linalg.svd(x - x.mean(0))[2][0]
        ends = line.points[np.argsort((x - x.mean(0)) @ along, kind="stable")]
        if np.ptp(x, axis=0).max() > ON_LINE:
            axes.plot(*ends.T, color=style.colour, linestyle=style.line, linewidth=1.7, label=line.direction, zorder=2)
        else:
            axes.plot(*ends[:1].T, markersize=15, color=style.colour, label=line.direction, zorder=2, **RING)
    handles = []
    for name, style in styles.items():
        flat = [np.ptp(np.log2(line.points), axis=0).max() <= ON_LINE for line in drawn if line.direction == name]
        text = f"{symbol(name)}, {len(flat)} line{'s' * (len(flat) > 1)}" + " across the plane" * all(flat)
        if all(flat):
            handles.append(Line2D([], [], markersize=12, color=style.colour, label=text, **RING))
        else:
            handles.append(Line2D([], [], color=style.colour, linestyle=style.line, linewidth=1.7, label=text))
    return handles


def _draw_points(axes: Axes, rows: pd.DataFrame) -> list[Line2D]:
    """Draw trials coloured by score, crosses for those without one, and marks for the first and the best."""
    handles = []
    scored = rows[rows["val_score"].notna() & ~rows["lost"]]
    lost = rows.drop(scored.index)
    if len(scored):
        colours = {"c": scored["val_score"].astype(float), "cmap": COLOUR_MAP, "edgecolors": BLACK, "linewidths": 0.6}
        axes.scatter(scored["x"], scored["y"], s=52, label="completed", zorder=4, **colours)
    if len(lost):
        cross = {"marker": "X", "markersize": 8, "color": "white", "markeredgecolor": VERMILION}
        handles += axes.plot(lost["x"], lost["y"], linestyle="none", label="did not complete", zorder=4, **cross)
    first, best = rows.iloc[0], best_trial(rows)
    square = {"marker": "s", "markersize": 14, "fillstyle": "none", "markeredgewidth": 1.6, "color": BLACK}
    handles += axes.plot(first["x"], first["y"], linestyle="none", label="first trial", zorder=5, **square)
    if best is not None:
        text = f"best: {best['val_score']:.3f}, trial {best['trial_index']}"
        star = {"marker": "*", "markersize": 14, "color": VERMILION, "markeredgecolor": BLACK}
        handles += axes.plot(best["x"], best["y"], linestyle="none", label=text, zorder=6, **star)
    return handles


def _number(axes: Axes, rows: pd.DataFrame, low: np.ndarray, high: np.ndarray) -> None:
    """Write each trial's number in the order of asking next to its point, where there is room."""
    x = np.log2(rows[["x", "y"]].to_numpy(dtype=float) / low) / np.log2(high / low) * SIDE
    places, at = np.unique(np.round(x, 2), axis=0, return_inverse=True)
    texts = [", ".join(str(n) for n in rows["trial_index"].to_numpy()[at == i]) for i in range(len(places))]
    sizes = np.full(len(places), 4.5)
    sizes[at[0]] = 8.0  # the first trial's square
    for i, offset in enumerate(place_labels(places, texts, sizes)):
        if offset is None:
            continue
        row = rows.iloc[int(np.argmax(at == i))]
        where = {"textcoords": "offset points", "xytext": offset, "ha": "center", "va": "center"}
        axes.annotate(texts[i], (row["x"], row["y"]), fontsize=SMALL, path_effects=cased(2), zorder=7, **where)


def place_labels(points: np.ndarray, texts: Sequence[str], sizes: np.ndarray) -> list[tuple[float, float] | None]:
    """Offsets of labels from points [n, 2] whose marks have radii `sizes` [n]; None for a label without room.

    An offset leads from the point to the label's centre. All are in points (1/72 inch).

    Each label takes, of 32 places around its point, the one that overlaps least with the points and the labels before
    it; None if that overlap is more than CROWDED.
    """
    boxes = [(x - size, y - size, x + size, y + size) for (x, y), size in zip(points, sizes)]
    offsets: list[tuple[float, float] | None] = []
    for (x, y), text, size in zip(points, texts, sizes):
        half = 0.5 * (2 + 5.0 * len(text))
        choices = []
        for n, turn in enumerate(np.arange(16) * np.pi / 8 + np.pi / 4):
            for stretch in (1.0, 1.7):
                dx, dy = stretch * (size + 2.5 + half) * np.cos(turn), stretch * (size + 6.5) * np.sin(turn)
                box = (x + dx - half, y + dy - 4.5, x + dx + half, y + dy + 4.5)
                choices.append((sum(_overlap(box, other) for other in boxes) + 2 * (stretch > 1), n, box, (dx, dy)))
        overlap, _, box, offset = min(choices)
        offsets.append(offset if overlap <= CROWDED else None)
        if overlap <= CROWDED:
            boxes.append(box)
    return offsets


def _overlap(a: tuple, b: tuple) -> float:
    """Shared area of two boxes (left, bottom, right, top)."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
