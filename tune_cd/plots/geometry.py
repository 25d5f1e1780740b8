"""The space log h = (log Lambda_p, log Lambda_e, log b) in three dimensions (`fig:viz_matrix_a`, `fig:constraints`).

All coordinates are octaves (log2). Lines are `Line3D`s, whose vertices `get_data_3d` returns.
"""

from itertools import product
from math import log2

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator
from mpl_toolkits.mplot3d import Axes3D
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from tune_cd.balance import A_O, A_TH
from tune_cd.plots.style import BLACK, BLUE, DASHES, GREEN, GREY, LARGE, NORMAL, SMALL, VERMILION, cased

NAMES = {
    "batch_size": "batch size",
    "C_p": r"$\mathcal{C}_p$",
    "C_e": r"$\mathcal{C}_e$",
    "C_eq": r"$\mathcal{C}_{eq}$",
}
ROWS = ((VERMILION, "-"), (GREEN, DASHES["dash"]), (BLUE, DASHES["dots"]))
PLANES = {"C_p": (VERMILION, "-", 0.5), "C_e": (BLUE, DASHES["dash"], 0.45), "C_eq": (GREEN, DASHES["dots"], 0.2)}
"""ROWS: (colour, line style) of each row of A. PLANES: (colour, line style of the edge, opacity) of each constraint."""

MEETING = (8e-3, 2.0, 64.0)
"""(Lambda_p, Lambda_e, b): the paper's best setting for Omniglot (`ssec:best_hp_values`) with b = 64."""

HALF = 5.0  # octaves from the middle of the drawn cube to its sides


def directions_figure() -> Figure:
    """`fig:viz_matrix_a`: the rows of A and of A_th as arrows from the origin of log h."""
    drawn = {"A": A_O, "A_{th}": A_TH}
    figure = Figure(figsize=(4.7 * len(drawn), 4.9), facecolor="white")
    for i, (matrix_name, matrix) in enumerate(drawn.items()):
        rows = np.array(list(matrix.values()))
        axes = figure.add_axes(((i + 0.03) / len(drawn), 0.06, 0.94 / len(drawn), 0.84), projection="3d")
        ends = np.vstack([np.zeros(3), rows])
        middle, half = (ends.min(0) + ends.max(0)) / 2, 0.6 * np.ptp(ends, axis=0).max()
        _frame(axes, middle - half, middle + half, view=(27, 25))
        for n, (row, row_name, (colour, line)) in enumerate(zip(rows, matrix, ROWS)):
            _arrow(axes, row, colour, line, (str(n), f"${matrix_name}$[{n},:]  {NAMES.get(row_name, row_name)}"))
        for axis, name in ((axes.xaxis, r"\Lambda_p"), (axes.yaxis, r"\Lambda_e"), (axes.zaxis, "b")):
            axis.set_label_text(rf"$\log_2 {name}$ (octaves)")
            axis.set_major_locator(MultipleLocator(1 if matrix_name != "A" else 0.5))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.125), fontsize=NORMAL, frameon=False, handlelength=3.2)
    return figure


def constraints_figure() -> Figure:
    """`fig:constraints`: the planes of constant Lambda_p/b, Lambda_e/b² and Lambda_p/Lambda_e (`eq:cp`, `eq:c3`,
    `eq:ceq`) through MEETING."""
    normals, point = np.array(list(A_TH.values())), np.log2(MEETING)
    offsets = normals @ point
    low, high = point - HALF, point + HALF
    figure = Figure(figsize=(6.4, 5.9), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 0.96, 0.9), projection="3d")
    _frame(axes, low, high, view=(18, -24))
    _draw_planes(axes, normals, offsets, low, high)
    dot = {"linestyle": "none", "marker": "o", "markersize": 8, "color": BLACK, "markeredgecolor": "white"}
    axes.plot(*point[:, None], label="all three hold", zorder=10, **dot)
    _label_octaves(axes, low, high)
    p, e, b = 2.0**point
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.52, 1.11), ncols=2, fontsize=NORMAL, frameon=False, handlelength=3.2,
        title=rf"meet at $\Lambda_p$ = {p:.3g}, $\Lambda_e$ = {e:.3g}, b = {b:.3g}", title_fontsize=NORMAL,
    )  # fmt: skip
    return figure


def _label_octaves(axes: Axes3D, low: np.ndarray, high: np.ndarray) -> None:
    """Label the axes, with ticks in octaves at decades of both weights and at batch sizes."""
    axes.set(xlabel=r"$\Lambda_p$ (log scale)", ylabel=r"$\Lambda_e$ (log scale)", zlabel="b (images, log scale)")
    for axis, start, end in zip((axes.xaxis, axes.yaxis), low, high):
        decades = [n for n in range(-40, 41) if start <= n * log2(10) <= end]
        axis.set_ticks([n * log2(10) for n in decades], [f"$10^{{{n}}}$" for n in decades])
    sizes = list(range(int(np.ceil(low[2])), int(high[2]) + 1, 2))
    axes.zaxis.set_ticks(sizes, [f"{2.0**n:g}" for n in sizes])


def plane_polygon(normal: np.ndarray, offset: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Corners [n, 3], in cyclic order, of the plane normal · x = offset within a box; empty if they do not meet."""
    middle, wide = (low + high) / 2, 4 * np.linalg.norm(high - low)
    foot = middle - normal * (normal @ middle - offset) / (normal @ normal)
    first, second = _basis(normal)
    polygon = np.array([foot + wide * (x * first + y * second) for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))])
    for axis in np.eye(3):
        polygon = clip(clip(polygon, axis, axis @ low), -axis, -axis @ high)
    return polygon


def clip(polygon: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    """The part [m, 3] of a convex polygon [n, 3] where normal · x >= offset."""
    kept = []
    for a, b in zip(polygon, np.roll(polygon, -1, axis=0)):
        before, after = normal @ a - offset, normal @ b - offset
        if before >= 0:
            kept.append(a)
        if before * after < 0:
            kept.append(a + (b - a) * before / (before - after))
    return np.array(kept).reshape(-1, 3)


def _draw_planes(axes: Axes3D, normals: np.ndarray, offsets: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Draw each plane cut along the other two, because whole planes that cross have no drawing order."""
    pieces, colours = [], []
    texts = (r"$\Lambda_p / b = r_p$", r"$\Lambda_e / b^2\eta = r_e$", r"$\Lambda_p / \Lambda_e = r_{eq}$")
    for i, (name, (colour, line, opacity)) in enumerate(PLANES.items()):
        whole = plane_polygon(normals[i], offsets[i], low, high)
        j, k = [n for n in range(3) if n != i]
        for one, other in product((1, -1), repeat=2):
            piece = clip(clip(whole, one * normals[j], one * offsets[j]), other * normals[k], other * offsets[k])
            if len(piece) >= 3:
                pieces.append(piece)
                colours.append(to_rgba(colour, opacity))
        edge = {"color": colour, "linestyle": line, "linewidth": 2, "label": f"{NAMES[name]}: {texts[i]}"}
        axes.plot(*np.vstack([whole, whole[:1]]).T, zorder=9, **edge)
        corner = whole[np.argmax(whole @ LABELLED[i])]
        place = corner + 0.2 * (whole.mean(0) - corner)
        look = {"color": BLACK, "fontsize": LARGE + 2, "ha": "center", "va": "center"}
        axes.text(*place, NAMES[name], path_effects=cased(3), zorder=11, **look)
    axes.add_collection3d(Poly3DCollection(pieces, facecolors=colours, edgecolors=GREY, linewidths=1))


LABELLED = np.array([(1.0, -1.0, 1.0), (1.0, -1.0, -1.0), (-1.0, -1.0, 1.0)])
"""For each plane, the direction of the corner beside which its name is written."""


def _frame(axes: Axes3D, low: np.ndarray, high: np.ndarray, view: tuple[float, float]) -> None:
    """Set limits, equal scales and a quiet background. view: elevation and azimuth in degrees."""
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    axes.set_box_aspect((1, 1, 1), zoom=0.98)
    axes.view_init(*view)
    axes.tick_params(labelsize=SMALL)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((0.97, 0.97, 0.97, 1.0))


def _arrow(axes: Axes3D, row: np.ndarray, colour: str, line: str | tuple, words: tuple[str, str]) -> None:
    """Draw a shaft, a head, and a name beyond it. words: the name, and the legend's entry."""
    name, text = words
    axes.plot(*np.array([np.zeros(3), row]).T, color=colour, linestyle=line, linewidth=2.8, label=text, zorder=5)
    axes.quiver(*(0.85 * row), *(0.15 * row), color=colour, arrow_length_ratio=0.9, linewidth=2.2, zorder=5)
    look = {"fontsize": NORMAL, "fontweight": "bold", "ha": "center", "va": "center", "path_effects": cased()}
    axes.text(*(1.12 * row), name, zorder=9, **look)


def _basis(normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors orthogonal to `normal` and to each other."""
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    second = np.cross(normal, first)
    return first / np.linalg.norm(first), second / np.linalg.norm(second)
