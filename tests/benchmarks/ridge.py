"""The shape of a landscape around its best setting: a quadratic fit, its principal directions and widths.

Coordinate descent needs few line searches if its directions are conjugate for the Hessian of M in log h
(`subsec:reparam`); "it would also be possible to approximate the Hessian of M in the optimal configuration", says the
paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tune_cd.analysis import grid

DROP = 0.05
"""A width is the distance at which the score has dropped by this share of its best value, as in n-95."""

DRAWS = 1000
"""Hessians drawn from the fit's distribution; intervals are quantiles over them."""

ROUNDS = 5  # of selecting the trials near the fit's optimum, and fitting again
LEAST = 8  # settings: two more than a quadratic has coefficients
AXES = ("Lambda_p", "Lambda_e")


@dataclass(frozen=True, eq=False)
class Ridge:
    """The Hessian [2, 2] of a quadratic in octaves through the settings near the best one, score per octave².

    directions [2, 2]: rows are unit vectors, the steepest curvature first. curvatures [2]: their eigenvalues, negative
    where the score gets worse. widths [2]: octaves in which the fit falls by DROP of its value, inf if it does not
    fall. draws [DRAWS, 2, 2]: Hessians drawn from the fit's distribution. trials: the number of fitted settings.
    """

    hessian: np.ndarray
    directions: np.ndarray
    curvatures: np.ndarray
    widths: np.ndarray
    draws: np.ndarray
    trials: int

    def angle(self, direction: int, row: Sequence[float]) -> tuple[float, float]:
        """The 95 % interval of degrees, 0 to 90, between a principal direction and a vector.

        An angle has no sign, so draws lie above a true angle of 0. The interval therefore begins at 0 if the vector is
        within the cone of 95 % of the draws.
        """
        own, row = self.directions[direction], np.asarray(row) / np.linalg.norm(row)
        vectors = np.linalg.eigh(self.draws)[1].swapaxes(1, 2)  # [DRAWS, 2, 2]
        drawn = vectors[np.arange(DRAWS), np.abs(vectors @ own).argmax(1)]  # of each, the one that is likest to this
        cosines = drawn @ row * np.sign(drawn @ own) * (1.0 if own @ row >= 0 else -1.0)
        low, high = np.quantile(np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0))), [0.025, 0.975])
        if _degrees(own @ row) <= np.quantile(_degrees(drawn @ own), 0.95):
            low = 0.0
        return (float(low), float(high)) if high <= 90 else (float(min(low, 180 - high)), 90.0)


def ridge(trials: pd.DataFrame, score: str, share: float = 0.25) -> Ridge:
    """Fit a quadratic in octaves, by least squares, to the settings near the best one.

    Near: where the fit itself is at most `share` of the range of scores below its optimum. The first fit takes the
    settings closest to the best one, and more until there are enough. For a Gaussian ridge the widths come out 5 % too
    large with share 0.25, and 15 % with 0.5. The intervals assume a quadratic and leave that error out. Raises
    ValueError as `analysis.grid`, and for settings that do not determine the quadratic's six coefficients and, with two
    more, their uncertainty.
    """
    frame = grid(trials, score, AXES).frame()
    frame = frame[frame["count"] > 0]
    x, y = np.log2(frame[list(AXES)].to_numpy(dtype=float)), frame["value"].to_numpy()
    if len(x) < LEAST or not _spans(x - x[y.argmax()]):
        raise ValueError(f"{len(frame)} settings with a score: at least {LEAST}, not all on a line, are required")
    near = _nearest(x, x[y.argmax()])
    for _ in range(ROUNDS):
        near, before = _near(_Fit(x[near], y[near]), x, y, share), near
        if np.array_equal(near, before):
            break
    fit, value = _Fit(x[near], y[near]), float(y.max())
    optimum = fit.optimum()
    if optimum is not None and (optimum >= x[near].min(0)).all() and (optimum <= x[near].max(0)).all():
        value = float(fit.at(optimum[None])[0])
    curvatures, vectors = np.linalg.eigh(fit.hessian)  # ascending: the steepest fall first
    with np.errstate(divide="ignore"):
        falls = np.sqrt(2 * DROP * abs(value) / np.maximum(-curvatures, 0))
    return Ridge(fit.hessian, vectors.T, curvatures, falls, fit.drawn(), len(near))


class _Fit:
    """y ~ c + g·x + xᵀHx/2 by least squares. x [n, 2] in octaves, y [n]; n is at least the number of coefficients."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.centre = x[y.argmax()]
        design = _design(x - self.centre)
        self.coefficients, *_ = np.linalg.lstsq(design, y, rcond=None)
        self.freedom = max(1, len(y) - np.linalg.matrix_rank(design))
        residuals = y - design @ self.coefficients
        rounding = np.finfo(float).eps * np.abs(y).max() * len(y)  # for exact scores: rounding is no curvature
        residual = max(np.sqrt((residuals**2).sum() / self.freedom), rounding)
        self.covariance = residual**2 * np.linalg.pinv(design.T @ design)
        self.hessian = _hessian(self.coefficients)

    def at(self, x: np.ndarray) -> np.ndarray:
        return _design(x - self.centre) @ self.coefficients

    def optimum(self) -> np.ndarray | None:
        """Coordinates of the maximum; None if the fit has none."""
        if np.linalg.eigvalsh(self.hessian).max() >= 0:
            return None
        return self.centre - np.linalg.solve(self.hessian, self.coefficients[1:3])

    def drawn(self) -> np.ndarray:
        """Hessians [DRAWS, 2, 2] from the coefficients' distribution, Student's t with the fit's degrees of freedom."""
        rng = np.random.default_rng(0)
        scale = np.sqrt(self.freedom / rng.chisquare(self.freedom, DRAWS))
        normal = rng.multivariate_normal(np.zeros(len(self.coefficients)), self.covariance, DRAWS, method="eigh")
        return _hessian(self.coefficients + scale[:, None] * normal)


def _design(d: np.ndarray) -> np.ndarray:
    """The terms [n, 6] of a quadratic at d [n, 2]."""
    p, e = d.T
    return np.column_stack([np.ones(len(d)), d, p * p / 2, p * e, e * e / 2])


def _hessian(coefficients: np.ndarray) -> np.ndarray:
    """Hessians [..., 2, 2] from coefficients [..., 6]."""
    return coefficients[..., [[3, 4], [4, 5]]]


def _nearest(x: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Indices, ascending, of at least LEAST settings nearest to `centre`, with those as near as the last of them.

    They must determine a quadratic: any number of settings on one line through the best does not.
    """
    distance = np.linalg.norm((x - centre), axis=1)
    order, count = np.argsort(distance, kind="stable"), LEAST
    while count < len(x):
        near = np.flatnonzero(distance <= distance[order[count - 1]] + 1e-9)
        if _spans(x[near] - centre):
            return near
        count = max(len(near), count * 6 // 5) + 1  # larger steps, as thousands may lie on one line
    return np.arange(len(x))


def _spans(d: np.ndarray) -> bool:
    return bool(np.linalg.matrix_rank(_design(d)) == 6)


def _near(fit: _Fit, x: np.ndarray, y: np.ndarray, share: float) -> np.ndarray:
    """Indices of the settings near the optimum of the fit; those of `_nearest` if it has none or they are too few."""
    if fit.optimum() is not None:
        fitted = fit.at(x)
        drop = fitted.max() - fitted
        for near in (np.flatnonzero(drop <= share * np.ptp(y)), np.sort(np.argsort(drop, kind="stable")[:LEAST])):
            if len(near) >= LEAST and _spans(x[near] - fit.centre):
                return near
    return _nearest(x, x[y.argmax()])


def _degrees(cosine: np.ndarray | float) -> np.ndarray:
    return np.degrees(np.arccos(np.clip(np.abs(cosine), 0.0, 1.0)))
