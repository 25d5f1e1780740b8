"""Parameters without an order: exact types, equal distances, a search to which the order of a list means nothing."""

import json
import math
import pickle
from collections import OrderedDict
from functools import partial

import contract
import numpy as np
import pytest
from contract import exactly
from hypothesis import given
from hypothesis import strategies as st
from searches import walk

from tune_cd import CoordinateDescent, Space, balance
from tune_cd.search.category import Category, text_of, value_in
from tune_cd.search.directions import Plan, directions_of
from tune_cd.search.methods import OPTIMISERS
from tune_cd.search.prior import PRIORS, draws_of

ODD = [True, 1, "1", None, "", "null", 0.5, False, 0]
SPACE = Space(lr=(1e-5, 1.0), solver=["adam", "sgd", None], decay=(1e-6, 1.0))
START = {"lr": 1e-3, "solver": None, "decay": 1e-3}


def valley(h, values=("adam", "sgd", None)) -> float:
    """Every value has its own best rate; the second is the best."""
    at = [text_of(value) for value in values].index(text_of(h["solver"]))
    rate, decay = math.log2(h["lr"]) + (9, 4, 7)[at], math.log2(h["decay"]) + 10
    return (0.8, 1.0, 0.6)[at] - (rate / 7) ** 2 - (decay / 12) ** 2


advance = partial(contract.advance, value=valley)


# The axis


def test_a_list_with_anything_but_numbers_has_no_order_and_keeps_exact_types():
    space = Space(odd=ODD, size=[64, 16])
    assert [axis.name for axis in space.categories] == ["odd"] and space.numeric == ("size",)
    for given_one in ODD:
        [kept, _] = exactly(space.check({"odd": given_one, "size": 16}))
        assert kept == (type(given_one), given_one)
    assert len({space.key({"odd": value, "size": 16}) for value in ODD}) == len(ODD)
    numpys = {"odd": np.bool_(True), "size": np.int64(16)}
    assert exactly(space.check(numpys)) == [(bool, True), (int, 16)]
    assert exactly(space.check({"odd": np.str_("1"), "size": 16}))[0] == (str, "1")
    assert exactly(space.check({"odd": 1.0, "size": 16}))[0] == (int, 1), "equal numbers are one value"


def test_it_is_the_same_after_json():
    space = Space(odd=ODD, lr=(1e-3, 1.0))
    again = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert again == space and list(map(type, again.categories[0].values)) == list(map(type, ODD))
    assert hash(again) == hash(space)
    assert Space(a=[True, "x"]) != Space(a=[1, "x"]) and Space(a=["x", None]) != Space(a=[None, "x"])


@pytest.mark.parametrize(
    "value", [[1, 2], ("a",), {"a": 1}, object(), math.sin, dict, 1j, b"a", math.nan, math.inf, "\ud800", np.arange(2)]
)
def test_anything_else_is_refused_by_name_with_advice(value):
    with pytest.raises(ValueError, match=r"opt: .* cannot be chosen.*choose keys.*opt = {'a': .*}\[config\['opt'\]\]"):
        Space(opt=["adam", value])


@pytest.mark.parametrize("value", ["Adam", 1, True, None, [1], math.nan])
def test_values_outside_are_refused_by_value(value):
    with pytest.raises(ValueError, match="opt = .* is not one of"):
        Space(opt=["adam", "sgd"]).check({"opt": value})


@given(st.text(st.characters(exclude_categories=("Cs",))) | st.booleans() | st.none() | st.integers() | st.floats(
    allow_nan=False, allow_infinity=False) | st.sampled_from(["1", "true", '"a"', "NaN", "[1]", "[" * 10_000, "1e999"])
)  # fmt: skip
def test_every_value_is_read_back_from_its_text(value):
    back = value_in(text_of(value))
    assert (type(back), back) == (type(value), value)


def test_a_plain_text_is_its_own_text():
    assert list(map(text_of, ["adam", "sgd momentum", True, None, 2, "2"])) == [
        "adam", "sgd momentum", "true", "null", "2", '"2"'
    ]  # fmt: skip


def test_a_uniform_draw_is_each_value_equally_often():
    rng, axis = np.random.default_rng(0), Category("opt", ("a", "b", "c", "d"))
    drawn = [axis.snap(rng.uniform(*axis.ends)) for _ in range(4000)]
    assert all(abs(drawn.count(value) - 1000) < 100 for value in axis.values)


# In the Gaussian process


def test_any_two_values_are_equally_far_apart():
    space = Space(lr=(1e-3, 1.0), opt=["a", "b", "c", "d"])
    x = np.array([space.to_coordinates({"lr": 0.1, "opt": value}) for value in "abcd"])
    features = space.features(x)
    apart = np.linalg.norm(features[:, None] - features, axis=-1)
    assert np.allclose(apart, 1 - np.eye(4)) and features.shape[1] == 5
    plan = Plan(space, *directions_of(space, None))
    draws = draws_of(PRIORS["general"], plan, (1.0,))
    scaled = draws.features(x) @ np.swapaxes(draws.maps[:, :-1, :-1], 1, 2)
    away = np.linalg.norm(scaled[:, :, None] - scaled[:, None], axis=-1)
    assert np.allclose(away, away[:, :1, 1:2] * (1 - np.eye(4))), "in every draw"


@pytest.mark.parametrize("method", ["cd", "cd-paper", "cd-local"])
def test_renamed_values_change_nothing(method):
    names = {"adam": True, "sgd": 1, None: "sgd"}
    renamed = Space(lr=(1e-5, 1.0), solver=list(names.values()), decay=(1e-6, 1.0))
    ours = advance(OPTIMISERS[method](SPACE, start=START), 25)
    other = OPTIMISERS[method](renamed, start=START | {"solver": "sgd"})
    theirs = advance(other, 25, value=lambda h: valley(h, names.values()))
    assert [exactly(h | {"solver": names[h["solver"]]}) for h in ours] == list(map(exactly, theirs))


def test_a_search_can_be_pickled_in_the_middle():
    search = CoordinateDescent(SPACE, seed=2)
    advance(search, 5)
    other = pickle.loads(pickle.dumps(search))
    assert list(map(exactly, advance(other, 3))) == list(map(exactly, advance(search, 3)))


def test_the_order_of_the_list_means_nothing_to_the_model():
    """Values do not tie on this valley, so no order decides between equal steps."""
    turned = Space(lr=(1e-5, 1.0), solver=[None, "adam", "sgd"], decay=(1e-6, 1.0))
    first, other = (advance(CoordinateDescent(space, start=START), 20) for space in (SPACE, turned))
    assert [h["solver"] for h in first] == [h["solver"] for h in other]
    for name in ("lr", "decay"):
        assert np.allclose(np.log2([h[name] for h in first]), np.log2([h[name] for h in other]), atol=1e-6)


# The search


def test_the_paper_rule_tries_all_other_values_in_turn_behind_the_directions():
    search = OPTIMISERS["cd-paper"](SPACE, start=START, budgets=2)
    asked = advance(search, 9)
    moves = [search.origin(h).direction for h in asked]
    assert moves[:7] == ["start", "lr", "lr", "decay", "decay", "solver", "solver"]
    assert [h["solver"] for h in asked[5:7]] == ["adam", "sgd"]
    best = max(asked[:7], key=valley)
    assert search.origin(asked[7]).direction == "lr" and asked[7]["solver"] == best["solver"]


@pytest.mark.parametrize("method", ["cd", "cd-local", "tpe", pytest.param("gp", marks=pytest.mark.slow)])
def test_the_best_value_is_found_with_its_own_rate(method):
    pytest.importorskip("optuna")
    search = OPTIMISERS[method](SPACE, start=START)
    advance(search, 45)
    h, value = search.best
    assert h["solver"] == "sgd" and value > (0.99 if method.startswith("cd") else 0.9)


def test_it_changes_a_value_and_a_rate_at_once():
    """At the rate of the first value the second one fails, as far as one can see from there."""

    def cliff(h):
        rate = math.log2(h["lr"]) + (12 if h["solver"] == "adam" else 2)
        return None if abs(rate) > 4 else (1.0 if h["solver"] == "sgd" else 0.5) - (rate / 8) ** 2

    space = Space(lr=(2.0**-16, 4.0), solver=["adam", "sgd"])
    search = CoordinateDescent(space, start={"lr": 2.0**-12, "solver": "adam"})
    advance(search, 25, value=cliff)
    assert search.best[0]["solver"] == "sgd" and search.best[1] > 0.97


def test_each_configuration_is_weighed_once_however_many_values_there_are():
    space = Space(lr=(1e-5, 1.0), solver=[f"solver {n}" for n in range(20)])
    search, weighed = CoordinateDescent(space, start={"lr": 0.1, "solver": "solver 3"}), []
    advance(search, 3, value=lambda h: -(math.log2(h["lr"]) ** 2))
    search._model().candidates.best(lambda x: weighed.append(x) or np.zeros(len(x)))
    assert len(weighed[0]) == len(np.unique(weighed[0].round(9), axis=0))


@pytest.mark.parametrize("method", ["cd", "cd-paper", "random", "grid"])
def test_a_space_of_categories_alone_is_tried_out(method):
    space = Space(a=["x", "y"], b=[None, True, 1])
    search = OPTIMISERS[method](space, seed=1)
    asked = advance(search, 20, value=lambda h: len(str(h)))
    least = 4 if method == "cd-paper" else 6  # the start, and each single change of it or of what was better
    assert least <= len({space.key(h) for h in asked}) == len(asked) <= 6 and search.finished


def test_directions_and_budgets_are_of_the_numeric_axes():
    both = CoordinateDescent(SPACE, rule="paper", directions={"both": [1, 1]}, budgets=[1], start=START)
    asked = advance(both, 4)
    assert [both.origin(h).direction for h in asked] == ["start", "both", "solver", "solver"]
    again = CoordinateDescent.from_state(json.loads(json.dumps(both.state())))
    assert exactly(again.ask()) == exactly(both.ask())
    with pytest.raises(ValueError, match=r"n_directions, 2\] is required, one column per numeric axis"):
        CoordinateDescent(SPACE, directions=[[1, 0, 1]])
    with pytest.raises(ValueError, match="budgets"):
        CoordinateDescent(SPACE, budgets=[1, 1, 1])


def test_a_balance_is_searched_beside_a_category():
    weights = Space(Lambda_p=(1e-6, 17.0), optimizer=["sgd", "adam"], Lambda_e=(1e-6, 17.0))
    knowledge = balance.of(weights)
    assert knowledge["prior"] == "balance" and list(knowledge["directions"]) == ["balance", "joint"]
    search = CoordinateDescent(weights, **knowledge)
    advance(search, 8, value=lambda h: -abs(math.log2(h["Lambda_e"] / h["Lambda_p"])) + (h["optimizer"] == "adam"))
    assert {h["optimizer"] for h, _ in search.history} == {"sgd", "adam"} and search.best[0]["optimizer"] == "adam"


def test_trainings_pause_on_any_axis():
    search = CoordinateDescent(SPACE, lengths=(0.25, 1.0), budget=8, start=START)
    walk(search, lambda h, share: valley(h) + math.log2(share) / 10)
    assert search.best[0]["solver"] == "sgd" and any(one.share == 1 for one in search.trainings)
    assert all(search.believed(one.h)[1] > 0 for one in search.trainings if one.share < 1)


def test_more_values_than_the_process_takes_are_thinned_over_all_categories():
    search, rng = CoordinateDescent(SPACE), np.random.default_rng(0)
    for h in OrderedDict((SPACE.key(h), h) for h in (SPACE.sample(rng) for _ in range(260))).values():
        search.tell(h, valley(h))
    for solver in ("adam", "sgd", None):
        mean, deviation = search.believed(START | {"solver": solver})
        assert mean == pytest.approx(valley(START | {"solver": solver}), abs=0.02) and deviation < 0.05
