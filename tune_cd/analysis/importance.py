"""The search's Gaussian process through a study's scores: predictions, and how much each parameter matters.

The importance of a parameter is its total Sobol index: how much the predicted score varies when this parameter alone
moves over its range and the others stay at random places, as a share of the whole variance (Jansen's estimator).
Parameters that act together share variance, so indices may add to more than 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tune_cd.analysis.axes import Axis
from tune_cd.search.process import Draws, Process, likely
from tune_cd.search.space import Array

LEAST = 8  # scored settings for a process
MOST = 250  # settings of a process; of more the best half, and others spread evenly over the lower scores
SAMPLES, FUNCTIONS = 128, 64  # points of Jansen's estimator, and functions drawn from the process
PRIOR_DRAWS = 256
SCALE = (0.5, 1.0)  # prior of a length scale: median in ranges, and deviation of its logarithm
NOISE = (0.05, 1.0)  # prior of the noise: median in deviations of the score, and deviation of its logarithm
ALIKE = 16.0  # length scale along the training length, in octaves


@dataclass(frozen=True, eq=False)
class Response:
    """What the scores of a study say of all places [n_axes] on its axes, at full length."""

    axes: tuple[Axis, ...]
    process: Process

    def predict(self, places: Array) -> tuple[Array, Array]:
        """Scores expected at places [m, n_axes], and their deviation as a share of the scores' own [m]."""
        expected, deviation = self.process.measured(places)
        return expected, deviation / self.process.spread

    def importance(self) -> Array:
        """[n_axes, 3]: the total Sobol index of each axis, with the 2.5 and 97.5 % quantiles over drawn functions."""
        from scipy.stats.qmc import Sobol  # slow to import

        rng, d = np.random.default_rng(0), len(self.axes)
        evenly = Sobol(2 * d, rng=rng).random(SAMPLES)
        first, second = self._on_axes(evenly[:, :d]), self._on_axes(evenly[:, d:])
        mixed = [np.where(np.arange(d) == n, second, first) for n in range(d)]
        places = np.vstack([first, *mixed])
        mean = self.process.averaged(self.process.ends(places))
        functions = np.vstack([mean, self.process.drawn(places, FUNCTIONS, rng)])
        base, *others = functions.T.reshape(d + 1, SAMPLES, FUNCTIONS + 1)
        shares = np.array([((base - other) ** 2).mean(0) / 2 for other in others]) / base.var(0)
        low, high = np.quantile(shares[:, 1:], [0.025, 0.975], axis=1)
        return np.clip(np.column_stack([np.clip(shares[:, 0], low, high), low, high]), 0, 1)

    def _on_axes(self, evenly: Array) -> Array:
        """Places for numbers [n, n_axes] from 0 to 1; those of lists of values are among these."""
        listed = [axis.at(axis.values) for axis in self.axes]
        return np.column_stack([at[(u * len(at)).astype(int)] if len(at) else u for at, u in zip(listed, evenly.T)])


def response(axes: Sequence[Axis], places: Array, shares: Array, scores: Array) -> Response | None:
    """The process through scores [n] at places [n, n_axes] of the axes, trained for shares [n] of the full length.

    Larger scores are better; the worst twentieth count alike, as on the page, or a few outliers alone would count. Rows
    with a gap are left out; None for fewer than LEAST, and for scores that are all alike.
    """
    known = np.flatnonzero(np.isfinite(places).all(axis=1) & np.isfinite(scores) & (shares > 0))
    if len(known) < LEAST or not axes:
        return None
    ranked = known[np.argsort(-scores[known], kind="stable")]
    worst = scores[ranked[-1 - len(ranked) // 20]]
    if len(ranked) > MOST:
        ranked = np.append(
            ranked[: MOST // 2], ranked[np.linspace(MOST // 2, len(ranked) - 1, MOST - MOST // 2).astype(int)]
        )
    told = places[ranked], shares[ranked], np.maximum(scores[ranked], worst)
    with np.errstate(all="ignore"):
        mean, deviation = float(told[-1].mean()), float(told[-1].std())
    if not np.isfinite(deviation) or deviation <= 1e-9 * abs(mean):
        return None
    return Response(tuple(axes), Process(*told, likely(*told, _draws(axes))))


def _draws(axes: Sequence[Axis]) -> Draws:
    """Length scales of every axis by itself, the same for all values of a category, and noises."""
    normals = np.random.default_rng(0).standard_normal((PRIOR_DRAWS, len(axes) + 1))
    scales = SCALE[0] * np.exp(SCALE[1] * normals[:, :-1])
    noises = NOISE[0] * np.exp(NOISE[1] * normals[:, -1])
    widths = [len(axis.values) if axis.kind == "category" else 1 for axis in axes]
    units = np.column_stack([np.repeat(scales, widths, axis=1), np.full(PRIOR_DRAWS, ALIKE)])
    return Draws(np.eye(units.shape[1]) / units[:, None], noises**2, partial(_features, tuple(axes)))


def _features(axes: Sequence[Axis], places: Array) -> Array:
    """A column for every axis, of a category one for each value, so that two of them are 1 apart."""
    columns = [
        (np.abs(at[:, None] - axis.at(axis.values)) < 1e-6) / 2**0.5 if axis.kind == "category" else at[:, None]
        for axis, at in zip(axes, places.T)
    ]
    return np.concatenate(columns, axis=1)
