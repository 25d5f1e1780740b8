"""Figures of the tables and grids that `analysis` returns. Only `save` writes files."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matplotlib import rc_context
from matplotlib import style as styles
from matplotlib.figure import Figure

from tune_cd.plots.curves import curves_figure
from tune_cd.plots.gain import gain_figure, sublosses_figure
from tune_cd.plots.geometry import constraints_figure, directions_figure
from tune_cd.plots.grids import grid_slices, plane
from tune_cd.plots.pipeline import pipeline_figure
from tune_cd.plots.search import search_figure

__all__ = [
    "constraints_figure", "curves_figure", "directions_figure", "gain_figure", "grid_slices", "pipeline_figure",
    "plane", "save", "search_figure", "standard", "sublosses_figure",
]  # fmt: skip

DPI = 150


@contextmanager
def standard() -> Iterator[None]:
    """matplotlib's own settings for figures made and saved within, whatever the user's matplotlibrc says (as usetex,
    which requires LaTeX). A character that its font lacks is no warning: names may have any."""
    with styles.context("default"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def save(figure: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write STEM.svg and STEM.png, in a new folder if need be; their paths. A figure's SVG is always the same bytes."""
    svg, png = Path(f"{stem}.svg"), Path(f"{stem}.png")
    svg.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": "tune_cd"}):
        figure.savefig(svg, dpi=DPI, metadata={"Date": None})
    figure.savefig(png, dpi=DPI)
    return svg, png
