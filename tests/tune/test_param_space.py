"""Tune's search spaces as axes."""

import math

import numpy as np
import pytest
from ray import tune
from ray.tune.impl.placeholder import create_resolvers_map, inject_placeholders

from tune_cd.tune.param_space import space_from_tune


def test_conversion_of_tunes_domains():
    space = space_from_tune({
        "a": tune.loguniform(1e-3, 1), "n": tune.lograndint(8, 128), "q": tune.qloguniform(0.1, 10, 0.1),
        "m": tune.qlograndint(16, 64, 16), "b": tune.choice([64, 16, 32]),
        "opt": {"lr": tune.loguniform(1e-5, 1e-1), "name": "sgd"},
        "u": tune.uniform(-1, 1), "qu": tune.quniform(np.float32(0), 0.3, 0.1), "r": tune.randint(*np.array([0, 5])),
        "qr": tune.qrandint(-4, 8, 4), "q1": tune.qrandint(1, 4, 1), "z": tune.choice([0.5, 0, 0.1]),
        "s": tune.choice([-1, 1]), "k": tune.choice(["adam", True, None, 1]), "epochs": 3, "flag": True,
    })  # fmt: skip
    assert set(space.names) == {"a", "n", "q", "m", "b", "opt/lr", "u", "qu", "r", "qr", "q1", "z", "s", "k"}
    ends = {axis.name: (axis.snap(-99), axis.snap(99)) for axis in space.axes if axis.name != "k"}
    assert ends == {
        "a": (1e-3, 1.0), "n": (8, 127), "q": (0.1, 10.0), "m": (16, 64), "b": (16, 64), "opt/lr": (1e-5, 1e-1),
        "u": (-1.0, 1.0), "qu": (0.0, 0.3), "r": (0, 4), "qr": (-4, 8), "q1": (1, 3), "z": (0, 0.5), "s": (-1, 1),
    }  # fmt: skip
    assert [axis.name for axis in space.categories] == ["k"]
    assert [*map(type, space.categories[0].values)] == [str, bool, type(None), int]
    linear = {axis.name: axis.step for axis in space.axes if axis.scale == "linear"}
    assert linear == {"u": None, "qu": 0.1, "r": 1, "qr": 4, "q1": 1, "s": None}
    assert all(type(end) is (int if axis.step in (1, 4) else float) for axis in space.axes if axis.name in "u r qr q1"
               for end in ends[axis.name])  # fmt: skip
    assert space_from_tune({"epochs": 3}) is None


@pytest.mark.parametrize(
    "name, domain, hint",
    [
        ("knob", tune.randn(), "Normal sampling has no range.*uniform, loguniform.*fix it"),
        ("knob", tune.qrandn(0, 1, 0.1), "Normal sampling has no range"),
        ("knob", tune.sample_from(lambda spec: 1), "Function has no range.*compute it in the trainable"),
        ("knob", tune.choice([[16], [16, 16]]), r"\[16\] \(list\) cannot be chosen.*choose keys, and look them up"),
        ("knob", tune.choice([abs, max]), "cannot be chosen.*choose keys"),
        ("knob", tune.choice(["a", math.nan]), "nan .*cannot be chosen"),
        ("knob", tune.choice([0.1, math.nan]), "finite numbers"),
        ("knob", tune.randint(3, 3), r"\(3, 3\) is empty; Tune's upper bound is not included"),
        ("knob", tune.grid_search([1, 2]), "choice"),
        ("knob", [1, tune.uniform(0, 1)], "in a list, or under a key that is no text; give it a text key"),
        ("knob", {1: tune.uniform(0, 1)}, "/1: a searched parameter .* under a key that is no text"),
        ("a/b", tune.loguniform(1e-3, 1), "a key with '/'.*rename"),
    ],
)
def test_domains_without_an_answer_are_refused_by_name_with_a_hint(name, domain, hint):
    with pytest.raises(ValueError, match=f"opt/{name}.*{hint}"):
        space_from_tune({"opt": {name: domain}})


@pytest.mark.parametrize("values", [[abs, max], [np.int64(16), np.int64(32)]])
def test_a_choice_of_objects_is_refused_in_words_behind_the_placeholders_of_a_tuner(values):
    space = inject_placeholders({"knob": tune.choice(values)}, create_resolvers_map())
    with pytest.raises(ValueError, match=r"knob: a choice of objects.* as int.* choose keys"):
        space_from_tune(space)


def test_a_function_behind_a_placeholder_is_left_to_tune():
    space = {"lr": tune.loguniform(1e-3, 1), "warm": tune.sample_from(lambda spec: spec.config.lr / 10)}
    assert space_from_tune(inject_placeholders(space, create_resolvers_map())).names == ("lr",)
