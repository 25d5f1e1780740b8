"""Landscapes by name: planes and volumes of measured ones, and what is refused."""

import numpy as np
import pytest
from grids_of import TICKS, hill, made, made_tables

from tune_cd.analysis.scores import parameter
from tune_cd.landscapes.find import error_between_cells, find, plane, volume
from tune_cd.landscapes.landscape import from_table
from tune_cd.landscapes.measured import IN_VIEW, JUDGES, MEASURED, load

CENTRE = np.log2([TICKS[8], TICKS[10]])
ABOVE_NOISE = {"omniglot-infonce": 5.0, "glyphs-infonce": 5.5}
"""Landscapes whose error between the cells is larger; README.md says so."""
FORMULA = hill(CENTRE)


def cliff(x: np.ndarray) -> float | None:
    return None if x[0] > 4 else FORMULA(x) * (1 - abs(x[2] - 6) / 10)


@pytest.fixture(scope="module")
def solid(tmp_path_factory):
    return made(tmp_path_factory.mktemp("solid"), cliff, batch_sizes=(16, 64, 256))


def test_a_plane_is_the_mean_over_seeds_at_one_batch_size(solid):
    """At the cells what `from_table` makes of the trials themselves, diverged ones among them."""
    flat = plane(solid)
    trials, _ = made_tables(cliff)
    other = from_table(trials, "made", ("Lambda_p", "Lambda_e"))
    assert flat.name == "made" and flat.space.names == ("Lambda_p", "Lambda_e")
    assert flat.optimum == {"Lambda_p": pytest.approx(TICKS[8]), "Lambda_e": pytest.approx(TICKS[10])}
    assert flat.high == pytest.approx(0.8, abs=1e-4) and flat.score(flat.optimum) == pytest.approx(flat.high)
    points = [{"Lambda_p": p, "Lambda_e": e} for p in TICKS for e in TICKS]
    for h in points:
        assert flat.score(h) == pytest.approx(other.score(h), abs=1e-4, nan_ok=True)
    assert flat.measure(points[-1], 0).status == "diverged"
    small = plane(solid, 16)
    assert small.high == pytest.approx(0.8 * 0.8, abs=1e-4) and small.name == "made-b16"


def test_a_volume_has_the_batch_size_as_allowed_values(solid):
    whole = volume(solid)
    assert whole.name == "made-3d" and whole.space.names == ("Lambda_p", "Lambda_e", "batch_size")
    assert whole.optimum["batch_size"] == 64 and whole.high == pytest.approx(0.8, abs=1e-4)
    at = {"Lambda_p": TICKS[8], "Lambda_e": TICKS[10], "batch_size": 256}
    assert whole.score(at) == pytest.approx(0.8 * 0.8, abs=1e-4)
    with pytest.raises(ValueError, match=r"batch_size = 32 is not one of \[16, 64, 256\]"):
        whole.score(at | {"batch_size": 32})


@pytest.mark.parametrize("name", MEASURED)
def test_measured_ones_are_found_and_so_is_the_plane_of_every_batch_size(name):
    """Their best is that of the means over seeds of their rows."""
    landscape, loaded = find(name), load(name)
    assert name in (*IN_VIEW, *JUDGES) and landscape.name == name
    for size in loaded.axes["batch_size"].tolist():
        rows, plane = loaded.at(size).rows(), find(f"{name}-b{size}") if size != 64 else landscape
        means = rows.groupby([parameter(rows, weight) for weight in loaded.weights])["val_score"].mean()
        assert plane.high == pytest.approx(means.max(), abs=1e-5)
        assert plane.optimum == {key: pytest.approx(value) for key, value in zip(loaded.weights, means.idxmax())}
    with pytest.raises(ValueError, match=f"batch_size 7: {name} has "):
        find(f"{name}-b7")
    low, high = (1e-6, 17.0) if loaded.held_back.empty else (2.0**-14, 2.0**10)  # the older planes, the new
    for axis in landscape.space.axes:
        assert (axis.low, axis.high) == (pytest.approx(low, rel=0.02), pytest.approx(high, rel=0.02))


@pytest.mark.parametrize("name", MEASURED)
def test_those_of_several_batch_sizes_are_volumes_too(name):
    sizes = load(name).axes["batch_size"].tolist()
    if len(sizes) < 2:
        with pytest.raises(ValueError, match="one batch size"):
            find(f"{name}-3d")
        return
    whole, flat = find(f"{name}-3d"), find(name)
    assert whole.score(flat.optimum | {"batch_size": 64}) == pytest.approx(flat.score(flat.optimum))


@pytest.mark.parametrize(
    "weights, score",
    [
        ((0.131, 0.131), 0.551), ((0.524, 0.524), 0.531), ((0.262, 0.131), 0.497), ((0.524, 0.262), 0.502),
        ((0.131, 0.262), 0.441), ((0.262, 0.524), 0.428), ((0.262, 0.262), 0.541),
    ],
)  # fmt: skip
def test_a_ridge_that_runs_diagonally_has_no_pits(weights, score):
    """Settings trained for themselves. From cells two octaves apart bilinear interpolation said .42 of the second."""
    plane = find("omniglot-242-infonce")
    x = plane.space.to_coordinates(dict(zip(plane.space.names, weights)))
    assert plane.validation(x) == pytest.approx(score, abs=0.03)


@pytest.mark.parametrize("name", [name for name in MEASURED if not load(name).held_back.empty])
def test_between_the_cells_the_error_is_at_most_twice_the_noise(name):
    landscape = load(name)
    assert error_between_cells(landscape) < ABOVE_NOISE.get(name, 2.0) * landscape.noise()
