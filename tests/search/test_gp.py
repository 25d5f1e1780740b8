"""The Gaussian process over configurations and lengths of training, against its formulas written out."""

import itertools
import math

import numpy as np
import pytest
from contract import advance
from searches import descent

from tune_cd import Space
from tune_cd.search import process as gp
from tune_cd.search.process import Draws, Process, matern

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(-2, 2, size=(12, 2))
SHARES = np.tile([1.0, 0.5, 0.125], 4)
VALUES = np.sin(POINTS[:, 0]) + 0.3 * POINTS[:, 1] + 0.2 * np.log2(SHARES)
WHOLE = np.ones(len(POINTS))


def prior(*lengths, noise=1e-3, octaves=4.0, n_axes=2):
    """A draw for each length scale; noise: of each, or of all."""
    maps = [np.diag([1 / length] * n_axes + [1 / octaves]) for length in lengths]
    return Draws(np.array(maps), np.broadcast_to(noise, len(lengths)).astype(float), np.asarray)


def by_hand(points, shares, values, at, draws=None, share=1.0):
    """Universal kriging under one draw, in standardised units, by the block system of data and trend.

    The prediction at `at` [n, n_axes] and a share: its mean, and its variance without noise, [n] each; how much of the
    variance the data alone leave, the trend's doubt aside, [n]; the process's variance; and the likelihood, trend
    and variance replaced by their estimates."""
    draws = draws or prior(2.0, noise=1e-2)
    data, new = (
        np.column_stack([x, np.log2(there)]) @ draws.maps[0].T
        for x, there in ((points, shares), (at, np.full(len(at), share)))
    )
    correlation = matern(np.linalg.norm(data[:, None] - data, axis=-1)) + draws.noises[0] * np.eye(len(data))
    trend, here = (np.column_stack([np.ones(len(x)), octaves]) for x, octaves in (
        (data, np.log2(shares)), (new, np.full(len(new), np.log2(share)))
    ))  # fmt: skip
    system = np.block([[correlation, trend], [trend.T, np.zeros((2, 2))]])
    standardised = (values - values.mean()) / values.std()
    weights = np.linalg.solve(system, np.append(standardised, [0, 0]))
    variance = (standardised @ weights[:-2] + gp.PRIOR_POINTS) / (len(data) + gp.PRIOR_POINTS)
    seen = matern(np.linalg.norm(new[:, None] - data, axis=-1))
    both = np.column_stack([seen, here])
    left = 1 - np.einsum("ij,ji->i", seen, np.linalg.solve(correlation, seen.T))
    doubt = 1 - np.einsum("ij,ji->i", both, np.linalg.solve(system, both.T))
    likelihood = variance ** (-len(data) / 2) / math.sqrt(np.linalg.det(correlation))
    return both @ weights, variance * doubt, left, variance, likelihood


AVERAGED = prior(0.3, 2.0, 3.0, noise=[1e-3, 1e-2, 1e-3])


def one_draw(draws, i):
    return Draws(draws.maps[i : i + 1], draws.noises[i : i + 1], draws.features)


def test_the_correlation_is_matern_five_halves():
    for distance in (0.0, 0.3, 1.0, 4.0):
        scaled = math.sqrt(5) * distance
        assert matern(np.array(distance)) == pytest.approx((1 + scaled + scaled**2 / 3) * math.exp(-scaled))


@pytest.mark.parametrize("away", [0.0, 1e5])
def test_correlations_are_of_distances_wherever_the_points_lie(away):
    a, b = RNG.normal(size=(2, 3, 40)) + away, RNG.normal(size=(2, 3, 500)) + away
    apart = np.linalg.norm(a[:, :, :, None] - b[:, :, None, :], axis=1)
    assert np.allclose(gp.correlations(a, b), matern(apart), rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [1, gp.ROWS - 1, gp.ROWS, gp.ROWS + 1, 2 * gp.ROWS + 3])
def test_the_factors_are_of_the_whole_covariance(n):
    points, shares = RNG.uniform(-2, 2, size=(n, 2)), RNG.choice([0.25, 1.0], n)
    factors = gp.factors_of(points, shares, AVERAGED)
    assert np.allclose(factors, np.tril(factors))
    for factor, lengths, noise in zip(factors, AVERAGED.maps, AVERAGED.noises):
        x = np.column_stack([points, np.log2(shares)]) @ lengths.T
        covariance = matern(np.linalg.norm(x[:, None] - x[None], axis=-1)) + noise * np.eye(n)
        assert np.allclose(factor @ factor.T, covariance, rtol=0, atol=1e-10)


def test_factors_of_more_points_serve_for_the_first_of_them():
    more, shares = np.append(POINTS, [[5.0, 5.0], [0.1, 0.0]], axis=0), np.append(SHARES, [0.5, 1.0])
    alone, among = Process(POINTS, SHARES, VALUES, AVERAGED), gp.factors_of(more, shares, AVERAGED)
    other = Process(POINTS, SHARES, VALUES, AVERAGED, among)
    assert np.allclose(other.mean(more, shares), alone.mean(more, shares), rtol=1e-9)
    assert np.allclose(other.measured(more), alone.measured(more), rtol=1e-6)


def test_points_may_have_a_length_each():
    process = Process(POINTS, SHARES, VALUES, AVERAGED)
    each = [process.mean(point[None], share)[0] for point, share in zip(POINTS, SHARES)]
    assert np.allclose(process.mean(POINTS, SHARES), each)


def test_draws_left_out_at_once_would_count_nothing():
    rng, draws = np.random.default_rng(1), prior(*np.geomspace(0.05, 20, 12))
    points = rng.uniform(-2, 2, size=(2 * gp.SCREENED, 2))
    values, shares = np.sin(points[:, 0]) + 0.3 * points[:, 1], np.ones(len(points))
    assert gp.likely(points[: gp.SCREENED], shares[: gp.SCREENED], values[: gp.SCREENED], draws) is draws
    left = gp.likely(points, shares, values, draws)
    assert 0 < len(left.noises) < len(draws.noises)
    alone, whole = Process(points, shares, values, left), Process(points, shares, values, draws)
    assert np.allclose(alone.mean(points + 0.1), whole.mean(points + 0.1), rtol=1e-9)


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5, 0.5]])
def test_equal_values_and_a_single_one_are_enough(values):
    process = Process(POINTS[: len(values)], WHOLE[: len(values)], np.array(values), AVERAGED)
    assert (process.gain(POINTS, 1.0, process.ends(POINTS[:1])) > 0).all()


@pytest.mark.parametrize(
    "points, shares, values, at, expected",
    [([0, 0, 0], [1 / 8, 1 / 4, 1 / 2], [0.1, 0.2, 0.3], 0, 0.4), ([0, 9], [0.5, 0.5], [1, 3], 50, 2)],
)
def test_scores_go_on_rising_as_they_rose_and_of_equal_lengths_there_is_no_trend(points, shares, values, at, expected):
    of = prior(2.0 if expected < 1 else 0.1, noise=1e-6, n_axes=1)
    process = Process(np.array(points, float)[:, None], np.array(shares), np.array(values, float), of)
    assert process.mean(np.array([[float(at)]]))[0] == pytest.approx(expected, abs=1e-3)


# What a training would tell

LINE = np.array([[0.0], [1.0], [2.5], [2.5]])
LOOKS = np.array([1.0, 0.25, 0.125, 0.5])
SCORES = np.array([0.2, 0.4, 0.1, 0.5])


@pytest.mark.parametrize("share", [1 / 8, 1 / 2, 1.0])
def test_the_gain_is_that_of_a_normal_as_wide_as_what_the_training_takes_away(share):
    """By the law of total variance: after it, so much less is left at the end."""
    draws, at = prior(2.0, noise=1e-2, n_axes=1), np.array([[1.7]])
    process = Process(LINE, LOOKS, SCORES, draws)
    above = process.ends(LINE).max(1, keepdims=True)
    [mean], _, [before], variance, _ = by_hand(LINE, LOOKS, SCORES, at, draws)
    more = np.append(LINE, at, axis=0), np.append(LOOKS, share), np.append(SCORES, 0.3)
    after = by_hand(*more, at, draws)[2][0]
    expected = gp.expected_excess(np.array(mean - above.item()), np.sqrt(variance * (before - after)))
    assert process.gain(at, share, above) == pytest.approx(expected, rel=1e-4)


def test_a_training_at_its_end_has_nothing_left_to_tell():
    process = Process(LINE, LOOKS, SCORES, prior(2.0, noise=1e-6, n_axes=1))
    best = process.ends(LINE).max(1, keepdims=True)
    assert process.gain(LINE[[0]], 1.0, process.ends(LINE[[0]]))[0] < 1e-3
    assert process.gain(LINE[[3]], 1.0, best)[0] > 0.01


def test_expected_excess_is_that_of_a_normal():
    draws = np.random.default_rng(0).normal(0.3, 2.0, 1_000_000)
    assert gp.expected_excess(np.array(0.3), np.array(2.0)) == pytest.approx(np.maximum(draws, 0).mean(), rel=0.01)
    assert gp.expected_excess(np.array(-1.0), np.array(0.0)) == pytest.approx(0.0)
    assert gp.expected_excess(np.array(1.0), np.array(0.0)) == pytest.approx(1.0)


AT = np.array([[0.3, -0.4], [1.5, 1.9], [9.0, 9.0]])


def test_what_would_be_measured_is_universal_krigings_prediction():
    mean, deviation = Process(POINTS, SHARES, VALUES, prior(2.0, noise=1e-2)).measured(AT)
    expected, within, _, variance, _ = by_hand(POINTS, SHARES, VALUES, AT)
    assert mean == pytest.approx(VALUES.mean() + VALUES.std() * expected)
    assert deviation == pytest.approx(VALUES.std() * np.sqrt(within + variance * 1e-2), rel=1e-4)


def test_drawn_functions_have_the_mean_and_the_deviation_of_the_prediction():
    process = Process(POINTS, SHARES, VALUES, prior(2.0, noise=1e-2))
    functions = process.drawn(AT, 4000, np.random.default_rng(0))
    mean, _, left, variance, _ = by_hand(POINTS, SHARES, VALUES, AT)
    assert functions.mean(0) == pytest.approx(mean, abs=0.1 * np.sqrt(variance))
    assert functions.std(0) == pytest.approx(np.sqrt(variance * left), rel=0.1)


def test_draws_count_by_their_likelihood_and_add_their_disagreement():
    """The variance of a mixture: the mean of the draws' variances, and the variance of their means. Draws below
    UNLIKELY of the likeliest are left out."""
    weights = np.array([by_hand(POINTS, SHARES, VALUES, AT, one_draw(AVERAGED, i))[-1] for i in range(3)])
    weights[weights < gp.UNLIKELY * weights.max()] = 0
    assert (weights > 0).sum() == 2, "an example in which something is averaged, and something left out"
    weights /= weights.sum()
    processes = [Process(POINTS, SHARES, VALUES, one_draw(AVERAGED, i)) for i in range(3)]
    alone, whole = np.array([one.measured(AT) for one in processes]), Process(POINTS, SHARES, VALUES, AVERAGED)
    mean, deviation = whole.measured(AT)
    assert mean == pytest.approx(weights @ alone[:, 0])
    assert deviation**2 == pytest.approx(weights @ (alone[:, 1] ** 2 + alone[:, 0] ** 2) - mean**2)
    assert np.allclose(whole.mean(AT), weights @ [one.mean(AT) for one in processes])


@pytest.mark.parametrize("values", [(1e100, -1e100, 0.0), (5e-324, 0.0, -5e-324), (1e100, 1.0, 1e-100), (0.1,) * 3])
def test_any_finite_values_leave_the_search_seeing(values):
    space = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))
    for rule in ("default", "paper", "local"):
        search, told = descent(space, rule=rule), itertools.cycle(values)
        asked = advance(search, 14, lambda h, told=told: next(told))
        assert len({space.key(h) for h in asked}) == 14 and search.best[1] == max(values)
