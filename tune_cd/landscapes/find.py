"""Landscapes by name."""

import json
from dataclasses import replace
from pathlib import Path

from tune_cd.landscapes.boxes import BOXES
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import SHIPPED, Landscape, from_table, load
from tune_cd.results import read_file
from tune_cd.search.space import Space

MEASURED = tuple(sorted(path.stem for path in SHIPPED.glob("*.parquet")))
"""Grids of real trainings with a contrastive loss that come with the package."""

GENERAL = tuple(sorted(path.stem for path in (SHIPPED / "general").glob("*.parquet")))
"""Those of other models, see README.md. Their rows' `config` has the space that they were measured over."""


def find(name: str) -> Landscape:
    """A landscape by its name, among formulas, `MEASURED` and `GENERAL`, or by the path of a table.

    Raises ValueError for a name that is none of them, and for a table that is not a full grid.
    """
    formulas = LANDSCAPES | BOXES
    if name in formulas:
        return formulas[name]
    if name in GENERAL:
        return _general(name)
    path = SHIPPED / f"{name}.parquet" if name in MEASURED else Path(name)
    if not path.exists():
        known = [*formulas, *MEASURED, *GENERAL]
        raise ValueError(f"landscape {name!r}: one of {known}, or the path of a results folder or Parquet file")
    return load(path)


def _general(name: str) -> Landscape:
    trials = read_file(SHIPPED / "general" / f"{name}.parquet")
    return from_table(trials, name, Space.from_json(json.loads(trials["config"].iloc[0])["space"]))


def varied(landscape: Landscape, noise: float = 0.0, durations: str = "equal", failures: float = 0.0) -> Landscape:
    """The landscape with noise, durations and failures; noise shows in its name."""
    name = landscape.name + (f"-noise{noise:g}" if noise else "")
    return replace(landscape, name=name, noise=noise, durations=durations, failures=failures)
