"""The fit of `law.py`: it finds the best of a hill that is known, also where the settings do not surround it."""

import law
import numpy as np
import pytest
from contrastive_landscapes import LOWEST
from law import MOVES, SIZES, Level, asked, levels
from torch import randn

GRID = 0.08  # octaves between the places that are tried for the best


def trained(level, score):
    """All that is asked for where settings at a place [2] (balance, joint rate; octaves) have that score and noise."""
    rng, found = np.random.default_rng(0), {}
    while cells := asked(level, found):
        for cell in cells:
            place = np.array([cell.e - cell.p, (cell.p + cell.e) / 2 + np.log2(LOWEST)])
            found[cell] = max(0.1, score(place) + 0.005 * rng.standard_normal())
    return found


@pytest.mark.parametrize("moved", [(0, 0), (1, -1), (6, 0), (-2, 4)])
def test_the_best_is_found_within_its_interval(moved):
    level = Level("glyphs", "margin", "all as it is")
    best = np.add(level.centre, moved)
    cells = trained(level, lambda place: 0.7 - (0.02, 0.01) @ (place - best) ** 2)
    few = len(cells) == 2 * np.prod(SIZES)
    assert few == (max(map(abs, moved)) < 2), "more are asked for where it lies outside"
    bests = law.bests(level, cells)
    low, high = np.quantile(bests, (0.005, 0.995), axis=0)
    assert (low - GRID <= best).all() and (best <= high + GRID).all() and (high - low)[0] < 1.5


def test_a_slope_without_an_end_ends():
    level = Level("glyphs", "margin", "all as it is")
    cells = trained(level, lambda place: 0.5 + 0.02 * (place - level.centre)[0])
    assert 2 * np.prod(SIZES) < len(cells) <= 2 * (np.prod(SIZES) + MOVES * (sum(SIZES) - 1)), "a move may be diagonal"


@pytest.mark.parametrize("make", [law.narrow, law.wide, law.grouped], ids=["narrow", "wide", "grouped"])
def test_a_varied_network_has_the_features_that_it_is_named_for(make):
    features = make(1, 28).eval()(randn(2, 1, 28, 28)).shape
    assert features == (2, {law.narrow: 256, law.wide: 1024, law.grouped: 512}[make])


def test_every_level_is_a_set_up_that_a_study_could_have():
    for loss in law.LOSSES:
        assert len({level.study for level in levels("glyphs", loss)}) == len([*levels("glyphs", loss)]) == 12
        assert all(level.setup.loss == loss for level in levels("glyphs", loss))
