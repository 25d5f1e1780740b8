"""Measured landscapes between their cells, and their learning curves."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from grids_of import TICKS, hill, made, made_tables

from tune_cd.landscapes.find import error_between_cells, find, plane
from tune_cd.landscapes.landscape import Triangles, on_points
from tune_cd.landscapes.measured import IN_VIEW, load, write
from tune_cd.search.space import Space

SPACE = Space(Lambda_p=(1.0, 4.0), Lambda_e=(1.0, 4.0))
CORNERS = np.array(list(product([0.0, 2.0], repeat=2)))


def landscape(curves, deviations=()):
    """curves [2, 2, n_looks]: at the corners of SPACE."""
    curves = np.asarray(curves, float).reshape(4, -1)
    return on_points("made", SPACE, CORNERS, curves, curves[:, -1], np.array(deviations))


@pytest.fixture(scope="module")
def lattice():
    return np.array(list(product(np.arange(0.0, 25.0, 4.0), repeat=2)))


def test_a_plane_is_told_exactly_anywhere_and_at_the_edges_of_the_box(lattice):
    def tilted(x):
        return 2 * x[..., 0] - x[..., 1] + 0.3

    surface = Triangles(lattice, tilted(lattice))
    x = np.concatenate([np.random.default_rng(0).uniform(0, 24, (100, 2)), lattice, [[24, 3.7], [0, 11.1]]])
    assert surface(x) == pytest.approx(tilted(x), abs=1e-9) and surface(x[0]).shape == ()
    with pytest.raises(ValueError, match="beyond them nothing is known"):
        surface(np.array([24.1, 3.0]))


def test_a_ridge_along_the_joint_direction_has_no_pits(lattice):
    """It crosses the squares of the lattice along their diagonals, where a bilinear surface falls by half."""
    surface = Triangles(lattice, np.exp(-((lattice[:, 0] - lattice[:, 1]) ** 2) / 4))
    along = np.linspace(0, 24, 100)
    assert surface(np.stack([along, along], axis=-1)) == pytest.approx(1.0)


def test_finer_cells_are_met_and_change_nothing_beyond_their_neighbours(lattice):
    fine = np.concatenate([lattice, [[9.0, 11.0]]])
    surface, coarse = Triangles(fine, np.append(np.zeros(len(lattice)), 1.0)), np.zeros(len(lattice))
    assert surface(fine[-1]) == pytest.approx(1.0) and surface(lattice) == pytest.approx(coarse, abs=1e-9)
    assert surface(np.array([[3.0, 3.0], [21.0, 17.0]])) == pytest.approx(0.0, abs=1e-9)


def test_curves_between_cells_are_their_means():
    values = np.tile([0.1, 0.2, 0.4], (2, 2, 1))
    values[1] += 0.2
    assert landscape(values).curve({"Lambda_p": 2.0, "Lambda_e": 3.0}) == pytest.approx([0.2, 0.3, 0.5])
    assert landscape(values).score({"Lambda_p": 2.0, "Lambda_e": 3.0}) == pytest.approx(0.5)


def test_from_where_training_diverges_there_is_no_score():
    values = np.zeros((2, 2, 3)) + 0.3
    values[1, :, 1:] = np.nan
    cliff = landscape(values)
    assert np.isnan(cliff.curve({"Lambda_p": 4.0, "Lambda_e": 1.0})).tolist() == [False, True, True]
    assert np.isnan(cliff.curve({"Lambda_p": 3.9, "Lambda_e": 1.0})).tolist() == [False, True, True]
    assert cliff.curve({"Lambda_p": 1.1, "Lambda_e": 1.0}) == pytest.approx([0.3] * 3)
    assert cliff.measure({"Lambda_p": 3.9, "Lambda_e": 1.0}, 0).status == "diverged"


def test_noise_is_a_whole_curve_and_the_same_for_the_same_setting_and_seed():
    noisy, h = landscape(np.zeros((2, 2, 2)) + 0.5, [[0.01, 0.02]]), {"Lambda_p": 2.0, "Lambda_e": 2.0}
    drawn = {tuple(np.round(noisy.curve(h, seed), 3)) for seed in range(20)}
    assert drawn == {(0.51, 0.52), (0.49, 0.49)}
    assert noisy.curve(h, 3).tolist() == noisy.curve(h, 3).tolist()
    assert noisy.curve(h) == pytest.approx([0.5, 0.5])


def test_without_curves_none_are_told():
    with pytest.raises(ValueError, match="landscape 'omniglot': no learning curves are known"):
        find("omniglot").curve({"Lambda_p": 0.1, "Lambda_e": 1.0})


@pytest.mark.parametrize("name", IN_VIEW)
def test_the_shipped_ones_are_whole(name):
    found = find(name)
    (h, high), curve = found.best, found.curve(found.optimum)
    assert found.looks == 16 and np.isfinite(curve).all() and curve[-1] == pytest.approx(high)
    assert len(found.deviations) >= 6 and abs(found.deviations.mean()) < 1e-6
    assert found.curve(h, 0) != pytest.approx(curve)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A ridge at two batch sizes; seeds differ by 0.01 up and down from their mean, a look by 0.1."""
    ticks = [4.0**-i for i in range(5)]
    return made(tmp_path_factory.mktemp("made"), hill((-5, -3)), ticks=ticks, batch_sizes=(16, 64))


def test_a_measured_one_is_the_mean_over_seeds_with_the_noise_between_them(several):
    found, h = plane(several), {"Lambda_p": 4.0**-2, "Lambda_e": 4.0**-1}
    score = hill((-5, -3))(np.array([-4.0, -2.0]))
    assert found.curve(h) == pytest.approx([score - 0.3, score - 0.2, score - 0.1, score], abs=1e-4)
    assert np.abs(found.deviations) == pytest.approx(0.01 * np.sqrt(2), abs=1e-4)  # as far again from their own mean
    assert np.ptp(found.deviations, axis=1) == pytest.approx(0, abs=1e-4)


def test_settings_held_back_tell_the_error_between_the_cells_and_are_no_cells(tmp_path):
    """Two settings whose scores are .03 above and .04 below the tilted plane of the cells."""
    tilted = lambda x: 0.5 + x[0] / 100 - x[1] / 200  # noqa: E731
    trials, curves = made_tables(tilted, noise=0.0)
    rows, looks = [trials], [curves]
    for name, at, off in (("off-0", (3.3, -7.1), 0.03), ("off-1", (-5.6, -2.2), -0.04)):
        p, e = 2.0 ** np.array(at)
        moved = {"Lambda_p": p, "Lambda_e": e, "params": [{"Lambda_p": p, "Lambda_e": e, "batch_size": 64}]}
        rows.append(trials[:1].assign(**moved, trial_id=name, val_score=tilted(at) + off))
        looks.append(curves[:4].assign(trial_id=name, val_score=tilted(at) + off))
    write(tmp_path / "held.parquet", pd.concat(rows), pd.concat(looks), {}, held_back=["off-0", "off-1"])
    held = load("held", tmp_path)
    assert error_between_cells(held) == pytest.approx(np.sqrt((0.03**2 + 0.04**2) / 2), abs=1e-4)
    assert held.axes["Lambda_p"].tolist() == TICKS and len(held.held_back) == 2 and held.trained.all()
    assert np.isnan(error_between_cells(made(tmp_path, tilted)))
