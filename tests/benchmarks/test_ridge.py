"""The quadratic fit on landscapes whose Hessian is known, without and with noise."""

from math import cos, inf, log, radians, sin

import numpy as np
import pytest
from ridge import ridge
from studies import empty, lattice, measured

from tune_cd.balance import A_O

pytestmark = pytest.mark.filterwarnings("error")
NAMES = ("Lambda_p", "Lambda_e")
PLANE = lattice(np.arange(-10, 11), np.arange(-10, 11))
HESSIAN, CENTRE, PEAK = -np.array([[0.02, -0.012], [-0.012, 0.03]]), np.array([1.3, -2.2]), 0.8
SCATTERED = np.random.default_rng(4).uniform(-6, 6, (20, 2))


def quadratic(hessian=HESSIAN):
    return lambda x: PEAK + (x - CENTRE) @ hessian @ (x - CENTRE) / 2


def fitted(score, places=PLANE, noise=0.0, seed=0, **options):
    trials = measured(score, places, NAMES)
    trials["val_score"] += noise * np.random.default_rng(seed).standard_normal(len(trials))
    return ridge(trials, "val_score", **options)


@pytest.mark.parametrize("places", [PLANE, SCATTERED], ids=["grid", "20 points"])
@pytest.mark.parametrize("degrees", [0, 17, 45, 80])
@pytest.mark.parametrize("share", [0.1, 0.25, 1.0])
def test_a_quadratic_is_found_exactly(places, degrees, share):
    at = radians(135 + degrees)  # so far from (-1, 1), the direction of the balance
    u = np.array([cos(at), sin(at)])
    v = np.array([-u[1], u[0]])
    hessian = -0.05 * np.outer(u, u) - 0.01 * np.outer(v, v)
    fit = fitted(quadratic(hessian), places, share=share)
    assert fit.hessian == pytest.approx(hessian, rel=1e-6, abs=1e-9) and 8 <= fit.trials <= len(places)
    assert fit.curvatures == pytest.approx([-0.05, -0.01])
    assert fit.widths == pytest.approx([(2 * 0.05 * PEAK / steep) ** 0.5 for steep in (0.05, 0.01)])
    assert fit.directions @ hessian @ fit.directions.T == pytest.approx(np.diag([-0.05, -0.01]), abs=1e-7)
    for direction, name in ((0, "balance"), (1, "joint")):
        assert fit.angle(direction, A_O[name][:2]) == pytest.approx((degrees,) * 2, abs=1e-3)


@pytest.mark.parametrize("share, low, high", [(0.25, 1.03, 1.075), (0.5, 1.10, 1.18)])
def test_a_gaussian_is_found_as_much_too_wide_as_is_said(share, low, high):
    across, along = 7.35, 14.7
    fit = fitted(
        lambda x: 0.85 * np.exp(-(((x[0] - x[1]) / across) ** 2 + ((x[0] + x[1]) / along) ** 2) / 2), share=share
    )
    truth = np.array([across, along]) * (-log(0.95)) ** 0.5
    assert ((low * truth < fit.widths) & (fit.widths < high * truth)).all(), fit.widths / truth


@pytest.mark.slow
def test_intervals_of_angles_hold_the_truth():
    """95 % intervals, those of 0 and 90 degrees too, hold in 90 to 99 % of 120 repetitions."""
    places = lattice(np.arange(-4, 5), np.arange(-4, 5))
    u, v = np.linalg.eigh(HESSIAN)[1].T
    w = np.array([1.0, 0.0])
    rows = [(0, u, 0.0), (0, v, 90.0), (1, u, 90.0), (1, v, 0.0)]
    rows += [(at, w, np.degrees(np.arccos(abs(direction @ w)))) for at, direction in enumerate((u, v))]
    hits, repetitions = np.zeros(len(rows)), 120
    for seed in range(repetitions):
        fit = fitted(quadratic(), places, noise=0.005, seed=seed, share=0.5)
        ends = [fit.angle(direction, row) for direction, row, _ in rows]
        hits += [low - 1e-9 <= truth <= high + 1e-9 for (low, high), (*_, truth) in zip(ends, rows)]
    assert (hits >= 0.9 * repetitions).all() and (hits <= 0.99 * repetitions).all(), hits


def test_a_direction_without_a_fall_has_no_width():
    saddle = fitted(quadratic(np.diag([-0.02, 0.01])))
    assert saddle.widths[1] == inf and saddle.curvatures == pytest.approx([-0.02, 0.01])
    flat = fitted(lambda x: 0.9 - 0.01 * (x[1] - x[0]) ** 2, noise=0.005)
    assert flat.widths[1] > 20 and flat.widths[0] == pytest.approx((2 * 0.05 * 0.9 / 0.04) ** 0.5, rel=0.1)


@pytest.mark.parametrize("trials", [
    empty(), measured(quadratic(), SCATTERED[:7], NAMES),
    measured(quadratic(), np.repeat(np.arange(-6, 7), 2).reshape(-1, 2), NAMES),
])  # fmt: skip
def test_too_little_to_fit_is_refused(trials):
    with pytest.raises(ValueError, match="settings with a score"):
        ridge(trials, "val_score")
