"""Find landscapes by name."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tune_cd import results
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.landscapes.landscape import SHIPPED, Landscape, Surface, from_table, on_points
from tune_cd.landscapes.measured import MEASURED, Measured, load
from tune_cd.results.location import is_uri
from tune_cd.search.space import Space

BATCH_SIZE = 64
"""Default batch size of a measured landscape's plane; the paper's."""

VOLUME = "-3d"
"""Name suffix of landscapes with the batch size as a third axis."""

GENERAL = tuple(sorted(path.stem for path in (SHIPPED / "general").glob("*.parquet")))
"""Grids measured with other models, see README.md. The `config` of their rows holds the space that was measured."""


NEEDED = ("dataset", "task", "loss", "metric_name", "status", "val_score", "test_score", "params")
"""Columns of the results table that a landscape's file must have."""


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
    at = re.fullmatch(rf"(.+?)(?:-b(\d+)|({VOLUME}))?", name)
    if at and at[1] in MEASURED:
        landscape = load(at[1])
        return volume(landscape) if at[3] else plane(landscape, int(at[2] or BATCH_SIZE))
    return from_path(name)


def from_path(path: str | Path) -> Landscape:
    """Load a landscape from a path, and name it after the path.

    path: a results folder of one study; RESULTS/STUDY, a study of a results folder; or a Parquet file with the results
    table's columns; in an object store RESULTS/STUDY alone. Raises ValueError as `from_table`, and for any other path.
    """
    if is_uri(path):
        place, mark, query = str(path).partition("?")
        above, _, study = place.rstrip("/").rpartition("/")
        return from_table(results.read(f"{above}{mark}{query}", study), study)
    path = Path(path)
    if path.is_file():
        trials = pd.read_parquet(path)
        if missing := sorted({*NEEDED}.difference(trials.columns)):
            raise ValueError(f"{path}: it lacks the columns {missing} of the results table")
        return from_table(trials, path.stem)
    if (path / "trials").is_dir():
        trials = results.read(path)
        studies = sorted(trials["study"].unique())
        if len(studies) > 1:
            raise ValueError(f"{path}: it holds the studies {studies}; {path / studies[0]} is one of them")
        return from_table(trials, path.stem)
    if (path.parent / "trials" / path.name).is_dir():
        return from_table(results.read(path.parent, path.name), path.name)
    known = [*LANDSCAPES, *MEASURED, *GENERAL]
    paths = "the path of a results folder, of a study RESULTS/STUDY or of a Parquet file"
    raise ValueError(f"landscape {str(path)!r}: one of {known}, or {paths}")


def named(name: str, batch_size: int | None = None) -> str:
    """Name of a measured landscape's plane at a batch size, or of its volume (None)."""
    return name + (VOLUME if batch_size is None else "" if batch_size == BATCH_SIZE else f"-b{batch_size}")


def plane(landscape: Measured, batch_size: int = BATCH_SIZE) -> Landscape:
    """Plane of a measured landscape at one batch size: means over seeds, NaN where all diverged, and their noise.

    Raises ValueError for a batch size that was not measured.
    """
    chosen = landscape.at(batch_size)
    settings = chosen.trials.groupby(list(chosen.weights))
    points = np.log2(np.array(list(settings.groups)))
    seeds = [np.stack([best_so_far(curve, chosen.looks) for curve in rows["validation"]]) for _, rows in settings]
    curves = np.stack([_mean(each) for each in seeds])
    test = settings["test_score"].mean().to_numpy(float)
    return on_points(named(chosen.name, batch_size), space_of(chosen), points, curves, test, _deviations(seeds))


def volume(landscape: Measured) -> Landscape:
    """A measured landscape over all batch sizes, the third axis' allowed values. Raises ValueError for a single one."""
    sizes = landscape.axes["batch_size"].tolist()
    if len(sizes) < 2:
        raise ValueError(f"landscape {named(landscape.name)!r}: {landscape.name} has one batch size, {sizes}")
    planes = {size: plane(landscape, size) for size in sizes}
    best = max(planes, key=lambda size: planes[size].high)
    optimum = planes[best].optimum | {"batch_size": best}
    low, high = min(one.low for one in planes.values()), planes[best].high
    validation = Layers({np.log2(size): one.validation for size, one in planes.items()})
    test = Layers({np.log2(size): one.test for size, one in planes.items()})
    space = space_of(landscape, batch_size=sizes)
    return Landscape(named(landscape.name), space, validation, optimum, low, high, test)


@dataclass(frozen=True)
class Layers:
    """A surface over a plane for each value of a last coordinate; between these values nothing is known."""

    surfaces: Mapping[float, Surface]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        flat = np.reshape(x, (-1, np.shape(x)[-1]))
        found = np.full(len(flat), np.nan)
        for value, surface in self.surfaces.items():
            here = np.isclose(flat[:, -1], value)
            found[here] = surface(flat[here, :-1])
        return found.reshape(np.shape(x)[:-1])


def error_between_cells(landscape: Measured) -> float:
    """Root mean square of what the plane at b = BATCH_SIZE predicts less what was trained, over the settings held back.

    NaN for none. Trainings that diverged, or are predicted to, do not count.
    """
    held, surface = landscape.at(BATCH_SIZE).held_back, plane(landscape).validation
    errors = surface(np.log2(held[list(landscape.weights)].to_numpy(float))) - held["val_score"]
    return float(np.sqrt((errors**2).mean()))


def best_so_far(curve: np.ndarray, looks: int) -> np.ndarray:
    """Best score so far at each look [looks]; NaN from where training diverged."""
    return np.maximum.accumulate(np.append(curve, np.full(looks - len(curve), np.nan)))


def _mean(curves: np.ndarray) -> np.ndarray:
    """Mean of curves [n_seeds, n_looks] at each look, without those that have diverged; NaN where all have."""
    known = np.isfinite(curves)
    with np.errstate(invalid="ignore"):
        return np.where(known, curves, 0.0).sum(0) / known.sum(0)


def _deviations(seeds: Sequence[np.ndarray]) -> np.ndarray:
    """Deviations [n, n_looks] of single seeds from the mean of their setting, scaled to those of one training from the
    mean of many. seeds: curves of each setting [n_seeds, n_looks]."""
    whole = [curves[np.isfinite(curves).all(1)] for curves in seeds]
    several = [curves for curves in whole if len(curves) > 1]
    scaled = [(curves - curves.mean(0)) * np.sqrt(len(curves) / (len(curves) - 1)) for curves in several]
    return np.concatenate(scaled) if scaled else np.empty((0, 0))


def _general(name: str) -> Landscape:
    trials = results.read_file(SHIPPED / "general" / f"{name}.parquet")
    return from_table(trials, name, Space.from_json(json.loads(trials["config"].iloc[0])["space"]))


def space_of(landscape: Measured, **more: list[int]) -> Space:
    ends = {name: tuple(landscape.axes[name][[0, -1]].tolist()) for name in landscape.weights}
    return Space(**ends, **more)
