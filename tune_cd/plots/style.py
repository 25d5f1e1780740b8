"""Colours, lines, markers, sizes and axis labels of every figure, in one place.

Things are told apart twice: by a colour of Okabe and Ito's palette, which colour-blind readers can distinguish, and by
a line style or a marker, which survives black and white print. Fields of scores have a colour map whose lightness
increases throughout.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patheffects import AbstractPathEffect, Normal, Stroke
from matplotlib.ticker import (
    FixedLocator,
    FormatStrFormatter,
    LogFormatterMathtext,
    LogLocator,
    NullLocator,
)

from tune_cd.balance import TERM, WEIGHT

COLOUR_MAP = colormaps["viridis"]
COLOURS = {1.0: COLOUR_MAP, -1.0: COLOUR_MAP.reversed()}
"""`Grid.sign` -> the colours of scores, lighter for better ones."""

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
YELLOW = "#8F7E00"  # Okabe and Ito's F0E442 vanishes on white
GREY, LIGHT = "#666666", "#E8E8E8"

DASHES = {
    "dash": (0, (5, 2)),
    "dots": (0, (1, 1.4)),
    "dashdot": (0, (6, 2, 1.2, 2)),
    "two dots": (0, (6, 1.6, 1.2, 1.6, 1.2, 1.6)),
    "long": (0, (10, 2.5)),
}
SMALL, NORMAL, LARGE = 8, 9, 11  # points


class Style(NamedTuple):
    """How a thing is drawn: colour, matplotlib's line style, a filled marker."""

    colour: str
    line: str | tuple
    marker: str


MARKERS = "hd8*XPpv^<>sDo"
"""Filled markers; those that no known method uses come first."""

AVERAGES = {"separate": Style(ORANGE, "--", "s"), "global": Style(GREY, ":", "D")}
"""Styles of the diagonals: beige and grey in `fig:hp_omniglot`."""

BALANCED = Style(BLUE, "-", "o")

METHODS = AVERAGES | {
    "published": Style(ORANGE, DASHES["two dots"], "s"),
    "cd": Style(BLUE, "-", "o"),
    "cd-paper": Style(SKY, DASHES["dash"], "P"),
    "random": Style(BLACK, DASHES["dots"], "X"),
    "tpe": Style(VERMILION, DASHES["dashdot"], "^"),
    "tpe-paper": Style(ORANGE, DASHES["two dots"], "v"),
    "cmaes": Style(GREEN, DASHES["long"], "<"),
    "gp": Style(PURPLE, "-", "*"),
    "grid": Style(GREY, "-", "p"),
    # the modes of a study with cross-batch memory, `table:xbm`
    "without": Style(ORANGE, DASHES["dash"], "s"),
    "S1": Style(VERMILION, DASHES["dots"], "^"),
    "S2": Style(GREY, DASHES["dashdot"], "D"),
    "S3": Style(BLUE, DASHES["long"], "o"),
    "without-tuned": Style(SKY, "-", "v"),
}

HOLE, LOST = ("#F0F0F0", "xx"), ("#D9D9D9", "xxxx")
"""(colour, hatch) of a cell that was not tried, and of one whose trials have no score."""

LABELS = {
    "Lambda_p": r"$\Lambda_p$, weight of the positive term × learning rate",
    "Lambda_e": r"$\Lambda_e$, weight of the entropy term × learning rate",
    "batch_size": "batch size b (images)",
    "trials": "trials (whole training runs)",
    "seconds": "time (s)",
    "val_score": "validation score",
    "test_score": "test score",
    "positive_term": "positive term after training (unweighted, no unit)",
    "entropy_term": "entropy term after training (unweighted, no unit)",
}
SYMBOLS = {"Lambda_p": r"$\Lambda_p$", "Lambda_e": r"$\Lambda_e$", "batch_size": "b"}


def label(name: str) -> str:
    """The axis label of a column, with its unit; names without a label are returned as they are."""
    if name not in LABELS and name.startswith(WEIGHT):
        return f"{symbol(name)}, weight of the term {name.removeprefix(WEIGHT)} × learning rate"
    if name.startswith(TERM):
        return f"term {name.removeprefix(TERM)} after training (unweighted, no unit)"
    return LABELS.get(name, name)


def symbol(name: str) -> str:
    """The paper's symbol of a parameter; a user's parameter keeps its own name."""
    if name not in SYMBOLS and name.startswith(WEIGHT):
        term = name.removeprefix(WEIGHT).replace("_", r"\_")
        return rf"$\Lambda_{{\mathrm{{{term}}}}}$"
    return SYMBOLS.get(name, name)


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """name -> Style: that of METHODS, and for others, in alphabetical order, unused pairs of line and marker.

    There are about 60 pairs; of more names, some look alike.
    """
    names = list(dict.fromkeys(names))
    taken = {(style.line, style.marker) for style in METHODS.values()}
    lines, colours = ("-", *DASHES.values()), (GREEN, PURPLE, VERMILION, YELLOW, BLUE, SKY, ORANGE, GREY)
    pairs = [(lines[(n + turn) % len(lines)], marker) for turn in range(len(lines)) for n, marker in enumerate(MARKERS)]
    free = [pair for pair in pairs if pair not in taken]
    others = sorted(name for name in names if name not in METHODS)
    made = {name: Style(colours[n % len(colours)], *free[n % len(free)]) for n, name in enumerate(others)}
    return {name: METHODS.get(name) or made[name] for name in names}


def cased(width: float = 3.0) -> list[AbstractPathEffect]:
    """Path effects that add a wider white line beneath, so that a line is visible on any colour."""
    return [Stroke(linewidth=width, foreground="white"), Normal()]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, with a layout that leaves room for every label."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def rows_and_columns(panels: int, widest: int = 3) -> tuple[int, int]:
    """The rows and columns of a figure with so many panels."""
    columns = panels if panels <= 3 else 2 if panels == 4 else widest
    return -(-panels // columns), columns


def empty_figure(sentence: str) -> Figure:
    """A figure with one sentence that says why there is nothing to draw."""
    figure = Figure(figsize=(7, 1.6), facecolor="white")
    figure.text(0.5, 0.5, sentence, ha="center", va="center", fontsize=LARGE, color=GREY, wrap=True)
    return figure


def outside_legend(figure: Figure, handles: Sequence[Artist], place: str) -> None:
    """Add a legend above ("upper") or below ("lower") the axes, with as many columns as fit the figure's width."""
    letters = [len(re.sub(r"\\(Lambda|mathcal)|[${}\\]", "", str(handle.get_label()))) for handle in handles]
    width = figure.get_figwidth() * 72 / NORMAL  # in em
    # A letter is about 0.56 em wide, a handle with its gaps 6.2; matplotlib fills column after column.
    needed = {
        n: sum(6.2 + 0.56 * max(column) for column in np.array_split(letters, n)) for n in range(1, len(handles) + 1)
    }
    columns = max((n for n in needed if needed[n] <= width), default=1)
    figure.legend(
        handles=handles, loc=f"outside {place} center", ncols=columns, fontsize=NORMAL, frameon=False, handlelength=3.2
    )


def log_axis(axis: Axis, low: float, high: float, ticks: Iterable[float] = ()) -> None:
    """Log scale from low to high, labelled at decades; below two decades at `ticks`, at most 8 of them."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    axis.set_minor_locator(NullLocator())
    if high / low >= 100:
        axis.set_major_locator(LogLocator(numticks=8))
        axis.set_major_formatter(LogFormatterMathtext())
        return
    ticks = np.asarray(list(ticks), dtype=float)
    places = ticks[:: max(1, -(-len(ticks) // 8))] if len(ticks) else np.geomspace(low, high, 5)[1:-1]
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FormatStrFormatter("%.3g"))


def batch_axis(axis: Axis, sizes: Iterable[float]) -> None:
    """Log2 scale of an x axis with the batch sizes as ticks."""
    sizes = sorted(set(sizes))
    axis.axes.set_xlim(sizes[0] / 2**0.4, sizes[-1] * 2**0.4)
    axis.axes.set_xscale("log", base=2)
    axis.set_major_locator(FixedLocator(sizes))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_locator(NullLocator())


def plain(axes: Axes) -> None:
    """Draw a light grid behind the data, and remove the box on the right and at the top."""
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
