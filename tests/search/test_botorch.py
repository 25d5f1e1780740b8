"""BoTorch's search: when the model is asked, and what it makes of failures."""

import numpy as np
import pytest
from contract import PLANE, advance

from tune_cd.search.methods import OPTIMISERS
from tune_cd.search.space import Space

pytest.importorskip("botorch")


def asked_after(*values, initial=5):
    """All that it asks for where it is told these values in turn."""
    search, asked = OPTIMISERS["botorch"](PLANE, seed=0, initial=initial), []
    for value in values:
        asked.append(search.ask())
        search.tell(asked[-1], value)
    return [*asked, search.ask()]


def test_the_model_is_asked_after_five_trials():
    """Before that the values decide nothing."""
    rising, falling = asked_after(1, 2, 3, 4, 5), asked_after(5, 4, 3, 2, 1)
    assert rising[:5] == falling[:5] and rising[5] != falling[5]


def test_a_failure_is_the_worst_value_and_without_a_value_the_model_is_not_asked():
    assert asked_after(0.5, 0.25, None, 0.75, initial=3) == asked_after(0.5, 0.25, 0.25, 0.75, initial=3)
    assert asked_after(*[None] * 4, initial=3) == asked_after(*[None] * 4, initial=99)


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
