"""BoTorch's search and TuRBO: when the model is asked, what it is told, and the trust region by hand."""

import json

import numpy as np
import pytest
from contract import BOTH, PLANE, advance, score

from tune_cd.search.baselines import botorch_rule
from tune_cd.search.baselines.turbo_rule import LENGTH, LENGTH_MAX, LENGTH_MIN, region
from tune_cd.search.registry import OPTIMISERS, restore
from tune_cd.search.space import Space

pytest.importorskip("botorch")


@pytest.fixture
def asked(monkeypatch):
    """What the model was fitted to, time by time: unit coordinates and values."""
    fits, fitted = [], botorch_rule.BotorchRule._fitted

    def noted(rule, x, y):
        fits.append((x.numpy().copy(), y.numpy().reshape(-1).tolist()))
        return fitted(rule, x, y)

    monkeypatch.setattr(botorch_rule.BotorchRule, "_fitted", noted)
    return fits


@pytest.mark.parametrize("method, initial", [("botorch", 5), ("turbo", 4)])
def test_the_model_is_asked_after_so_many_trials(asked, method, initial):
    search = OPTIMISERS[method](PLANE, seed=0)
    told = advance(search, initial)
    assert asked == []
    search.ask()
    ((x, y),) = asked
    assert y == [score(h) for h in told] and x.min() >= 0 and x.max() <= 1
    width = PLANE.high - PLANE.low
    assert np.allclose(x * width + PLANE.low, [PLANE.to_coordinates(h) for h in told])


def test_a_failure_is_the_worst_value_and_without_a_value_nothing_is_fitted(asked):
    search = OPTIMISERS["botorch"](PLANE, seed=0, initial=3)
    failed = advance(search, 4, lambda h: None)
    assert asked == []
    good, better = {"Lambda_p": 0.5, "Lambda_e": 0.5}, {"Lambda_p": 0.1, "Lambda_e": 0.5}
    search.tell(good, 0.25)
    search.tell(better, 0.75)
    search.tell(failed[0], 0.5)
    search.ask()
    assert asked[0][1] == [0.5, 0.25, 0.25, 0.25, 0.25, 0.75]


def test_live_trials_are_left_alone():
    """Asked twice without an answer, it does not propose the neighbourhood of what is live."""
    search = OPTIMISERS["botorch"](PLANE, seed=1, initial=4)
    advance(search, 4)
    first, second = PLANE.to_coordinates(search.ask()), PLANE.to_coordinates(search.ask())
    assert np.abs(first - second).max() > 1.0


@pytest.mark.parametrize("method", ["botorch", "turbo"])
def test_stopped_between_ask_and_tell_it_goes_on_as_if_it_had_not(method):
    search = OPTIMISERS[method](BOTH, seed=2, initial=3)
    advance(search, 3)
    live = search.ask()
    other = restore(json.loads(json.dumps(search.state())))
    assert other.live == [live]
    for one in (search, other):
        one.tell(live, score(live))
    assert search.ask() == other.ask()


def test_expected_improvement_finds_the_top_of_a_bowl():
    """Of a hundred uniform draws one comes so near."""
    space = Space(a=(1.0, 2.0**12), b=(1.0, 2.0**12))

    def bowl(h):
        return -float(((space.to_coordinates(h) - [3.0, 8.0]) ** 2).sum())

    search = OPTIMISERS["botorch"](space, seed=0)
    advance(search, 9, bowl)
    assert search.best[1] > -0.5


# The trust region ---------------------------------------------------------------------------------------------


def test_ten_improvements_double_the_side_and_four_without_halve_it():
    rising = [float(n) for n in range(1, 13)]
    assert region(rising[:11], 2, initial=2) == (LENGTH, 0)
    assert region(rising, 2, initial=2) == (LENGTH_MAX, 0)
    assert region([1.0, 1.0, *[1.0] * 3], 2, initial=2) == (LENGTH, 0)
    assert region([1.0, 1.0, *[1.0] * 4], 2, initial=2) == (LENGTH / 2, 0)
    assert region([1.0, 1.0, *[1.0] * 4], 6, initial=2) == (LENGTH, 0), "in six axes it is six"


def test_an_improvement_is_a_thousandth_of_the_best():
    def after(gain):
        return region([1.0, *[1.0] * 3, 1.0 + gain, *[1.0] * 3], 2, initial=1).length

    assert after(0.0009) == LENGTH / 2 and after(0.0011) == LENGTH


def test_below_the_smallest_side_it_begins_anew():
    halvings = next(n for n in range(20) if LENGTH / 2**n < LENGTH_MIN)
    values = [1.0, *[0.0] * 4 * halvings]
    assert region(values[:-1], 2, initial=1) == (LENGTH / 2 ** (halvings - 1), 0)
    assert region(values, 2, initial=1) == (LENGTH, len(values))
    assert region([*values, 0.5, *[0.0] * 4], 2, initial=1) == (LENGTH / 2, len(values)), "the former best is forgotten"


def test_the_model_forgets_what_was_before_it_began_anew(asked):
    search, space = OPTIMISERS["turbo"](PLANE, seed=0, initial=1), PLANE
    for n in range(1 + 4 * 7):
        h = space.from_coordinates(space.low + (n + 1) / 40 * (space.high - space.low))
        search.tell(h, 1.0 if n == 0 else 0.0)
    search.tell({"Lambda_p": 1.0, "Lambda_e": 1.0}, 0.5)
    for name in ("start", "proposed"):
        assert search.ask() is not None, name
    assert [y for _, y in asked] == [[0.5]]


def test_it_proposes_inside_the_region(asked):
    """A side of the first region is 0.8 of the box, times the ratio of the length scales; here they are alike."""
    space = Space(a=(1.0, 2.0**10), b=(1.0, 2.0**10))

    def corner(h):
        return float(-space.to_coordinates(h).sum())

    search = OPTIMISERS["turbo"](space, seed=3, start={"a": 1.0, "b": 1.0})
    proposals = advance(search, 6, corner)[4:]
    assert len(asked) == 2
    assert all(space.to_coordinates(h).max() < 6 for h in proposals), "0.4 of ten octaves from the corner, some more"
