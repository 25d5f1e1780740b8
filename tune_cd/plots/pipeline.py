"""From a batch to an update of the network (`fig:pipeline`), drawn for a batch of 8 with two items per class."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Polygon, Rectangle

from tune_cd.plots.style import BLACK, BLUE, GREY, LARGE, LIGHT, NORMAL, ORANGE, SMALL

CLASSES = ("#BFD9EC", "#F6DDB0", "#BFE3D7", "#EBCFDF")
B = 8  # images of the drawn batch
BOTTOM, TOP = 13.0, 37.0  # of the columns of images, embeddings and pairs; the figure is 100 wide and 46 high
STEP = (TOP - BOTTOM) / B
ROUND = "round,pad=0,rounding_size=1"


def pipeline_figure() -> Figure:
    """`fig:pipeline`: labels in pairs, network, embeddings, pair matrix, the two terms, their weighted sum, SGD."""
    figure = Figure(figsize=(9.2, 4.25), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 100), ylim=(0, 46), xticks=[], yticks=[])
    axes.axis("off")
    _draw_batch(axes, 3.0)
    _draw_network(axes, 12.0, 21.5)
    _draw_embeddings(axes, 26.0)
    _draw_matrix(axes, 39.0)
    _draw_terms(axes, 69.5)
    _draw_sum(axes, 86.4, 98.6)
    middle = (BOTTOM + TOP) / 2
    for start, end in ((7.0, 11.4), (22.0, 25.4), (34.5, 38.4)):
        _arrow(axes, (start, middle), (end, middle))
    step = "stochastic gradient descent, no momentum: "
    _arrow(axes, (92.5, 20.1), (92.5, 4.2), arrow="-")
    _arrow(axes, (92.5, 4.2), (16.75, 4.2), arrow="-")
    _arrow(axes, (16.75, 4.2), (16.75, BOTTOM + 1.6))
    update = r"$\theta \leftarrow \theta - \nabla_\theta(\Lambda_p\,\bar\ell_p + \Lambda_e\,\bar\ell_e)$"
    _text(axes, 53.5, 4.2, step + update, bbox={"facecolor": "white", "edgecolor": "none", "pad": 3})
    return figure


def _caption(axes: Axes, x: float, title: str, below: str) -> None:
    _text(axes, x, TOP + 5.6, title, fontweight="bold")
    _text(axes, x, TOP + 2.4, below, fontsize=SMALL, color="#444444")


def _text(axes: Axes, x: float, y: float, words: str, **look: Any) -> None:
    """Write words centred at a point."""
    axes.text(x, y, words, **{"ha": "center", "va": "center", "fontsize": NORMAL} | look)


def _box(axes: Axes, left: float, bottom: float, width: float, height: float, **look: Any) -> None:
    axes.add_patch(Rectangle((left, bottom), width, height, edgecolor=GREY, **look))


def _draw_batch(axes: Axes, left: float) -> None:
    """Draw the sampler's images as squares with their labels."""
    for i in range(B):
        bottom = TOP - (i + 1) * STEP
        look = {"facecolor": CLASSES[i // 2], "linewidth": 0.6, "gid": f"image-{i}"}
        _box(axes, left, bottom + 0.2, 3.4, STEP - 0.4, **look)
        _text(axes, left + 1.7, bottom + STEP / 2, f"{i // 2 + 1}")
    _caption(axes, left + 2.2, "sampler", "labels in pairs")
    _text(axes, left + 1.7, BOTTOM - 2.0, r"$(\mathbf{x}, \mathbf{y})$")


def _draw_network(axes: Axes, left: float, right: float) -> None:
    middle, high, low = (BOTTOM + TOP) / 2, 11.0, 6.0
    corners = [(left, middle - high), (left, middle + high), (right, middle + low), (right, middle - low)]
    axes.add_patch(Polygon(corners, closed=True, facecolor=LIGHT, edgecolor=BLACK, linewidth=1))
    _text(axes, (left + right) / 2, middle, r"$f_\theta$", fontsize=15)
    _caption(axes, (left + right) / 2, "network", "one for all images")


def _draw_embeddings(axes: Axes, left: float) -> None:
    """Draw each embedding as a row of cells."""
    cells, width = 5, 1.55
    for i in range(B):
        bottom = TOP - (i + 1) * STEP
        for j in range(cells):
            look = {"facecolor": CLASSES[i // 2], "linewidth": 0.5}
            _box(axes, left + j * width, bottom + 0.45, width, STEP - 0.9, **look)
    _caption(axes, left + cells * width / 2, "embeddings", "b vectors")
    _text(axes, left + cells * width / 2, BOTTOM - 2.0, r"$z_i = f_\theta(x_i)$")


def _draw_matrix(axes: Axes, left: float) -> None:
    """Draw all pairs: positive ones next to the diagonal, as the labels are in pairs, negative ones elsewhere."""
    for i in range(B):
        for j in range(B):
            kind = "self" if i == j else "positive" if i // 2 == j // 2 else "negative"
            colour = {"self": "#FFFFFF", "positive": BLUE, "negative": "#F8E3BC"}[kind]
            corner = (left + j * STEP, TOP - (i + 1) * STEP)
            _box(axes, *corner, STEP, STEP, facecolor=colour, linewidth=0.6, gid=f"{kind}-{i}-{j}")
            if kind != "self":
                sign, shade = ("+", "white") if kind == "positive" else ("−", "#7A5200")
                at = corner[0] + STEP / 2, corner[1] + STEP / 2
                _text(axes, *at, sign, va="center_baseline", color=shade)
    _caption(axes, left + B * STEP / 2, r"distances of all pairs", r"+ same class    − different classes")
    _text(axes, left + B * STEP / 2, BOTTOM - 2.0, r"$M_{ij} = d(z_i, z_j)$")


def _draw_terms(axes: Axes, left: float) -> None:
    """Draw the averages over both kinds of pairs, with the numbers of pairs for two items per class."""
    width, height, middle, right = 13.5, 9.0, (BOTTOM + TOP) / 2, 39.0 + B * STEP
    for centre, colour, face, name, what, count in (
        (middle + 6.3, BLUE, "#E3EFF8", r"$\bar\ell_p$", "positive term", "b pairs"),
        (middle - 6.3, ORANGE, "#FDF3DF", r"$\bar\ell_e$", "entropy term", r"$b^2 - 2b$ pairs"),
    ):
        look = {"boxstyle": ROUND, "facecolor": face, "edgecolor": colour, "linewidth": 1.6}
        axes.add_patch(FancyBboxPatch((left, centre - height / 2), width, height, **look))
        _text(axes, left + 2.4, centre, name, fontsize=14)
        _text(axes, left + 4.6, centre + 1.6, what, ha="left", fontsize=SMALL)
        _text(axes, left + 4.6, centre - 1.7, count, ha="left", fontsize=SMALL, color="#444444")
        _arrow(axes, (right + 0.5, middle + (centre - middle) * 0.55), (left - 0.5, centre))
        _arrow(axes, (left + width + 0.5, centre), (86.0, middle + (centre - middle) * 0.35))
    _caption(axes, left + width / 2, "two averages", "over each kind of pair")


def _draw_sum(axes: Axes, left: float, right: float) -> None:
    middle = (BOTTOM + TOP) / 2
    look = {"boxstyle": ROUND, "facecolor": "white", "edgecolor": BLACK, "linewidth": 1.4}
    axes.add_patch(FancyBboxPatch((left, middle - 4.5), right - left, 9, **look))
    _text(axes, (left + right) / 2, middle, r"$\Lambda_p\,\bar\ell_p + \Lambda_e\,\bar\ell_e$", fontsize=LARGE)
    _caption(axes, (left + right) / 2, "the balance", r"$\Lambda$: weight $\lambda$ × rate $\alpha$")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], arrow: str = "-|>") -> None:
    look = {"arrowstyle": arrow, "mutation_scale": 11, "linewidth": 1.2, "color": "#333333"}
    axes.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, **look))
