"""Landscapes of other models than a contrastive network: that they load, and that they are what was measured."""

import numpy as np
import pytest
from contract import advance

from tune_cd import results
from tune_cd.landscapes.find import GENERAL, find
from tune_cd.landscapes.landscape import SHIPPED
from tune_cd.results.rows import searched_in
from tune_cd.search.methods import OPTIMISERS

KINDS = {
    "svm": ["C", "gamma"], "network": ["rate", "decay", "batch_size", "momentum"],
    "boosting": ["rate", "trees", "depth"], "kinds": ["rate", "decay", "solver", "activation"],
}  # fmt: skip


def test_they_are_of_four_models_and_small():
    assert {name.split("-")[0] for name in GENERAL} == set(KINDS)
    sizes = [(SHIPPED / "general" / f"{name}.parquet").stat().st_size for name in GENERAL]
    assert max(sizes) < 50_000 and sum(sizes) < 400_000


@pytest.mark.parametrize("name", GENERAL)
def test_each_is_a_full_grid_over_its_own_space(name):
    landscape = find(name)
    assert list(landscape.space.names) == KINDS[name.split("-")[0]]
    assert landscape.score(landscape.optimum) == pytest.approx(landscape.high)
    assert 0 <= landscape.low < landscape.high <= 1
    search = OPTIMISERS["cd"](landscape.space, seed=0)
    advance(search, 8, lambda h: landscape.measure(h, 0).value)
    assert search.best[1] > (landscape.low + landscape.high) / 2


@pytest.mark.parametrize("name", ["svm-wine", "boosting-wine", "kinds-breast-cancer"])
def test_cells_measured_again_are_as_shipped(name):
    """To within a fold's three images or so: another scikit-learn may differ."""
    pytest.importorskip("sklearn", reason="scikit-learn measures them")
    from other_problems import PROBLEMS

    problem = PROBLEMS[name]()
    trials = results.read_file(SHIPPED / "general" / f"{name}.parquet")
    assert len(trials) == len(list(problem.cells()))
    for at in np.random.default_rng(0).choice(len(trials), 3, replace=False):
        trial = trials.iloc[at].to_dict()
        assert problem.score(searched_in(trial)) == pytest.approx(trial["val_score"], abs=0.03)
