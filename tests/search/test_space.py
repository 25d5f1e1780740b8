"""The box: coordinates, snapping, chords, and what is refused."""

import json
import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_cd import Axis, Linear, Space
from tune_cd.search.axis import LINEAR_WIDTH
from tune_cd.search.number import number_of

BOX = Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0), batch_size=[16, 32, 64, 128, 256, 512])
inside = st.floats(math.log2(1e-6), math.log2(17.0))
USUAL = Space(lr=(1e-5, 1.0), momentum=Linear(-0.5, 0.99), shift=Linear(-20, 20, step=1), dropout=[0.0, 0.1, 0.5])
finite = st.floats(-1e6, 1e6)


@given(inside, inside, st.sampled_from([16, 32, 64, 128, 256, 512]))
def test_there_and_back(p, e, b):
    h = BOX.from_coordinates([p, e, math.log2(b)])
    assert h["batch_size"] == b and isinstance(h["batch_size"], int)
    assert np.allclose(BOX.to_coordinates(h), [p, e, math.log2(b)], atol=1e-9)
    assert BOX.key(BOX.from_coordinates(BOX.to_coordinates(h))) == BOX.key(h)


@given(st.floats(-40, 40), st.floats(-40, 40), st.floats(-10, 20))
def test_from_coordinates_always_lands_in_the_box(p, e, b):
    BOX.check(BOX.from_coordinates([p, e, b]))


@given(finite, finite, st.none() | st.floats(1e-3, 1e3))
def test_a_linear_axis_is_affine_in_its_value(a, b, step):
    """Its range is LINEAR_WIDTH wide whatever its ends, and every allowed value comes back from its coordinate."""
    low, high = sorted((a, b))
    if high - low < 1e-3 * max(1, abs(low), abs(high)) or (step and math.floor(high / step) <= math.ceil(low / step)):
        return
    space = Space(x=Linear(low, high, step=step))
    assert space.low == [0] and space.high == [LINEAR_WIDTH]
    for share in (0, 0.25, 0.5, 1):
        value = min(low + share * (high - low), high)
        assert step or space.to_coordinates({"x": value}) == pytest.approx([share * LINEAR_WIDTH], abs=1e-6)
        h = space.from_coordinates([share * LINEAR_WIDTH])
        assert h["x"] == pytest.approx(value, abs=(step or 0) + 1e-6 * (high - low))
        assert space.check(h) == h and space.key(space.from_coordinates(space.to_coordinates(h))) == space.key(h)


@given(st.sampled_from([BOX, USUAL]), st.integers(0, 999), st.floats(-4, 4), st.tuples(*[st.floats(-3, 3)] * 4))
def test_a_line_stays_in_the_box_its_chord_ends_there_and_the_other_axes_are_left_alone(space, seed, to, direction):
    """With axes of both scales too."""
    h, direction = space.sample(np.random.default_rng(seed)), np.array(direction[: len(space.names)])
    moved, x = space.along(h, direction, to), space.to_coordinates(h)
    assert space.check(moved) == moved and all(type(moved[name]) is type(h[name]) for name in h)
    assert all(moved[name] == h[name] for name, step in zip(space.names, direction) if step == 0)
    if np.abs(direction).max() > 1e-3:
        low, high = space.chord(x, direction)
        assert low <= 0 <= high
        for end in (x + low * direction, x + high * direction):
            assert (end >= space.low - 1e-6).all() and (end <= space.high + 1e-6).all()
            assert (np.isclose(end, space.low, atol=1e-6) | np.isclose(end, space.high, atol=1e-6)).any()


@pytest.mark.parametrize("domain", [Linear(0.0, 0.5), Linear(-3.0, 0.1), (3e-4, 0.3), (1e-5, 7.0)])
def test_a_line_ends_exactly_at_the_end_of_a_range(domain):
    space, rng = Space(x=domain, y=(1e-3, 1.0)), np.random.default_rng(0)
    [low, high] = (domain.low, domain.high) if isinstance(domain, Linear) else domain
    for h in [space.sample(rng) for _ in range(200)]:
        ends = space.chord(space.to_coordinates(h), [0.7, 0.0])
        assert [space.along(h, [0.7, 0.0], end)["x"] for end in ends] == [low, high]


def test_a_chord_that_only_touches_a_corner_has_no_length():
    corner = BOX.to_coordinates({"Lambda_p": 17.0, "Lambda_e": 1e-6, "batch_size": 16})
    assert BOX.chord(corner, [1, 1, 0]) == (0.0, 0.0)


REFUSED = {
    "a point outside": (lambda: BOX.chord([10, 0, 6], [1, 0, 0]), "outside"),
    "no direction": (lambda: BOX.chord([0, 0, 6], [0, 0, 0]), "at least one component"),
    "no axis": (Space, "axis"),
    "another scale": (lambda: Axis("weight", 0.1, 1, scale="cubic"), "weight: scale 'cubic': 'log' or 'linear'"),
    "a gap": (lambda: BOX.check({"Lambda_p": 1, "Lambda_e": 1}), "batch_size"),
    "above": (lambda: BOX.check({"Lambda_p": 18, "Lambda_e": 1, "batch_size": 16}), "18"),
    "not allowed": (lambda: BOX.check({"Lambda_p": 1, "Lambda_e": 1, "batch_size": 48}), "48"),
    "no number": (lambda: BOX.check({"Lambda_p": "a", "Lambda_e": 1, "batch_size": 16}), "'a'"),
}
"""What is wrong -> the call, and a word of the message."""


@pytest.mark.parametrize("call, said", REFUSED.values(), ids=REFUSED)
def test_what_has_no_place_in_the_space_is_refused_by_value(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.parametrize(
    "domain, points, values",
    [
        ([64, 16, 32], (-5, 4.4, 4.6, 5.5, 99), (16, 16, 32, 32, 64)),
        (Axis.integers("x", 3, 9), np.log2([1, 3.4, 5.6, 100]), (3, 3, 6, 9)),
        (Axis("x", 0.25, 1.1, step=0.25), np.log2([0.1, 0.3, 0.8, 1.1]), (0.25, 0.25, 0.75, 1.0)),
        (Linear(0, 1), (-1, 2, 99), (0.0, 0.25, 1.0)), (Linear(-1, 7, step=1), (0, 1.4, 1.6, 99), (-1, 0, 1, 7)),
        (Linear(0, 0.3, step=0.1), (0, 5, 99), (0.0, 0.2, 0.3)), (Linear(-0.3, 0.25, step=0.1), (-9, 99), (-0.3, 0.2)),
        ([0.5, 0, -1], (0, 5, 7, 99), (-1, 0, 0.5, 0.5)), ([0], (-1, 3), (0, 0)),
    ],
)  # fmt: skip
def test_coordinates_snap_to_the_nearest_allowed_value(domain, points, values):
    space = Space(x=domain)
    snapped = [space.from_coordinates([x])["x"] for x in points]
    assert snapped == pytest.approx(list(values)) and [type(x) for x in snapped] == [type(x) for x in values]
    assert all(space.check({"x": x}) == {"x": x} for x in snapped)


def test_sampling_is_uniform_in_the_box_and_seeded():
    draws = [BOX.sample(np.random.default_rng(7)) for _ in range(2)]
    assert draws[0] == draws[1]
    rng = np.random.default_rng(1)
    x = np.array([BOX.to_coordinates(BOX.sample(rng))[:2] for _ in range(2000)])
    low, high = math.log2(1e-6), math.log2(17)
    assert np.allclose(x.mean(0), (low + high) / 2, atol=0.6)
    assert np.allclose(x.std(0), (high - low) / 12**0.5, atol=0.4)
    drawn = [USUAL.sample(rng) for _ in range(2000)]
    assert np.mean([h["momentum"] for h in drawn]) == pytest.approx(0.245, abs=0.03)
    assert np.mean([h["shift"] for h in drawn]) == pytest.approx(0, abs=1) and {h["shift"] for h in drawn} >= {-20, 20}


@pytest.mark.parametrize(
    "domain, said",
    [
        ((1.0, 1.0), "empty"), ((2.0, 1.0), "empty"), ((0.0, 1.0), "> 0"), ((-1.0, 1.0), "> 0"),
        ((1.0, math.inf), "finite"), ((math.nan, 1.0), "finite"), ([], "at least one"), ([1, 1], "different"),
        ((5e-324, 1.0), "> 2.2e-308"),
        ([0, math.inf], "finite numbers"), (["a", [1]], "cannot be chosen"), ("0..1", "not a domain"),
        ((1.0, 2.0, 3.0), "not a domain"), ([True, True], "different"),
        (["a", "a"], "different"), ([1, 1.0, "a"], "different"), ([None, None], "different"), (Linear(1, 1), "empty"),
        (Linear(0, math.inf), "finite"), (Linear("0", 1), "finite"), (Linear(0.1, 0.9, step=1), "no multiple"),
        *((Linear(0, 1, step=step), "step .* finite number > 0") for step in (0, -1, "1", True, math.nan, math.inf)),
        ((0.1, 0.1 * (1 + 1e-10)), "so narrow; for one value give a list"), (Linear(0.1, 0.1 + 1e-15), "so narrow"),
        (Linear(-1.7e308, 1.7e308), "so wide"), ([10**12, 10**12 + 1], "too close to be told apart"),
    ],
)  # fmt: skip
def test_impossible_domains_are_refused_by_name(domain, said):
    with pytest.raises(ValueError, match=said) as error:
        Space(weight=domain)
    assert "weight" in str(error.value)


ROUNDED = Space(
    lr=(0.001, 0.1), mix=Linear(0, 0.3), decay=[0.1, 0.3], drop=Linear(0, 1, step=0.1), depth=Linear(1, 8, step=1),
    shift=Linear(-1, 1, step=0.1),
)  # fmt: skip


@pytest.mark.parametrize(
    "name, value, meant",
    [
        ("lr", math.exp(math.log(0.1)), 0.1), ("lr", np.float32(0.1), 0.1), ("lr", 0.1 * (1 + 9e-7), 0.1),
        ("lr", 0.001 * (1 - 9e-7), 0.001), ("lr", 0.1 * (1 + 2e-6), None), ("mix", 0.1 + 0.2, 0.3),
        ("mix", -1e-17, 0), ("mix", -1e-6, None), ("decay", 0.1 + 0.2, 0.3), ("decay", np.float32(0.1), 0.1),
        ("decay", 0.3001, None), ("drop", np.float32(0.7), 0.7), ("drop", 0.1 + 0.2, 0.3), ("drop", 0.301, None),
        ("depth", np.float32(3), 3), ("depth", 8.0000001, 8), ("depth", 3.01, None), ("shift", -1, -1),
        ("shift", 0.1 * 3, 0.3), ("shift", "0.1", None), ("shift", 0.15, None), ("shift", -0.15, None),
        ("shift", 1.2, None),
    ],
)  # fmt: skip
def test_values_off_by_a_rounding_are_what_they_mean(name, value, meant):
    h = ROUNDED.check({axis.name: axis.high for axis in ROUNDED.axes})
    if meant is None:
        with pytest.raises(ValueError, match=f"{name} = "):
            ROUNDED.check(h | {name: value})
        return
    found = ROUNDED.check(h | {name: value})
    assert found[name] == pytest.approx(meant, rel=1e-12, abs=0)
    assert ROUNDED.key(found) == ROUNDED.key(h | {name: meant})
    assert ROUNDED.check(found) == found


def test_a_range_may_reach_to_the_largest_float():
    largest = np.finfo(float).max
    space = Space(a=(1e-3, largest), b=Axis("b", 1e-300, 1e308, growth=90.0))
    for x in (space.low, space.high, space.high + 1, [axis.widest.ends[1] for axis in space.axes]):
        h = space.from_coordinates(x)
        assert space.check(h) == h and np.isfinite(space.to_coordinates(h)).all()
    assert space.from_coordinates(space.high)["a"] == pytest.approx(largest)
    assert (space.axes[1].widest.low, space.axes[1].widest.high) == (sys.float_info.min, largest)


@pytest.mark.parametrize("axis", [*BOX.axes, *USUAL.axes, *ROUNDED.axes, Axis.integers("n", 3, 40)], ids=str)
def test_many_coordinates_are_snapped_as_one_is(axis):
    low, high = axis.ends
    x = np.linspace(low - 1, high + 1, 301)
    if axis.values or axis.step:
        assert axis.snapped(x.copy()).tolist() == [axis.coordinate(axis.snap(at)) for at in x]


def test_json_there_and_back():
    space = Space(a=(1e-3, 1.0), b=[1, 2, 4], n=Axis.integers("n", 2, 50), c=Linear(0, 1), d=Linear(-4, 2, step=2))
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space
    assert eval(repr(space)) == space


def test_an_axis_may_have_any_name():
    assert Space(self=(0.1, 1.0), axes=[1, 2]).names == ("self", "axes")


def test_a_zero_among_allowed_values_is_one_step_below_the_next():
    decay = Axis.choice("decay", [1e-2, 0, 1e-4, 1e-3])
    assert decay.scale == "log" and decay.values == (0, 1e-4, 1e-3, 1e-2)
    octaves = [decay.coordinate(value) for value in decay.values]
    assert np.diff(octaves) == pytest.approx([math.log2(10)] * 3)
    assert [decay.snap(at) for at in octaves] == [0, 1e-4, 1e-3, 1e-2] and decay.check(0.0) == 0
    assert np.diff([Axis.choice("x", [0, 3]).coordinate(value) for value in (0, 3)]) == pytest.approx([1])
    assert Axis.choice("x", [0]).scale == Axis.choice("x", [-1, 0, 1]).scale == "linear"
    space = Space(decay=decay)
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space
    for axis in ({"low": 0, "high": 1}, {"low": 0, "high": 8, "values": (2, 4, 8)}):
        with pytest.raises(ValueError, match="log-scaled axes need numbers > 0"):
            Axis("x", **axis)
    with pytest.raises(ValueError, match="math domain error|positive"):
        Space(b=[16, 32]).key({"b": 0})


@pytest.mark.parametrize(
    "domain, apart",
    [((1e-5, 1.0), 0.02), ((1.0, 2.0), 0.01), ([16, 32, 64], 0.02), ([0.99, 0.999], math.log2(0.999 / 0.99) / 100)],
)
def test_how_far_apart_values_are_that_differ(domain, apart):
    assert Space(x=domain).apart == pytest.approx([apart])
    listed = Space(x=[0.9, 0.99, 0.999, 0.9999])
    gaps = np.diff(np.log2(listed.axes[0].values))
    assert 0 < listed.apart[0] <= gaps.min() / 2


@pytest.mark.parametrize(
    "value, number",
    [
        (Decimal("0.5"), 0.5), (Fraction(1, 2), 0.5), (np.float16(0.5), 0.5), (np.array(3), 3), (np.int8(3), 3),
        (np.array([[2.5]]), 2.5), (10**400, math.inf), (-(10**400), -math.inf), (Decimal("1e400"), math.inf),
        (2**70, 2**70), ("1", None), (True, None), (np.bool_(True), None), (np.array([True]), None), (1j, None),
        (np.array("1"), None), (None, None), (np.ones(2), None), (np.ones(0), None), ([1.0], None),
        (np.float64, None),
    ],
)  # fmt: skip
def test_what_is_a_number(value, number):
    found = number_of(value)
    assert found == number and type(found) is type(number)


def test_configurations_and_bounds_may_be_of_any_number():
    space = Space(lr=(Decimal("0.001"), np.array(1.0)), m=Linear(Fraction(0), 1), b=[np.array([16]), Decimal(32)])
    h = space.check({"lr": np.array([0.5]), "m": Decimal("0.25"), "b": Fraction(16)})
    assert h == {"lr": 0.5, "m": 0.25, "b": 16} and [type(value) for value in h.values()] == [float, float, int]
    assert space.key({"lr": np.array([0.5]), "m": Decimal("0.25"), "b": Fraction(16)}) == space.key(h)
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space
    for bounds in ((1.0, 10**400), ("1", 2.0), (True, 2.0)):
        with pytest.raises(ValueError, match="must be a finite number"):
            Space(lr=bounds)
