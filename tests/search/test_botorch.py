"""BoTorch's search: when the model is asked, and what it is told."""

import numpy as np
import pytest
from contract import PLANE, advance, score

from tune_cd.search.baselines import botorch_rule
from tune_cd.search.methods import OPTIMISERS
from tune_cd.search.space import Space

pytest.importorskip("botorch")


@pytest.fixture
def asked(monkeypatch):
    """What the model was fitted to, time by time: unit coordinates and values."""
    fits, fitted = [], botorch_rule.BotorchRule._fitted

    def noted(rule, x, y):
        fits.append((x.numpy().copy(), y.numpy().reshape(-1).tolist()))
        return fitted(rule, x, y)

    monkeypatch.setattr(botorch_rule.BotorchRule, "_fitted", noted)
    return fits


def test_the_model_is_asked_after_five_trials(asked):
    search = OPTIMISERS["botorch"](PLANE, seed=0)
    told = advance(search, 5)
    assert asked == []
    search.ask()
    ((x, y),) = asked
    assert y == [score(h) for h in told] and x.min() >= 0 and x.max() <= 1
    width = PLANE.high - PLANE.low
    assert np.allclose(x * width + PLANE.low, [PLANE.to_coordinates(h) for h in told])


def test_a_failure_is_the_worst_value_and_without_a_value_nothing_is_fitted(asked):
    search = OPTIMISERS["botorch"](PLANE, seed=0, initial=3)
    failed = advance(search, 4, lambda h: None)
    assert asked == []
    good, better = {"Lambda_p": 0.5, "Lambda_e": 0.5}, {"Lambda_p": 0.1, "Lambda_e": 0.5}
    search.tell(good, 0.25)
    search.tell(better, 0.75)
    search.tell(failed[0], 0.5)
    search.ask()
    assert asked[0][1] == [0.5, 0.25, 0.25, 0.25, 0.25, 0.75]


def test_live_trials_are_left_alone():
    """Asked twice without an answer, it does not propose the neighbourhood of what is live."""
    search = OPTIMISERS["botorch"](PLANE, seed=1, initial=4)
    advance(search, 4)
    first, second = PLANE.to_coordinates(search.ask()), PLANE.to_coordinates(search.ask())
    assert np.abs(first - second).max() > 1.0


def test_expected_improvement_finds_the_top_of_a_bowl():
    """Of a hundred uniform draws one comes so near."""
    space = Space(a=(1.0, 2.0**12), b=(1.0, 2.0**12))

    def bowl(h):
        return -float(((space.to_coordinates(h) - [3.0, 8.0]) ** 2).sum())

    search = OPTIMISERS["botorch"](space, seed=0)
    advance(search, 9, bowl)
    assert search.best[1] > -0.5
