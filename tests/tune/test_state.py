"""A searcher's state in an experiment's folder: damaged, and older or newer than Tune's own snapshot.

Whole experiments of trials that pause: test_pausing_trials.py.
"""

import json
import pickle

import pytest
from bowl import PLANE, START, bowl
from fake_trials import FakeTrial
from ray.tune.search import Searcher

from tune_cd import LENGTHS, CoordinateDescentSearch

KINDS = {"whole": {}, "pausing": {"lengths": LENGTHS, "full_length": ("n", 1)}}
both = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def make(kind, workers=1):
    return CoordinateDescentSearch(PLANE, "acc", "max", start=START, workers=workers, **kind)


def course_of(searcher, n, first=0):
    """So many configurations, each told before the next is asked for."""
    asked = []
    for trial in range(first, first + n):
        asked.append(searcher.suggest(f"t{trial}"))
        searcher.on_trial_complete(f"t{trial}", {"acc": bowl(asked[-1])})
    return asked


def ran(number, h, status="TERMINATED", result=None):
    """A trial as Tune has restored it."""
    return FakeTrial(number, h, result, trial_id=f"t{number}", status=status)


def done(number, h):
    return ran(number, h, result={"acc": bowl(h)})


def restored(kind, ended, trials):
    """A searcher whose snapshot was taken when so many of its trials had ended and one more had been asked for, with
    the trials that Tune has restored."""
    searcher, again = make(kind), make(kind)
    course_of(searcher, ended)
    searcher.suggest(f"t{ended}")
    again.set_state(json.loads(json.dumps(searcher.get_state())))
    again.trials.agree(trials)
    return again


@both
@pytest.mark.parametrize("damage", ["none", "cut off", "another version"])
def test_without_a_state_nothing_is_suggested_any_more(kind, tmp_path, damage):
    """Tune only logs the error, and would begin anew."""
    searcher = make(kind)
    course_of(searcher, 2)
    searcher.save_to_dir(str(tmp_path), "2026-01-01")
    [file] = tmp_path.glob("*.pkl")
    state = {"cut off": file.read_text()[:100], "another version": json.dumps(searcher.get_state() | {"version": 99})}
    file.unlink() if damage == "none" else file.write_text(state[damage])
    again = make(kind)
    said = "unable to find checkpoint" if damage == "none" else "2026-01-01.pkl is not a saved CoordinateDescentSearch"
    with pytest.raises((RuntimeError, ValueError), match=said):
        again.restore_from_dir(str(tmp_path))
    for damaged in (again, pickle.loads(pickle.dumps(again))):
        with pytest.raises(ValueError, match=f"cannot go on, but from_results.* can: .*{said}"):
            damaged.suggest("t2")


@both
@pytest.mark.parametrize("behind", [0, 1, 3])
def test_an_older_searcher_learns_what_tune_knows(kind, behind):
    """Else it waits for ever for trials that have ended."""
    whole = course_of(make(kind), 7)
    running = ran(4, whole[4], "RUNNING", {"acc": 0.1})
    again = restored(kind, 4 - behind, [*(done(n, whole[n]) for n in range(4)), running])
    assert again.suggest("other") is None, "the fifth is Tune's to run again"
    again.on_trial_complete("t4", {"acc": bowl(whole[4])})
    assert course_of(again, 2, first=5) == whole[5:]


@both
@pytest.mark.parametrize("cut", [False, True], ids=["not in Tune's snapshot", "cut off by a time budget"])
def test_a_trial_that_tune_does_not_run_is_handed_out_again(kind, cut):
    """Tune calls one that a time budget cut off TERMINATED, and runs it no more; it has not failed."""
    whole = course_of(make(kind), 6)
    again = restored(kind, 3, [*(done(n, whole[n]) for n in range(3)), *([ran(3, whole[3])] if cut else [])])
    assert course_of(again, 3, first=10) == whole[3:]


@both
@pytest.mark.parametrize("status, result", [("ERROR", {"acc": 0.9}), ("TERMINATED", {"loss": 1.0})])
def test_failures_and_results_without_the_metric_are_told_as_failures(kind, status, result):
    whole = course_of(make(kind), 2)
    again = restored(kind, 1, [done(0, whole[0]), ran(1, whole[1], status, result)])
    assert again.search.history == [(whole[0], bowl(whole[0])), (whole[1], None)]


def test_without_tunes_trials_it_says_once_what_it_waits_for(caplog):
    """As where neither callback nor scheduler of the search are in the Tuner."""
    searcher, again = make({}), make({})
    searcher.suggest("t0")
    again.set_state(searcher.get_state())
    assert [again.suggest(trial) for trial in "ab"] == [None, None]
    assert caplog.text.count("waits for 1 trials that ran before") == 1


@both
def test_several_workers_and_a_trial_of_another_search(kind):
    """Three ran; Tune has two of them as ended, and one that was never asked for."""
    searcher, again = make(kind, workers=3), make(kind, workers=3)
    live = [searcher.suggest(f"t{n}") for n in range(3)]
    again.set_state(searcher.get_state())
    strange = {"lr": 0.05, "wd": 0.05}
    pending, stranger = ran(2, live[2], "PENDING"), ran(9, strange, "RUNNING")
    again.trials.agree([done(0, live[0]), done(1, live[1]), pending, stranger])
    suggested = again.suggest("n0")
    assert suggested not in (strange, *live, Searcher.FINISHED) and again.suggest("n1") is None
    again.on_trial_complete("t9", {"acc": bowl(strange)})
    assert (strange, bowl(strange)) in again.search.history
