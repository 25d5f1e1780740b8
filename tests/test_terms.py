"""The space of any sum of terms: at the start the loop trains as today, along the joint direction the rate moves."""

import numpy as np
import pytest

from tune_cd import CoordinateDescent, Space
from tune_cd.balance import MULTIPLIED, RATE_FACTOR, SCALE_FREE, WEIGHT_FACTOR, terms

PUBLISHED = {"sim": 25.0, "std": 25.0, "cov": 1.0}


def vicreg(optimizer="sgd", **arguments):
    given = {"weights": tuple(PUBLISHED.values()), "learning_rate": 0.05, "optimizer": optimizer} | arguments
    return terms(*PUBLISHED, **given)


@pytest.mark.parametrize("optimizer", MULTIPLIED + SCALE_FREE)
def test_the_start_is_what_is_used_today(optimizer):
    found = vicreg(optimizer)
    assert found.weights(found.start) == pytest.approx(PUBLISHED) and found.rate(found.start) == 0.05
    assert CoordinateDescent(found.space, start=found.start).ask() == found.start
    centre = (found.space.low + found.space.high) / 2
    assert np.allclose(found.space.to_coordinates(found.start), centre), "the middle of the box, in octaves"


def test_under_sgd_the_axes_are_weights_times_the_rate():
    found = vicreg()
    assert found.space.names == ("Lambda_sim", "Lambda_std", "Lambda_cov")
    h = found.space.sample(np.random.default_rng(0))
    assert {f"Lambda_{name}": found.rate(h) * weight for name, weight in found.weights(h).items()} == pytest.approx(h)
    assert vicreg(weights=dict(reversed(PUBLISHED.items()))) == found, "by name"
    assert found.space.axes[0].low == pytest.approx(25 * 0.05 / WEIGHT_FACTOR)
    contrasts = np.array(list(found.search["directions"].values())) @ np.ones(3)
    assert contrasts.tolist() == [0, 0, 3], "the last is the joint direction: the learning rate"
    assert found.search["prior"] == "balance"


@pytest.mark.parametrize("optimizer", SCALE_FREE)
def test_under_optimisers_that_divide_by_the_gradient_the_rate_is_apart(optimizer):
    found = vicreg(optimizer, rate="eta")
    assert found.space.names == ("eta", "ratio_std", "ratio_cov")
    weights = found.weights({"eta": 1e-3, "ratio_std": 2.0, "ratio_cov": 0.5, "unrelated": "x"})
    assert weights == {"sim": 25.0, "std": 50.0, "cov": 12.5}
    assert found.rate({"eta": 1e-3, "ratio_std": 2.0, "ratio_cov": 0.5}) == 1e-3
    assert found.space.axes[0].high == pytest.approx(0.05 * RATE_FACTOR)
    assert found.search == {"space": found.space, "start": found.start}, "along each axis, with the general prior"


def test_ranges_can_be_given():
    found = vicreg(ranges={"Lambda_cov": (1e-6, 1.0)})
    assert found.space == Space(
        Lambda_sim=(1.25 / WEIGHT_FACTOR, 1250.0), Lambda_std=(1.25 / WEIGHT_FACTOR, 1250.0), Lambda_cov=(1e-6, 1.0)
    )


@pytest.mark.parametrize(
    "names, arguments, said",
    [
        (("sim",), {}, "sim"), (("sim", "sim"), {}, "all different"), (("sim", "a b"), {}, "a b"),
        (("sim", "std"), {"weights": (1,)}, "2 finite numbers"), (("sim", "std"), {"weights": (1, 0)}, "> 0"),
        (("sim", "std"), {"weights": {"sim": 1, "cov": 1}}, "'cov': 1}: 2 finite"),
        (("sim", "std"), {"weights": {"sim": 1, "std": 1, "cov": 1}}, "'cov': 1}: 2 finite"),
        (("sim", "std"), {"weights": (1, float("inf"))}, "inf"), (("sim", "std"), {"weights": 1}, "2 finite numbers"),
        (("sim", "std"), {"learning_rate": 0.0}, "learning_rate 0.0"),
        (("sim", "std"), {"learning_rate": None}, "learning_rate None"),
        (("sim", "std"), {"optimizer": "lbfgs"}, "lbfgs"),
        (("sim", "std"), {"optimizer": "adam", "rate": "ratio_x"}, "ratio_x"),
        (("sim", "std"), {"ranges": {"Lambda_cov": (1, 2)}}, "Lambda_cov"),
        (("sim", "std"), {"ranges": {"Lambda_sim": (1, 2)}}, "outside"),
        (("sim", "std"), {"ranges": {"Lambda_sim": (0, 2)}}, "> 0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_its_name(names, arguments, said):
    with pytest.raises(ValueError, match=said):
        terms(*names, **({"learning_rate": 0.1} | arguments))


def test_a_configuration_of_another_space_is_refused():
    with pytest.raises(ValueError, match="Lambda_cov"):
        vicreg().weights({"Lambda_sim": 1.0, "Lambda_std": 1.0})
    with pytest.raises(ValueError, match="ratio_std"):
        vicreg("adam").rate({"lr": 1.0})
