"""The descent whose lines are chosen by a model (the default)."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from contract import PLANE, advance
from searches import descent

from tune_cd import CoordinateDescent, Linear, Space
from tune_cd.analysis import summary
from tune_cd.landscapes.formulas import LANDSCAPES, Ridge
from tune_cd.landscapes.simulation import replay_all
from tune_cd.search.axis import APART
from tune_cd.search.directions import Plan, directions_of
from tune_cd.search.guided import ENOUGH, LENGTHS, MARGIN, Guided
from tune_cd.search.lines import MOST as PER_LINE
from tune_cd.search.lines import lines_through
from tune_cd.search.methods import OPTIMISERS
from tune_cd.search.prior import BALANCE
from tune_cd.search.surrogate import MOST_TOLD
from tune_cd.search.training import Training

LINES = {"balance": (-1, 1), "joint": (1, 1), "Lambda_p": (1, 0), "Lambda_e": (0, 1)}
RIDGE = LANDSCAPES["rotated"]


def run(search, trials, value=lambda h: RIDGE.measure(h, 0).value):
    advance(search, trials, value)
    return search.history


def test_a_step_weighs_no_more_points_in_a_very_large_box():
    space = Space(**dict.fromkeys("abcd", (1e-300, 1e300)), n=range(1, 3000))
    h = dict.fromkeys("abcd", 1.0) | {"n": 1}
    lines = lines_through(Plan(space, *directions_of(space, None)), h, space, 0)
    assert all(len(line.positions) <= PER_LINE + 2 for line in lines)


@pytest.mark.parametrize("seed", range(5))
def test_every_proposal_lies_on_a_line_through_the_best_point_so_far_and_apart_from_all_others(seed):
    """Also where the best was told from elsewhere."""
    search, stranger = descent(PLANE, seed=seed), {"Lambda_p": 0.01, "Lambda_e": 1.0}
    asked = [PLANE.to_coordinates(stranger)]
    for n in range(ENOUGH - 1):
        best, h = search.best, search.ask()
        origin = search.origin(h)
        if best is None:
            assert origin.direction == "start"
        else:
            expected = PLANE.to_coordinates(best[0]) + origin.line_position * np.array(LINES[origin.direction])
            assert PLANE.to_coordinates(h) == pytest.approx(expected, abs=1e-6)
        asked.append(PLANE.to_coordinates(h))
        search.tell(h, RIDGE.measure(h, 0).value)
        if n == 2:
            search.tell(stranger, 0.7)
    x = np.array(asked)
    assert (np.abs(x[:, None] - x).max(-1) + 99 * np.eye(len(x))).min() >= APART - 1e-9


def test_a_choice_of_many_numbers_costs_no_more_than_its_points():
    """Two thousand values; with one nearest value searched for at a time an ask took a second."""
    search = CoordinateDescent(Space(width=list(range(1, 2001)), lr=(1e-3, 1.0)))
    for _ in range(12):
        begun = time.process_time()
        h = search.ask()
        took = time.process_time() - begun
        search.tell(h, -abs(h["width"] - 700) / 700)
    assert took < 0.4


def test_on_the_narrowest_range_nothing_is_asked_for_twice():
    space = Space(lr=(0.1, 0.1 * 2**1.1e-7))
    search = CoordinateDescent(space)
    trials = to_the_end(search, lambda h: h["lr"], 20)
    assert len(search.history) == trials > 10, "an end is no repetition"


def by_key(trainings):
    return {PLANE.key(one.h): one for one in trainings}


def test_a_step_is_told_the_nearest_of_many_values_and_some_from_everywhere():
    rng = np.random.default_rng(0)
    known = [PLANE.sample(rng) for _ in range(3 * MOST_TOLD)]
    trainings = [Training(h, {1.0: RIDGE.score(h)}) for h in known]
    model = Guided(descent(PLANE)._plan, BALANCE, {}, by_key(trainings)).model
    x, told = model.points, list(model._data)
    best = int(np.argmax([RIDGE.score(h) for h in known]))
    away = np.linalg.norm(x - x[best], axis=1)
    assert (
        len(model.values) == MOST_TOLD and set(np.argsort(away)[: MOST_TOLD // 2]) <= set(told) and model.leader == best
    )
    assert np.linalg.norm(x[:, None] - x[told], axis=-1).min(1).max() < 3
    few = Guided(descent(PLANE)._plan, BALANCE, {}, by_key(trainings[:MOST_TOLD])).model
    assert list(few._data) == list(range(MOST_TOLD))


NEEDLE = Ridge(centre=(-7.0, 1.0), peak=0.8, s_balance=0.7, s_joint=7.0)
TOP = {"Lambda_p": 2.0**-7, "Lambda_e": 2.0}


def needle(h, rise):
    """A ridge narrower than believed, on a floor that rises away from it."""
    x = PLANE.to_coordinates(h)
    return float(NEEDLE(x)) + rise * (x[0] + 20) / 24


def to_the_end(search, value, most=150):
    """Trials until the search finishes by itself; `most` if it does not."""
    return len(advance(search, most, value))


@pytest.mark.parametrize("seed", range(4))
def test_a_ridge_narrower_than_believed_is_climbed_to_its_top(seed):
    """With every other length scale longer than the ridge is wide."""
    search = descent(PLANE, seed=seed, start={"Lambda_p": 0.02, "Lambda_e": 5.0})
    to_the_end(search, lambda h: needle(h, 0.1), 45)
    assert search.best[1] > 0.98 * needle(TOP, 0.1)


def test_many_short_trainings_do_not_use_up_the_margin_of_a_blind_start():
    """The margin falls with the values, 1/n; where trainings pause, of which there are many short ones, to
    MARGIN at least."""
    plan, axis = descent(PLANE)._plan, np.geomspace(1e-5, 10, 30)
    short = tuple(Training({"Lambda_p": p, "Lambda_e": 1.0}, {1 / 8: 0.5}) for p in axis)
    whole = tuple(replace(one, curve={1.0: 0.5}) for one in short)
    pausing = [Guided(plan, BALANCE, {}, by_key(short[:n]), lengths=LENGTHS)._margin for n in (5, 10, 30)]
    assert pausing == [1 / 5, 1 / 10, MARGIN]
    assert [Guided(plan, BALANCE, {}, by_key(whole[:n]))._margin for n in (5, 12)] == [1 / 5, 1 / 12]


def test_a_given_start_is_searched_around_first():
    """A given start near a corner of the box: the search is not drawn to the box's middle, as a blind one is."""
    start, plan = {"Lambda_p": 2e-6, "Lambda_e": 2e-6}, descent(PLANE)._plan
    away = {}
    for blind in (True, False):
        trainings = (Training(start, {1.0: 0.5}),)
        for _ in range(6):
            step = Guided(plan, BALANCE, {PLANE.key(start): start}, by_key(trainings), blind=blind).step
            trainings += (Training(step.proposal.h, {1.0: 0.5}),)
        moved = [PLANE.to_coordinates(one.h) - PLANE.to_coordinates(start) for one in trainings[1:]]
        away[blind] = np.abs(moved).max(1).mean()
    assert away[False] < away[True] - 2  # octaves


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["omniglot", "narrow", "batch"])
def test_it_finishes_by_itself_at_the_top(name, seed):
    landscape = LANDSCAPES[name]
    search = descent(landscape.space, seed=seed)
    trials = to_the_end(search, lambda h: landscape.measure(h, 0).value)
    assert ENOUGH <= trials < 100
    assert search.best[1] > 0.998 * landscape.high and search.finished and search.ask() is None


def test_it_finishes_sooner_where_there_is_less_to_find():
    narrow_box = Space(Lambda_p=(2.0**-8, 2.0**-6), Lambda_e=(1.0, 4.0))
    assert to_the_end(descent(narrow_box), lambda h: LANDSCAPES["omniglot"].measure(h, 0).value) < 45
    axis = Space(lr=(1e-5, 1.0))
    assert to_the_end(descent(axis), lambda h: -((math.log2(h["lr"]) + 7) ** 2)) < 35


def test_a_plateau_ends_and_its_ordinals_are_all_tried():
    assert ENOUGH <= to_the_end(descent(PLANE), lambda h: 0.5) < 150
    batches = Space(batch_size=[16, 32, 64])
    search = descent(batches)
    assert to_the_end(search, lambda h: 0.5) == 3
    both = descent(Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0), batch_size=[16, 32, 64]))
    assert {h["batch_size"] for h, _ in run(both, 40, lambda h: 0.5)} == {16, 32, 64}


def test_on_the_floor_beside_a_needle_it_does_not_finish():
    """A model of the rising floor alone is soon sure that nothing better is left."""
    for seed in range(3):
        search = descent(PLANE, seed=seed)
        assert to_the_end(search, lambda h: needle(h, 0.15), 100) >= 30
        assert search.best[1] > 0.9 * needle(TOP, 0.15)


@pytest.mark.slow
@pytest.mark.parametrize("searches", [40, pytest.param(80, marks=pytest.mark.faults)])
def test_it_beats_the_papers_search_on_rotated_narrow_and_curved_ridges(searches):
    methods = {name: OPTIMISERS[name] for name in ("cd", "cd-paper")}
    harder = [LANDSCAPES[name] for name in ("rotated", "narrow", "curved")]
    replayed = replay_all(methods, harder, range(searches), trials=20, processes=1)
    table = summary([search.as_curve() for search in replayed], "cd-paper")
    gains = table[table["method"] == "cd"].set_index("landscape")["d20"]
    assert gains["rotated"] > 0.02 and gains["curved"] > 0.02 and gains["narrow"] > 0, gains


@pytest.mark.slow
def test_noise_does_not_get_it_stuck():
    noisy = [replace(LANDSCAPES["omniglot"], noise=0.05)]
    trajectories = replay_all({"cd": OPTIMISERS["cd"]}, noisy, range(40), trials=50, processes=1)
    reached = [trajectory.curve[-1] for trajectory in trajectories]
    assert np.mean(np.array(reached) < 0.95 * 0.85) <= 0.1 and not math.isnan(sum(reached))


@pytest.mark.parametrize("axis", [None, 0])
def test_trials_that_fail_by_chance_do_not_keep_it_away(axis):
    """One in five fails, as machines do; or all do beyond a border near the optimum. The mean of 12 searches."""
    best, ridge = PLANE.to_coordinates(LANDSCAPES["omniglot"].optimum), LANDSCAPES["omniglot"]
    reached = []
    for seed in range(12):
        search, chance = descent(PLANE, seed=seed), np.random.default_rng(seed)
        for _ in range(20):
            h = search.ask()
            beyond = chance.random() < 0.2 if axis is None else PLANE.to_coordinates(h)[axis] > best[axis] + 0.5
            search.tell(h, None if beyond else ridge.score(h))
        reached.append((search.best[1] - ridge.low) / (ridge.high - ridge.low))
    assert np.mean(reached) > (0.96 if axis is None else 0.93), reached


@pytest.mark.parametrize("workers", [1, 4])
def test_a_start_on_whose_lines_everything_fails_is_left_behind(workers):
    """Along each axis through it the other parameter is out of bounds still."""
    space = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))
    search = descent(space, start={"lr": 0.1, "wd": 0.1}, workers=workers)
    for _ in range(16 // workers):
        for h in [search.ask() for _ in range(workers)]:
            search.tell(h, None if h["lr"] > 0.05 or h["wd"] > 0.05 else -abs(math.log2(h["lr"] / 1e-3)))
    assert search.best is not None and search.best[1] > -2
    assert sum(value is not None for _, value in search.history) >= 8


@pytest.mark.parametrize("works", [0.0, -3.0])
def test_a_single_value_among_failures_is_searched_around(works):
    """Within four octaves of the start everything is worth the same; all else fails."""
    space = Space(lr=(1e-5, 1.0), wd=(1e-6, 1e-1), mom=(1e-3, 1.0))
    search = CoordinateDescent(space, start=dict.fromkeys(space.names, 1e-2))
    advance(search, 16, lambda h: works if max(abs(math.log2(x / 1e-2)) for x in h.values()) < 4 else None)
    assert sum(value is not None for _, value in search.history) >= 6


@pytest.mark.parametrize(
    "values", [[0.99, 0.999], [0.9, 0.99, 0.999, 0.9999], [0, 1e-5, 1e-4, 1e-3, 1e-2], [-1, 0, 1e-3, 1]], ids=str
)
def test_every_listed_value_is_tried_however_close_it_is_to_another(values):
    search = descent(Space(x=values), seed=0)
    tried = [h["x"] for h, _ in run(search, len(values), value=lambda h: -abs(h["x"] - values[1]))]
    assert sorted(tried) == sorted(values) and search.ask() is None
    beside = descent(Space(lr=(1e-5, 1.0), x=values), seed=0)
    history = run(beside, 16, value=lambda h: -(math.log10(h["lr"] / 1e-2) ** 2) - (h["x"] != values[1]))
    assert max(history, key=lambda told: told[1])[0]["x"] == values[1]


def test_a_range_much_narrower_than_an_octave_is_searched_inside():
    """Such as Adam's beta2."""
    history = run(descent(Space(beta=(0.99, 0.999)), seed=0), 12, value=lambda h: -abs(h["beta"] - 0.9961))
    assert len(history) == 12 and max(value for _, value in history) > -3e-4


def test_one_very_bad_score_does_not_hide_the_others():
    """Whatever lies far below is as good as what lies somewhat below (`trainings.TAIL`)."""

    def asked(worst: float) -> list[dict]:
        search, found = descent(Space(lr=(1e-5, 1.0), decay=(1e-4, 10.0)), seed=1), []
        for n in range(16):
            found.append(search.ask())
            x, y = (math.log2(value) for value in found[-1].values())
            search.tell(found[-1], worst if n == 2 else -((x + 7) ** 2) / 20 - (y + 4) ** 2 / 50)
        return found

    assert asked(-1e90) == asked(-1e4)


def test_on_one_axis_the_only_line_is_weighed_once_though_nothing_on_it_is_new():
    search, weighed = CoordinateDescent(Space(n=Linear(1, 40, step=1))), []
    for n in range(1, 41):
        search.tell({"n": n}, float(n % 7))
    assert search._model().candidates.best(lambda x: weighed.append(x) or np.zeros(len(x))) == (-1.0, None)
    assert len(weighed) == 1
