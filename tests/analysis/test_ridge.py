"""The quadratic fit on landscapes whose Hessian is known, without and with noise."""

from math import cos, inf, log, radians, sin

import numpy as np
import pytest
from studies import empty, lattice, lost, measured, row, table

from tune_cd import balance
from tune_cd.analysis import alignment, ridge

pytestmark = pytest.mark.filterwarnings("error")
NAMES = ("Lambda_p", "Lambda_e", "batch_size")
PLANE = lattice(np.arange(-10, 11), np.arange(-10, 11))
SOLID = lattice(np.arange(-4, 5), np.arange(-4, 5), np.arange(4, 10))
HESSIAN, CENTRE, PEAK = -np.array([[0.02, -0.012], [-0.012, 0.03]]), np.array([1.3, -2.2]), 0.8
SCATTERED = np.random.default_rng(4).uniform(-6, 6, (20, 2))


def quadratic(hessian=HESSIAN, centre=CENTRE):
    return lambda x: PEAK + (x - centre) @ hessian @ (x - centre) / 2


def turned(degrees, steep, flat):
    """A Hessian of these curvatures; the steep direction is so far from (-1, 1)."""
    at = radians(135 + degrees)
    u = np.array([cos(at), sin(at)])
    v = np.array([-u[1], u[0]])
    return -steep * np.outer(u, u) - flat * np.outer(v, v)


def octaves_to_drop(hessian):
    """By bisection along each principal direction: where the quadratic is 5 % of PEAK lower."""
    found = []
    for direction in np.linalg.eigh(hessian)[1].T:
        low, high = 0.0, 1e3
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (
                (middle, high)
                if PEAK + middle**2 * direction @ hessian @ direction / 2 > 0.95 * PEAK
                else (low, middle)
            )
        found.append(low)
    return found


@pytest.mark.parametrize("places", [PLANE, SCATTERED], ids=["grid", "20 points"])
@pytest.mark.parametrize("degrees", [0, 17, 45, 80])
@pytest.mark.parametrize("share", [0.1, 0.25, 1.0])
def test_a_quadratic_is_found_exactly(places, degrees, share):
    hessian = turned(degrees, 0.05, 0.01)
    fit = ridge(measured(quadratic(hessian), places, NAMES[:2]), share=share)
    assert fit.names == NAMES[:2] and fit.hessian == pytest.approx(hessian, rel=1e-6, abs=1e-9)
    assert np.log2(fit.optimum) == pytest.approx(CENTRE, abs=1e-6) and fit.value == pytest.approx(PEAK)
    assert fit.curvatures == pytest.approx([-0.05, -0.01]) and fit.widths == pytest.approx(octaves_to_drop(hessian))
    assert abs(fit.directions @ fit.directions.T) == pytest.approx(np.eye(2), abs=1e-9)
    assert fit.directions @ hessian @ fit.directions.T == pytest.approx(np.diag([-0.05, -0.01]), abs=1e-7)
    assert fit.residual < 1e-9 and fit.widths_low == pytest.approx(fit.widths, rel=1e-6) == fit.widths_high
    assert 8 <= fit.trials <= len(places)
    angles = alignment(fit, balance.A_O).set_index(["direction", "row"])["degrees"]
    assert angles[0, "balance"] == pytest.approx(min(degrees, 180 - degrees), abs=1e-3) == angles[1, "joint"]
    assert angles[0, "joint"] == pytest.approx(90 - degrees, abs=1e-3)


@pytest.mark.parametrize("names, places", [(("lr",), lattice(np.arange(-6, 7))), (NAMES, SOLID)], ids=["1-D", "3-D"])
def test_other_dimensions(names, places):
    rng = np.random.default_rng(2)
    root = rng.standard_normal((len(names), len(names)))
    hessian, centre = (
        -0.01 * (root @ root.T + np.eye(len(names))),
        np.array([0.4, -0.8, 6.3])[-len(names) :] if len(names) > 1 else np.array([0.4]),
    )
    fit = ridge(measured(quadratic(hessian, centre), places, names))
    assert fit.hessian == pytest.approx(hessian, rel=1e-6) and np.log2(fit.optimum) == pytest.approx(centre, abs=1e-6)
    assert fit.widths == pytest.approx(octaves_to_drop(hessian)) and fit.draws.shape[1:] == hessian.shape


def test_an_axis_of_one_value_is_left_out():
    trials = measured(lambda x: quadratic()(x[:2]), lattice(range(-8, 9), range(-8, 9), [6]), NAMES)
    assert ridge(trials).names == NAMES[:2] and ridge(trials).hessian == pytest.approx(HESSIAN)
    assert ridge(trials, axes=NAMES[1::-1]).hessian == pytest.approx(HESSIAN[::-1, ::-1])


def test_settings_without_a_batch_size_beside_others_are_left_out():
    trials = measured(lambda x: quadratic(np.diag([-0.02, -0.03, -0.01]), np.array([0.3, 0.6, 6.0]))(x), SOLID, NAMES)
    trials.loc[::7, "batch_size"] = None
    trials["params"] = [
        {name: h[name] for name in NAMES[:2]} if i % 7 == 0 else h for i, h in enumerate(trials["params"])
    ]
    assert ridge(trials).hessian == pytest.approx(np.diag([-0.02, -0.03, -0.01]), abs=1e-8)


@pytest.mark.parametrize("share, low, high", [(0.25, 1.03, 1.075), (0.5, 1.10, 1.18)])
def test_a_gaussian_is_found_as_much_too_wide_as_is_said(share, low, high):
    across, along = 7.35, 14.7
    fit = ridge(
        measured(
            lambda x: 0.85 * np.exp(-(((x[0] - x[1]) / across) ** 2 + ((x[0] + x[1]) / along) ** 2) / 2),
            PLANE,
            NAMES[:2],
        ),
        share=share,
    )
    truth = np.array([across, along]) * (-log(0.95)) ** 0.5
    assert ((low * truth < fit.widths) & (fit.widths < high * truth)).all(), fit.widths / truth
    assert np.log2(fit.optimum) == pytest.approx([0, 0], abs=1e-6) and fit.value == pytest.approx(0.85, rel=0.03)


def test_intervals_hold_the_truth():
    """95 % intervals of widths and angles (0 and 90 degrees too) hold in 90 to 99 % of 120 repetitions."""
    places = lattice(np.arange(-4, 5), np.arange(-4, 5))
    trials, rng = measured(quadratic(), places, NAMES[:2]), np.random.default_rng(0)
    u, v = np.linalg.eigh(HESSIAN)[1].T
    w = np.array([1.0, 0.0])
    angles = {(0, "u"): 0.0, (0, "v"): 90.0, (1, "u"): 90.0, (1, "v"): 0.0}
    angles |= {(at, "w"): np.degrees(np.arccos(abs(direction @ w))) for at, direction in enumerate((u, v))}
    hits, repetitions = np.zeros(8), 120
    for repetition in range(repetitions):
        fit = ridge(
            trials.assign(val_score=trials["val_score"] + 0.005 * rng.standard_normal(len(trials))),
            share=0.5,
            seed=repetition,
        )
        found = list((fit.widths_low <= octaves_to_drop(HESSIAN)) & (octaves_to_drop(HESSIAN) <= fit.widths_high))
        matrix = {name: (*row, 0.0) for name, row in {"u": u, "v": v, "w": w}.items()}
        table = alignment(fit, matrix).set_index(["direction", "row"])
        found += [
            table.loc[at, "low"] <= angle + 1e-9 and angle - 1e-9 <= table.loc[at, "high"]
            for at, angle in angles.items()
        ]
        hits += found
    assert (hits >= 0.9 * repetitions).all() and (hits <= 0.99 * repetitions).all(), hits


def test_an_optimum_outside_the_box_is_not_given():
    fit = ridge(measured(quadratic(centre=np.array([20.0, 0.0])), lattice(range(-4, 5), range(-4, 5)), NAMES[:2]))
    assert np.isnan(fit.optimum).all() and fit.hessian == pytest.approx(HESSIAN) and fit.value < PEAK
    edge = ridge(measured(quadratic(centre=np.array([4.0, 0.0])), lattice(range(-4, 5), range(-4, 5)), NAMES[:2]))
    assert np.isnan(edge.optimum).all() or np.log2(edge.optimum) == pytest.approx([4, 0])
    saddle = ridge(measured(quadratic(np.diag([-0.02, 0.01])), PLANE, NAMES[:2]))
    assert (
        np.isnan(saddle.optimum).all() and saddle.widths[1] == inf and saddle.curvatures == pytest.approx([-0.02, 0.01])
    )


@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_a_direction_without_curvature_has_no_width(noise):
    trials = measured(lambda x: 0.9 - 0.01 * (x[1] - x[0]) ** 2, PLANE, NAMES[:2])
    fit = ridge(
        trials.assign(val_score=trials["val_score"] + noise * np.random.default_rng(1).standard_normal(len(trials)))
    )
    assert (
        fit.widths_high[1] == inf
        and fit.widths[1] > 20
        and fit.widths[0] == pytest.approx((2 * 0.05 * 0.9 / 0.04) ** 0.5, rel=0.1)
    )
    flat = ridge(trials.assign(val_score=0.5))
    assert (flat.widths_high == inf).all()


def test_three_axes_are_compared_with_all_rows_and_two_with_those_that_move_along_them():
    rows = np.array(list(balance.A_TH.values()))
    fit = ridge(measured(quadratic(-0.01 * (rows.T @ rows), np.array([0.4, -0.8, 6.3])), SOLID, NAMES))
    assert len(alignment(fit, balance.A_TH)) == 9
    flat = ridge(measured(quadratic(), PLANE, NAMES[:2]))
    assert set(alignment(flat, balance.A_TH)["row"]) == {"C_eq"}
    assert set(alignment(flat, balance.A_O)["row"]) == {"balance", "joint"}


def test_the_same_seed_draws_the_same():
    trials = measured(quadratic(), SCATTERED, NAMES[:2])
    trials["val_score"] += 0.01 * np.random.default_rng(0).standard_normal(20)
    one, again, other = (ridge(trials, seed=seed).draws for seed in (3, 3, 4))
    assert np.array_equal(one, again) and not np.array_equal(one, other)


LINE = measured(quadratic(), np.repeat(np.arange(-6, 7), 2).reshape(-1, 2), NAMES[:2])
PAIR = measured(lambda x: quadratic()(x[:2]), lattice(range(-3, 4), range(-3, 4), [5, 6]), NAMES)


@pytest.mark.parametrize("trials, message", [
    (empty(), "0 settings"), (lost(), "0 settings"), (table([row()]), "1 settings .* differ in 0 parameters"),
    (measured(quadratic(), SCATTERED[:7], NAMES[:2]), "7 settings .* at least"),
    (measured(lambda x: x[0], lattice(range(4)), ["lr"]), "4 settings .* in 1 parameters: at least 5"),
    (LINE, "lie on a line"), (PAIR, "axis has two values"),
])  # fmt: skip
def test_too_little_to_fit_is_refused(trials, message):
    with pytest.raises(ValueError, match=message):
        ridge(trials)


@pytest.mark.parametrize("share", [0, -1, 1.1, float("nan")])
def test_other_shares_are_refused(share):
    with pytest.raises(ValueError, match="share = .* of the range"):
        ridge(measured(quadratic(), PLANE, NAMES[:2]), share=share)


def test_what_cannot_be_compared_is_refused():
    own, flat = ridge(measured(quadratic(), PLANE, ["lr", "wd"])), ridge(measured(quadratic(), PLANE, NAMES[:2]))
    for fit, matrix in ((own, balance.A_O), (flat, {"C_p": balance.A_TH["C_p"]})):
        with pytest.raises(ValueError, match="cannot be compared with directions"):
            alignment(fit, matrix)
