"""Golden-section searches with several workers: the trajectory of one worker, sooner."""

import random
from math import ceil

import numpy as np
import pytest
from contract import MIXED, PLANE, advance, score
from searches import descent, filled

from tune_cd import Space
from tune_cd.landscapes.formulas import FITTED, LANDSCAPES
from tune_cd.landscapes.simulation import replay
from tune_cd.search.descent import Trajectory
from tune_cd.search.methods import OPTIMISERS


def paper(space, workers=1, rule="paper", **arguments):
    return descent(space, rule=rule, workers=workers, **arguments)


@pytest.mark.parametrize("space", [PLANE, MIXED])
@pytest.mark.parametrize("workers", [2, 4, 16])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("rule, trials", [("paper", 12), ("local", 10)])
def test_the_trajectory_is_the_sequential_one_in_whatever_order_trials_end(space, workers, seed, rule, trials):
    """Everything one worker would ask is asked, in this order, with trials of use between; failures included."""

    def value(h):
        return None if hash(space.key(h)) % 5 == 0 else score(h)

    alone = [space.key(h) for h in advance(paper(space, seed=seed, rule=rule), trials, value)]
    search, ends = paper(space, workers, seed=seed, rule=rule), random.Random(seed)
    while len(search.history) < 12 * workers:
        h = ends.choice(filled(search))
        search.tell(h, value(h))
    values = {space.key(h): v for h, v in search.history}
    again = paper(space, seed=seed, rule=rule)  # one worker, told what the others found
    walked = []
    while (h := again.ask()) is not None and space.key(h) in values:
        walked.append(space.key(h))
        again.tell(h, values[space.key(h)])
    assert walked[:trials] == alone
    assert len(search.history) == len(values) == 12 * workers


def test_three_workers_ask_for_the_next_point_and_for_both_that_may_follow():
    """One level of the tree a round: after the start is known, three trials are worth two of one worker's."""
    search, one = paper(PLANE, 3, seed=5), advance(paper(PLANE, seed=5), 20)
    start = search.ask()
    search.workers = 4
    batch = [search.ask() for _ in range(3)]
    assert PLANE.key(batch[0]) == PLANE.key(one[1])
    search.tell(start, score(start))
    for h in batch:
        search.tell(h, score(h))
    assert {PLANE.key(h) for h in one[:3]} <= {PLANE.key(h) for h in [start, *batch]}


def test_of_a_small_space_in_use_nothing_is_looked_ahead_for(monkeypatch):
    """Tune asks again and again in its event loop."""
    search = descent(Space(b=[16, 32, 64]), rule="paper", workers=8)
    assert len({search.ask()["b"] for _ in range(3)}) == 3
    looked, proposal = [], Trajectory.proposal
    monkeypatch.setattr(Trajectory, "proposal", lambda self: looked.append(self) or proposal(self))
    assert search.ask() is None and not search.finished and len(looked) < 10


@pytest.mark.slow
@pytest.mark.parametrize("searches", [8, pytest.param(20, marks=pytest.mark.faults)])
def test_rounds_to_95_percent_with_4_8_and_16_workers(searches):
    for workers, rounds in ((4, 4), (8, 3), (16, 3)):
        for name in FITTED:
            landscape = LANDSCAPES[name]
            curves = [
                replay("cd-paper", OPTIMISERS["cd-paper"], landscape, seed, trials=5 * workers, workers=workers).curve
                for seed in range(searches)
            ]
            reached = np.mean(curves, axis=0) >= 0.95 * landscape.high
            assert ceil((np.argmax(reached) + 1) / workers) <= rounds, (name, workers)
