"""The Gaussian process, against its formulas written out."""

import math

import numpy as np
import pytest

from tune_cd.search.gaussian_process import PRIOR_POINTS, UNLIKELY, Prior, Surrogate, matern

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(-2, 2, size=(12, 2))
VALUES = np.sin(POINTS[:, 0]) + 0.3 * POINTS[:, 1]
LINE = Prior(np.ones((3, 1, 1)), np.array([1e-3, 1e-2, 1e-1]), averaged=False)
LIKELIEST = Prior(np.array([np.eye(2)] * 3), np.array([1e-3, 1e-2, 1e-1]), averaged=False)
AVERAGED = Prior(np.array([np.eye(2) / length for length in (0.3, 2.0, 3.0)]), np.array([1e-3, 1e-2, 1e-3]))


def test_the_correlation_is_matern_five_halves():
    for distance in (0.0, 0.3, 1.0, 4.0):
        scaled = math.sqrt(5) * distance
        assert matern(np.array(distance)) == pytest.approx((1 + scaled + scaled**2 / 3) * math.exp(-scaled))


@pytest.fixture(params=[LIKELIEST, AVERAGED], ids=["likeliest", "averaged"])
def prior(request):
    return request.param


def test_it_passes_near_smooth_values_and_knows_nothing_far_away(prior):
    surrogate = Surrogate(POINTS, VALUES, prior)
    mean, deviation = surrogate.posterior(POINTS)
    assert np.allclose(mean, (VALUES - VALUES.mean()) / VALUES.std(), atol=0.05)
    _, far = surrogate.posterior(np.array([[100.0, 100.0]]))
    assert far[0] > 3 * deviation.max()


def test_noisy_values_are_smoothed():
    points = np.linspace(0, 1, 40)[:, None]
    values = np.where(np.arange(40) % 2, 1.0, -1.0)
    mean, _ = Surrogate(points, values, LINE).posterior(points)
    assert np.abs(mean).max() < 0.5


@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_expected_improvement_is_the_mean_of_the_improvement(margin):
    surrogate = Surrogate(POINTS, VALUES, LIKELIEST)
    candidates = RNG.uniform(-3, 3, size=(5, 2))
    mean, deviation = surrogate.posterior(candidates)
    best = ((VALUES - VALUES.mean()) / VALUES.std()).max() + margin
    draws = mean + deviation * RNG.standard_normal((200_000, 5))
    assert np.allclose(
        surrogate.expected_improvement(candidates, margin), np.maximum(draws - best, 0).mean(0), atol=0.005
    )


def one_draw(prior, i):
    return Prior(prior.maps[i : i + 1], prior.noises[i : i + 1])


def likelihood(prior, i):
    """Of VALUES under one draw, mean and variance replaced by their estimates, written out."""
    x, n = POINTS @ prior.maps[i].T, len(POINTS)
    y, ones = (VALUES - VALUES.mean()) / VALUES.std(), np.ones(n)
    covariance = np.array([[matern(np.linalg.norm(a - b)) for b in x] for a in x]) + prior.noises[i] * np.eye(n)
    inverse = np.linalg.inv(covariance)
    mean = ones @ inverse @ y / (ones @ inverse @ ones)
    variance = ((y - mean) @ inverse @ (y - mean) + PRIOR_POINTS) / (n + PRIOR_POINTS)
    return variance ** (-n / 2) / math.sqrt(np.linalg.det(covariance))


def test_draws_count_by_their_likelihood():
    """Those below UNLIKELY of the likeliest are left out."""
    candidates = RNG.uniform(-3, 3, size=(7, 2))
    shares = np.array([likelihood(AVERAGED, i) for i in range(3)])
    shares[shares < UNLIKELY * shares.max()] = 0
    alone = [Surrogate(POINTS, VALUES, one_draw(AVERAGED, i)).expected_improvement(candidates, 0.1) for i in range(3)]
    assert (shares > 0).sum() == 2, "an example in which something is averaged, and something left out"
    expected = shares / shares.sum() @ alone
    assert np.allclose(Surrogate(POINTS, VALUES, AVERAGED).expected_improvement(candidates, 0.1), expected)


@pytest.mark.parametrize("scale, offset", [(1000.0, 0.0), (0.01, 5.0)])
def test_the_scale_of_the_metric_does_not_matter(scale, offset, prior):
    candidates = RNG.uniform(-3, 3, size=(5, 2))
    here, there = Surrogate(POINTS, VALUES, prior), Surrogate(POINTS, scale * VALUES + offset, prior)
    assert np.allclose(here.expected_improvement(candidates, 0.1), there.expected_improvement(candidates, 0.1))


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5, 0.5]])
def test_equal_values_and_a_single_one_are_enough(values, prior):
    surrogate = Surrogate(POINTS[: len(values)], np.array(values), prior)
    assert (surrogate.expected_improvement(POINTS, 0.1) > 0).all()
