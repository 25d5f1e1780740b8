"""What short trainings say of long ones: the process over configurations and lengths."""

import numpy as np
import pytest

from tune_cd.search.curve_process import CurveProcess, expected_excess
from tune_cd.search.gaussian_process import Prior

POINTS = np.array([[0.0], [1.0], [2.5], [2.5]])
SHARES = np.array([1.0, 0.25, 0.125, 0.5])
VALUES = np.array([0.2, 0.4, 0.1, 0.5])


def prior(noise=1e-6, length=2.0, octaves=4.0):
    return Prior(np.diag([1 / length, 1 / octaves])[None], np.array([noise]))


def one(points=POINTS, shares=SHARES, values=VALUES, **how):
    return CurveProcess(points, shares, values, prior(**how))


@pytest.mark.parametrize("place", range(4))
def test_what_was_measured_is_believed_at_its_length(place):
    process = one()
    assert process.mean(POINTS[[place]], SHARES[place]) == pytest.approx(VALUES[place], abs=1e-4)
    assert process.deviation(POINTS[[place]], SHARES[place]) < 0.01


def test_scores_are_expected_to_go_on_rising_as_they_rose():
    shares = np.array([1 / 8, 1 / 4, 1 / 2])
    process = CurveProcess(np.zeros((3, 1)), shares, np.array([0.1, 0.2, 0.3]), prior())
    assert process.mean(np.zeros((1, 1)))[0] == pytest.approx(0.4, abs=1e-3)


def test_of_equal_lengths_there_is_no_trend():
    process = CurveProcess(np.array([[0.0], [9.0]]), np.array([0.5, 0.5]), np.array([1.0, 3.0]), prior(length=0.1))
    assert process.mean(np.array([[50.0]]))[0] == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("share", [1 / 8, 1 / 2, 1.0])
def test_what_a_training_resolves_is_the_variance_it_takes_away(share):
    """By the law of total variance: after it, so much less is left at the end."""
    process, at = one(noise=1e-2), np.array([[1.7]])
    resolved = process._learned(at, share)[1][0, 0]
    more = CurveProcess(
        np.append(POINTS, at, axis=0), np.append(SHARES, share), np.append(VALUES, 0.3), prior(noise=1e-2)
    )
    before = process.deviation(at)[0] ** 2 / process._variances[0]
    after = more.deviation(at)[0] ** 2 / more._variances[0]
    assert resolved**2 / process._variances[0] == pytest.approx(before - after, rel=1e-6)


def test_longer_trainings_tell_more_of_the_end():
    process, at = one(), np.array([[4.0]])
    gains = [process.gain(at, share, np.array([[0.5]]))[0] for share in (1 / 8, 1 / 4, 1 / 2, 1.0)]
    assert gains == sorted(gains) and gains[0] > 0


def test_a_training_at_its_end_has_nothing_left_to_tell():
    process = one()
    best = process.ends(POINTS).max(1, keepdims=True)
    assert process.gain(POINTS[[0]], 1.0, process.ends(POINTS[[0]]))[0] < 1e-3
    assert process.gain(POINTS[[3]], 1.0, best)[0] > 0.01


def test_unlikely_draws_count_less():
    both = Prior(np.concatenate([prior().maps, prior(length=1e-3).maps]), np.array([1e-6, 1e-6]))
    smooth = CurveProcess(np.linspace(0, 4, 9)[:, None], np.ones(9), np.sin(np.linspace(0, 4, 9)), both)
    assert smooth.mean(np.array([[2.25]]))[0] == pytest.approx(np.sin(2.25), abs=0.01)


def test_expected_excess_is_that_of_a_normal():
    draws = np.random.default_rng(0).normal(0.3, 2.0, 1_000_000)
    assert expected_excess(np.array(0.3), np.array(2.0)) == pytest.approx(np.maximum(draws, 0).mean(), rel=0.01)
    assert expected_excess(np.array(-1.0), np.array(0.0)) == pytest.approx(0.0)
    assert expected_excess(np.array(1.0), np.array(0.0)) == pytest.approx(1.0)
