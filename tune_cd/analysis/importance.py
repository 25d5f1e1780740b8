"""A Gaussian process through a study's scores: predictions between the settings, and how much each parameter matters.

The importance of a parameter is its total Sobol index: how much the predicted score varies when this parameter alone
moves over its range and the others stay at random places, as a share of the whole variance (Jansen's estimator).
Parameters that act together share variance, so indices may add to more than 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from tune_cd.analysis.axes import Axis
from tune_cd.search.space import Array

LEAST = 8  # scored settings for a fit
MOST = 250  # settings of a fit; of more a seeded choice, the best half among them
SAMPLES, DRAWS = 96, 64  # points of Jansen's estimator, and functions drawn from the process
LENGTH = (0.5, 1.0)  # prior of a length scale: median in ranges, and deviation of its logarithm
NOISE = (0.05, 1.0)  # prior of the noise: median in deviations of the score, and deviation of its logarithm


@dataclass(frozen=True, eq=False)
class Response:
    """The process. groups [n_columns]: the axis of each column of its inputs; the last one beyond them is the length.

    scales [n_axes + 1]: length scales. inputs [n, n_columns], factor [n, n]: Cholesky's of the covariance.
    """

    axes: tuple[Axis, ...]
    groups: Array
    scales: Array
    inputs: Array
    factor: Array
    weights: Array
    mean: float
    deviation: float

    def predict(self, places: Array, shares: Array | float = 1.0) -> tuple[Array, Array]:
        """Score expected at places [m, n_axes] of the axes, and its deviation as a share of the prior's [m]."""
        inputs = _inputs(self.axes, places, shares)
        across = _kernel(inputs, self.inputs, self.groups, self.scales)
        expected = self.mean + self.deviation * (across @ self.weights)
        left = 1 - np.einsum("ij,ji->i", across, cho_solve((self.factor, True), across.T))
        return expected, np.sqrt(np.clip(left, 0, 1))

    def importance(self, seed: int = 0) -> Array:
        """[n_axes, 3]: the total Sobol index of each axis, with the 2.5 and 97.5 % quantiles over drawn functions."""
        rng, d = np.random.default_rng(seed), len(self.axes)
        first, second = (self._sample(rng) for _ in range(2))
        mixed = [np.where(np.arange(d) == n, second, first) for n in range(d)]
        inputs = _inputs(self.axes, np.vstack([first, *mixed]), 1.0)
        across = _kernel(inputs, self.inputs, self.groups, self.scales)
        covariance = _kernel(inputs, inputs, self.groups, self.scales)
        covariance -= across @ cho_solve((self.factor, True), across.T)
        values, vectors = np.linalg.eigh(covariance)  # Cholesky's would fail where rounding makes one negative
        root = vectors * np.sqrt(np.clip(values, 0, None))
        mean = across @ self.weights
        drawn = np.column_stack([mean, mean[:, None] + root @ rng.standard_normal((len(mean), DRAWS))])
        base, *others = drawn.reshape(d + 1, SAMPLES, DRAWS + 1)
        shares = np.array([((base - other) ** 2).mean(0) / 2 for other in others]) / base.var(0)
        low, high = np.quantile(shares[:, 1:], [0.025, 0.975], axis=1)
        found: Array = np.clip(np.column_stack([np.clip(shares[:, 0], low, high), low, high]), 0, 1)
        return found

    def _sample(self, rng: np.random.Generator) -> Array:
        """Places [SAMPLES, n_axes], uniform on the axes; those of lists of values are among these."""
        columns = []
        for axis in self.axes:
            allowed = axis.at(axis.values) if axis.values else None
            columns.append(rng.uniform(size=SAMPLES) if allowed is None else rng.choice(allowed, SAMPLES))
        return np.column_stack(columns)


def response(axes: Sequence[Axis], places: Array, shares: Array, scores: Array, seed: int = 0) -> Response | None:
    """The process through scores [n] at places [n, n_axes] of the axes, trained for shares [n] of the full length.

    Rows with a gap are left out; None for fewer than LEAST, and for scores that are all alike.
    """
    known = np.isfinite(places).all(axis=1) & np.isfinite(scores) & (shares > 0)
    chosen = _chosen(np.flatnonzero(known), scores, seed)
    places, shares, scores = places[chosen], shares[chosen], scores[chosen]
    with np.errstate(all="ignore"):
        mean, deviation = float(scores.mean()) if len(scores) else 0.0, float(scores.std()) if len(scores) else 0.0
    if len(scores) < LEAST or not axes or not np.isfinite(deviation) or deviation <= 1e-9 * abs(mean):
        return None
    inputs, told = _inputs(axes, places, shares), (scores - mean) / deviation
    groups = _groups(axes)
    start = np.array([LENGTH[0]] * (len(axes) + 1) + [NOISE[0]])
    prior = np.array([LENGTH[1]] * (len(axes) + 1) + [NOISE[1]])

    def loss(logs: Array) -> float:
        factor = _factor(inputs, groups, np.exp(logs))
        half = float(told @ cho_solve((factor, True), told)) / 2
        return half + float(np.log(np.diag(factor)).sum() + (((logs - np.log(start)) / prior) ** 2).sum() / 2)

    found = minimize(loss, np.log(start), method="L-BFGS-B", bounds=[(-4, 4)] * len(start), options={"maxiter": 40})
    fitted = np.exp(found.x)
    factor = _factor(inputs, groups, fitted)
    weights = cho_solve((factor, True), told)
    return Response(tuple(axes), groups, fitted[:-1], inputs, factor, weights, mean, deviation)


def _chosen(rows: NDArray[np.intp], scores: Array, seed: int) -> NDArray[np.intp]:
    if len(rows) <= MOST:
        return rows
    ranked = rows[np.argsort(-scores[rows], kind="stable")]
    others = np.random.default_rng(seed).permutation(ranked[MOST // 2 :])
    return np.concatenate([ranked[: MOST // 2], others[: MOST - MOST // 2]])


def _groups(axes: Sequence[Axis]) -> Array:
    columns = [n for n, axis in enumerate(axes) for _ in (axis.values if axis.kind == "category" else (0,))]
    return np.array([*columns, len(axes)])


def _inputs(axes: Sequence[Axis], places: Array, shares: Array | float) -> Array:
    """Columns of the process: a place each, of a category one for each value, and the length in decades."""
    columns = []
    for axis, at in zip(axes, places.T):
        if axis.kind == "category":
            columns += [(np.abs(at - place) < 1e-6) / 2**0.5 for place in axis.at(axis.values)]
        else:
            columns.append(at)
    return np.column_stack([*columns, np.log10(np.broadcast_to(shares, len(places)))]).astype(float)


def _kernel(a: Array, b: Array, groups: Array, scales: Array) -> Array:
    """Matérn 5/2 covariances [n, m], in units of the prior's variance."""
    x, y = a / scales[groups], b / scales[groups]
    squares = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T
    r = np.sqrt(5 * np.clip(squares, 0, None))
    kernel: Array = (1 + r + r**2 / 3) * np.exp(-r)
    return kernel


def _factor(inputs: Array, groups: Array, fitted: Array) -> Array:
    covariance = _kernel(inputs, inputs, groups, fitted[:-1])
    factor: Array = cholesky(covariance + (fitted[-1] ** 2 + 1e-8) * np.eye(len(inputs)), lower=True)
    return factor
