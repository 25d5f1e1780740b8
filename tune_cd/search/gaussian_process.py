"""A Gaussian process over configurations and lengths of training, in numpy: what a search expects of what it has not
trained, or not to its end.

    process = Process(points, shares, values, prior)           # points [n, n_axes], shares [n] of the full length
    process.gain(candidates, 1 / 8, process.ends(points).max(1, keepdims=True))  # of training each to an eighth

Matérn 5/2. A length is one more axis, in octaves: trainings of one configuration are alike as far as their lengths are,
and by as much more as neighbours are. Scores rise with length, so the mean is a line in octaves of it, whose slope
follows from the data; where a landscape is flat, the process says so itself.

How far values are alike, and how noisy they are, is not fitted: a `Prior` lists what is thought possible, and the
values say how likely each is. Mean and variance of the process follow from the data in closed form.
"""

from dataclasses import dataclass
from math import log2, pi, sqrt

import numpy as np
from scipy.special import ndtr

from tune_cd.search.space import Array

PRIOR_POINTS = 1.0
"""The belief that the process has the values' variance counts as much as so many points."""

UNLIKELY = 0.01
"""Draws whose likelihood is below this share of the largest are left out."""

TINY = 1e-9


@dataclass(frozen=True)
class Prior:
    """What is thought possible of a process, as draws of equal weight before any value is known.

    maps [n_draws, n_axes + 1, n_axes + 1]: from coordinates, the octave of the length the last of them, to units of
    length scales, one row a direction. noises [n_draws]: variances of the noise, as shares of the process's.
    Predictions are means over all draws by their likelihood.
    """

    maps: Array
    noises: Array


class Process:
    """points: [n, n_axes]; shares: [n], of the full length, in (0, 1]; values: [n], finite, larger is better."""

    def __init__(self, points: Array, shares: Array, values: Array, prior: Prior):
        self._offset = float(values.mean())
        self.spread = float(values.std()) if np.ptp(values) > 0 else 1.0  # the unit of standardised values
        standardised = (values - self._offset) / self.spread
        n, octaves = len(points), np.log2(shares)
        self._sloped = bool(np.ptp(octaves) > 0)
        scaled = mapped(np.column_stack([points, octaves]), prior.maps)  # [n_draws, n_axes + 1, n]
        covariances = matern(distances(scaled, scaled)) + prior.noises[:, None, None] * np.eye(n)
        basis = self._basis(octaves)
        inverses = np.linalg.inv(covariances)
        weighted = np.swapaxes(inverses @ basis, 1, 2)  # [n_draws, n_basis, n]
        informed = weighted @ basis + TINY * np.eye(basis.shape[1])  # of the trend's coefficients
        trends = np.linalg.solve(informed, (weighted @ standardised)[..., None])
        residuals = standardised - (basis @ trends)[..., 0]  # [n_draws, n]
        pulls = (inverses @ residuals[..., None])[..., 0]
        variances = ((residuals * pulls).sum(-1) + PRIOR_POINTS) / (n + PRIOR_POINTS)
        determinants = np.linalg.slogdet(covariances)[1]
        weights = weights_of(-n / 2 * np.log(variances) - determinants / 2)
        kept = np.flatnonzero(weights)
        self._weights, self._maps, self._scaled = weights[kept], prior.maps[kept], scaled[kept]
        self._noises, self._trends, self._pulls = prior.noises[kept], trends[kept, :, 0], pulls[kept]
        self._variances, self._inverses = variances[kept], inverses[kept]
        self._weighted, self._informed = weighted[kept], informed[kept]

    def ends(self, points: Array) -> Array:
        """What is expected of points [n, n_axes] at full length, in standardised units, [n_draws, n]."""
        return self._at(points, 1.0)[0]

    def mean(self, points: Array, share: float = 1.0) -> Array:
        """What is expected of points [n, n_axes] at a length [n], in the units of `values`."""
        return self._offset + self.spread * (self._weights @ self._at(points, share)[0])

    def deviation(self, points: Array, share: float = 1.0) -> Array:
        """The standard deviation of what is expected [n], in standardised units."""
        _, correlation, _ = self._at(points, share)
        explained = ((correlation @ self._inverses) * correlation).sum(-1)
        deviation: Array = self._weights @ np.sqrt(self._variances[:, None] * np.maximum(1 - explained, TINY))
        return deviation

    def measured(self, points: Array) -> tuple[Array, Array]:
        """What would be measured of points [n, n_axes] at full length, mean and standard deviation [n], in the units of
        `values`. Unlike `deviation` this has all doubt in it: between draws, of the trend, and the noise."""
        means, correlation, _ = self._at(points, 1.0)
        explained = ((correlation @ self._inverses) * correlation).sum(-1)
        basis = self._basis(np.zeros(len(points)))
        unknown = basis - correlation @ np.swapaxes(self._weighted, 1, 2)  # [n_draws, n, n_basis]
        trend = (unknown @ np.linalg.inv(self._informed) * unknown).sum(-1)
        within = self._variances[:, None] * (np.maximum(1 - explained, TINY) + trend + self._noises[:, None])
        mean = self._weights @ means
        deviation: Array = np.sqrt(self._weights @ (within + (means - mean) ** 2))
        return self._offset + self.spread * mean, self.spread * deviation

    def gain(self, points: Array, share: float, above: Array) -> Array:
        """E[max(m - above, 0)] [n], m being what would be expected of the end of a point once it was trained to this
        length; above: [n_draws, 1 or n]. In standardised units, as `above`."""
        ends, resolved = self._learned(points, share)
        gain: Array = self._weights @ expected_excess(ends - above, resolved)
        return gain

    def _learned(self, points: Array, share: float) -> tuple[Array, Array]:
        """What is expected of the ends, and the standard deviation of what will be once the points were trained to this
        length, [n_draws, n]."""
        ends, at_end, end_scaled = self._at(points, 1.0)
        if share == 1.0:
            at_share, share_scaled = at_end, end_scaled
        else:
            _, at_share, share_scaled = self._at(points, share)
        solved = at_share @ self._inverses
        seen = np.maximum(1 - (solved * at_share).sum(-1), TINY) + self._noises[:, None]
        apart = np.sqrt(((end_scaled - share_scaled) ** 2).sum(1))  # [n_draws, n]
        shared = matern(apart) - (solved * at_end).sum(-1)
        return ends, np.sqrt(self._variances[:, None] / seen) * np.abs(shared)

    def _at(self, points: Array, share: float) -> tuple[Array, Array, Array]:
        """Means [n_draws, n], correlations with the data [n_draws, n, n_data], and the scaled points."""
        octaves = np.full(len(points), log2(share))
        scaled = mapped(np.column_stack([points, octaves]), self._maps)
        correlation = matern(distances(scaled, self._scaled))
        means = self._trends @ self._basis(octaves).T + (correlation @ self._pulls[..., None])[..., 0]
        return means, correlation, scaled

    def _basis(self, octaves: Array) -> Array:
        ones = np.ones((len(octaves), 1))
        return np.column_stack([ones, octaves]) if self._sloped else ones


def expected_excess(mean: Array, deviation: Array) -> Array:
    """E[max(x, 0)] of normal x with these means and standard deviations."""
    deviation = np.maximum(deviation, TINY)
    gain = mean / deviation
    excess: Array = deviation * (gain * ndtr(gain) + np.exp(-(gain**2) / 2) / sqrt(2 * pi))
    return excess


def matern(distance: Array) -> Array:
    """The Matérn 5/2 correlation at distances in length scales."""
    scaled: Array = sqrt(5) * distance
    return (1 + scaled + scaled**2 / 3) * np.exp(-scaled)


def weights_of(log_likelihood: Array) -> Array:
    """Of the draws [n_draws], summing to 1; 0: left out."""
    shares = np.exp(log_likelihood - log_likelihood.max())
    shares[shares < UNLIKELY] = 0.0
    weights: Array = shares / shares.sum()
    return weights


def mapped(points: Array, maps: Array) -> Array:
    """Points [n, n_axes] in every draw's length scales, [n_draws, n_axes, n]."""
    mapped: Array = maps @ points.T
    return mapped


def distances(a: Array, b: Array) -> Array:
    """Euclidean distances [n_draws, len(a), len(b)] of points [n_draws, n_axes, len]."""
    squares: Array = np.zeros((a.shape[0], a.shape[2], b.shape[2]))
    for ours, theirs in zip(a.transpose(1, 0, 2), b.transpose(1, 0, 2)):  # a sum over a short axis is slow
        squares += (ours[:, :, None] - theirs[:, None, :]) ** 2
    return np.sqrt(squares)
