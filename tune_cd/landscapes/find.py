"""Landscapes by name."""

from dataclasses import replace
from pathlib import Path

from tune_cd.landscapes.boxes import BOXES
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import SHIPPED, Landscape, load

MEASURED = tuple(sorted(path.stem for path in SHIPPED.glob("*.parquet")))
"""Grids of real trainings that come with the package."""


def find(name: str) -> Landscape:
    """A landscape by its name, among formulas and then `MEASURED`, or by the path of a table.

    Raises ValueError for a name that is none of them, and for a table that is not a full grid.
    """
    formulas = LANDSCAPES | BOXES
    if name in formulas:
        return formulas[name]
    path = SHIPPED / f"{name}.parquet" if name in MEASURED else Path(name)
    if not path.exists():
        raise ValueError(
            f"landscape {name!r}: one of {[*formulas, *MEASURED]}, or the path of a results folder or Parquet file"
        )
    return load(path)


def varied(landscape: Landscape, noise: float = 0.0, durations: str = "equal", failures: float = 0.0) -> Landscape:
    """The landscape with noise, durations and failures; noise shows in its name."""
    name = landscape.name + (f"-noise{noise:g}" if noise else "")
    return replace(landscape, name=name, noise=noise, durations=durations, failures=failures)
