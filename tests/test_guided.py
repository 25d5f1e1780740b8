"""The descent whose lines are chosen by a model (the default)."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tune_cd import CoordinateDescent, Space
from tune_cd.baselines import OPTIMISERS
from tune_cd.formulas import LANDSCAPES
from tune_cd.guided import APART
from tune_cd.replay import replay_all
from tune_cd.replay.tables import summary

PLANE = Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0))
LINES = {"balance": (-1, 1), "joint": (1, 1), "Lambda_p": (1, 0), "Lambda_e": (0, 1)}
RIDGE = LANDSCAPES["rotated"]


def run(search, trials, value=lambda h: RIDGE.measure(h, 0).value):
    for _ in range(trials):
        h = search.ask()
        search.tell(h, value(h))
    return search.history


@pytest.mark.parametrize("seed", range(5))
def test_every_proposal_lies_on_a_line_through_the_best_point_so_far(seed):
    search = CoordinateDescent(PLANE, seed=seed)
    for _ in range(25):
        best, h = search.best, search.ask()
        origin = search.origin(h)
        if best is None:
            assert origin.direction == "start"
        else:
            expected = PLANE.to_log(best[0]) + origin.line_position * np.array(LINES[origin.direction])
            assert PLANE.to_log(h) == pytest.approx(expected, abs=1e-6)
        search.tell(h, RIDGE.measure(h, 0).value)


def test_nothing_is_asked_twice_nor_close_to_what_was():
    x = np.array([PLANE.to_log(h) for h, _ in run(CoordinateDescent(PLANE, seed=1), 60)])
    apart = np.abs(x[:, None] - x[None]).max(-1) + 99 * np.eye(60)
    assert apart.min() >= APART - 1e-9


def test_saved_in_the_middle_it_goes_on_alike():
    whole = run(CoordinateDescent(PLANE, seed=4), 20)
    search = CoordinateDescent(PLANE, seed=4)
    run(search, 9)
    live = search.ask()
    search = CoordinateDescent.from_state(search.state())
    assert search.ask() is None and search.live == [live]
    search.tell(live, RIDGE.measure(live, 0).value)
    run(search, 10)
    assert search.history == whole


def test_what_was_told_unasked_is_learnt_from():
    """The best of all, told from elsewhere: the next line runs through it."""
    search = CoordinateDescent(PLANE, seed=0)
    run(search, 3)
    search.tell({"Lambda_p": 0.01, "Lambda_e": 1.0}, 0.99)
    origin = search.origin(search.ask())
    moved = PLANE.to_log(origin.h) - np.log2([0.01, 1.0])
    assert moved == pytest.approx(origin.line_position * np.array(LINES[origin.direction]), abs=1e-6)


@pytest.mark.slow
def test_it_beats_the_papers_search_on_rotated_narrow_and_curved_ridges():
    methods = {name: OPTIMISERS[name] for name in ("cd", "cd-paper")}
    harder = [LANDSCAPES[name] for name in ("rotated", "narrow", "curved")]
    table = summary(replay_all(methods, harder, range(80), trials=20, processes=1), "cd-paper")
    gains = table[table["method"] == "cd"].set_index("landscape")["d20"]
    assert gains["rotated"] > 0.02 and gains["curved"] > 0.02 and gains["narrow"] > 0, gains


@pytest.mark.slow
def test_noise_does_not_get_it_stuck():
    noisy = [replace(LANDSCAPES["omniglot"], noise=0.05)]
    trajectories = replay_all({"cd": OPTIMISERS["cd"]}, noisy, range(40), trials=50, processes=1)
    reached = [trajectory.curve[-1] for trajectory in trajectories]
    assert np.mean(np.array(reached) < 0.95 * 0.85) <= 0.1 and not math.isnan(sum(reached))
