"""The axes of a study: from the space that rows name, or from the values; every value has a place."""

import json

import numpy as np
import pytest
from studies import main_job, own_tuner, plain, row, table

from tune_cd import Space
from tune_cd.analysis.axes import BELOW, Axis, axes_of, written
from tune_cd.search.space import Linear


def of(values, **config):
    return axes_of(table(row(n, params={"x": value}, config=config) for n, value in enumerate(values)))[-1]


@pytest.mark.parametrize("values, kind, scale", [
    ([0.1, 0.5, 2.0], "real", "log"), ([0.1, 0.5, 0.9], "real", "linear"), ([0.0, 1e-5, 1.5], "real", "linear"),
    ([-1.5, 1e-5, 1.5], "real", "linear"), ([*range(1, 40)], "real", "log"), ([3.0, 3.0], "real", "linear"),
    ([16, 32, 512], "ordinal", "log"), ([1, 2, 3, 4], "ordinal", "linear"), ([0, 1, 2], "ordinal", "linear"),
])  # fmt: skip
def test_without_a_space_only_positive_values_over_more_than_a_decade_are_on_a_log_axis(values, kind, scale):
    axis = of(values)
    assert (axis.kind, axis.scale, axis.low, axis.high) == (kind, scale, min(values), max(values))


@pytest.mark.parametrize("name", ["Lambda_p", "Lambda_sim", "batch_size"])
def test_weights_and_batch_sizes_are_on_a_log_axis_however_narrow(name):
    rows = (row(n, params={name: 2.0**n, "Lambda_e": 1.0}) for n in (4, 5, 6))
    axis = {axis.name: axis for axis in axes_of(table(rows))}[name]
    assert axis.scale == "log" and axis.at([32.0])[0] == pytest.approx(0.5)


def test_a_space_says_kind_scale_and_range_and_values_beyond_widen_it():
    space = Space(a=(1e-4, 1.0), b=Linear(-1.0, 1.0), c=[0, 1, 2, 4], d=Linear(1, 8, step=1), e=(1e-3, 1.0))
    rows = [{"a": 0.01, "b": 0.0, "c": 0.0, "d": 2.0, "e": 10.0}, {"a": 0.02, "b": 0.5, "c": 4.0, "d": 3.0, "e": 0.1}]
    config = {"space": space.to_json()}
    axes = {axis.name: axis for axis in axes_of(table(row(n, params=h, config=config) for n, h in enumerate(rows)))}
    assert list(axes)[-5:] == ["a", "b", "c", "d", "e"]
    found = {name: (axis.scale, axis.low, axis.high) for name, axis in axes.items()}
    assert found["a"] == ("log", 1e-4, 1.0) and found["b"] == ("linear", -1.0, 1.0) and found["d"] == ("linear", 1, 8)
    assert found["c"] == ("log", 1, 4) and axes["c"].values == (0, 1, 2, 4) and axes["c"].at([0.0])[0] == BELOW
    assert found["e"] == ("log", 1e-3, 10.0)


@pytest.mark.parametrize("axis, ends", [
    ([0.0, 0.1, 0.5], {0.0: "lower", 0.1: None, 0.5: "upper"}), ([0, 1], {0: "lower", 1: "upper"}),
    ([16, 32, 64], {16: "lower", 32: None, 64: "upper"}), ([8], {8: None}),
    ((1e-3, 1.0), {1e-3: "lower", 1.02e-3: "lower", 0.1: None, 1.0: "upper"}),
])  # fmt: skip
def test_the_ends_of_a_list_are_its_first_and_last_value_and_those_of_a_range_are_near_its_ends(axis, ends):
    found = of(list(ends), space=Space(x=axis).to_json())
    assert {value: found.end(value) for value in ends} == ends


def test_no_parameter_is_left_out():
    trials, _ = own_tuner()
    assert [axis.name for axis in axes_of(trials)] == ["lr", "momentum", "layers", "optimizer"]
    without = trials.assign(config="{}")
    assert {axis.name for axis in axes_of(without)} == {"lr", "momentum", "layers", "optimizer"}
    assert {axis.name for axis in axes_of(trials.drop(columns="choices"))} == {"lr", "momentum", "layers"}
    assert [axis.name for axis in axes_of(plain(main_job()))] == ["Lambda_p", "Lambda_e", "batch_size"]
    assert axes_of(table([])) == []


def test_categories_are_in_the_spaces_order_and_lists_of_pairs_do_as_well():
    trials, _ = own_tuner()
    pairs = trials.assign(choices=[list(choices.items()) for choices in trials["choices"]])
    for one in (trials, pairs):
        axis = axes_of(one)[-1]
        assert (axis.kind, axis.values, axis.ticks()) == (
            "category", ("sgd", "adamw", "lion"), [(0.0, "sgd"), (0.5, "adamw"), (1.0, "lion")],
        )  # fmt: skip
        assert axis.values_of(one) == [choices["optimizer"] for choices in trials["choices"]]
    space = json.dumps({"space": [{"name": "bias", "values": [None, True, "2", 2], "scale": "category"}]})
    mixed = table([row(0), row(1)]).assign(choices=[{"bias": "null"}, {"bias": "true"}], config=space)
    assert axes_of(mixed)[0].values == ("null", "true")


@pytest.mark.parametrize("axis", [
    Axis("x", "real", "log", 1e-4, 10.0), Axis("x", "real", "linear", -3.0, 5.0), Axis("x", "real", "log", 2.0, 3.0),
    Axis("x", "real", "linear", -1e308, 1e308), Axis("x", "real", "log", 5e-324, 1e308),
    Axis("x", "ordinal", "log", 16, 512, (16, 32, 64, 128, 256, 512)),
])  # fmt: skip
def test_places_grow_with_values_and_ticks_are_few_and_lie_where_their_labels_say(axis):
    low, high = axis.at([axis.low, axis.high])
    assert (low, high) == pytest.approx((0, 1))
    if axis.scale == "log":
        values = np.exp2(np.linspace(np.log2(axis.low), np.log2(axis.high), 9))
    else:
        values = axis.low * np.linspace(1, 0, 9) + axis.high * np.linspace(0, 1, 9)
    assert (np.diff(axis.at(values)) > 0).all()
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 12 and all(-1e-6 <= place <= 1 + 1e-6 for place, _ in ticks)
    labelled = axis.at([float(text) for _, text in ticks]).tolist()
    assert [place for place, _ in ticks] == pytest.approx(labelled, abs=0.01)


def test_missing_values_have_no_place_and_a_single_one_lies_in_the_middle():
    assert np.isnan(Axis("x", "real", "log", 1.0, 9.0).at([np.nan])).all()
    assert np.isnan(Axis("x", "category", "category", 0, 1, ("a", "b")).at([None, "c"])).all()
    assert of([3.0, 3.0]).at([3.0, np.nan])[0] == 0.5


@pytest.mark.parametrize("value, text", [
    (0.00563803, "0.005638"), (64.0, "64"), (1e-7, "1e-7"), (2.5e10, "2.5e10"), (-0.25, "-0.25"), (0, "0"), ("a", "a"),
])  # fmt: skip
def test_values_in_writing(value, text):
    assert written(value) == text
