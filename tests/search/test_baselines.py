"""Random search, the grid and Optuna's samplers: what each proposes, and what an Optuna study gets to know."""

import sys
from importlib.util import find_spec
from unittest.mock import Mock

import numpy as np
import pytest
from contract import CENTRE, FINITE, MIXED, PLANE, advance, score

from tune_cd.search.baselines.listed import grid_cells, uniform_draws
from tune_cd.search.baselines.optuna_rule import SAMPLERS
from tune_cd.search.methods import OPTIMISERS, given
from tune_cd.search.space import Axis, Space

needs_optuna = pytest.mark.skipif(find_spec("optuna") is None, reason="optuna is not installed")


def test_the_search_methods_have_their_documented_names():
    ours, theirs = ["cd", "cd-paper", "cd-local", "random", "grid"], ["tpe-paper", "tpe", "cmaes", "gp"]
    assert list(OPTIMISERS) == [*ours, *theirs, "botorch"]


MISSING = {"tpe": "optuna", "tpe-paper": "optuna", "cmaes": "cmaes", "gp": "torch", "botorch": "botorch"}


@pytest.mark.parametrize("method, missing", MISSING.items())
def test_without_its_library_the_error_says_what_to_install(monkeypatch, method, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"{method} needs {missing}.*pip install tune_cd\[baselines\]"):
        OPTIMISERS[method](PLANE)


def test_what_is_given_is_asked_for_and_nothing_else():
    """Also where a value was known beforehand."""
    starts = [CENTRE | {"Lambda_p": weight} for weight in (0.5, 1.0, 2.0)]
    expected = [PLANE.check(h) for h in starts]
    search = given(PLANE, start=starts)
    assert advance(search, 2) == expected[:2] and not search.finished
    assert advance(search, 5) == expected[2:] and search.finished and search.ask() is None
    assert search.best == max(search.history, key=lambda pair: pair[1]) and len(search.history) == 3
    (alone,) = advance(given(PLANE, start=CENTRE), 9)
    assert alone == PLANE.check(CENTRE)
    known = given(PLANE, start=CENTRE)
    known.tell(PLANE.check(CENTRE), 0.3)
    assert known.finished and known.ask() is None
    with pytest.raises(ValueError, match="start None: the configurations"):
        given(PLANE)


@pytest.mark.parametrize("method", ["cd", "cd-paper", "cd-local", "random", "tpe", "cmaes", "gp", "botorch"])
def test_blind_methods_of_equal_seeds_start_alike(method):
    if method in ("tpe", "cmaes", "gp"):
        pytest.importorskip("optuna")
    if method == "botorch":
        pytest.importorskip("botorch")
    expected = PLANE.sample(np.random.default_rng(5))
    assert PLANE.key(OPTIMISERS[method](PLANE, seed=5).ask()) == pytest.approx(PLANE.key(expected))


def test_random_search_draws_uniformly_after_its_start_whatever_it_is_told():
    for value in (score, lambda h: None):
        start, *drawn = advance(OPTIMISERS["random"](PLANE, seed=5), 4, value)
        rng = np.random.default_rng((5, 1))
        assert start == PLANE.sample(np.random.default_rng(5)) and drawn == [PLANE.sample(rng) for _ in range(3)]


def test_uniform_draws_of_a_finite_space_end_with_all_of_it():
    assert len(list(uniform_draws(FINITE, 3))) == 9
    assert len(list(uniform_draws(Space(n=Axis("n", 0.5, 2.2, step=0.5)), 3))) == 4


def test_the_papers_grid_has_25_values_an_axis():
    cells = list(grid_cells(PLANE, 2.0))
    assert len(cells) == 25 * 25
    values = [cell["Lambda_e"] for cell in cells[:25]]
    assert values[0] == pytest.approx(1e-6) and values[-1] == pytest.approx(16.777216)
    assert np.allclose(np.diff(np.log2(values)), 1)
    assert all(cell["Lambda_p"] == cells[0]["Lambda_p"] for cell in cells[:25])  # the last axis is the fastest


def test_a_grid_takes_allowed_values_and_rounds_to_integers_without_repeating_one():
    cells = list(grid_cells(MIXED, 10.0))
    assert sorted({cell["batch_size"] for cell in cells}) == [16, 32, 64, 128]
    assert sorted({cell["steps"] for cell in cells}) == [3, 30, 300, 3000]
    assert len(cells) == 5 * 4 * 4
    assert [cell["n"] for cell in grid_cells(Space(n=Axis.integers("n", 1, 3)), 1.2)] == [1, 2, 3]


@pytest.mark.parametrize("step", [1.0, 0.5, float("nan"), float("inf")])
def test_a_grid_refuses_steps_that_do_not_grow(step):
    with pytest.raises(ValueError, match=f"step {step}.*above 1"):
        OPTIMISERS["grid"](PLANE, step=step)


def test_the_grid_is_finished_after_its_last_cell_whatever_was_known_before():
    search = OPTIMISERS["grid"](PLANE, step=256.0)
    cells = list(grid_cells(PLANE, 256.0))
    search.tell(cells[3], 0.5)
    assert advance(search, 100) == cells[:3] + cells[4:]
    assert search.finished and len(cells) == 16


def test_the_papers_tpe_is_independent_and_tells_no_lies():
    samplers = Mock()
    SAMPLERS["tpe-paper"][1](samplers, 3)
    samplers.TPESampler.assert_called_once_with(multivariate=False, constant_liar=False, seed=3)


@needs_optuna
@pytest.mark.parametrize("method, foreign", [
    ("tpe-paper", False), ("tpe-paper", True), ("tpe", False), ("tpe", True), ("cmaes", False),
    pytest.param("gp", False, marks=pytest.mark.slow),
])  # fmt: skip
def test_samplers_learn_from_what_they_are_told(method, foreign):
    """Of what they asked for, and TPE of what it did not. Weak on purpose, but a sampler that is told nothing, or the
    wrong sign, fails it."""

    def late(method):
        scores = []
        for seed in range(4):
            search, other = (OPTIMISERS[name](PLANE, seed=seed) for name in (method, "random"))
            for h in (other.ask() for _ in range(25 if foreign else 0)):
                search.tell(h, score(h))
            scores += [score(h) for h in advance(search, 10 if foreign else 35)[-10:]]
        return np.mean(scores)

    assert late(method) > (1.5 if foreign else 2) * late("random")


@needs_optuna
def test_making_a_study_leaves_optunas_logging_as_it_was(capfd):
    import optuna

    before = optuna.logging.get_verbosity()
    advance(OPTIMISERS["tpe"](PLANE), 3)
    assert optuna.logging.get_verbosity() == before and capfd.readouterr() == ("", "")
