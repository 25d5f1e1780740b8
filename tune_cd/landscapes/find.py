"""Find landscapes by name."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from tune_cd.analysis import Grid, grid
from tune_cd.landscapes import measured
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import SHIPPED, Landscape, Table, from_path, from_table, on_grid, study_at
from tune_cd.landscapes.measured import IN_VIEW, Measured
from tune_cd.landscapes.measured import JUDGES as JUDGES
from tune_cd.results import read_file
from tune_cd.search.space import Space

BATCH_SIZE = 64
"""Default batch size of a measured landscape's plane; the paper's."""

COARSE = 2.0
"""Octaves between lines of the coarse lattice, on which a measured landscape is whole; finer cells lie near the
best."""

VOLUME = "-3d"
"""Name suffix of landscapes with the batch size as a third axis."""

MEASURED = tuple(name for name in IN_VIEW if name in measured.MEASURED)
"""Grids of real contrastive trainings on which searches are developed. `find` also knows `JUDGES`, which judge them."""

GENERAL = tuple(sorted(path.stem for path in (SHIPPED / "general").glob("*.parquet")))
"""Grids measured with other models, see README.md. The `config` of their rows holds the space that was measured."""


def find(name: str) -> Landscape:
    """Find a landscape by its name (a formula, a measured one, one of `GENERAL`), or by the path of a table.

    The name of a measured landscape is that of its plane at b = BATCH_SIZE; `<name>-b256` is its plane at another batch
    size. `<name>-3d` has the batch size as a third axis, of which several must have been measured.
    Raises ValueError for an unknown name, and for a table that is not a full grid.
    """
    if name in LANDSCAPES:
        return LANDSCAPES[name]
    if name in GENERAL:
        return _general(name)
    if name in measured.MEASURED:
        return plane(measured.load(name))
    at = re.fullmatch(r"(.+)-b(\d+)", name)
    if at and at[1] in measured.MEASURED:
        return plane(measured.load(at[1]), int(at[2]))
    if name.endswith(VOLUME) and name.removesuffix(VOLUME) in measured.MEASURED:
        return volume(measured.load(name.removesuffix(VOLUME)))
    path = Path(name)
    if not (path.exists() or study_at(path).is_dir()):
        known = [*LANDSCAPES, *measured.MEASURED, *GENERAL]
        raise ValueError(
            f"landscape {name!r}: one of {known}, or the path of a results folder, of a study RESULTS/STUDY or of a "
            "Parquet file"
        )
    return from_path(path)


def trainings(name: str) -> pd.DataFrame:
    """Results-table rows of a measured landscape's plane at b = BATCH_SIZE. Raises ValueError for an unknown name."""
    return measured.load(name).at(BATCH_SIZE).rows()


def named(name: str, batch_size: int | None = None) -> str:
    """Name of a measured landscape's plane at a batch size, or of its volume (None)."""
    return name + (VOLUME if batch_size is None else "" if batch_size == BATCH_SIZE else f"-b{batch_size}")


def plane(landscape: Measured, batch_size: int = BATCH_SIZE) -> Landscape:
    """Plane of a measured landscape at one batch size: means over seeds, NaN where all trainings diverged.

    Untrained cells of the finer lattice are interpolated from the coarse one. Raises ValueError for a batch size that
    was not measured, and for holes in the coarse lattice.
    """
    rows = landscape.at(batch_size).rows()
    space = space_of(landscape)
    ticks, validation = _filled(grid(rows, "val_score"), landscape.name)
    test = _tested(rows, landscape.name)[..., 0]
    return on_grid(named(landscape.name, batch_size), space, ticks[:-1], validation[..., 0], test)


def volume(landscape: Measured) -> Landscape:
    """A measured landscape over all batch sizes, the third axis' allowed values. Raises ValueError as `plane`, and for
    a single batch size."""
    sizes = landscape.axes["batch_size"].tolist()
    if len(sizes) < 2:
        raise ValueError(f"landscape {named(landscape.name)!r}: {landscape.name} has one batch size, {sizes}")
    rows = landscape.rows()
    ticks, validation = _filled(grid(rows, "val_score"), landscape.name)
    space = space_of(landscape, batch_size=sizes)
    return on_grid(named(landscape.name), space, ticks, validation, _tested(rows, landscape.name))


def with_noise(landscape: Landscape, noise: float = 0.0, durations: str = "equal", failures: float = 0.0) -> Landscape:
    """The landscape with noise, durations and failures; noise shows in its name."""
    name = landscape.name + (f"-noise{noise:g}" if noise else "")
    return replace(landscape, name=name, noise=noise, durations=durations, failures=failures)


def _general(name: str) -> Landscape:
    trials = read_file(SHIPPED / "general" / f"{name}.parquet")
    return from_table(trials, name, Space.from_json(json.loads(trials["config"].iloc[0])["space"]))


def space_of(landscape: Measured, **more: list[int]) -> Space:
    ends = {name: landscape.axes[name][[0, -1]].tolist() for name in landscape.weights}
    return Space(**{name: (low, high) for name, (low, high) in ends.items()}, **more)


def _tested(rows: pd.DataFrame, name: str) -> np.ndarray:
    return _filled(grid(rows, "test_score"), name)[1]


def _filled(found: Grid, name: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Coordinates of the ticks in octaves, and values [n_p, n_e, n_b], see `filled`."""
    ticks = [np.log2(tick) for tick in found.ticks]
    return ticks, filled(dict(zip(found.names, ticks)), found.counts + found.lost > 0, found.values, name)


def filled(ticks: Mapping[str, np.ndarray], trained: np.ndarray, values: np.ndarray, name: str) -> np.ndarray:
    """Values [n_p, n_e, n_b] with untrained cells of the finer lattice interpolated from the coarse one.

    NaN: training diverged. ticks: coordinates of each axis in octaves, the batch size's last. trained [n_p, n_e, n_b].

    Raises ValueError for holes in the coarse lattice.
    """
    *weights, sizes = ticks.values()
    coarse = [np.isclose(s := (tick - tick[0]) / COARSE, np.round(s), atol=1e-6) for tick in weights]
    lattice, values = np.ix_(*coarse), values.copy()
    lines = [tick[near] for tick, near in zip(weights, coarse)]
    if not trained[lattice].all():
        cell = np.argwhere(~trained[lattice])[0]
        at = {axis: 2.0 ** tick[place] for axis, tick, place in zip(ticks, (*lines, sizes), cell)}
        raise ValueError(
            f"landscape {name!r} has {int((~trained[lattice]).sum())} holes, the first at "
            f"{', '.join(f'{axis} = {value:.3g}' for axis, value in at.items())}: measure them"
        )
    for b in range(len(sizes)):
        between = Table(lines, values[..., b][lattice])
        for cell in np.argwhere(~trained[..., b]):
            values[(*cell, b)] = between(np.array([tick[place] for tick, place in zip(weights, cell)]))
    return values
