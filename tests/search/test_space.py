"""The log box: conversion, snapping, chords, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_cd import Axis, Space

BOX = Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0), batch_size=[16, 32, 64, 128, 256, 512])
inside = st.floats(math.log2(1e-6), math.log2(17.0))


@given(inside, inside, st.sampled_from([16, 32, 64, 128, 256, 512]))
def test_there_and_back(p, e, b):
    h = BOX.from_log([p, e, math.log2(b)])
    assert h["batch_size"] == b and isinstance(h["batch_size"], int)
    assert np.allclose(BOX.to_log(h), [p, e, math.log2(b)], atol=1e-9)
    assert BOX.key(BOX.from_log(BOX.to_log(h))) == BOX.key(h)


@given(st.floats(-40, 40), st.floats(-40, 40), st.floats(-10, 20))
def test_from_log_always_lands_in_the_box(p, e, b):
    BOX.check(BOX.from_log([p, e, b]))


@given(inside, inside, st.floats(4, 9), st.tuples(*[st.floats(-3, 3)] * 3))
def test_a_chord_ends_on_the_box_and_holds_its_point(p, e, b, direction):
    direction = np.array(direction)
    if np.abs(direction).max() < 1e-3:
        return
    x = np.array([p, e, b])
    low, high = BOX.chord(x, direction)
    assert low <= 0 <= high
    bottom, top = np.array([axis.log_low for axis in BOX.axes]), np.array([axis.log_high for axis in BOX.axes])
    for gamma in (low, high):
        end = x + gamma * direction
        assert (end >= bottom - 1e-6).all() and (end <= top + 1e-6).all()
        assert (np.isclose(end, bottom, atol=1e-6) | np.isclose(end, top, atol=1e-6)).any()


def test_a_chord_that_only_touches_a_corner_has_no_length():
    corner = BOX.to_log({"Lambda_p": 17.0, "Lambda_e": 1e-6, "batch_size": 16})
    assert BOX.chord(corner, [1, -1, 0]) == (pytest.approx(-math.log2(1.7e7)), 0.0) or BOX.chord(corner, [1, 1, 0]) == (
        0.0,
        0.0,
    )
    assert BOX.chord(corner, [1, 1, 0]) == (0.0, 0.0)


def test_chord_refuses_a_point_outside_and_a_direction_without_length():
    with pytest.raises(ValueError, match="outside"):
        BOX.chord([10, 0, 6], [1, 0, 0])
    with pytest.raises(ValueError, match="at least one component"):
        BOX.chord([0, 0, 6], [0, 0, 0])


def test_snapping():
    assert [Axis.choice("b", [64, 16, 32]).snap(x) for x in (-5, 4.4, 4.6, 5.5, 99)] == [16, 16, 32, 32, 64]
    integers = Axis.integers("n", 3, 9)
    assert [integers.snap(math.log2(x)) for x in (1, 3.4, 5.6, 100)] == [3, 3, 6, 9] and isinstance(
        integers.snap(2.0), int
    )
    steps = Axis("q", 0.25, 1.1, step=0.25)
    assert [steps.snap(math.log2(x)) for x in (0.1, 0.3, 0.8, 1.1)] == [0.25, 0.25, 0.75, 1.0]


def test_sampling_is_uniform_in_the_log_box_and_seeded():
    draws = [BOX.sample(np.random.default_rng(7)) for _ in range(2)]
    assert draws[0] == draws[1]
    rng = np.random.default_rng(1)
    x = np.array([BOX.to_log(BOX.sample(rng))[:2] for _ in range(2000)])
    low, high = math.log2(1e-6), math.log2(17)
    assert np.allclose(x.mean(0), (low + high) / 2, atol=0.6) and np.allclose(
        x.std(0), (high - low) / 12**0.5, atol=0.4
    )


@pytest.mark.parametrize(
    "domain, said",
    [
        ((1.0, 1.0), "empty"), ((2.0, 1.0), "empty"), ((0.0, 1.0), "> 0"), ((-1.0, 1.0), "> 0"),
        ((1.0, math.inf), "finite"), ((math.nan, 1.0), "finite"), ([], "at least one"), ([1, 1], "different"),
        ([0, 1], "> 0"), (["a"], "finite numbers"), ("0..1", "not a domain"),
        ((1.0, 2.0, 3.0), "not a domain"), ([True, 2], "finite numbers"),
    ],
)  # fmt: skip
def test_impossible_domains_are_refused_by_name(domain, said):
    with pytest.raises(ValueError, match=said) as error:
        Space(weight=domain)
    assert "weight" in str(error.value)


@pytest.mark.parametrize(
    "h, said",
    [
        ({"Lambda_p": 1, "Lambda_e": 1}, "batch_size"),
        ({"Lambda_p": 18, "Lambda_e": 1, "batch_size": 16}, "18"),
        ({"Lambda_p": 1, "Lambda_e": 1, "batch_size": 48}, "48"),
        ({"Lambda_p": "a", "Lambda_e": 1, "batch_size": 16}, "'a'"),
    ],
)
def test_configurations_outside_are_refused_by_value(h, said):
    with pytest.raises(ValueError, match=said):
        BOX.check(h)


def test_json_there_and_back():
    space = Space(a=(1e-3, 1.0), b=[1, 2, 4], n=Axis.integers("n", 2, 50))
    assert Space.from_json(space.to_json()) == space


def test_a_space_needs_an_axis():
    with pytest.raises(ValueError):
        Space()
