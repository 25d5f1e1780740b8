"""Several searches in one run: each takes its own course, no training is run twice, and packs hold whole settings."""

import math
import pickle

import pytest
from ray.tune.search import Searcher

from tune_cd import CoordinateDescent, Space
from tune_cd.run.options import ORIGIN
from tune_cd.run.portfolio import Member, Portfolio
from tune_cd.run.study_search import StudySearch
from tune_cd.tune.course import Course
from tune_cd.tune.packed import PACK

PLANE = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))
BEST = {"lr": 1e-3, "wd": 1e-4}
START = {"lr": 0.1, "wd": 0.1}


def bowl(h):
    return math.exp(-sum((math.log2(h[name] / at) / 6) ** 2 for name, at in BEST.items()))


def line(direction, start=START, budget=5):
    """A search of one line, with so many settings to train."""
    search = CoordinateDescent(PLANE, settings="paper", directions=[direction], budgets=5, start=start, workers=1)
    return Member(Course(search), budget)


def portfolio(workers, known=None, seeds=(0,), **members):
    return Portfolio(members, PLANE, seeds, workers, known or {})


def run(asking, value=bowl):
    """Trainings one at a time where several may run, the oldest ending first; (search, setting) in the order they were
    begun, and how many ran at most."""
    begun, live, most = [], [], 0
    while True:
        if asked := asking.ask():
            live += asked
            begun += [(asked[0].origin["search"], asked[0].h)]
            most = max(most, len(live))
        elif live:
            first = live.pop(0)
            asking.tell(first, value(first.h))
        else:
            assert asking.finished
            return begun, most


def of(name, begun):
    return [h for search, h in begun if search == name]


def test_searches_run_side_by_side_on_the_course_they_would_take_alone():
    alone, _ = run(portfolio(1, one=line([1, 1])))
    begun, most = run(portfolio(2, one=line([1, 1]), two=line([1, 1], {"lr": 1e-4, "wd": 1e-2})))
    assert most == 2 and of("one", begun) == of("one", alone)
    assert len(of("two", begun)) == 5 and begun[1][0] == "two", "a search that waits leaves its worker to the next"


def test_a_setting_of_two_searches_is_trained_once():
    """While it is live the second waits for it, afterwards it is told at once; neither spends its budget on it."""
    begun, _ = run(portfolio(2, one=line([1, 1], budget=4), two=line([1, -1], budget=4)))
    keys = [PLANE.key(h) for _, h in begun]
    assert len(set(keys)) == len(keys) and len(of("two", begun)) == 4
    alone, _ = run(portfolio(1, two=line([1, -1])))
    assert of("two", begun) == of("two", alone)[1:]


def test_a_failure_is_told_to_both():
    both = portfolio(2, one=line([1, 1], budget=2), two=line([1, -1], budget=2))
    (first,) = both.ask()
    assert both.ask() == [] and not both.finished
    both.tell(first, None)
    assert {both.ask()[0].origin["search"], both.ask()[0].origin["search"]} == {"one", "two"}
    assert both.ask() == []


def test_what_is_known_is_not_trained_again_and_costs_no_budget():
    whole, _ = run(portfolio(1, one=line([1, 1])))
    known = {(PLANE.key(h), 0): bowl(h) for _, h in whole[:3]}
    assert run(portfolio(1, known, one=line([1, 1], budget=2)))[0] == whole[3:]
    steered = {(PLANE.key(h), 0): bowl(h) for h in (BEST, whole[3][1])}
    assert run(portfolio(1, steered, one=line([1, 1], budget=4)))[0] == whole[:3] + whole[4:], (
        "what others found out is used when the search comes by, and steers nothing else"
    )
    diverged = known | {(PLANE.key(START), 0): math.nan}
    assert START not in of("one", run(portfolio(1, diverged, one=line([1, 1])))[0])


def test_a_setting_counts_with_the_mean_over_its_seeds():
    asking = portfolio(1, seeds=(5, 6, 7), one=line([1, 1]))
    asked = asking.ask()
    assert [(one.h, one.seed) for one in asked] == [(START, 5), (START, 6), (START, 7)]
    for one, value in zip(asked, (0.2, None, 0.4)):
        assert asking.ask() == []
        asking.tell(one, value)
    assert asking.members["one"].course.search.history == [(START, pytest.approx(0.3))], "of those that gave a number"


def test_seeds_that_are_known_are_not_trained_again():
    known = {(PLANE.key(START), 0): 0.5}
    asking = portfolio(1, known, seeds=(0, 1), one=line([1, 1]))
    (asked,) = asking.ask()
    assert (asked.h, asked.seed) == (START, 1)
    asking.tell(asked, 0.7)
    assert asking.members["one"].course.search.history == [(START, pytest.approx(0.6))]


# ------------------------------------------------------------------------------------------------- as Tune's searcher


def test_packs_hold_whole_settings():
    asking = portfolio(9, seeds=(0, 1, 2), one=line([1, 1]), two=line([1, -1], {"lr": 1e-4, "wd": 1e-2}))
    searcher = StudySearch(asking, size=4, packs=3)
    pack = searcher.suggest("a")[PACK]
    assert [(config["seed"], config[ORIGIN]["search"]) for config in pack] == [(0, "one"), (1, "one"), (2, "one")], (
        "a second setting would not fit whole"
    )
    assert {name: pack[0][name] for name in PLANE.names} == START
    assert pack[0][ORIGIN] == {"direction": "start", "line_position": 0.0, "trial_index": 0, "search": "one"}
    assert [config[ORIGIN]["search"] for config in searcher.suggest("b")[PACK]] == ["two"] * 3
    assert searcher.suggest("c") is None


def test_a_setting_larger_than_a_pack_is_one_pack():
    searcher = StudySearch(portfolio(2, seeds=(0, 1, 2), one=line([1, 1])), size=1, packs=2)
    assert len(searcher.suggest("a")[PACK]) == 3


def test_members_are_told_as_they_end_and_a_lost_pack_fails_the_rest():
    asking = portfolio(9, seeds=(0, 1), one=line([1, 1], budget=1))
    searcher = StudySearch(asking, size=2, packs=1)
    searcher.suggest("a")
    assert searcher.suggest("b") is None, "one pack at a time"
    searcher.on_trial_result("a", {PACK: {"0": {"val_score": 0.4, "done": True}, "1": {"val_score": 0.9}}})
    assert asking.members["one"].course.search.history == []
    searcher.on_trial_complete("a", None, error=True)
    assert asking.members["one"].course.search.history == [(START, 0.4)]
    assert searcher.suggest("b") == Searcher.FINISHED


def test_tune_may_pickle_it_and_takes_no_snapshot(tmp_path):
    searcher = StudySearch(portfolio(1, one=line([1, 1])), size=1, packs=1)
    pickle.dumps(searcher)
    searcher.save_to_dir(str(tmp_path))
    assert not list(tmp_path.iterdir())
