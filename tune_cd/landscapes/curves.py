"""Measured landscapes with a learning curve for every setting, to replay searches that decide how long to train."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tune_cd.landscapes.find import BATCH_SIZE, filled, named, space_of
from tune_cd.landscapes.landscape import Table, digest
from tune_cd.landscapes.measured import Measured
from tune_cd.search.space import Configuration, Space


@dataclass(frozen=True, eq=False)
class CurveLandscape:
    """Validation scores over a space, at each look of a training; multilinear between the cells of a grid.

    ticks: coordinates along each axis, ascending. values [len(ticks[0]), ..., n_looks]: NaN from the look at which
    training had diverged. Near diverged cells: see `Table`. noise [n, n_looks]: deviations of single trainings from the
    mean of their setting, from which noise is drawn for any setting; n = 0: no noise.
    """

    name: str
    space: Space
    ticks: list[np.ndarray]
    values: np.ndarray
    noise: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @cached_property
    def _surface(self) -> Table:
        return Table(self.ticks, self.values)

    @property
    def looks(self) -> int:
        """Number of evenly spaced evaluations of a training; the last is at full length."""
        return self.values.shape[-1]

    @property
    def best(self) -> float:
        """The largest score of any cell at any look."""
        return float(np.nanmax(self.values))

    def curve(self, h: Configuration, seed: int | None = None) -> np.ndarray:
        """Best score so far at each look [n_looks], NaN once training has diverged. seed: of the noise, which is the
        same each time for a setting; None: no noise."""
        scores = self._surface(self.space.to_coordinates(h))
        if seed is not None and len(self.noise):
            rng = np.random.default_rng((seed, digest(self.space.key(h))))
            scores = scores + rng.choice((-1.0, 1.0)) * self.noise[rng.integers(len(self.noise))]
        return np.maximum.accumulate(scores)


def curves_of(landscape: Measured, batch_size: int = BATCH_SIZE) -> CurveLandscape:
    """Curves of a measured landscape at one batch size: means over seeds, and noise from the differences between seeds.

    Raises ValueError for a batch size that was not measured, and for holes in the coarse lattice.
    """
    chosen = landscape.at(batch_size)
    looks, trained = chosen.validation, chosen.trained  # [n_p, n_e, 1, n_seeds, n_looks], [n_p, n_e, 1, n_seeds]
    known = np.isfinite(looks)
    with np.errstate(invalid="ignore"):
        means = np.where(known, looks, 0.0).sum(-2) / known.sum(-2)  # [n_p, n_e, 1, n_looks]
    axes = {name: np.log2(chosen.axes[name].astype(float)) for name in (*landscape.weights, "batch_size")}
    *ticks, _ = axes.values()
    values = np.stack([filled(axes, trained.any(-1), look, landscape.name) for look in np.moveaxis(means, -1, 0)], -1)
    name = named(landscape.name, batch_size)
    return CurveLandscape(name, space_of(chosen), ticks, values[..., 0, :], _noise(looks))


def _noise(looks: np.ndarray) -> np.ndarray:
    """Deviations [n, n_looks] of single seeds from the mean of their setting.

    They are scaled to the deviation of one training from the mean of many. looks [n_p, n_e, n_b, n_seeds, n_looks].
    """
    whole = np.isfinite(looks).all(-1)
    cells = [curves[kept] for curves, kept in zip(looks[whole.sum(-1) > 1], whole[whole.sum(-1) > 1])]
    unbiased = [(cell - cell.mean(0)) * np.sqrt(len(cell) / (len(cell) - 1)) for cell in cells]
    return np.concatenate(unbiased) if unbiased else np.empty((0, looks.shape[-1]))
