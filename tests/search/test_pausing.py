"""The search that decides how long to train."""

from functools import partial
from math import inf, log2, nan

import numpy as np
import pytest
from contract import again
from searches import curves, filled, pausing, walk

from tune_cd import LENGTHS, CoordinateDescent
from tune_cd.search.space import Axis, Space

SPACE = Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0))
NEAR = {"Lambda_p": 0.1, "Lambda_e": 0.1}


def score(h, share):
    """A ridge; small rates are slow starters, large ones diverge."""
    p, e = log2(h["Lambda_p"] / 0.01), log2(h["Lambda_e"] / 1.0)
    if p + e > 14:
        return None
    effective = min(0.0, (p + e) / 2 + log2(share) + 1)
    return 0.3 + 0.5 * 2.0 ** (-(((e - p) / 6) ** 2) - (effective / 6) ** 2 - (max(0, p + e - 4) / 8) ** 2)


def step(search, score=score):
    """One step, every length on the way told; what was asked and until when, None when nothing is."""
    if (h := search.ask()) is None:
        return None
    until = search.until(h)
    done = search.training(h).share
    for share in search.lengths:
        if done < share <= until and search.live:
            search.tell(h, score(h, share), share)
    return search.space.key(h), until


def steps(search, most=10_000):
    out = []
    while len(out) < most and (one := step(search)) is not None:
        out.append(one)
    return out


def shares_of(search):
    return {search.space.key(one.h): max(one.curve) for one in search.trainings}


@pytest.mark.parametrize("seed", range(3))
def test_it_ends_within_its_budget_near_the_best_which_is_whole(seed):
    """At full length the same search needs about seven trainings to get there. Most trainings are short, and none is
    trained to one length twice."""
    search = pausing(SPACE, budget=4, seed=seed)
    asked = steps(search)
    assert search.finished and 3 < search.spent <= 4 and search.best[1] > 0.95 * 0.8
    assert {until for _, until in asked} <= set(LENGTHS) and len(set(asked)) == len(asked)
    shares = sorted(shares_of(search).values())
    assert len(shares) >= 8 and shares[len(shares) // 2] < 1
    assert max(search.trainings, key=lambda one: max(value for value in one.curve.values())).share == 1


@pytest.mark.parametrize("budget", [1.25, 2, 3.5])
def test_the_budget_is_exceeded_only_for_the_one_training_that_is_whole(budget):
    """What leads may change with every value, that of a whole training included: here it disappoints."""
    exceeded = []
    for seed in range(6):
        search = pausing(SPACE, budget=budget, seed=seed)
        walk(search, lambda h, until: None if (end := score(h, until)) is None else end - 0.4 * (until == 1))
        shares = list(shares_of(search).values())
        assert search.finished and 1.0 in shares
        assert search.spent <= budget or (shares.count(1.0) == 1 and search.spent < budget + 1)
        exceeded.append(search.spent > budget)
    assert not all(exceeded)


@pytest.mark.parametrize("workers", [1, 4])
def test_where_all_fail_on_the_way_to_their_end_the_budget_is_exceeded_for_one_alone(workers):
    for seed in range(3):
        search = pausing(SPACE, budget=4, seed=seed, workers=workers)
        while live := filled(search):
            done, until = search.training(live[0]).share, search.until(live[0])
            search.tell(live[0], score(live[0], until) if until < 1 else None, min(until, max(done, 0.5) + 0.05))
        assert search.finished and 3 < search.spent < 5 and 1.0 not in shares_of(search).values()


@pytest.mark.parametrize(("short", "finished"), [(0.1, True), (0.2, False)])
def test_the_best_is_finished_where_the_budget_falls_short_by_little(short, finished):
    """As one in seconds does, whose trainings take longer than they did."""
    search = pausing(SPACE, budget=20, seed=0)
    while 1.0 not in shares_of(search).values():
        step(search)
    front = next(h for h, looks in curves(search) if max(looks) == LENGTHS[0] and -np.inf not in looks.values())
    search.tell(front, 0.9, LENGTHS[0])
    assert (search.incumbent.h, search.incumbent.share) == (front, LENGTHS[0])
    search.budget = search.spent + 1 - LENGTHS[0] - short
    steps(search)
    assert (shares_of(search)[SPACE.key(front)] == 1) == finished


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("budget", [3, 5, 10])
def test_the_best_is_whole_when_the_search_ends_within_its_budget(budget, workers):
    """Short trainings of these promise more than they keep."""
    for seed in range(4):
        search, rng = pausing(SPACE, budget=budget, seed=seed, workers=workers), np.random.default_rng(seed)
        while live := filled(search):
            told = live[rng.integers(len(live))]
            until, end = search.until(told), score(told, 1.0)
            search.tell(told, None if end is None else end * (0.9 + 0.1 * until ** rng.uniform(0.1, 1)))
        best = max((value, max(looks)) for _, looks in curves(search) for value in looks.values())
        assert best[1] == 1 and search.spent <= budget and search.incumbent.share == 1


def test_without_a_budget_it_ends_by_itself_with_the_best_finished():
    search = pausing(SPACE, seed=0)
    assert len(steps(search, 200)) < 200
    assert search.finished and search.ask() is None
    assert search.incumbent.share == 1


def test_a_failed_training_never_goes_on():
    search = pausing(SPACE, start={"Lambda_p": 16.0, "Lambda_e": 16.0}, budget=5)
    asked = steps(search)
    failed = [SPACE.key(one.h) for one in search.trainings if score(one.h, 1.0) is None]
    assert failed and all(sum(key == other for other, _ in asked) == 1 for key in failed)


def test_a_training_that_was_lost_and_is_run_again_has_not_failed():
    """As where a node is lost before its first report, which comes later than the training might have paused."""
    runs = []
    for lost in (False, True):
        search = pausing(SPACE, start={"Lambda_p": 0.1, "Lambda_e": 0.1}, budget=3)
        start = search.ask()
        if lost:
            search.tell(start, None, search.lengths[0])
            search.begin(search.origin(start), search.lengths[1])
        search.tell(start, score(start, search.lengths[1]), search.lengths[1])
        runs.append((search.believed(start), steps(search)))
    assert runs[0] == runs[1]


def test_while_all_fail_it_goes_on_elsewhere():
    search = pausing(SPACE, budget=2, workers=3)
    for _ in range(4):
        asked = [search.ask() for _ in range(3)]
        assert len({SPACE.key(h) for h in asked}) == 3
        for h in asked:
            search.tell(h, nan, search.until(h))
    assert search.best is None


GROWING = Space(
    Lambda_p=Axis("Lambda_p", 2.0**-10, 16.0, growth=6.0), Lambda_e=Axis("Lambda_e", 1e-3, 0.25, growth=6.0)
)
LINE = {"rule": "line", "directions": [[1.0, 1.0]], "prior": None, "start": NEAR}
KINDS = {
    "the plane": partial(pausing, SPACE, budget=8, seed=3), "a line": partial(pausing, SPACE, budget=8, **LINE),
    "ranges that grow": partial(pausing, GROWING, budget=8, start=NEAR),
    "ranges that grow at full length": partial(pausing, GROWING, budget=30, start=NEAR, lengths=[1.0]),
}  # fmt: skip


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_what_is_asked_next_follows_from_what_is_known_alone(make):
    """From a table's rows, in the order of asking, and from a stored state."""
    whole = steps(make())
    for stop in (len(whole) // 4, 3 * len(whole) // 4):
        search, other = make(), make()
        assert steps(search, stop) == whole[:stop]
        other.recall(search.trainings)
        third = again(search)
        assert steps(search) == steps(other) == steps(third) == whole[stop:]
    assert make.args == (SPACE,) or max(one.h["Lambda_e"] for one in search.trainings) > 0.5, "it grew"


def test_a_state_has_all_that_decides():
    """What is under way, a budget lowered to what is left, what cannot go on, and whether anything new may begin."""
    search = pausing(SPACE, budget=8, workers=3, seed=3)
    steps(search, 8)
    search.budget = 5.0
    live, other = [search.ask(), search.ask()], again(search)
    assert other.state() == search.state() and other.budget == 5.0
    assert other.live == search.live and len(other.live) == 2
    assert [other.until(h) for h in live] == [search.until(h) for h in live]
    assert (other.ask(), other.ask()) == (search.ask(), None)
    for h in search.live:
        search.tell(h, score(h, search.until(h)))
    search.abandon([h for h, looks in curves(search) if max(looks) < 1])
    search.grows = False
    assert steps(again(search)) == steps(search) == []


def test_lengths_on_the_way_may_be_told_as_they_come():
    search = pausing(SPACE, budget=10)
    h = search.ask()
    search.begin(search.origin(h), 0.5)
    search.tell(h, 0.3, 0.125)
    assert search.live == [h]
    search.tell(h, 0.4, 0.5)
    assert search.live == [] and search.best == (h, 0.4)


def test_with_one_length_everything_is_trained_to_its_end():
    search = pausing(SPACE, lengths=[1.0], budget=6)
    assert [until for _, until in steps(search)] == [1.0] * 6


def test_a_value_without_a_share_is_told_at_the_share_asked_for():
    search = pausing(SPACE, budget=6)
    h = search.ask()
    search.tell(h, 0.5)
    assert search.training(h).curve == {LENGTHS[0]: 0.5}
    given = {"Lambda_p": 0.1, "Lambda_e": 0.1}
    search.tell(given, 0.5)
    assert search.training(given).curve == {1.0: 0.5}


def changed(**arguments):
    """A search with other arguments than it was made with."""
    search = pausing(SPACE, budget=3)
    for name, value in arguments.items():
        setattr(search, name, value)
    return search


def test_the_budget_may_be_lifted_during_a_search():
    search = changed(budget=None)
    assert (search.budget, again(search).budget) == (inf, inf) and search.ask() == changed(budget=inf).ask() is not None


SPREAD = [[], [0.5], [0.5, 0.25, 1.0], [0.0, 1.0], [0.5, 0.5, 1.0], [0.5, 2.0], [nan, 1.0], ["1/2", 1.0], None, 1]
REFUSED = {
    "ascending shares of the full length": (lambda lengths: pausing(SPACE, lengths=lengths), SPREAD),
    "at least 1 full training": (lambda budget: pausing(SPACE, budget=budget), [0, 0.5, -3, nan, inf, "2h"]),
    "above 0, at most 1": (lambda share: pausing(SPACE).tell(NEAR, 0.5, share), [0.0, -1.0, 1.5, nan, "1"]),
    "budget .* a number of full trainings, or None": (lambda budget: changed(budget=budget), [-1, nan, "2h", True]),
    "workers .* a whole number, at least 1, or None": (lambda workers: changed(workers=workers), [0, 2.5, "2"]),
    "version 99": (lambda version: CoordinateDescent.from_state({"version": version}), [99]),
    "no state of a CoordinateDescent": (CoordinateDescent.from_state, [None, [], "{}", {"version": 2, "mode": "max"}]),
    "is no state of a CoordinateDescent": (
        lambda wrong: CoordinateDescent.from_state(pausing(SPACE).state() | wrong),
        [{"space": {}}, {"budget": "2h"}, {"trainings": None}, {"trainings": [{"h": NEAR}]},
         {"trainings": [{"h": {}, "curve": [], "until": None, "trial_index": 0}]}],
    ),
}  # fmt: skip
"""Message -> call, and arguments."""


@pytest.mark.parametrize("said, call, wrong", [(said, call, one) for said, (call, of) in REFUSED.items() for one in of])
def test_what_is_no_length_budget_share_or_state_is_refused(said, call, wrong):
    with pytest.raises(ValueError, match=said):
        call(wrong)


def test_numbers_of_numpy_are_stored_as_plain_ones():
    search = pausing(SPACE, budget=np.float32(3), workers=np.int64(2), seed=np.int64(1))
    search.tell(search.ask(), np.float32(0.5), np.float32(0.125))
    assert again(search).trainings == search.trainings


def test_until_is_of_what_is_being_trained():
    search = pausing(SPACE)
    h = search.ask()
    search.tell(h, 0.5, search.until(h))
    with pytest.raises(KeyError, match="neither asked for nor told"):
        search.withdraw(SPACE.sample(np.random.default_rng(9)))
    with pytest.raises(KeyError, match="is not being trained"):
        search.until(h)


@pytest.mark.parametrize("lengths, external", [(LENGTHS, True), ([1.0], False)])
def test_what_is_told_before_the_first_ask_is_a_start(lengths, external):
    """It replaces the blind one, costs nothing where it is free, and is one after saving too."""
    known = [SPACE.sample(np.random.default_rng(n)) for n in range(3)]
    how = {"budget": 4, "lengths": lengths}
    search, given = pausing(SPACE, **how), pausing(SPACE, **how, start=known)
    for h in known:
        search.tell(h, score(h, 1.0), external=external)
        given.tell(h, score(h, 1.0), external=external)
    other, taken = again(search), steps(search)
    assert taken == steps(given) == steps(other)
    assert search.spent == pytest.approx(sum(dict(taken).values()) + (0 if external else 3))
    assert SPACE.key(pausing(SPACE).ask()) not in [key for key, _ in taken]
    later = pausing(SPACE, budget=4)
    first = later.ask()
    later.tell(known[1], score(known[1], 1.0), external=True)
    assert not later.training(known[1]).given and later.training(first).until is not None


def test_of_a_training_at_its_end_its_value_is_believed_and_of_a_failed_one_nothing():
    search = pausing(SPACE, budget=4, seed=2)
    h = search.ask()
    assert search.believed(h) is None
    search.tell(h, score(h, LENGTHS[0]))
    steps(search)
    ends = {SPACE.key(h): looks[1.0] for h, looks in curves(search) if 1.0 in looks}
    believed = {SPACE.key(h): search.believed(h) for h, _ in curves(search)}
    assert ends and all(believed[key] == (end, 0.0) for key, end in ends.items())
    paused = next(h for h, looks in curves(search) if 1.0 not in looks and -np.inf not in looks.values())
    assert search.believed(paused)[1] > 0
    search.tell(paused, None)
    assert search.believed(paused) is None


def test_what_was_left_short_of_its_end_leads_nothing_and_sets_no_bar():
    """Such as an earlier study's: however good, its end cannot be reached."""
    search = pausing(SPACE, budget=8, seed=1)
    steps(search, 5)
    best = search.incumbent.h
    search.tell(best, 9.0, 0.125)
    search.abandon([best])
    search.grows = False
    went_on = {key for key, _ in steps(search)}
    assert went_on and SPACE.key(best) not in went_on and search.incumbent.share == 1


def test_ends_are_believed_no_surer_than_they_are_before_anything_is_whole():
    """Where curves cross, as large rates learn fast and end low, short trainings mislead."""
    space = Space(rate=(1e-4, 1.0), decay=(1e-5, 1.0))

    def crossing(h, share):
        rate, decay = log2(h["rate"] / 0.005), log2(h["decay"] / 1e-3)
        return 2.0 ** (-((rate / 5) ** 2) - (decay / 10) ** 2) * (1 - 2.0 ** (-12 * share * 2.0 ** (rate / 2)))

    errors = []
    for seed in range(5):
        search = CoordinateDescent(space, lengths=LENGTHS, seed=seed)
        while search.spent < 1:
            step(search, crossing)
        for one in [one for one in search.trainings if one.share < 1]:
            mean, deviation = search.believed(one.h)
            errors.append((crossing(one.h, 1.0) - mean) / deviation)
    assert np.sqrt(np.mean(np.square(errors))) <= 2
