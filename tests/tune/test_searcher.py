"""CoordinateDescentSearch as Tune calls it: what it is told and refuses, and what it knows from elsewhere."""

import json
from functools import partial

import fake_tuner
import pytest
from bowl import PLANE, START, bowl
from contract import advance
from ray import tune
from ray.tune.schedulers import HyperBandForBOHB
from ray.tune.search import ConcurrencyLimiter
from rows import minimal

from tune_cd import LENGTHS, CoordinateDescent, CoordinateDescentSearch, Space, results

DOMAINS = {"lr": tune.loguniform(1e-6, 1), "wd": tune.loguniform(1e-8, 1)}
NAMED = {"space": PLANE, "metric": "acc", "mode": "max"}


drive = partial(fake_tuner.drive, value=bowl)


def make(workers=1, **arguments):
    return CoordinateDescentSearch(**NAMED, start=START, workers=workers, **arguments)


def test_it_walks_the_cores_trajectory():
    assert drive(make(), 15) == advance(CoordinateDescent(PLANE, start=START), 15, bowl)


def test_an_unknown_trial_is_adopted_from_its_config_or_ignored():
    searcher = make()
    drive(searcher, 2)
    searcher.on_trial_complete("never-seen", None, error=True)
    searcher.on_trial_complete("elsewhere", {"acc": 1.0, "config": {"lr": 50.0, "wd": 0.1}})
    searcher.on_trial_complete("other", {"acc": 1.0, "config": {"lr": 0.1}})
    searcher.on_trial_complete("adopted", {"acc": 0.9, "config": {"lr": 0.01, "wd": 0.01, "epochs": 3}})
    searcher.on_trial_complete("flat", {"acc": 0.95, "config/lr": 0.02, "config/wd": 0.01})
    assert searcher.search.best == ({"lr": 0.02, "wd": 0.01}, 0.95)
    assert len(searcher.search.history) == 4


def test_an_error_and_then_success_counts_as_success_and_repeats_are_harmless():
    searcher, plain = make(), make()
    config = searcher.suggest("t0")
    searcher.on_trial_complete("t0", None, error=True)
    for _ in range(3):
        searcher.on_trial_complete("t0", {"acc": bowl(config)})
    searcher.on_trial_result("t0", {"acc": 0.0})
    assert drive(searcher, 6, name="more") == drive(plain, 7)[1:]


def test_a_new_experiment_with_a_restored_searcher_runs_the_orphans_again(tmp_path):
    searcher = make()
    drive(searcher, 5)
    orphan = searcher.suggest("t5")
    searcher.save(str(tmp_path / "s"))
    again = CoordinateDescentSearch()
    again.restore(str(tmp_path / "s"))
    again.set_search_properties("acc", "max", DOMAINS, num_samples=20)
    assert drive(again, 5, name="more") == drive(make(), 10)[5:] and orphan == drive(make(), 6)[5]


REFUSED = [  # arguments, what Tune says then, and the words
    ({"mode": "maximise"}, None, "mode 'maximise'"),
    ({"mode": ["min", "max"]}, None, "mode .'min', 'max'.: 'min' or 'max'"),
    ({}, (["a", "b"], "min", DOMAINS), "metric .'a', 'b'.: the name of one metric"),
    (NAMED, ("loss", "max", {}), "the Tuner has metric 'loss', and the search 'acc'"),
    (NAMED, ("acc", "min", {}), "the Tuner has mode 'min', and the search 'max'"),
    (NAMED, ("acc", "max", DOMAINS | {"lr": tune.loguniform(1e-4, 1)}), "param_space has .*lr.* the same ranges in"),
    (NAMED, ("acc", "max", {"momentum": tune.uniform(0, 1)}), "the searched space is"),
    ({"space": {"a": 1}}, None, "space .*: a Space, or a dict with uniform, loguniform"),
    ({"space": {}}, None, "space .*: a Space, or a dict"),
    ({"space": "a"}, None, "space .*: a Space, or a dict"),
    *(({"full_length": wrong}, None, "full_length .*: the key of a result, and its value above 0")
      for wrong in (100, ("epoch", 0), ("epoch",), (3, 16))),
    ({"lengths": LENGTHS}, None, "full_length None, .*: trials that pause need full_length"),
    (NAMED | {"lengths": 0.5}, None, "lengths .0.5,.: ascending shares of the full length"),
    ({"use_result": "mean"}, None, "use_result 'mean': 'last' or 'best'"),
]  # fmt: skip


@pytest.mark.parametrize("arguments, of_tune, said", REFUSED)
def test_what_cannot_be_searched_for_is_refused_and_what_was_set_stays(arguments, of_tune, said):
    with pytest.raises(ValueError, match=said):
        searcher = CoordinateDescentSearch(**arguments)
        before = searcher.get_state()
        try:
            searcher.set_search_properties(*of_tune, num_samples=1)
        finally:
            assert searcher.get_state() == before


@pytest.mark.parametrize(
    "kind", [CoordinateDescentSearch, partial(CoordinateDescentSearch, lengths=LENGTHS, full_length=("epoch", 16))]
)
def test_a_start_is_a_configuration_or_several_nested_or_flat(kind):
    one, other = {"opt": {"lr": 1e-4, "wd": 1e-3}}, {"opt/lr": 1e-2, "opt/wd": 1e-5}
    domains = {"opt": {"lr": tune.loguniform(1e-6, 1), "wd": tune.loguniform(1e-8, 1)}}
    for start, first in ((one, [one]), (other, []), ([one, other], [one, {"opt": {"lr": 1e-2, "wd": 1e-5}}])):
        searcher = kind(start=start)
        searcher.set_search_properties("acc", "max", domains)
        assert [searcher.suggest(f"t{n}") for n in range(len(first))] == first
    with pytest.raises(ValueError, match="start .*: a configuration, or a list of them"):
        kind(start=["lr"])


def test_rewards_in_min_mode_are_losses_even_if_tune_says_so_later():
    points, losses = [{"lr": 0.5, "wd": 0.5}, {"lr": 2e-3, "wd": 2e-4}], [9.0, 0.5]
    searcher = CoordinateDescentSearch(PLANE, points_to_evaluate=points, evaluated_rewards=losses)
    searcher.set_search_properties("loss", "min", DOMAINS, num_samples=3)
    suggested = searcher.suggest("t0")
    assert (suggested["wd"] == 2e-4) != (suggested["lr"] == 2e-3), "a line through the better one"
    assert searcher.search.best == (points[1], -0.5)


def test_add_evaluated_point():
    early = CoordinateDescentSearch(PLANE, mode="min")
    early.add_evaluated_point({"lr": 0.01, "wd": 0.001}, 0.9)
    assert early.set_search_properties("loss", "min", {}, num_samples=1) and early.best[1] == 0.9 and early.suggest("a")
    searcher = make()
    ConcurrencyLimiter(searcher, 1).add_evaluated_point({"lr": 0.01, "wd": 0.001, "epochs": 3}, 0.9)
    searcher.add_evaluated_point({"lr": 0.02, "wd": 0.001}, 0.99, pruned=True)
    searcher.add_evaluated_point({"lr": 0.04, "wd": 0.001}, None, pruned=True, intermediate_values=[0.1, 0.995])
    assert len(searcher.search.history) == 1, "of a pruned trial it is not known how far it was"
    searcher.add_evaluated_point({"lr": 0.03, "wd": 0.001}, None, error=True)
    assert searcher.search.best == ({"lr": 0.01, "wd": 0.001}, 0.9) and len(searcher.search.history) == 2


def stored(folder, configs, **fields):
    """A results folder with these trials, which have completed."""
    for n, config in enumerate(configs):
        row = {"metric_name": "acc", "trial_id": f"cd-{n:05d}", "trial_index": n, "params": config} | fields
        results.write_trial(folder, minimal(status="completed", val_score=bowl(config), **row))
    return folder


@pytest.mark.parametrize("later", [False, True], ids=["at once", "once Tune says so"])
@pytest.mark.parametrize("of, mode", [(None, "min"), ("min", "max")])
def test_scores_of_the_other_mode_are_refused(tmp_path, of, mode, later):
    stored(tmp_path, drive(make(), 4), mode=of)
    named = {} if later else {"metric": "acc", "mode": mode}
    said = f"scores are 'acc' with mode '{of or 'max'}', and the search has mode '{mode}"
    with pytest.raises(ValueError, match=said):
        searcher = CoordinateDescentSearch.from_results(tmp_path, space=PLANE, **named)
        searcher.set_search_properties("acc", mode, DOMAINS)


def test_scores_of_another_metric_are_said(tmp_path):
    stored(tmp_path, drive(make(), 4), metric_name="r_map")
    with pytest.warns(UserWarning, match="scores are 'r_map', and count as 'acc'"):
        known = CoordinateDescentSearch.from_results(tmp_path, **NAMED)
    assert known.suggest("a") is not None


def test_best_says_why_it_is_none_where_no_trial_is_as_long_as_full_length(caplog):
    searcher = make(full_length=("epoch", 8))
    searcher.suggest("a")
    searcher.on_trial_complete("a", {"acc": 0.5, "epoch": 5})
    assert searcher.best is None
    assert "trained to 0.625 of full_length ('epoch', 8.0) with 0.5, and none is whole; full_length may" in caplog.text


@pytest.mark.parametrize("full_length, best", [(None, 0.9), (("training_iteration", 10), 0.5)])
def test_a_paused_trial_that_a_scheduler_ends_counts_as_it_last_reported(full_length, best, caplog):
    """Tune tells no result then, as under HyperBand. Without full_length it counts as whole, with a warning; a trial
    that never reported has failed."""
    searcher = make(workers=None, full_length=full_length)
    for trial_id in "abcd":
        searcher.suggest(trial_id)
    searcher.on_trial_complete("a", {"acc": 0.5, "training_iteration": 10})
    searcher.on_trial_result("b", {"acc": 0.9, "training_iteration": 3})
    searcher.on_trial_result("c", {"acc": 0.4, "training_iteration": 10})
    restored = make(workers=None, full_length=full_length)
    restored.set_state(json.loads(json.dumps(searcher.get_state())))
    for one in (searcher, restored):
        for trial_id in "bcd":
            one.on_trial_complete(trial_id)
        assert [value for _, value in one.search.history] == [0.5, 0.9, 0.4, None]
        assert one.search.best[1] == best
    assert ("both count as whole" in caplog.text) == (full_length is None)


def test_under_hyperband_for_bohb_trials_pause_and_are_live_until_they_end():
    """It tells the searcher of each pause, which Ray's own Searcher does not take."""
    searcher = make(workers=None, full_length=("training_iteration", 8))
    tuner = fake_tuner.FakeTuner(searcher, lambda h, epoch: bowl(h) - 1 / epoch, samples=6, epochs=8)
    tuner.scheduler = HyperBandForBOHB(time_attr="training_iteration", max_t=8)
    tuner.scheduler.set_search_properties("acc", "max")
    tuner.search_alg.searcher = ConcurrencyLimiter(searcher, 9)
    tuner.run()
    assert {trial.epoch for trial in tuner.trials if trial.is_finished()} == {2}, "the worse half"
    assert {trial.epoch for trial in tuner.trials if not trial.is_finished()} == {6}, "the better one went on"
    assert searcher.search.live == [trial.config for trial in tuner.trials if not trial.is_finished()]


def test_results_that_cannot_be_continued_are_refused_and_strangers_left_out(tmp_path):
    with pytest.raises(FileNotFoundError):
        CoordinateDescentSearch.from_results(tmp_path / "none")
    with pytest.raises(ValueError, match="0 of 0"):
        CoordinateDescentSearch.from_results(tmp_path)
    stored(tmp_path, [{"lr": 0.1, "wd": 0.1}, {"lr": 0.5, "wd": 0.1}])
    with pytest.warns(UserWarning, match="1 of 2 known trials lie outside"):
        CoordinateDescentSearch.from_results(tmp_path, **NAMED | {"space": Space(lr=(1e-6, 0.2), wd=(1e-8, 1.0))})
    more = {"lr": (1e-6, 1.0), "wd": (1e-8, 1.0), "momentum": (0.1, 0.9)}
    with pytest.warns(UserWarning, match=r"2 of 2 known trials .* are left out: configuration .* lacks \['momentum'\]"):
        CoordinateDescentSearch.from_results(tmp_path, **NAMED | {"space": Space(**more)})
    with pytest.warns(UserWarning, match="2 trials also searched wd, which this space lacks"):
        CoordinateDescentSearch.from_results(tmp_path, **NAMED | {"space": Space(lr=(1e-6, 1.0))})
    stored(tmp_path, [{"lr": 0.1, "wd": 0.1}], metric_name="f1", study="other")
    with pytest.raises(ValueError, match="there is no study 'absent' in .*'demo', 'other'"):
        CoordinateDescentSearch.from_results(tmp_path, "absent")
    with pytest.raises(ValueError, match="'acc', 'f1'"):
        CoordinateDescentSearch.from_results(tmp_path)
