"""The process through a study's scores: what it predicts, and which parameters it finds to matter."""

import numpy as np
import pytest

from tune_cd.analysis.axes import Axis
from tune_cd.analysis.importance import LEAST, MOST, response

AXES = (
    Axis("lr", "real", "log", 1e-4, 1.0), Axis("idle", "real", "linear", -1.0, 1.0),
    Axis("optimizer", "category", "category", 0, 2, ("a", "b", "c")),
)  # fmt: skip


def made(number=80, seed=0, noise=0.01):
    """(places, shares, scores): lr matters most, then the optimizer; trainings of a quarter's length score less."""
    rng = np.random.default_rng(seed)
    places = np.column_stack([rng.uniform(size=(number, 2)), rng.choice([0, 0.5, 1], number)])
    shares = rng.choice([0.25, 1.0], number)
    return places, shares, truth(places, shares) + noise * rng.standard_normal(number)


def truth(places, shares=1.0):
    return 0.9 - (places[:, 0] - 0.6) ** 2 + 0.1 * (places[:, 2] == 0.5) - 0.2 * (np.asarray(shares) < 1)


def test_it_predicts_whole_trainings_from_short_and_whole_ones():
    fitted = response(AXES, *made())
    fresh = made(60, seed=1)[0]
    expected, deviation = fitted.predict(fresh)
    assert np.sqrt(np.mean((expected - truth(fresh)) ** 2)) < 0.03 < np.std(truth(fresh))
    assert ((deviation >= 0) & (deviation <= 1)).all() and deviation.mean() < 0.3


def test_importance_is_the_share_of_variance_of_each():
    """Of the truth: Var(lr part) and Var(optimizer part) over the box, which add up; `idle` has none."""
    found = response(AXES, *made(150)).importance()
    lr, optimizer = np.var((np.linspace(0, 1, 999) - 0.6) ** 2), 0.01 * (1 / 3) * (2 / 3)
    expected = np.array([lr, 0.0, optimizer]) / (lr + optimizer)
    assert np.abs(found[:, 0] - expected).max() < 0.05 and np.argmax(found[:, 0]) == 0
    assert ((found[:, 1] <= found[:, 0]) & (found[:, 0] <= found[:, 2])).all()
    few = response(AXES, *made(12)).importance()
    assert np.ptp(few[:, 1:], axis=1).sum() > np.ptp(found[:, 1:], axis=1).sum(), "less is known of fewer trainings"


def test_it_is_the_same_whatever_the_scale_and_the_order():
    places, shares, scores = made(40)
    found = response(AXES, places, shares, scores).importance()
    turned = response(AXES, places[::-1], shares[::-1], 1e6 * scores[::-1] - 5).importance()
    assert np.allclose(found, turned, atol=0.02)


def test_what_tells_nothing_gives_none_and_gaps_are_left_out():
    places, shares, scores = made(30)
    assert response(AXES, places[: LEAST - 1], shares[: LEAST - 1], scores[: LEAST - 1]) is None
    assert response(AXES, places, shares, np.full(30, 0.5)) is None
    assert response((), np.empty((30, 0)), shares, scores) is None
    scores[3], places[4, 0] = np.nan, np.nan
    known = np.setdiff1d(np.arange(30), [3, 4])
    both = response(AXES, places, shares, scores), response(AXES, places[known], shares[known], scores[known])
    assert both[0].predict(places[known])[0] == pytest.approx(both[1].predict(places[known])[0])


def test_of_many_settings_a_choice_counts_with_the_best_among_them():
    places, shares, scores = made(8 * MOST)
    best = np.argsort(scores)[-MOST // 2 :]
    scores[best] += 1.0  # only those that count show it
    expected, _ = response(AXES, places, shares, scores).predict(places[best])
    assert (expected > 1.5).all()


def test_bad_scores_count_where_most_are_near_the_best_and_one_far_off_does_not():
    """As of a classifier: .98 nearly everywhere, .1 where the regularisation is strong."""
    places = np.random.default_rng(0).uniform(size=(60, 3))
    places[:, 2] = 0
    scores = np.where(places[:, 0] > 0.8, 0.1, 0.98) + 0.01 * places[:, 1]
    corners = np.array([[0.9, 0.5, 0], [0.3, 0.5, 0]])
    expected, _ = response(AXES, places, np.ones(60), scores).predict(corners)
    assert expected == pytest.approx([0.1, 0.98], abs=0.05)
    scores[7] = -1e6
    assert response(AXES, places, np.ones(60), scores).predict(corners)[0] == pytest.approx(expected, abs=0.05)
