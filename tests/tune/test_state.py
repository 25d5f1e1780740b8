"""A searcher's state in an experiment's folder: damaged, and older or newer than Tune's own snapshot."""

import json
import math
import pickle

import pytest
from ray.tune.search import Searcher
from snapshots import tunes

from tune_cd import LENGTHS, CoordinateDescentSearch, Space

PLANE = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))


def bowl(config):
    return math.exp(-(((math.log2(config["lr"] / 1e-3)) / 6) ** 2 + (math.log2(config["wd"] / 1e-4) / 6) ** 2))


def make(workers=1):
    return CoordinateDescentSearch(PLANE, "val_score", "max", start={"lr": 0.1, "wd": 0.1}, workers=workers)


def pausing(workers=1):
    return CoordinateDescentSearch(
        PLANE, "val_score", "max", start={"lr": 0.1, "wd": 0.1}, workers=workers, lengths=LENGTHS, full_length=("n", 1)
    )


both = pytest.mark.parametrize("make", [make, pausing])


def told(searcher):
    """(configuration, value) of what was told, in order; None: it failed."""
    return searcher.search.history


def step(searcher, trial):
    """Suggests and tells; what it suggested."""
    config = searcher.suggest(trial)
    searcher.on_trial_complete(trial, {"val_score": bowl(config)})
    return {name: config[name] for name in PLANE.names}


@both
@pytest.mark.parametrize("damage", ["none", "cut off", "another version"])
def test_without_a_state_nothing_is_suggested_any_more(make, tmp_path, damage):
    """Tune only logs the error, and would begin anew."""
    searcher = make()
    course_of(searcher, 2)
    searcher.save_to_dir(str(tmp_path), "2026-01-01")
    [file] = tmp_path.glob("*.pkl")
    state = {"cut off": file.read_text()[:100], "another version": json.dumps(make().get_state() | {"version": 99})}
    file.unlink() if damage == "none" else file.write_text(state[damage])
    again = make()
    said = "unable to find checkpoint" if damage == "none" else "2026-01-01.pkl is not a saved CoordinateDescentSearch"
    with pytest.raises((RuntimeError, ValueError), match=said):
        again.restore_from_dir(str(tmp_path))
    for damaged in (again, pickle.loads(pickle.dumps(again))):
        with pytest.raises(ValueError, match=f"cannot go on, but from_results.* can: .*{said}"):
            damaged.suggest("t2")


# ------------------------------------------------------------------------------------------- beside Tune's own snapshot


def course_of(searcher, n, first=0):
    return [step(searcher, f"t{first + k}") for k in range(n)]


def restored(make, ended, trials):
    """A searcher whose snapshot was taken when so many of its trials had ended and one more had been asked for, with
    the trials that Tune has restored."""
    searcher, again = make(), make()
    course_of(searcher, ended)
    searcher.suggest(f"t{ended}")
    again.set_state(json.loads(json.dumps(searcher.get_state())))
    again.trials.agree(tunes(trials))
    return again


def done(trial_id, h):
    return trial_id, h, "TERMINATED", {"val_score": bowl(h), "done": True}


@both
@pytest.mark.parametrize("behind", [0, 1, 2, 3])
def test_an_older_searcher_learns_what_tune_knows(make, behind):
    """Else it waits for ever for trials that have ended."""
    whole = course_of(make(), 7)
    ended = [done(f"t{n}", whole[n]) for n in range(4)]
    again = restored(make, 4 - behind, [*ended, ("t4", whole[4], "RUNNING", {"val_score": 0.1})])
    assert again.suggest("other") is None, "the fifth is Tune's to run again"
    again.on_trial_complete("t4", {"val_score": bowl(whole[4])})
    assert course_of(again, 2, first=5) == whole[5:]


@both
def test_a_trial_that_tune_does_not_know_of_is_handed_out_again(make):
    """The searcher's file is the newer one: nobody runs what it asked for last."""
    whole = course_of(make(), 6)
    again = restored(make, 3, [done(f"t{n}", whole[n]) for n in range(3)])
    assert course_of(again, 3, first=10) == whole[3:]


@both
@pytest.mark.parametrize("status, result", [("ERROR", {"val_score": 0.9}), ("TERMINATED", {"loss": 1.0})])
def test_failures_and_results_without_the_metric_are_told_as_failures(make, status, result):
    whole = course_of(make(), 2)
    again = restored(make, 1, [done("t0", whole[0]), ("t1", whole[1], status, result)])
    assert told(again) == [(whole[0], bowl(whole[0])), (whole[1], None)]


@both
def test_a_trial_that_a_time_budget_cut_off_is_handed_out_again(make):
    """Tune calls it TERMINATED and runs it no more; it has not failed."""
    whole = course_of(make(), 4)
    again = restored(make, 1, [done("t0", whole[0]), ("t1", whole[1], "TERMINATED", None)])
    assert course_of(again, 3, first=10) == whole[1:]


def test_without_tunes_trials_it_says_once_what_it_waits_for(caplog):
    """As where neither callback nor scheduler of the search are in the Tuner."""
    searcher, again = make(), make()
    searcher.suggest("t0")
    again.set_state(searcher.get_state())
    assert [again.suggest(trial) for trial in "ab"] == [None, None]
    assert caplog.text.count("waits for 1 trials that ran before") == 1


@both
def test_several_workers_and_a_trial_of_another_search(make):
    """Three ran; Tune has two of them as ended, and one that was never asked for."""
    searcher, again = make(workers=3), make(workers=3)
    live = [searcher.suggest(f"t{n}") for n in range(3)]
    again.set_state(searcher.get_state())
    strange = {"lr": 0.05, "wd": 0.05}
    ended = [done("t0", live[0]), done("t1", live[1])]
    again.trials.agree(tunes([*ended, ("t2", live[2], "PENDING", None), ("x", strange, "RUNNING", None)]))
    suggested = again.suggest("n0")
    assert suggested not in (strange, *live, Searcher.FINISHED) and again.suggest("n1") is None
    again.on_trial_complete("x", {"val_score": bowl(strange)})
    assert (strange, bowl(strange)) in told(again)
