"""The Gaussian process, against its formulas written out."""

import math

import numpy as np
import pytest

from tune_cd.search.gaussian_process import Surrogate, matern

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(-2, 2, size=(12, 2))
VALUES = np.sin(POINTS[:, 0]) + 0.3 * POINTS[:, 1]


def test_the_correlation_is_matern_five_halves():
    for distance in (0.0, 0.3, 1.0, 4.0):
        scaled = math.sqrt(5) * distance
        assert matern(np.array(distance)) == pytest.approx((1 + scaled + scaled**2 / 3) * math.exp(-scaled))


def test_it_passes_near_smooth_values_and_knows_nothing_far_away():
    surrogate = Surrogate(POINTS, VALUES)
    mean, deviation = surrogate.posterior(POINTS)
    assert np.allclose(mean, (VALUES - VALUES.mean()) / VALUES.std(), atol=0.05)
    _, far = surrogate.posterior(np.array([[100.0, 100.0]]))
    assert far[0] > 3 * deviation.max()


def test_noisy_values_are_smoothed():
    points = np.linspace(0, 1, 40)[:, None]
    values = np.where(np.arange(40) % 2, 1.0, -1.0)
    mean, _ = Surrogate(points, values).posterior(points)
    assert np.abs(mean).max() < 0.5


@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_expected_improvement_is_the_mean_of_the_improvement(margin):
    surrogate = Surrogate(POINTS, VALUES)
    candidates = RNG.uniform(-3, 3, size=(5, 2))
    mean, deviation = surrogate.posterior(candidates)
    best = ((VALUES - VALUES.mean()) / VALUES.std()).max() + margin
    draws = mean + deviation * RNG.standard_normal((200_000, 5))
    assert np.allclose(
        surrogate.expected_improvement(candidates, margin), np.maximum(draws - best, 0).mean(0), atol=0.005
    )


@pytest.mark.parametrize("scale, offset", [(1000.0, 0.0), (0.01, 5.0)])
def test_the_scale_of_the_metric_does_not_matter(scale, offset):
    candidates = RNG.uniform(-3, 3, size=(5, 2))
    here, there = Surrogate(POINTS, VALUES), Surrogate(POINTS, scale * VALUES + offset)
    assert np.allclose(here.expected_improvement(candidates, 0.1), there.expected_improvement(candidates, 0.1))


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5, 0.5]])
def test_equal_values_and_a_single_one_are_enough(values):
    surrogate = Surrogate(POINTS[: len(values)], np.array(values))
    assert (surrogate.expected_improvement(POINTS, 0.1) > 0).all()
