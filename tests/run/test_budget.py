"""A limit in time or GPU-hours: what it holds in whole trainings, how the searches of a study share it."""

import math

import pytest
from bowl import START, bowl
from portfolios import Process, as_reported, line, pausing, portfolio, until

from tune_cd.run.budget import Meter, parse_budget
from tune_cd.run.config import Call
from tune_cd.run.study_search import StudySearch


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def passes(self, trainings):
        """As long as so many whole trainings take."""
        self.now += 10 * trainings


def meter(text, processes=1, gpus=0.0):
    clock = Clock()
    return Meter(text, processes, gpus, clock), clock


def test_it_is_a_number_and_a_unit_and_anything_else_is_refused_with_what_is_allowed():
    seconds = {"90s": (90, False), "30min": (1800, False), " 0.5 h": (1800, False), "20gpu-hours": (72000, True)}
    assert {text: parse_budget(text) for text in seconds} == seconds
    for text in ("", "2", "h", "-1h", "0h", "2 days", "1e999h", "nanh", "1.2.3h", "2h30min"):
        with pytest.raises(ValueError, match="such as 90min, 2h or 20gpu-hours"):
            Call(budget=text)
    with pytest.raises(ValueError, match="'2gpu-hours': trials have no GPU here"):
        meter("2gpu-hours")
    with pytest.raises(ValueError, match="'2gpu-hours': with --gpus-per-trial 0 trials have no GPU; give a time"):
        Call(budget="2gpu-hours", gpus_per_trial=0.0)


def test_before_a_training_has_ended_nothing_is_known_and_what_is_under_way_is_taken_off():
    ours, clock = meter("100s", processes=2)
    assert ours.left == math.inf
    ours.begin("a", 0.5)
    ours.start("a")
    clock.now += 5
    assert ours.left == math.inf
    ours.end("a")
    assert ours.left == pytest.approx(2 * 95 / 10), "of 10 s each"
    ours.begin("b", 2.0)
    ours.start("b")
    clock.now += 5
    assert ours.left == pytest.approx((2 * 90 - 15) / 10)
    clock.now += 200
    assert ours.left == 0


def test_gpu_hours_count_the_processes_and_not_the_clock():
    ours, clock = meter("1gpu-hours", processes=4, gpus=0.5)
    ours.begin("a", 1.0)
    ours.start("a")
    ours.begin("b", 1.0)
    ours.start("b")
    clock.now += 600
    ours.end("a")
    assert ours.left == pytest.approx((7200 - 1200) / 600)
    clock.now += 600
    ours.end("b")
    clock.now += 9999
    assert ours.left == pytest.approx((7200 - 1800) / 900), "the median of both; idle time costs nothing"


def test_a_process_that_waits_for_its_place_takes_no_time():
    for text, gpus in (("10h", 0.0), ("1gpu-hours", 1.0)):
        ours, clock = meter(text, gpus=gpus)
        ours.begin("a", 1.0)
        ours.begin("b", 1.0)
        clock.now += 7200  # a node starts, or others have the places
        ours.start("a")
        clock.now += 600
        ours.end("a")
        assert ours.left == pytest.approx((36000 - 7800 if gpus == 0 else 3600 - 600) / 600 - 1), "b is still to come"
        ours.end("b")  # it had no place to the end
        assert ours.left == pytest.approx((36000 - 7800 if gpus == 0 else 3600 - 600) / 600)


def test_searches_share_it_and_those_that_have_used_less_come_first():
    one, other = pausing(budget=9), pausing({"lr": 1e-4, "wd": 1e-2}, budget=9)
    asking = portfolio(1, weights={"more": 0.5}, cd=one, more=other)
    asking.allow(3)
    while asked := asking.ask():
        asking.tell(asked[0], until(asked[0]))
        asking.allow(3 - one.spent - other.spent)
    assert one.spent + other.spent == pytest.approx(3, abs=1) and one.spent / other.spent == pytest.approx(2, rel=0.5)
    assert max(training.share for training in other.trainings) == 1 == one.incumbent.share
    asking.allow(100)
    assert (one.budget, other.budget) == (9, 9), "never more than they have themselves"


def begun(asking, steps):
    """A search of its own that has trained so many steps, of which nothing is left from now on; its leader."""
    for _ in range(steps):
        (asked,) = asking.ask()
        asking.tell(asked, until(asked))
    asking.allow(0.0)
    return asking.searches["one"].incumbent.h


def test_what_leads_is_trained_whole_beyond_it():
    asking = portfolio(1, one=pausing(budget=9))
    leader, trained = begun(asking, 4), []
    while asking.allow(0.0) or (further := asking.ask()):  # whatever is measured
        trained += further
        asking.tell(further[0], until(further[0]))
    assert asking.finished and all(one.h == leader for one in trained) and trained[-1].until == 1


def test_while_what_leads_is_trained_on_nothing_else_begins():
    """However often a free worker asks."""
    asking = portfolio(4, one=pausing(budget=9))
    leader = begun(asking, 3)
    (last,) = asking.ask()
    assert last.h == leader
    for _ in range(5):
        asking.allow(0.0)
        assert asking.ask() == []


def test_a_search_of_whole_trainings_ends_where_less_than_one_is_left():
    asking = portfolio(1, one=line([1, 1], budget=5))
    asking.allow(1.5)
    (asked,) = asking.ask()
    asking.tell(asked, until(asked))
    assert asking.ask() == [] and asking.finished
    asking.allow(1.0)
    assert len(asking.ask()) == 1, "time turned out to be left"


def test_given_settings_are_not_limited():
    member = line([1, 1], budget=5)
    asking = portfolio(1, weights={"one": 0.0}, one=member)
    asking.allow(0)
    assert len(asking.ask()) == 1


@pytest.mark.parametrize("budget", [1.5, 2.5])
def test_a_study_ends_within_it_and_its_leader_is_whole(budget):
    """A whole training takes ten seconds. Nothing begins that could not be finished if it led; the last one may begin
    when less is left, to finish what leads."""
    ours, clock = meter(f"{10 * budget}s")
    member = pausing(budget=50)
    Process(StudySearch(portfolio(1, cd=member), 1, 1, as_reported, meter=ours), clock.passes).run()
    assert member.finished
    assert 10 * (budget - 1) < clock.now - 100 <= 10 * budget + 10
    whole = [one.last for one in member.trainings if one.share == 1]
    assert whole and max(whole) >= bowl(START) - 1
