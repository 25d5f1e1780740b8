"""The shape of a landscape around its optimum: a quadratic fit, its principal directions and widths.

Coordinate descent needs few line searches if its directions are conjugate for the Hessian of M in log h
(`subsec:reparam`); "it would also be possible to approximate the Hessian of M in the optimal configuration", says the
paper.

    shape = ridge(results.read("results", "my-grid"), "test_score")
    shape.widths                        # octaves to 5 % below the optimum, along each principal direction
    alignment(shape, balance.A_O)       # degrees between those and the rows of eq:matrix_a, with 95 % intervals
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tune_cd.analysis.choices import choice_names, signs
from tune_cd.analysis.grids import MEASURED, cells
from tune_cd.analysis.scores import BALANCE, SPLITS, octaves, own_column, parameter_names
from tune_cd.search.space import Array

DROP = 0.05
"""A width is the distance at which the score has dropped by this share of its best value, as in n-95."""

DRAWS = 1000
"""Hessians drawn from the fit's distribution; intervals are quantiles over them."""

ROUNDS = 5  # of selecting the trials near the fit's optimum, and fitting again


@dataclass(frozen=True, eq=False)
class Ridge:
    """The quadratic best + (x - optimum)ᵀ H (x - optimum) / 2 through the trials near the best one; x in octaves.

    names: the axes [d] that took several values. optimum [d]: the parameters at the maximum, NaN unless the fit has one
    inside the box that trials cover. value: the fit's value there, or else the best trial's. hessian [d, d]: score per
    octave², negated where a smaller score is better. directions [d, d]: rows are unit vectors, the steepest curvature
    first. curvatures [d]: their eigenvalues, negative where the score gets worse. widths [d]: octaves in which the fit
    falls by DROP of its value, inf if it does not fall. widths_low, widths_high [d]: 95 % intervals. draws [DRAWS, d,
    d]: Hessians drawn from the fit's distribution. trials: the number of fitted settings. residual: their standard
    deviation from the fit.
    """

    names: tuple[str, ...]
    optimum: np.ndarray
    value: float
    hessian: np.ndarray
    directions: np.ndarray
    curvatures: np.ndarray
    widths: np.ndarray
    widths_low: np.ndarray
    widths_high: np.ndarray
    draws: np.ndarray
    trials: int
    residual: float


def ridge(
    trials: pd.DataFrame,
    score: str = "val_score",
    axes: Sequence[str] | None = None,
    share: float = 0.25,
    seed: int = 0,
) -> Ridge:
    """Fit a quadratic in octaves, by least squares, to the settings near the best one.

    Near: where the fit itself is at most `share` of the range of scores below its optimum. The first fit takes the
    settings closest to the best one, and more until there are enough. A wider share means more trials and a blunter
    optimum: for a Gaussian ridge the widths come out 5 % too large with share 0.25, and 15 % with 0.5. The intervals
    assume a quadratic and leave that error out. trials, axes and errors: as in `analysis.cells`, whose cells are the
    settings (means over seeds). Axes of one value are left out, as are settings without a batch size if others have
    one. Also raises ValueError for a share outside (0, 1]; for a value that is not positive; for settings on a line or
    an axis of two values, which do not determine the quadratic; and for too few settings: d axes give it (d + 1)(d + 2)
    / 2 coefficients, and 2 settings more are needed to estimate their uncertainty. And for a category that took several
    values: select one, or name the other axes. A smaller score counts as better where the rows' mode is "min".
    """
    if not 0 < share <= 1:
        raise ValueError(f"share = {share!r}: more than 0 and at most 1 of the range of scores")
    frame = cells(trials, score, axes)
    frame = frame[frame["count"] > 0]
    columns = {name: own_column(name, MEASURED) for name in axes or parameter_names(trials)}
    names = tuple(name for name, column in columns.items() if frame[column].nunique() > 1)
    if chosen := [name for name in choice_names(trials) if name in names]:
        raise ValueError(f"{chosen} have no order: settings that differ in them are on no quadratic")
    frame = frame.dropna(subset=[columns[name] for name in names])
    least = (len(names) + 1) * (len(names) + 2) // 2 + 2
    if not names or len(frame) < least:
        found = f"{len(frame)} settings with a score that differ in {len(names)} parameters"
        raise ValueError(f"{found}: at least {least} that differ in one or more are needed")
    x = np.column_stack([octaves(frame[columns[name]].to_numpy(dtype=float), name) for name in names])
    sign = float(signs(trials)[0]) if score in SPLITS else 1.0
    y = sign * frame["value"].to_numpy()
    if not _spans(x - x[y.argmax()]):
        raise ValueError(
            f"{len(frame)} settings of {names} lie on a line, or an axis has two values only: they fit many quadratics"
        )
    near = _nearest(x, x[y.argmax()], least)
    for _ in range(ROUNDS):
        near, before = _near(_Fit(x[near], y[near]), x, y, share, least), near
        if np.array_equal(near, before):
            break
    fit = _Fit(x[near], y[near])
    optimum, value = fit.optimum(), float(y.max())
    if optimum is None or (optimum < x[near].min(0)).any() or (optimum > x[near].max(0)).any():
        optimum = np.full(len(names), np.nan)
    else:
        value = float(fit.at(optimum[None])[0])
    curvatures, vectors = np.linalg.eigh(fit.hessian)  # ascending: the steepest fall first
    draws = fit.drawn(seed)
    drawn = _widths(np.linalg.eigvalsh(draws), value)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="nearest")
    return Ridge(
        names, 2.0**optimum, sign * value, fit.hessian, vectors.T, curvatures, _widths(curvatures, value), low, high,
        draws, len(near), fit.residual,
    )  # fmt: skip


def alignment(ridge: Ridge, matrix: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Degrees between each principal direction and each row of a matrix of directions in log (Lambda_p, Lambda_e, b).

    One row per pair: direction (0: the steepest), row (its name), degrees, and low, high: the 95 % interval, which
    begins at 0 if the row is as near to the direction as 95 % of its draws. If the fit has fewer axes, only rows that
    move along these alone are compared. Raises ValueError if there is no such row, or if the fit has an axis outside
    BALANCE.
    """
    rows, table = _rows(ridge, matrix), []
    drawn = np.linalg.eigh(ridge.draws)[1].swapaxes(1, 2)  # [DRAWS, d, d]
    for at, direction in enumerate(ridge.directions):
        nearest = np.abs(drawn @ direction).argmax(1)  # of each draw, the principal direction that is likest to this
        own = drawn[np.arange(DRAWS), nearest]
        for name, row in rows.items():
            low, high = _between(own, direction, row)
            degrees = float(_degrees(direction @ row))
            table.append({"direction": at, "row": name, "degrees": degrees, "low": low, "high": high})
    return pd.DataFrame(table)


class _Fit:
    """y ~ c + g·x + xᵀHx/2 by least squares. x [n, d] in octaves, y [n]; n is at least the number of coefficients."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.centre = x[y.argmax()]
        self.terms = np.triu_indices(x.shape[1])
        design = self._design(x)
        self.coefficients, *_ = np.linalg.lstsq(design, y, rcond=None)
        self.freedom = len(y) - np.linalg.matrix_rank(design)
        residuals = y - design @ self.coefficients
        rounding = np.finfo(float).eps * np.abs(y).max() * len(y)  # for exact scores: rounding is no curvature
        self.residual = float(max(np.sqrt((residuals**2).sum() / max(1, self.freedom)), rounding))
        self.covariance = self.residual**2 * np.linalg.pinv(design.T @ design)
        self.hessian = self._hessian(self.coefficients)

    def _design(self, x: np.ndarray) -> np.ndarray:
        d = x - self.centre
        first, second = self.terms
        halved = np.where(first == second, 0.5, 1.0)
        return np.column_stack([np.ones(len(d)), d, d[:, first] * d[:, second] * halved])

    def _hessian(self, coefficients: np.ndarray) -> np.ndarray:
        """Hessians [..., d, d] from coefficients [..., n]."""
        d = len(self.centre)
        hessian = np.zeros((*coefficients.shape[:-1], d, d))
        hessian[..., *self.terms] = coefficients[..., 1 + d :]
        return np.triu(hessian) + np.triu(hessian, 1).swapaxes(-1, -2)

    def at(self, x: np.ndarray) -> Array:
        values: Array = self._design(x) @ self.coefficients
        return values

    def optimum(self) -> Array | None:
        """Coordinates of the maximum; None if the fit has none."""
        if np.linalg.eigvalsh(self.hessian).max() >= 0:
            return None
        optimum: Array = self.centre - np.linalg.solve(self.hessian, self.coefficients[1 : 1 + len(self.centre)])
        return optimum

    def drawn(self, seed: int) -> np.ndarray:
        """Hessians [DRAWS, d, d] from the coefficients' distribution, Student's t with the fit's degrees of freedom."""
        rng = np.random.default_rng(seed)
        freedom = max(1, self.freedom)
        scale = np.sqrt(freedom / rng.chisquare(freedom, DRAWS))
        normal = rng.multivariate_normal(np.zeros(len(self.coefficients)), self.covariance, DRAWS, method="eigh")
        return self._hessian(self.coefficients + scale[:, None] * normal)


def _nearest(x: np.ndarray, centre: np.ndarray, least: int) -> np.ndarray:
    """Indices, ascending, of at least `least` settings nearest to `centre`, with those as near as the last of them.

    They must determine a quadratic: any number of settings on one line through the best does not.
    """
    distance = np.linalg.norm((x - centre), axis=1)
    order = np.argsort(distance, kind="stable")
    count = least
    while count < len(x):
        near = np.flatnonzero(distance <= distance[order[count - 1]] + 1e-9)
        if _spans(x[near] - centre):
            return near
        count = max(len(near), count * 6 // 5) + 1  # larger steps, as thousands may lie on one line
    return np.arange(len(x))


def _spans(d: np.ndarray) -> bool:
    first, second = np.triu_indices(d.shape[1])
    design = np.column_stack([np.ones(len(d)), d, d[:, first] * d[:, second]])
    return bool(np.linalg.matrix_rank(design) == design.shape[1])


def _near(fit: _Fit, x: np.ndarray, y: np.ndarray, share: float, least: int) -> np.ndarray:
    """Indices of the settings near the optimum of the fit; those of `_nearest` if it has none or they are too few."""
    if fit.optimum() is not None:
        fitted = fit.at(x)
        drop = fitted.max() - fitted
        for near in (np.flatnonzero(drop <= share * np.ptp(y)), np.sort(np.argsort(drop, kind="stable")[:least])):
            if len(near) >= least and _spans(x[near] - fit.centre):
                return near
    return _nearest(x, x[y.argmax()], least)


def _widths(curvatures: np.ndarray, value: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.where(curvatures < 0, np.sqrt(2 * DROP * abs(value) / np.maximum(-curvatures, 0)), np.inf)


def _rows(ridge: Ridge, matrix: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    """The matrix's rows that move along the fit's axes alone, as unit vectors on those axes."""
    axes = [BALANCE.index(name) for name in ridge.names if name in BALANCE]
    others = [axis for axis in range(len(BALANCE)) if axis not in axes]
    rows = {
        name: np.array(row)[axes] / np.linalg.norm(row)
        for name, row in matrix.items()
        if not np.array(row)[others].any()
    }
    if len(axes) < len(ridge.names) or not rows:
        raise ValueError(f"a fit over {ridge.names} cannot be compared with directions of {BALANCE}: {dict(matrix)}")
    return rows


def _between(drawn: np.ndarray, direction: np.ndarray, row: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of degrees, 0 to 90, between a principal direction and a row.

    drawn [DRAWS, d]: the direction's draws. An angle has no sign, so draws lie above a true angle of 0. The interval
    therefore begins at 0 if the row is within the cone of 95 % of the draws.
    """
    cosines = drawn @ row * np.sign(drawn @ direction) * (1.0 if direction @ row >= 0 else -1.0)
    low, high = np.quantile(np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0))), [0.025, 0.975])
    if _degrees(direction @ row) <= np.quantile(_degrees(drawn @ direction), 0.95):
        low = 0.0
    return (float(low), float(high)) if high <= 90 else (float(min(low, 180 - high)), 90.0)


def _degrees(cosine: np.ndarray | float) -> Array:
    degrees: Array = np.degrees(np.arccos(np.clip(np.abs(cosine), 0.0, 1.0)))
    return degrees
