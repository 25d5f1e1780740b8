"""A Gaussian process through the values seen so far, in numpy: what a search expects of points it has not evaluated.

    surrogate = Surrogate(points, values, prior)         # points [n_points, n_axes]
    surrogate.expected_improvement(candidates, 0.1)      # [n_candidates], in the spread of `values`

Matérn 5/2. How far values are alike, and how noisy they are, is not fitted: a `Prior` lists what is thought possible,
and the values say how likely each is. Mean and variance of the process follow from the data in closed form.
"""

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from scipy.special import ndtr

from tune_cd.search.space import Array

PRIOR_POINTS = 1.0
"""The belief that the process has the values' variance counts as much as so many points."""

UNLIKELY = 0.01
"""Draws whose likelihood is below this share of the largest are left out."""


@dataclass(frozen=True)
class Prior:
    """What is thought possible of a process, as draws of equal weight before any value is known.

    maps [n_draws, n_axes, n_axes]: from coordinates to units of length scales, one row a direction.  noises [n_draws]:
    variances of the noise, as shares of the process's.  averaged: predictions are means over all draws by their
    likelihood; False: those of the likeliest.
    """

    maps: Array
    noises: Array
    averaged: bool = True


class Surrogate:
    """points: array [n_points, n_axes]; values: array [n_points], finite, larger is better."""

    def __init__(self, points: Array, values: Array, prior: Prior):
        self._offset = float(values.mean())
        self.spread = float(values.std()) or 1.0  # the unit of standardised values
        self._values = (values - self._offset) / self.spread
        n = len(points)
        scaled = mapped(points, prior.maps)  # [n_draws, n_axes, n]
        covariances = matern(distances(scaled, scaled)) + prior.noises[:, None, None] * np.eye(n)
        solved = np.linalg.solve(covariances, np.stack([self._values, np.ones(n)], axis=-1)[None])  # [n_draws, n, 2]
        means = solved[..., 0].sum(-1) / solved[..., 1].sum(-1)
        pulls = solved[..., 0] - means[:, None] * solved[..., 1]
        variances = (((self._values - means[:, None]) * pulls).sum(-1) + PRIOR_POINTS) / (n + PRIOR_POINTS)
        determinants = 2 * np.log(np.diagonal(np.linalg.cholesky(covariances), axis1=1, axis2=2)).sum(-1)
        weights = weights_of(-n / 2 * np.log(variances) - determinants / 2, prior.averaged)
        kept = np.flatnonzero(weights)
        self._weights, self._maps, self._scaled = weights[kept], prior.maps[kept], scaled[kept]
        self._means, self._pulls, self._variances = means[kept], pulls[kept], variances[kept]
        self._inverses = np.linalg.inv(covariances[kept])

    def mean(self, candidates: Array) -> Array:
        """What is expected of candidates [n_candidates, n_axes], in the units of `values`."""
        return self._offset + self.spread * self.posterior(candidates)[0]

    def posterior(self, candidates: Array) -> tuple[Array, Array]:
        """Mean and standard deviation [n_candidates] of the value without noise, in standardised units, each the mean
        over the draws."""
        mean, deviation = self._by_draw(candidates)
        return self._weights @ mean, self._weights @ deviation

    def expected_improvement(self, candidates: Array, margin: float) -> Array:
        """E[max(value - best - margin, 0)] of candidates [n_candidates, n_axes].

        It and the margin are in standard deviations of the values.
        """
        mean, deviation = self._by_draw(candidates)
        gain = (mean - self._values.max() - margin) / deviation
        improvement: Array = self._weights @ (deviation * (gain * ndtr(gain) + np.exp(-(gain**2) / 2) / sqrt(2 * pi)))
        return improvement

    def _by_draw(self, candidates: Array) -> tuple[Array, Array]:
        """Mean and standard deviation [n_draws, n_candidates]."""
        correlation = matern(distances(mapped(candidates, self._maps), self._scaled))  # [n_draws, n_candidates, n]
        mean = self._means[:, None] + (correlation @ self._pulls[..., None])[..., 0]
        explained = ((correlation @ self._inverses) * correlation).sum(-1)
        return mean, np.sqrt(self._variances[:, None] * np.maximum(1 - explained, 1e-9))


def matern(distance: Array) -> Array:
    """The Matérn 5/2 correlation at distances in length scales."""
    scaled: Array = sqrt(5) * distance
    return (1 + scaled + scaled**2 / 3) * np.exp(-scaled)


def weights_of(log_likelihood: Array, averaged: bool) -> Array:
    """Of the draws [n_draws], summing to 1; 0: left out."""
    if not averaged:
        likeliest: Array = np.eye(len(log_likelihood))[np.argmax(log_likelihood)]
        return likeliest
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
