"""Proposals beside live trials: what any number of workers ask at once."""

from itertools import permutations

import numpy as np
import pytest
from contract import PLANE
from searches import descent

from tune_cd import Space
from tune_cd.landscapes.formulas import LANDSCAPES
from tune_cd.search.axis import APART

START = {"Lambda_p": 0.1, "Lambda_e": 0.1}
RIDGE = LANDSCAPES["rotated"]


class Search:
    """A search of as many workers as one likes, and all that it asked for."""

    def __init__(self, start=START):
        self.search, self.asked = descent(PLANE, start=start), []

    def ask(self, count=1):
        self.asked += [self.search.ask() for _ in range(count)]
        return self

    def tell(self, *indices, value=lambda h: RIDGE.measure(h, 0).value):
        for index in indices:
            self.search.tell(self.asked[index], value(self.asked[index]))
        return self

    @property
    def x(self):
        return np.array([PLANE.to_coordinates(h) for h in self.asked])


def smallest_gap(x):
    return (np.abs(x[:, None] - x[None]).max(-1) + 99 * np.eye(len(x))).min()


def test_the_order_of_completion_does_not_matter():
    """Five live, of which three end, in any order: what follows is the same."""
    following = []
    for order in permutations((1, 3, 4)):
        search = Search().ask().tell(0).ask(5)
        following.append(search.tell(*order).ask(3).asked)
    assert all(asked == following[0] for asked in following)


@pytest.mark.parametrize("workers", [4, 16])
def test_whatever_is_live_is_apart_from_all_else(workers):
    search = Search().ask(workers)
    for first in range(0, 2 * workers, 2):  # two end, two are asked
        search.tell(first, first + 1).ask(2)
    assert smallest_gap(search.x) >= APART - 1e-9


def test_the_first_round_leaves_no_quarter_of_the_box_unseen():
    x = Search().ask(8).x
    middle = np.log2([1e-6 * 17.0] * 2) / 2
    assert {tuple(row) for row in x > middle} == {(False, False), (False, True), (True, False), (True, True)}
    assert smallest_gap(x) > 1.5


@pytest.mark.parametrize("n_axes", [2, 8])
def test_the_first_round_lies_inside_the_box(n_axes):
    space = Space(**{f"p{i}": (2.0**-8, 1.0) for i in range(n_axes)})
    search = descent(space, workers=64, seed=n_axes)
    x = np.array([space.to_coordinates(search.ask()) for _ in range(64)])
    assert ((x > -8) & (x < 0)).all() and smallest_gap(x) > 0.1
    assert np.allclose(x.mean(0), -4, atol=0.5) and (np.abs(x + 4) > 3).any(0).all()
    assert np.mean(np.abs(x + 4) > 3.9) < 0.05


def test_a_search_of_failures_goes_on_all_over_the_box():
    search = Search().ask(8).tell(*range(8), value=lambda h: None).ask(24)
    assert smallest_gap(search.x) > 1 and (np.abs(search.x + 8) > 9).any(0).all()


def test_no_worker_is_idle_while_the_told_trainings_promise_more():
    """With the values predicted for the live trials, a wave would end early."""
    space = Space(**{f"p{i}": (2.0**-8, 1.0) for i in range(4)})
    search, best = descent(space, workers=64), np.array([-2, -3, -4, -5])
    for _ in range(2):
        asked = [search.ask() for _ in range(64)]
        assert None not in asked
        for h in asked:
            x = space.to_coordinates(h)
            search.tell(h, float(np.exp(-(((x - best) / 2) ** 2).sum())))


def test_a_round_is_not_spent_around_one_point():
    told = Search().ask(8).tell(*range(8))
    assert np.ptp(told.ask(8).x[8:], axis=0).min() > 4 and smallest_gap(told.x) > 0.1


def test_a_live_trial_is_on_a_line_through_what_was_asked():
    search = Search().ask(8).tell(*range(5)).ask(3)
    lines = np.array([[-1, 1], [1, 1], [1, 0], [0, 1]])
    for n in range(8, len(search.x)):
        step = search.x[n] - search.x[:n]
        turned = np.abs(step[:, None, 0] * lines[:, 1] - step[:, None, 1] * lines[:, 0])  # [n, 4], 0 on the line
        assert turned.min() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("workers, rounds", [(4, 3), (8, 2), (16, 2)])
def test_few_rounds_reach_the_ridges_top(workers, rounds):
    landscape, reached = LANDSCAPES["omniglot"], []
    for seed in range(40):
        search = Search(PLANE.sample(np.random.default_rng(seed)))
        for first in range(0, rounds * workers, workers):
            search.ask(workers).tell(*range(first, first + workers), value=lambda h: landscape.score(h))
        reached.append(search.search.best[1])
    assert np.mean(reached) >= 0.95 * landscape.high
