"""A searcher's state in an experiment's folder: damaged, and older or newer than Tune's own snapshot.

Where trials pause: test_pausing_trials.py.
"""

import json
import pickle
from functools import partial

import pytest
from bowl import PLANE, START, bowl
from fake_tuner import FakeTuner

from tune_cd import CoordinateDescentSearch


def make(workers=1):
    return CoordinateDescentSearch(PLANE, "acc", "max", start=START, workers=workers)


def tuner_of(search, folder=None, samples=7, value=lambda h, epoch: bowl(h)):
    """With a folder the search's callback is in the Tuner, which brings the search up to date."""
    return FakeTuner(search, value, samples=samples, folder=folder)


def configs(tuner):
    return [trial.config for trial in tuner.trials]


@pytest.mark.parametrize("damage", ["none", "cut off", "another version", "another form"])
def test_without_a_state_nothing_is_suggested_any_more(tmp_path, damage):
    """Tune only logs the error, and would begin anew."""
    search = make()
    tuner_of(search).run(2)
    search.save_to_dir(str(tmp_path), "2026-01-01")
    [file] = tmp_path.glob("*.pkl")
    state = {"cut off": file.read_text()[:100], "another form": "[]"}
    state |= {"another version": json.dumps(search.get_state() | {"version": 99})}
    file.unlink() if damage == "none" else file.write_text(state[damage])
    again = make()
    said = "unable to find checkpoint" if damage == "none" else "2026-01-01.pkl is not a saved CoordinateDescentSearch"
    with pytest.raises((RuntimeError, ValueError), match=said):
        again.restore_from_dir(str(tmp_path))
    for damaged in (again, pickle.loads(pickle.dumps(again))):
        for call in (partial(damaged.suggest, "t2"), damaged.callback(tmp_path / "rows", "s").setup):
            with pytest.raises(ValueError, match=f"cannot go on, but from_results.* can: .*{said}"):
                call()


def asked(search, ended):
    """The state of a search of which so many trials have ended and one more was asked for."""
    tuner_of(search).run(ended).fill()
    return search.get_state()


@pytest.mark.parametrize("searchers", [0, 1, 3, 4])
def test_an_older_searcher_learns_what_tune_knows(tmp_path, searchers):
    """Four of Tune's trials have ended, and the fifth runs. Else the search waits for ever for trials that ended."""
    tuner = tuner_of(make(), tmp_path).run(4)
    tuner.fill()
    after = tuner.restored(make(), asked(make(), searchers)).run()
    assert configs(after) == configs(tuner_of(make()).run())


@pytest.mark.parametrize("cut", [False, True], ids=["not in Tune's snapshot", "cut off by a time budget"])
def test_a_trial_that_tune_does_not_run_is_handed_out_again(tmp_path, cut):
    """Tune calls one that a time budget cut off TERMINATED, and runs it no more; it has not failed."""
    tuner = tuner_of(make(), tmp_path, samples=7 + cut).run(3)
    if cut:
        tuner.fill()
        tuner.trials[3].status = "TERMINATED"
    found = configs(tuner.restored(make(), asked(make(), 3)).run())
    assert found[:3] + found[3 + cut :] == configs(tuner_of(make()).run())


@pytest.mark.parametrize("error", [True, False], ids=["an error", "no metric"])
def test_failures_and_results_without_the_metric_are_told_as_failures(tmp_path, error):
    tuner = tuner_of(make(), tmp_path, value=lambda h, epoch: bowl(h) if h == START or error else None).run(1)
    tuner.fill()
    [trial] = tuner.running
    tuner.fail(trial) if error else tuner.step(trial)
    search = make()
    tuner.restored(search, asked(make(), 1)).fill()
    assert search.search.history == [(START, bowl(START)), (trial.config, None)]


def test_without_tunes_trials_it_says_once_what_it_waits_for(caplog):
    """As where neither callback nor scheduler of the search are in the Tuner."""
    again = make()
    again.set_state(asked(make(), 0))
    assert [again.suggest(trial) for trial in "ab"] == [None, None]
    assert caplog.text.count("waits for 1 trials that ran before") == 1
