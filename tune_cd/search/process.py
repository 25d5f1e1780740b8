"""A Gaussian process over configurations and training lengths, in numpy: it predicts values not yet measured.

    process = Process(points, shares, values, draws)           # points [n, n_axes], shares [n] of the full length
    process.gain(candidates, 1 / 8, process.ends(points).max(1, keepdims=True))  # of training each to an eighth

The kernel is Matérn 5/2. The length is one more axis, in octaves, so the correlation of two trainings falls with the
distance of their configurations and of their lengths. Scores rise with length, so the mean is a line in octaves of it.
Its slope follows from the data; departures from the line, as where a landscape is flat, are left to the process.

Length scales and noise are not fitted: a `Draws` lists possible ones, and the values determine their likelihood. Mean
and variance of the process follow from the data in closed form.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import pi, sqrt

import numpy as np
from scipy.linalg.lapack import dpotrs
from scipy.special import ndtr

from tune_cd.search.space import Array

PRIOR_POINTS = 1.0
"""Weight, in points, of the prior that the process has the variance of the values."""

UNLIKELY = 0.01
"""Draws whose likelihood is below this share of the largest are left out."""

SCREENED = 100
"""Of more than SCREENED values, as many, evenly spread, first show which draws are UNLIKELY."""

TINY = 1e-9

PER_DRAW, JITTER = 4, 1e-6
"""Functions drawn with one draw of length scales, as a draw takes a Cholesky factor of the points, and what is added to
the diagonal for one."""

BLOCK, ROWS = 1 << 14, 32
"""Correlations are computed BLOCK at a time, so that intermediate results stay in the processor's cache. A covariance
is computed ROWS rows at a time, up to their diagonal."""


@dataclass(frozen=True)
class Draws:
    """Possible length scales and noises of a process, as draws of equal weight before any value is known.

    maps [n_draws, n_features + 1, n_features + 1]: from the features, the octave of the training length last, to units
    of length scales, one row a direction. noises [n_draws]: noise variances, as shares of the process's variance.
    features: as `Space.features`. Predictions are means over all draws, weighted by their likelihood.
    """

    maps: Array
    noises: Array
    features: Callable[[Array], Array]


class Process:
    """The process, given its data.

    points: [n, n_axes]; shares: [n], of the full length, in (0, 1]; values: [n], finite, larger is better. factors:
    `factors_of` these points, or of more that begin with them; None: computed here, without doubt.
    kept: indices of the draws that are not left out.
    """

    def __init__(self, points: Array, shares: Array, values: Array, draws: Draws, factors: Array | None = None):
        self._offset = float(values.mean())
        self.spread = (float(values.std()) if np.ptp(values) > 0 else 0.0) or 1.0  # the unit of standardised values
        standardised = (values - self._offset) / self.spread
        n, octaves = len(points), np.log2(shares)
        self._sloped = bool(np.ptp(octaves) > 0)
        basis = self._basis(octaves)
        factors = (factors_of(points, shares, draws) if factors is None else factors)[:, :n, :n]
        solved = solutions(factors, np.column_stack([basis, standardised]))  # [n_draws, n, n_basis + 1]
        weighted = np.swapaxes(solved[..., :-1], 1, 2)  # [n_draws, n_basis, n]
        informed = weighted @ basis + TINY * np.eye(basis.shape[1])  # information on the trend's coefficients
        trends = np.linalg.solve(informed, (weighted @ standardised)[..., None])
        residuals = standardised - (basis @ trends)[..., 0]  # [n_draws, n]
        pulls = solved[..., -1] - (solved[..., :-1] @ trends)[..., 0]
        variances = ((residuals * pulls).sum(-1) + PRIOR_POINTS) / (n + PRIOR_POINTS)
        determinants = 2 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(-1)  # log determinants
        weights = weights_of(-n / 2 * np.log(variances) - determinants / 2)
        self.kept = kept = np.flatnonzero(weights)
        self._weights, self._maps, self._variances = weights[kept], draws.maps[kept], variances[kept]
        self._noises, self._trends, self._pulls = draws.noises[kept], trends[kept, :, 0], pulls[kept]
        self._features = draws.features
        self._factors, self._scaled = factors[kept], scaled(self._features(points), octaves, self._maps)
        self._weighted, self._informed = weighted[kept], informed[kept]

    def ends(self, points: Array) -> Array:
        """Predicted values of points [n, n_axes] at full length, in standardised units, [n_draws, n]."""
        return self._at(points, 1.0)[0]

    def mean(self, points: Array, share: float | Array = 1.0) -> Array:
        """Predicted values [n] of points [n, n_axes] at a share, or at one share each [n], in the units of `values`."""
        return self.averaged(self._at(points, share)[0])

    def averaged(self, expected: Array) -> Array:
        """Mean over the draws [n] of predictions [n_draws, n] in standardised units, in the units of `values`."""
        return self._offset + self.spread * (self._weights @ expected)

    def measured(self, points: Array) -> tuple[Array, Array]:
        """Predicted measurements of points [n, n_axes] at full length: mean and standard deviation [n], in the units of
        `values`, with all doubt: between draws, about the trend, and the noise."""
        means, correlation, _ = self._at(points, 1.0)
        explained = _products(correlation @ self._inverses, correlation)
        basis = self._basis(np.zeros(len(points)))
        unknown = basis - correlation @ np.swapaxes(self._weighted, 1, 2)  # [n_draws, n, n_basis]
        trend = (unknown @ np.linalg.inv(self._informed) * unknown).sum(-1)
        within = self._variances[:, None] * (np.maximum(1 - explained, TINY) + trend + self._noises[:, None])
        mean = self._weights @ means
        deviation: Array = np.sqrt(self._weights @ (within + (means - mean) ** 2))
        return self._offset + self.spread * mean, self.spread * deviation

    def drawn(self, points: Array, number: int, rng: np.random.Generator) -> Array:
        """So many functions drawn from the process, a multiple of PER_DRAW, at points [n, n_axes] at full length, in
        standardised units, [number, n]."""
        means, correlation, theirs = self._at(points, 1.0)
        functions = []
        for draw in rng.choice(len(means), number // PER_DRAW, p=self._weights):
            own, across = theirs[[draw]], correlation[draw]
            covariance = correlations(own, own)[0] - across @ self._inverses[draw] @ across.T
            root = np.linalg.cholesky(self._variances[draw] * (covariance + JITTER * np.eye(len(points))))
            functions.append(means[draw] + rng.standard_normal((PER_DRAW, len(points))) @ root.T)
        return np.concatenate(functions)

    def gain(self, points: Array, share: float, above: Array) -> Array:
        """Knowledge gradient: expected gain E[max(m - above, 0)] [n] of training points to this share. m is the
        prediction of a point's final value after that training. In standardised units, as `above` [n_draws, 1 or n]."""
        ends, at_end, end_scaled = self._at(points, 1.0)
        if share == 1.0:
            solved = at_end @ self._inverses
            unexplained = shared = 1 - _products(solved, at_end)
        else:
            _, at_share, share_scaled = self._at(points, share)
            alike = matern(np.sqrt(((end_scaled - share_scaled) ** 2).sum(1)))  # [n_draws, n]
            solved = at_share @ self._inverses
            unexplained, shared = 1 - _products(solved, at_share), alike - _products(solved, at_end)
        seen = np.maximum(unexplained, TINY) + self._noises[:, None]
        deviation = np.sqrt(self._variances[:, None] / seen) * np.abs(shared)  # of m
        return self._weights @ expected_excess(ends - above, deviation)

    @cached_property
    def _inverses(self) -> Array:
        """Inverses of the covariances, [n_draws, n, n]."""
        return solutions(self._factors, np.eye(self._factors.shape[-1]))

    def _at(self, points: Array, share: float | Array) -> tuple[Array, Array, Array]:
        """Means [n_draws, n], correlations with the data [n_draws, n, n_data], and the scaled points."""
        octaves = np.broadcast_to(np.log2(share), len(points))
        theirs = scaled(self._features(points), octaves, self._maps)
        correlation = correlations(theirs, self._scaled)
        means = self._trends @ self._basis(octaves).T + (correlation @ self._pulls[..., None])[..., 0]
        return means, correlation, theirs

    def _basis(self, octaves: Array) -> Array:
        ones = np.ones((len(octaves), 1))
        return np.column_stack([ones, octaves]) if self._sloped else ones


def expected_excess(mean: Array, deviation: Array) -> Array:
    """E[max(x, 0)] of a normal x with these means and standard deviations."""
    deviation = np.maximum(deviation, TINY)
    gain = mean / deviation
    return deviation * (gain * ndtr(gain) + np.exp(-(gain**2) / 2) / sqrt(2 * pi))


def matern(distance: Array) -> Array:
    """The Matérn 5/2 correlation at distances in length scales."""
    scaled = sqrt(5) * distance
    return ((scaled / 3 + 1) * scaled + 1) * np.exp(-scaled)


def likely(points: Array, shares: Array, values: Array, draws: Draws, doubt: Array | float = 0.0) -> Draws:
    """The draws but those that some of these values show to be unlikely, see SCREENED. doubt: as for `factors_of`."""
    if len(values) <= SCREENED:
        return draws
    few = np.arange(SCREENED) * len(values) // SCREENED
    factors = factors_of(points[few], shares[few], draws, np.broadcast_to(doubt, len(values))[few])
    kept = Process(points[few], shares[few], values[few], draws, factors).kept
    return replace(draws, maps=draws.maps[kept], noises=draws.noises[kept])


def weights_of(log_likelihood: Array) -> Array:
    """Weights of the draws [n_draws], summing to 1; 0: left out."""
    shares = np.exp(log_likelihood - log_likelihood.max())
    shares[shares < UNLIKELY] = 0.0
    return shares / shares.sum()


def scaled(features: Array, octaves: Array, maps: Array) -> Array:
    """Features [n, n_features] and lengths [n] in every draw's length scales, [n_draws, n_features + 1, n]."""
    return maps @ np.column_stack([features, octaves]).T


def correlations(a: Array, b: Array) -> Array:
    """Correlations [n_draws, len(a), len(b)] between scaled points a and b [n_draws, n_features, len]; b: at least
    one."""
    a, b = a - b[..., :1], b - b[..., :1]  # differences of small numbers lose few digits
    ones, others = (np.ones((len(points), 1, points.shape[2])) for points in (a, b))
    ours = np.concatenate([-2 * a, (a**2).sum(1, keepdims=True), ones], axis=1)
    theirs = np.concatenate([b, others, (b**2).sum(1, keepdims=True)], axis=1)
    found: Array = np.swapaxes(ours, 1, 2) @ theirs  # |a|² - 2ab + |b|², squared distances but for rounding
    flat = found.reshape(-1)
    for at in range(0, len(flat), BLOCK):
        block = np.maximum(flat[at : at + BLOCK], 0.0)
        flat[at : at + BLOCK] = matern(np.sqrt(block, out=block))
    return found


def factors_of(points: Array, shares: Array, draws: Draws, doubt: Array | float = 0.0) -> Array:
    """Lower Cholesky factors [n_draws, n, n] of the covariances of values at points [n, n_axes] and shares [n].

    doubt: [n], variances of further noise of each value, as shares of the process's variance, or one of all.
    """
    ours, every = scaled(draws.features(points), np.log2(shares), draws.maps), np.arange(len(points))
    covariances = np.zeros((len(draws.maps), len(points), len(points)))
    for end in range(ROWS, len(points) + ROWS, ROWS):  # only the lower triangle is read
        covariances[:, end - ROWS : end, :end] = correlations(ours[..., end - ROWS : end], ours[..., :end])
    covariances[:, every, every] += draws.noises[:, None] + doubt
    return np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)


def _products(a: Array, b: Array) -> Array:
    """Scalar products [n_draws, n] of the rows of two arrays [n_draws, n, n_data]."""
    return np.einsum("dij,dij->di", a, b)


def solutions(factors: Array, right: Array) -> Array:
    """x [n_draws, n, n_right] of A x = right [n, n_right], by the lower Cholesky factor [n_draws, n, n] of every A."""
    return np.array([dpotrs(factor.T, right, lower=0)[0] for factor in factors])
