"""From a batch to an update of the network (`fig:pipeline`), drawn for a batch of 8 with two items per class."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Polygon, Rectangle

from tune_cd.plots.style import BLACK, BLUE, GREY, LARGE, LIGHT, NORMAL, ORANGE, SMALL

CLASSES = ("#BFD9EC", "#F6DDB0", "#BFE3D7", "#EBCFDF")
B = 8  # images of the drawn batch
BOTTOM, TOP = 13.0, 37.0  # of the columns of images, embeddings and pairs; the figure is 100 wide and 46 high
MIDDLE, STEP = (BOTTOM + TOP) / 2, (TOP - BOTTOM) / B
PAIRS = {"self": ("#FFFFFF", "", BLACK), "positive": (BLUE, "+", "white"), "negative": ("#F8E3BC", "−", "#7A5200")}
"""Kind of pair -> the colour of its cell, its sign, and the colour of that."""

HEADS = (
    (5.2, "sampler", "labels in pairs", r"$(\mathbf{x}, \mathbf{y})$"),
    (16.75, "network", "one for all images", ""),
    (29.9, "embeddings", "b vectors", r"$z_i = f_\theta(x_i)$"),
    (51.0, "distances of all pairs", "+ same class    − different classes", r"$M_{ij} = d(z_i, z_j)$"),
    (76.25, "two averages", "over each kind of pair", ""),
    (92.5, "the balance", r"$\Lambda$: weight $\lambda$ × rate $\alpha$", ""),
)
"""(x, title, words below it, words below the drawing) of each step."""


def pipeline_figure() -> Figure:
    """`fig:pipeline`: labels in pairs, network, embeddings, pair matrix, the two terms, their weighted sum, SGD."""
    figure = Figure(figsize=(9.2, 4.25), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 100), ylim=(0, 46), xticks=[], yticks=[])
    axes.axis("off")
    for x, title, below, formula in HEADS:
        _text(axes, x, TOP + 5.6, title, fontweight="bold")
        _text(axes, x, TOP + 2.4, below, fontsize=SMALL, color="#444444")
        _text(axes, x, BOTTOM - 2.0, formula)
    for i in range(B):
        _cell(axes, 3.5, i, 3.4, CLASSES[i // 2], (f"{i // 2 + 1}", BLACK), gid=f"image-{i}")
        for j in range(5):
            _cell(axes, 26.0 + 1.55 * j, i, 1.55, CLASSES[i // 2], ("", BLACK))
        for j in range(B):
            kind = "self" if i == j else "positive" if i // 2 == j // 2 else "negative"
            colour, *sign = PAIRS[kind]
            _cell(axes, 39.0 + j * STEP, i, STEP, colour, sign, gap=0.0, gid=f"{kind}-{i}-{j}")
    corners = [(12.0, MIDDLE - 11), (12.0, MIDDLE + 11), (21.5, MIDDLE + 6), (21.5, MIDDLE - 6)]
    axes.add_patch(Polygon(corners, closed=True, facecolor=LIGHT, edgecolor=BLACK, linewidth=1))
    _text(axes, 16.75, MIDDLE, r"$f_\theta$", fontsize=15)
    _draw_loss(axes)
    ways = [((7.5, MIDDLE), (11.4, MIDDLE)), ((22.0, MIDDLE), (25.4, MIDDLE)), ((34.5, MIDDLE), (38.4, MIDDLE))]
    for start, end in [*ways, ((16.75, 4.2), (16.75, BOTTOM + 1.6))]:
        _arrow(axes, start, end)
    axes.plot([92.5, 92.5, 16.75], [20.1, 4.2, 4.2], color="#333333", linewidth=1.2)
    update = r"$\theta \leftarrow \theta - \nabla_\theta(\Lambda_p\,\bar\ell_p + \Lambda_e\,\bar\ell_e)$"
    words = f"stochastic gradient descent, no momentum: {update}"
    _text(axes, 53.5, 4.2, words, bbox={"facecolor": "white", "edgecolor": "none", "pad": 3})
    return figure


def _draw_loss(axes: Axes) -> None:
    """Draw the averages over both kinds of pairs, with their numbers for two items per class, and the weighted sum."""
    positive = r"$\bar\ell_p$", "positive term", "b pairs"
    entropy = r"$\bar\ell_e$", "entropy term", r"$b^2 - 2b$ pairs"
    for up, colour, face, (name, what, count) in ((6.3, BLUE, "#E3EFF8", positive), (-6.3, ORANGE, "#FDF3DF", entropy)):
        centre = MIDDLE + up
        _round(axes, 69.5, centre, 13.5, facecolor=face, edgecolor=colour)
        _text(axes, 71.9, centre, name, fontsize=14)
        _text(axes, 74.1, centre + 1.6, what, ha="left", fontsize=SMALL)
        _text(axes, 74.1, centre - 1.7, count, ha="left", fontsize=SMALL, color="#444444")
        _arrow(axes, (63.5, MIDDLE + 0.55 * up), (69.0, centre))
        _arrow(axes, (83.5, centre), (86.0, MIDDLE + 0.35 * up))
    _round(axes, 86.4, MIDDLE, 12.2, facecolor="white", edgecolor=BLACK)
    _text(axes, 92.5, MIDDLE, r"$\Lambda_p\,\bar\ell_p + \Lambda_e\,\bar\ell_e$", fontsize=LARGE)


def _cell(
    axes: Axes, left: float, row: int, width: float, colour: str, sign: Sequence[str], gap: float = 0.3, gid: str = ""
) -> None:
    """Draw a cell of a row of the batch, the first on top. sign: its text, and the colour of that."""
    bottom = TOP - (row + 1) * STEP + gap
    look = {"facecolor": colour, "edgecolor": GREY, "linewidth": 0.6, "gid": gid or None}
    axes.add_patch(Rectangle((left, bottom), width, STEP - 2 * gap, **look))
    if sign[0]:
        _text(axes, left + width / 2, bottom - gap + STEP / 2, sign[0], va="center_baseline", color=sign[1])


def _round(axes: Axes, left: float, centre: float, width: float, **look: Any) -> None:
    style = "round,pad=0,rounding_size=1"
    axes.add_patch(FancyBboxPatch((left, centre - 4.5), width, 9, boxstyle=style, linewidth=1.5, **look))


def _text(axes: Axes, x: float, y: float, words: str, **look: Any) -> None:
    """Write words centred at a point."""
    axes.text(x, y, words, **{"ha": "center", "va": "center", "fontsize": NORMAL} | look)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    look = {"arrowstyle": "-|>", "mutation_scale": 11, "linewidth": 1.2, "color": "#333333"}
    axes.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, **look))
