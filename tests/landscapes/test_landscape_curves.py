"""Measured landscapes with learning curves, to replay on."""

import numpy as np
import pytest
from grids_of import hill, made

from tune_cd.landscapes import IN_VIEW, MEASURED, load
from tune_cd.landscapes.curves import CurveLandscape, curves_of
from tune_cd.search.space import Space

SPACE = Space(Lambda_p=(1.0, 4.0), Lambda_e=(1.0, 4.0))
TICKS = [np.array([0.0, 2.0])] * 2


def landscape(values, noise=None):
    return CurveLandscape("made", SPACE, TICKS, values, np.empty((0, 0)) if noise is None else np.array(noise))


def test_curves_between_cells_are_their_means():
    values = np.tile([0.1, 0.2, 0.4], (2, 2, 1))
    values[1] += 0.2
    assert landscape(values).curve({"Lambda_p": 2.0, "Lambda_e": 3.0}) == pytest.approx([0.2, 0.3, 0.5])


def test_a_curve_is_the_best_so_far():
    values = np.tile([0.1, 0.4, 0.2], (2, 2, 1))
    assert landscape(values).curve({"Lambda_p": 1.0, "Lambda_e": 1.0}) == pytest.approx([0.1, 0.4, 0.4])


def test_from_where_training_diverges_there_is_no_score():
    values = np.zeros((2, 2, 3)) + 0.3
    values[1, :, 1:] = np.nan
    cliff = landscape(values)
    assert np.isnan(cliff.curve({"Lambda_p": 4.0, "Lambda_e": 1.0})).tolist() == [False, True, True]
    assert np.isnan(cliff.curve({"Lambda_p": 3.9, "Lambda_e": 1.0})).tolist() == [False, True, True]
    assert cliff.curve({"Lambda_p": 1.1, "Lambda_e": 1.0}) == pytest.approx([0.3] * 3)


def test_noise_is_a_whole_curve_and_the_same_for_the_same_setting_and_seed():
    values = np.zeros((2, 2, 2)) + 0.5
    noisy, h = landscape(values, [[0.01, 0.02]]), {"Lambda_p": 2.0, "Lambda_e": 2.0}
    drawn = {tuple(np.round(noisy.curve(h, seed), 3)) for seed in range(20)}
    assert drawn == {(0.51, 0.52), (0.49, 0.49)}
    assert noisy.curve(h, 3).tolist() == noisy.curve(h, 3).tolist()
    assert noisy.curve(h) == pytest.approx([0.5, 0.5])


def test_the_shipped_ones_are_whole():
    for name in set(IN_VIEW) & set(MEASURED):
        curves = curves_of(load(name))
        assert curves.looks == 16 and curves.name == name
        best = curves.curve({"Lambda_p": 0.262, "Lambda_e": 4.19})
        assert np.isfinite(best).all() and best[-1] <= curves.best
        assert len(curves.noise) >= 6 and abs(curves.noise.mean()) < 1e-6


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A ridge at two batch sizes; seeds differ by 0.01 up and down from their mean, a look by 0.1."""
    return made(
        tmp_path_factory.mktemp("made"), hill((-5, -3)), ticks=[4.0**-i for i in range(5)], batch_sizes=(16, 64)
    )


def test_a_measured_one_is_the_mean_over_seeds_with_the_noise_between_them(several):
    curves, h = curves_of(several), {"Lambda_p": 4.0**-2, "Lambda_e": 4.0**-1}
    score = hill((-5, -3))(np.array([-4.0, -2.0]))
    assert curves.curve(h) == pytest.approx([score - 0.3, score - 0.2, score - 0.1, score], abs=1e-4)
    assert np.abs(curves.noise) == pytest.approx(0.01 * np.sqrt(2), abs=1e-4)  # two seeds: as far again from their mean
    assert np.ptp(curves.noise, axis=1) == pytest.approx(0, abs=1e-4)
    assert curves.space.names == ("Lambda_p", "Lambda_e")


def test_a_batch_size_that_was_not_measured_is_refused(several):
    with pytest.raises(ValueError, match="batch_size 32"):
        curves_of(several, batch_size=32)
