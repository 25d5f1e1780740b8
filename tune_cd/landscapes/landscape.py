"""Landscapes: a score M(h), measured or a formula, in place of trainings, so that searches are compared in seconds.

A user's grid is interpolated multilinearly in its axes' coordinates, as in `sec:exps`, a measured plane on triangles.
Holes and extrapolation are errors, as nothing is known there. Noise, durations and failures are drawn separately for
every configuration and seed, so the result of a trial depends neither on the order of asking nor on other trials.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import LinearNDInterpolator, RegularGridInterpolator

from tune_cd import balance
from tune_cd.analysis.grids import Grid, grid, grid_rows
from tune_cd.analysis.scores import varied
from tune_cd.search.category import value_in
from tune_cd.search.number import is_number
from tune_cd.search.space import KEY_DIGITS, Configuration, Space

SHIPPED = Path(__file__).parent
"""Folder of the tables that come with the package; see `find`."""

Surface = Callable[[np.ndarray], np.ndarray]
"""Coordinates x [..., n_axes] -> scores [...], larger is better, NaN where training diverges."""

DURATIONS: dict[str, Callable[[np.random.Generator], float]] = {
    "equal": lambda rng: 1.0,
    "lognormal": lambda rng: float(np.exp(0.5 * rng.standard_normal())),  # median 1; one in 20 takes over 2.3
    "fourfold": lambda rng: float(4.0 ** rng.uniform(-0.5, 0.5)),  # between 0.5 and 2
}
"""Name -> sampler of a trial's duration, in units of a typical one."""


@dataclass(frozen=True)
class Measurement:
    """Result of a trial. value: told; test: reported; None unless completed. duration: in units of a typical one."""

    status: str  # completed | diverged | failed, as in the results table
    value: float | None
    test: float | None
    duration: float


@dataclass(frozen=True)
class Landscape:
    """A score M(h) over a space. Raises ValueError for invalid noise, durations or failures.

    validation: the surface that searches see; test: the one that is reported (None: the same). optimum: where
    validation is largest; low, high: the range of its values. noise: standard deviation of the noise on validation
    values, as a share of the range. durations: a name in DURATIONS. failures: the probability that a trial fails at
    random. curves: the best validation score so far at each of the evenly spaced looks of a training, the last at full
    length (None: not known); deviations [n, n_looks]: of single trainings from the mean of their setting. sign: -1
    where all these scores are a loss' negated, see `from_table`.
    """

    name: str
    space: Space
    validation: Surface
    optimum: dict
    low: float
    high: float
    test: Surface | None = None
    noise: float = 0.0
    durations: str = "equal"
    failures: float = 0.0
    curves: Surface | None = None
    deviations: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    sign: float = 1.0

    def __post_init__(self):
        if not (isfinite(self.noise) and self.noise >= 0):
            raise ValueError(f"noise {self.noise!r}: a finite share of the range, >= 0, is required")
        if not 0 <= self.failures < 1:
            raise ValueError(f"failures {self.failures!r}: a probability in [0, 1) is required")
        if self.durations not in DURATIONS:
            raise ValueError(f"durations {self.durations!r}: one of {sorted(DURATIONS)}")

    @property
    def best(self) -> tuple[dict, float]:
        """The configuration with the largest validation score, and that score."""
        return self.optimum, self.high

    @property
    def looks(self) -> int:
        """Number of looks of a learning curve."""
        return len(self.curve(self.optimum))

    def score(self, h: dict) -> float:
        """The reported score of a configuration, without noise; NaN where it diverges. ValueError outside the space."""
        return float((self.test or self.validation)(self.space.to_coordinates(h)))

    def curve(self, h: Configuration, seed: int | None = None) -> np.ndarray:
        """Best validation score so far at each look [n_looks], NaN once training has diverged.

        seed: of the noise, a whole deviation, the same each time for a setting; None: no noise. Raises ValueError for h
        outside the space, and where no curves are known.
        """
        if self.curves is None:
            raise ValueError(f"landscape {self.name!r}: no learning curves are known; the measured ones have them")
        scores = self.curves(self.space.to_coordinates(h))
        if seed is not None and len(self.deviations):
            rng = np.random.default_rng((seed, digest(self.space.key(h))))
            scores = scores + rng.choice((-1.0, 1.0)) * self.deviations[rng.integers(len(self.deviations))]
        return np.maximum.accumulate(scores)

    def measure(self, h: dict, seed: int) -> Measurement:
        """Simulate one trial of `h`; equal h and seed give equal results. Raises ValueError for h outside the space."""
        x = self.space.to_coordinates(h)
        rng = np.random.default_rng((seed, digest(self.space.key(h))))
        deviation, luck, duration = rng.standard_normal(), rng.uniform(), DURATIONS[self.durations](rng)
        value = float(self.validation(x))
        if luck < self.failures:
            return Measurement("failed", None, None, duration)
        if not isfinite(value):
            return Measurement("diverged", None, None, duration)
        test = value if self.test is None else float(self.test(x))
        return Measurement("completed", value + self.noise * (self.high - self.low) * deviation, test, duration)


def knowledge(space: Space) -> dict[str, Any]:
    """The arguments `directions` and `prior` of a search: of a balance where weights are searched, else none."""
    return balance.of(space) if len(balance.weights_among(space.names)) > 1 else {}


class Table:
    """A multilinear surface through measured values, or curves.

    ticks: coordinates along each axis, ascending. values [len(ticks[0]), ...], a curve's looks last, NaN: diverged. A
    point diverges where diverged cells hold more than half of its weight; elsewhere it is the weighted mean of the
    other cells. A call raises ValueError outside the ticks.
    """

    def __init__(self, ticks: list[np.ndarray], values: np.ndarray):
        self._low, self._high = (np.array([tick[end] for tick in ticks]) for end in (0, -1))
        self._interpolate = RegularGridInterpolator(ticks, _with_weight(values))
        self._looks = values.shape[len(ticks) :]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x = _within(x, self._low, self._high)
        return _mean_of_measured(self._interpolate(x)).reshape(np.shape(x)[:-1] + self._looks)


class Triangles:
    """A surface through values, or curves, at scattered points of a plane, linear on the triangles between them.

    A ridge of contrastive losses runs along (1, 1), where the joint learning rate changes. So the triangles are those
    of Delaunay in coordinates in which a step across it counts ACROSS times as much as one along it: on a lattice, the
    diagonals of its squares lie along the ridge. (Bilinear interpolation digs pits into it.)

    points [n, 2], in octaves; their bounding box must be covered. values [n, ...], NaN: diverged, as in `Table`. A call
    with coordinates x [..., 2] raises ValueError outside the box.
    """

    ACROSS = 2.0

    def __init__(self, points: np.ndarray, values: np.ndarray):
        self._low, self._high = points.min(0), points.max(0)
        self._interpolate = LinearNDInterpolator(self._turned(points), _with_weight(values))
        self._looks = values.shape[1:]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        inside = _within(x, self._low, self._high)
        channels = self._interpolate(self._turned(inside) * (1 - 1e-12))  # points of the hull itself count as inside
        return _mean_of_measured(channels).reshape(np.shape(x)[:-1] + self._looks)

    def _turned(self, x: np.ndarray) -> np.ndarray:
        centred = np.asarray(x) - (self._low + self._high) / 2
        return np.stack([centred.sum(-1), self.ACROSS * (centred[..., 0] - centred[..., 1])], axis=-1)


def _with_weight(values: np.ndarray) -> np.ndarray:
    """Channels [..., 2] for a linear interpolation: values without their NaN, and whether they are measured."""
    measured = np.isfinite(values)
    return np.stack([np.where(measured, values, 0.0), measured], axis=-1)


def _mean_of_measured(channels: np.ndarray) -> np.ndarray:
    """Interpolated values of the channels, NaN where diverged points hold more than half of the weight."""
    total, weight = np.moveaxis(channels, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(weight >= 0.5, total / weight, np.nan)


def _within(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    if np.any(x < low - 1e-9) or np.any(x > high + 1e-9):
        raise ValueError(f"coordinates {x}: measured are {low} to {high}; beyond them nothing is known")
    return np.clip(x, low, high)


def from_table(trials: pd.DataFrame, name: str, axes: Sequence[str] | Space | None = None) -> Landscape:
    """Build a landscape from a full grid of trials: rows of the results table, of one problem and set-up. Where the
    search `grid` was run, those of other searches, as of the baselines beside it, are left out.

    axes: the parameters that span it, or their space; None: those that vary. Trials of a cell are averaged
    (`analysis.grid`). Test scores are reported if every completed row has one. Without a given space, batch sizes are
    searched as allowed values, categories as such, all else as real log-scaled axes. Where a smaller score is better
    (`mode`), it counts negated (`sign`). Raises ValueError for a table without a completed trial, for rows of several
    problems or set-ups (`analysis.comparable` tells them apart), and for holes: cells of the factorial where no trial
    completed or diverged.
    """
    trials = grid_rows(trials)
    ended = trials[trials["status"].isin(["completed", "diverged"])]
    if "completed" not in set(ended["status"]):
        raise ValueError(f"landscape {name!r}: none of {len(trials)} trials completed")
    names = list(axes.names if isinstance(axes, Space) else axes or varied(ended))
    tested = ended.loc[ended["status"] == "completed", "test_score"].notna().all()
    scores = ["val_score", *["test_score"] * bool(tested)]
    try:
        grids = [grid(ended, score, names) for score in scores if names]
    except ValueError as error:
        raise ValueError(f"landscape {name!r}: {error}") from None
    if not names or min(map(len, grids[0].ticks)) < 2:
        raise ValueError(f"landscape {name!r}: axes {names} need at least two different values each")
    _require_whole(grids[0], name)
    values = [list(map(value_in, tick)) if tick.dtype == object else tick.tolist() for tick in grids[0].ticks]
    space = axes if isinstance(axes, Space) else Space(**{n: _domain(n, own) for n, own in zip(names, values)})
    ticks = [np.round([axis.coordinate(one) for one in own], KEY_DIGITS) for axis, own in zip(space.axes, values)]
    order = np.ix_(*map(np.argsort, ticks))
    val, *test = [(one.sign * one.values)[order] for one in grids]
    ticks = [np.sort(tick) for tick in ticks]
    best = np.unravel_index(np.nanargmax(val), val.shape)
    optimum = space.from_coordinates([tick[at] for tick, at in zip(ticks, best)])
    tables = [Table(ticks, surface) for surface in (val, *test)]
    low, high = float(np.nanmin(val)), float(np.nanmax(val))
    return Landscape(name, space, tables[0], optimum, low, high, tables[1] if test else None, sign=grids[0].sign)


def _require_whole(cells: Grid, name: str) -> None:
    """Raise ValueError, naming the first hole, where no training of a cell completed or diverged."""
    holes = np.argwhere((cells.counts == 0) & (cells.lost == 0))
    if len(holes):
        values = {axis: tick[at] for axis, tick, at in zip(cells.names, cells.ticks, holes[0])}
        first = {axis: value if isinstance(value, str) else f"{value:.3g}" for axis, value in values.items()}
        said = f"{len(holes)} holes in {cells.values.size} cells, the first at {first}: measure them"
        raise ValueError(f"landscape {name!r} has {said}")


def _domain(name: str, values: list[Any]) -> tuple[float, float] | list[Any]:
    """An axis of a space: allowed values of a batch size and of a category, else a range."""
    listed = name == "batch_size" or not all(map(is_number, values))
    return values if listed else (values[0], values[-1])


def on_points(
    name: str, space: Space, points: np.ndarray, curves: np.ndarray, test: np.ndarray, deviations: np.ndarray
) -> Landscape:
    """A landscape with learning curves over two axes, of scores at scattered coordinates; its optimum is the best one.

    points [n, 2], curves [n, n_looks], best so far, test [n]; NaN: diverged. deviations: see `Landscape`.
    """
    surface, whole = Triangles(points, curves), curves[:, -1]
    optimum = space.from_coordinates(points[np.nanargmax(whole)])
    return Landscape(
        name, space, partial(_at_the_end, surface), optimum, float(np.nanmin(whole)), float(np.nanmax(whole)),
        Triangles(points, test), curves=surface, deviations=deviations,
    )  # fmt: skip


def _at_the_end(curves: Surface, x: np.ndarray) -> np.ndarray:
    return curves(x)[..., -1]


def digest(key: tuple[float, ...]) -> int:
    """64 bits of a configuration's key, the same in every process."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest())
