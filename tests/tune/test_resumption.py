"""A search continued from its table by a new searcher: `from_results(resume=True)`.

Where trials pause: test_pausing_trials.py; interrupted after a report: test_interrupted_tuner.py.
"""

import pytest
from bowl import PLANE, START, bowl
from fake_tuner import FakeTuner
from ray import tune
from rows import held

from tune_cd import CoordinateDescentSearch, Space, results

DOMAINS = {"lr": tune.loguniform(1e-6, 1.0), "wd": tune.loguniform(1e-8, 1.0)}
LOST = "The actor died unexpectedly before finishing this task."
RULES = ["default", "paper", "local"]


def make(workers=1, rule="default", **arguments):
    return CoordinateDescentSearch(PLANE, "acc", "max", start=START, rule=rule, workers=workers, **arguments)


def again(folder, workers=1, rule="default", **arguments):
    """The same, from its rows."""
    named = {"space": PLANE, "metric": "acc", "mode": "max", "start": START} | arguments
    return CoordinateDescentSearch.from_results(folder, "s", resume=True, rule=rule, workers=workers, **named)


def tuner_of(search, samples, folder, value=lambda h, epoch: bowl(h), **more):
    return FakeTuner(search, value, DOMAINS, samples=samples, folder=folder, **more)


def resumed(search, samples, folder, **more):
    """The rows of a study of so many trials once this search has gone on with it."""
    return tuner_of(search, samples - search.recalled, folder, **more).rows()


def course(rows):
    """The trials in the order of asking; all have completed."""
    assert set(rows["status"]) == {"completed"}
    return rows[["trial_index", "direction", "line_position", "params", "val_score"]].to_dict()


def place_of(searcher, trial):
    """Suggests a trial's configuration; its place in the order of asking."""
    assert isinstance(searcher.suggest(trial), dict)
    return searcher.trials.origin_of(trial)["trial_index"]


@pytest.mark.parametrize("rule", RULES)
def test_with_one_worker_it_goes_on_as_if_it_had_never_stopped(tmp_path, rule):
    """12 trials, stopped after some of them: the same configurations in the same order with the same indices."""
    whole = tuner_of(make(rule=rule), 12, tmp_path / "whole").rows()
    for ended in range(1, 12, 2):
        tuner_of(make(rule=rule), 12, tmp_path / str(ended)).run(ended)
        search = again(tmp_path / str(ended), rule=rule)
        assert search.recalled == ended
        assert course(resumed(search, 12, tmp_path / str(ended))) == course(whole)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("workers, slots, ends", [(3, 9, None), (None, 3, lambda n: n // 2)], ids=["workers", "slots"])
def test_with_several_workers_nothing_is_trained_twice_and_no_place_is_given_twice(
    tmp_path, workers, slots, rule, ends
):
    """What ran when the driver was killed has left no row, so the search may go on otherwise."""
    tuner_of(make(workers, rule), 12, tmp_path, slots=slots, ends=ends).run(5)
    search = again(tmp_path, workers, rule)
    rows = resumed(search, 12, tmp_path, slots=slots, ends=ends)
    assert search.recalled == 5 and set(rows["status"]) == {"completed"}
    assert rows["trial_index"].nunique() == rows["params"].map(PLANE.key).nunique() == len(rows) == 12


@pytest.mark.parametrize("workers", [1, 3])
def test_what_was_lost_is_run_again_under_its_own_number(tmp_path, workers):
    """The node that ran the fourth was lost. Alone it is asked for first, and what follows is what would have
    followed."""
    whole = tuner_of(make(workers), 9, tmp_path / "whole", slots=workers).rows()
    cut = tuner_of(make(workers), 9, tmp_path, slots=workers).run(3)
    cut.fill()
    cut.fail(cut.running[0], LOST)
    search = again(tmp_path, workers)
    tuner = tuner_of(search, 9 - search.recalled, tmp_path, slots=workers)
    rows = tuner.rows()
    assert search.recalled == 3 and PLANE.key(tuner.trials[0].config) == PLANE.key(whole["params"][3])
    assert rows["attempt"].tolist() == [n == 3 for n in range(9)] and rows["trial_index"].tolist() == list(range(9))
    if workers == 1:
        assert course(rows) == course(whole)


def test_a_lost_trial_that_runs_again_counts_as_one_of_the_workers(tmp_path):
    cut = tuner_of(make(), 9, tmp_path).run(3)
    cut.fill()
    cut.fail(cut.running[0], LOST)
    search = again(tmp_path)
    assert place_of(search, "a") == 3 and search.suggest("b") is None and not search.trials.finished
    search.on_trial_complete("a", None, error=True)
    assert place_of(search, "b") == 4


def test_a_study_without_rows_is_begun(tmp_path):
    whole = tuner_of(make(), 6, tmp_path / "whole").rows()
    with pytest.warns(UserWarning, match="begins"):
        search = again(tmp_path / "none")
    (tmp_path / "empty/trials").mkdir(parents=True)
    for one, folder in ((search, "none"), (again(tmp_path / "empty"), "empty")):
        assert one.recalled == 0 and course(resumed(one, 6, tmp_path / folder)) == course(whole)


def test_what_cannot_be_resumed_is_refused_before_a_trial_runs(tmp_path):
    tuner_of(make(), 2, tmp_path).run()
    with pytest.raises(ValueError, match="name the study"):
        CoordinateDescentSearch.from_results(tmp_path, resume=True)
    for space in (Space(lr=(1e-6, 0.05), wd=(1e-8, 1.0)), Space(lr=(1e-6, 1.0), momentum=(0.1, 1.0))):
        with pytest.raises(ValueError, match="lr|wd|momentum"):
            again(tmp_path, space=space, start=None)
    with pytest.raises(ValueError, match="2 trials also searched wd, which this space lacks"):
        again(tmp_path, space=Space(lr=(1e-6, 1.0)), start=None)
    row = held(tmp_path, "s", "cd-00000")
    results.write_trial(tmp_path, row | {"trial_id": "random-00000", "search": "random"})
    with pytest.raises(ValueError, match="several searches, .'cd', 'random'."):
        again(tmp_path)


def test_what_waits_to_run_again_is_part_of_the_state(tmp_path):
    """Saved between the resumption and the suggestion of what was running."""
    cut = tuner_of(make(3), 12, tmp_path, epochs=2, slots=3).run(10)
    cut.fill()
    for trial in cut.running:
        cut.step(trial)
    cut.rows(after=0)
    search, other = again(tmp_path, 3), make(3)
    first = search.suggest("a")
    search.save(str(tmp_path / "state"))
    other.restore(str(tmp_path / "state"))
    other.on_trial_complete("a", {"acc": bowl(first)})
    assert [first, other.suggest("b"), other.suggest("c")] == [trial.config for trial in cut.running]
