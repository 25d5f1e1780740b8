"""CoordinateDescentSearch against what Ray Tune does to a searcher. Numbers in names follow no API but Tune's
habits."""

import json
import math
import pickle
from functools import partial

import numpy as np
import pytest
from ray import tune
from ray.tune.search import Searcher

from tune_cd import LENGTHS, CoordinateDescent, CoordinateDescentSearch, Space, results
from tune_cd.tune.param_space import space_from_tune

PLANE = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))
BEST = {"lr": 1e-3, "wd": 1e-4}


def bowl(config):
    return math.exp(-sum((math.log2(config[name] / at) / 6) ** 2 for name, at in BEST.items()))


def drive(searcher, trials, value=bowl, first=0, metric="acc"):
    """What Tune does, one trial at a time; the suggested configurations in order."""
    configs = []
    for i in range(first, first + trials):
        config = searcher.suggest(f"t{i}")
        if config == Searcher.FINISHED:
            break
        configs.append(config)
        searcher.on_trial_complete(trial_id=f"t{i}", result={metric: value(config), "config": config}, error=False)
    return configs


def make(workers=1, **arguments):
    return CoordinateDescentSearch(PLANE, "acc", "max", start={"lr": 0.1, "wd": 0.1}, workers=workers, **arguments)


def test_it_walks_the_cores_trajectory():
    core, history = CoordinateDescent(PLANE, start={"lr": 0.1, "wd": 0.1}), []
    for _ in range(15):
        history.append(core.ask())
        core.tell(history[-1], bowl(history[-1]))
    assert drive(make(), 15) == history


@pytest.mark.parametrize(
    "result, error",
    [
        (None, True),
        (None, False),
        ({}, False),
        ({"acc": math.nan}, False),
        ({"acc": math.inf}, False),
        ({"acc": -math.inf}, False),
        ({"acc": "0.5"}, False),
        ({"acc": None}, False),
        ({"acc": 0.99}, True),
        ({"loss": 0.5}, False),
    ],
)
def test_whatever_is_no_number_is_a_failed_trial_and_the_search_moves_on(result, error):
    searcher = make()
    drive(searcher, 3)
    failed = searcher.suggest("bad")
    searcher.on_trial_complete("bad", result, error)
    after = drive(searcher, 10, first=10)
    assert failed not in after and len(after) == 10
    values = {tuple(h.values()): value for h, value in searcher.search.history}
    assert values[tuple(failed.values())] is None


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
    assert drive(searcher, 6, first=1) == drive(plain, 7)[1:]


def test_saved_is_json_and_a_blank_searcher_continues_it(tmp_path):
    searcher = make(seed=3)
    head = drive(searcher, 6)
    live = searcher.suggest("t6")
    searcher.save(str(tmp_path / "state.pkl"))
    assert json.loads((tmp_path / "state.pkl").read_text()) == json.loads(json.dumps(searcher.get_state()))
    blank = CoordinateDescentSearch()
    blank.restore(str(tmp_path / "state.pkl"))
    assert blank.suggest("waits") is None, "the live trial is Tune's to resume"
    blank.on_trial_complete("t6", {"acc": bowl(live)})
    assert [*head, live, *drive(blank, 6, first=7)] == drive(make(), 13)


def test_a_new_experiment_with_a_restored_searcher_runs_the_orphans_again(tmp_path):
    searcher = make()
    drive(searcher, 5)
    orphan = searcher.suggest("t5")
    searcher.save(str(tmp_path / "s"))
    again = CoordinateDescentSearch()
    again.restore(str(tmp_path / "s"))
    again.set_search_properties(
        "acc", "max", {"lr": tune.loguniform(1e-6, 1), "wd": tune.loguniform(1e-8, 1)}, num_samples=20
    )
    assert drive(again, 5, first=6) == drive(make(), 10)[5:] and orphan == drive(make(), 6)[5]


def test_in_a_new_experiment_what_was_stopped_early_still_never_wins():
    searcher = make(full_length=("training_iteration", 10))
    searcher.suggest("a")
    searcher.on_trial_complete("a", {"acc": 0.5, "training_iteration": 3})
    again = make()
    again.set_state(searcher.get_state())
    with pytest.raises(ValueError, match="the Tuner has mode 'min', and the search 'max'"):
        searcher.set_search_properties("acc", "min", {}, num_samples=1)
    assert again.set_search_properties("acc", "max", {}, num_samples=1)
    assert again.search.best is None and again.search.history[0][1] == 0.5
    again.suggest("b")
    again.on_trial_complete("b", {"acc": 0.1, "training_iteration": 10})
    assert again.search.best[1] == 0.1 == again.best[1]


def test_conversion_of_tunes_domains():
    space = space_from_tune(
        {
            "a": tune.loguniform(1e-3, 1),
            "n": tune.lograndint(8, 128),
            "q": tune.qloguniform(0.1, 10, 0.1),
            "m": tune.qlograndint(16, 64, 16),
            "b": tune.choice([64, 16, 32]),
            "opt": {"lr": tune.loguniform(1e-5, 1e-1), "name": "sgd"},
            "u": tune.uniform(-1, 1),
            "qu": tune.quniform(0, 0.3, 0.1),
            "r": tune.randint(0, 5),
            "qr": tune.qrandint(-4, 8, 4),
            "q1": tune.qrandint(1, 4, 1),
            "z": tune.choice([0.5, 0, 0.1]),
            "s": tune.choice([-1, 1]),
            "k": tune.choice(["adam", True, None, 1]),
            "epochs": 3,
            "flag": True,
        }
    )
    assert set(space.names) == {"a", "n", "q", "m", "b", "opt/lr", "u", "qu", "r", "qr", "q1", "z", "s", "k"}
    ends = {axis.name: (axis.snap(-99), axis.snap(99)) for axis in space.axes if axis.name != "k"}
    assert ends == {
        "a": (1e-3, 1.0), "n": (8, 127), "q": (0.1, 10.0), "m": (16, 64), "b": (16, 64), "opt/lr": (1e-5, 1e-1),
        "u": (-1.0, 1.0), "qu": (0.0, 0.3), "r": (0, 4), "qr": (-4, 8), "q1": (1, 3), "z": (0, 0.5), "s": (-1, 1),
    }  # fmt: skip
    assert [axis.name for axis in space.categories] == ["k"]
    assert [*map(type, space.categories[0].values)] == [str, bool, type(None), int]
    linear = {axis.name: axis.step for axis in space.axes if axis.scale == "linear"}
    assert linear == {"u": None, "qu": 0.1, "r": 1, "qr": 4, "q1": 1, "s": None}
    assert all(type(end) is (int if axis.step in (1, 4) else float) for axis in space.axes if axis.name in "u r qr q1"
               for end in ends[axis.name])  # fmt: skip
    assert space_from_tune({"epochs": 3}) is None


@pytest.mark.parametrize(
    "domain, hint",
    [
        (tune.randn(), "Normal sampling has no range.*uniform, loguniform.*fix it"),
        (tune.qrandn(0, 1, 0.1), "Normal sampling has no range"),
        (tune.sample_from(lambda spec: 1), "Function has no range.*compute it in the trainable"),
        (tune.choice([[16], [16, 16]]), r"\[16\] \(list\) cannot be chosen.*choose keys, and look them up"),
        (tune.choice([abs, max]), "cannot be chosen.*choose keys"),
        (tune.choice(["a", math.nan]), "nan .*cannot be chosen"),
        (tune.choice([0.1, math.nan]), "finite numbers"),
        (tune.randint(3, 3), "empty"),
        (tune.grid_search([1, 2]), "choice"),
        ([1, tune.uniform(0, 1)], "in a list; give it a key of its own"),
    ],
)
def test_domains_without_an_answer_are_refused_by_name_with_a_hint(domain, hint):
    with pytest.raises(ValueError, match=hint) as error:
        CoordinateDescentSearch().set_search_properties("acc", "max", {"opt": {"knob": domain}}, num_samples=1)
    assert "opt/knob" in str(error.value)


def test_a_key_that_looks_nested_is_refused():
    with pytest.raises(ValueError, match="opt/lr: a key with '/'.*rename"):
        space_from_tune({"opt/lr": tune.loguniform(1e-3, 1)})


def test_metric_and_mode_must_be_possible():
    with pytest.raises(ValueError, match="mode 'maximise'"):
        CoordinateDescentSearch(mode="maximise")
    with pytest.raises(ValueError, match="mode .'min', 'max'.: 'min' or 'max'"):
        CoordinateDescentSearch(mode=["min", "max"])
    with pytest.raises(ValueError, match="metric .'a', 'b'.: the name of one metric"):
        CoordinateDescentSearch().set_search_properties(["a", "b"], "min", {"lr": tune.loguniform(1e-6, 1)})


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


def test_numpys_numbers_are_as_good_as_any(tmp_path):
    searcher = CoordinateDescentSearch(
        points_to_evaluate=[{"lr": np.float32(1e-4), "n": np.int64(3), "q": np.float64(0.5)}]
    )
    domains = {"lr": tune.loguniform(1e-6, 1), "n": tune.randint(*np.array([1, 9]))}
    quantised = tune.quniform(np.float32(0), np.float32(1), np.float32(0.25))
    searcher.set_search_properties("acc", "max", domains | {"q": quantised})
    for n in range(3):
        config = searcher.suggest(f"t{n}")
        assert [type(config[name]) for name in ("lr", "n", "q")] == [float, int, float]
        searcher.on_trial_complete(f"t{n}", {"acc": np.float32(0.5)})
    searcher.save(str(tmp_path / "state"))
    assert json.loads((tmp_path / "state").read_text())["trials"]["configurations"]["t0"]["n"] == 3


@pytest.mark.parametrize("wrong", [100, ("epoch", 0), ("epoch",), (3, 16)])
def test_a_full_length_is_a_key_and_an_amount(wrong):
    with pytest.raises(ValueError, match="full_length .*: the key of a result, and its value above 0"):
        CoordinateDescentSearch(full_length=wrong)


def test_rewards_in_min_mode_are_losses_even_if_tune_says_so_later():
    points, losses = [{"lr": 0.5, "wd": 0.5}, {"lr": 2e-3, "wd": 2e-4}], [9.0, 0.5]
    searcher = CoordinateDescentSearch(PLANE, points_to_evaluate=points, evaluated_rewards=losses)
    searcher.set_search_properties(
        "loss", "min", {"lr": tune.loguniform(1e-6, 1), "wd": tune.loguniform(1e-8, 1)}, num_samples=3
    )
    suggested = searcher.suggest("t0")
    assert (suggested["wd"] == 2e-4) != (suggested["lr"] == 2e-3), "a line through the better one"
    assert searcher.search.best == (points[1], -0.5)


def test_add_evaluated_point():
    early = CoordinateDescentSearch(PLANE, mode="min")
    early.add_evaluated_point({"lr": 0.01, "wd": 0.001}, 0.9)
    assert early.set_search_properties("loss", "min", {}, num_samples=1) and early.best[1] == 0.9 and early.suggest("a")
    searcher = make()
    searcher.add_evaluated_point({"lr": 0.01, "wd": 0.001, "epochs": 3}, 0.9)
    searcher.add_evaluated_point({"lr": 0.02, "wd": 0.001}, 0.99, pruned=True)
    searcher.add_evaluated_point({"lr": 0.04, "wd": 0.001}, None, pruned=True, intermediate_values=[0.1, 0.995])
    assert len(searcher.search.history) == 1, "of a pruned trial it is not known how far it was"
    searcher.add_evaluated_point({"lr": 0.03, "wd": 0.001}, None, error=True)
    assert searcher.search.best == ({"lr": 0.01, "wd": 0.001}, 0.9) and len(searcher.search.history) == 2


def stored(tmp_path, configs, metric_name="acc", study="before", mode=None):
    """A results folder with these trials."""
    for i, config in enumerate(configs):
        results.write_trial(tmp_path, {
            "study": study, "search": "cd", "trial_id": f"cd-{i:05d}", "trial_index": i, "attempt": 0, "params": config,
            "metric_name": metric_name, "mode": mode, "scores": {}, "config": "{}", "software": "{}",
            "status": "completed", "val_score": bowl(config),
        })  # fmt: skip
    return tmp_path


@pytest.mark.parametrize("given", [True, False], ids=["space given", "space from Tune"])
def test_a_finished_search_is_continued_from_its_results(tmp_path, given):
    """It knows the trials: asks for none of them again, and goes on from the best."""
    whole = drive(make(), 9)
    named = {"space": PLANE, "metric": "acc", "mode": "max"} if given else {}
    searcher = CoordinateDescentSearch.from_results(stored(tmp_path, whole[:9]), "before", **named)
    if not given:
        searcher = pickle.loads(pickle.dumps(searcher))
        searcher.set_search_properties(
            "acc", "max", {"lr": tune.loguniform(1e-6, 1), "wd": tune.loguniform(1e-8, 1)}, num_samples=5
        )
    more = drive(searcher, 5)
    assert not {PLANE.key(h) for h in more} & {PLANE.key(h) for h in whole} and len(more) == 5
    assert max(map(bowl, more)) > 0.9 * max(map(bowl, whole)), "not as far away as a blind search steps"


def test_of_a_losss_results_the_smallest_is_the_best(tmp_path):
    """The table holds the loss as it was reported."""
    stored(tmp_path, drive(make(), 6), metric_name="loss", mode="min")
    searcher = CoordinateDescentSearch.from_results(tmp_path, space=PLANE, metric="loss", mode="min")
    assert searcher.search.best[1] == -min(results.read(tmp_path)["val_score"])


@pytest.mark.parametrize("later", [False, True], ids=["at once", "once Tune says so"])
@pytest.mark.parametrize("of, mode", [(None, "min"), ("min", "max")])
def test_scores_of_the_other_mode_are_refused(tmp_path, of, mode, later):
    stored(tmp_path, drive(make(), 4), metric_name="acc", mode=of)
    with pytest.raises(
        ValueError, match=f"scores are 'acc' with mode '{of or 'max'}', and the search has mode '{mode}"
    ):
        if later:
            searcher = CoordinateDescentSearch.from_results(tmp_path, space=PLANE)
            searcher.set_search_properties("acc", mode, {"lr": tune.loguniform(1e-6, 1)})
        else:
            CoordinateDescentSearch.from_results(tmp_path, space=PLANE, metric="acc", mode=mode)


def test_scores_of_another_metric_are_said(tmp_path):
    stored(tmp_path, drive(make(), 4), metric_name="r_map")
    with pytest.warns(UserWarning, match="scores are 'r_map', and count as 'acc'"):
        known = CoordinateDescentSearch.from_results(tmp_path, space=PLANE, metric="acc", mode="max")
    assert known.suggest("a") is not None


@pytest.mark.parametrize(
    "result, kept",
    [({"acc": 0.9, "training_iteration": 3}, 0.5), ({"acc": 0.9, "training_iteration": 10}, 0.9), ({"acc": 0.9}, 0.9)],
)
def test_a_trial_of_less_than_full_length_never_wins(result, kept):
    searcher = make(full_length=("training_iteration", 10))
    searcher.suggest("a")
    searcher.on_trial_complete("a", {"acc": 0.5, "training_iteration": 10})
    searcher.suggest("b")
    searcher.on_trial_complete("b", result)
    assert searcher.search.best[1] == kept


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


def test_a_range_or_a_mode_that_the_search_has_otherwise_is_refused():
    space = {"lr": tune.loguniform(1e-4, 1e-2)}
    searcher = CoordinateDescentSearch(space, "acc", "max")
    with pytest.raises(ValueError, match="param_space has .*lr.* the same ranges in both, or in one alone"):
        searcher.set_search_properties("acc", "max", {"lr": tune.loguniform(1e-6, 1.0)}, num_samples=3)
    assert CoordinateDescentSearch(space).set_search_properties("acc", "max", space, num_samples=3)
    with pytest.raises(ValueError, match="the Tuner has mode 'max', and the search 'min'"):
        CoordinateDescentSearch(space, "acc", "min").set_search_properties("acc", "max", {}, num_samples=3)


def test_results_that_cannot_be_continued_are_refused_and_strangers_left_out(tmp_path):
    with pytest.raises(FileNotFoundError):
        CoordinateDescentSearch.from_results(tmp_path / "none")
    with pytest.raises(ValueError, match="0 of 0"):
        CoordinateDescentSearch.from_results(tmp_path)
    stored(tmp_path, [{"lr": 0.1, "wd": 0.1}, {"lr": 0.5, "wd": 0.1}])
    with pytest.warns(UserWarning, match="1 of 2 known trials lie outside"):
        CoordinateDescentSearch.from_results(
            tmp_path, space=Space(lr=(1e-6, 0.2), wd=(1e-8, 1.0)), metric="acc", mode="max"
        )
    stored(tmp_path, [{"lr": 0.1, "wd": 0.1}], metric_name="f1", study="other")
    with pytest.raises(ValueError, match="'acc', 'f1'"):
        CoordinateDescentSearch.from_results(tmp_path)


def test_where_a_suggestion_comes_from_is_known_and_no_part_of_it():
    searcher = make()
    assert [set(config) for config in drive(searcher, 2)] == [{"lr", "wd"}] * 2
    first, second = (searcher.trials.origin_of(f"t{n}") for n in range(2))
    assert first == {"direction": "start", "line_position": 0.0, "trial_index": 0}
    assert second["direction"] in ("lr", "wd", "random") and second["trial_index"] == 1
    assert searcher.trials.origin_of("stranger") == {}


# ------------------------------------------------------------------------------------------- a real Tuner


def objective(config):
    tune.report({"acc": bowl({"lr": config["opt"]["lr"], "wd": config["wd"]}), "epochs": config["epochs"]})


PARAM_SPACE = {"opt": {"lr": tune.loguniform(1e-6, 1.0)}, "wd": tune.loguniform(1e-8, 1.0), "epochs": 3}


def fit(tmp_path, searcher, num_samples, name):
    return tune.Tuner(
        objective,
        param_space=PARAM_SPACE,
        tune_config=tune.TuneConfig(
            metric="acc", mode="max", num_samples=num_samples, search_alg=searcher, reuse_actors=True
        ),
        run_config=tune.RunConfig(name=name, storage_path=str(tmp_path), verbose=0),
    ).fit()


@pytest.mark.ray
@pytest.mark.slow
def test_a_users_trainable_whose_search_is_extended_and_known_to_another(ray_session, tmp_path):
    head = fit(tmp_path, CoordinateDescentSearch(start={"opt/lr": 0.1, "wd": 0.1}, workers=1), 6, "head")
    assert len(head) == 6 and head.get_best_result().metrics["acc"] > 0.5
    assert all(r.config["epochs"] == 3 and set(r.config) == {"opt", "wd", "epochs"} for r in head)
    more = CoordinateDescentSearch()
    more.restore_from_dir(head.experiment_path)
    tail = fit(tmp_path, more, 3, "tail")
    space = Space(**{"opt/lr": (1e-6, 1.0), "wd": (1e-8, 1.0)})
    core = CoordinateDescent(space, start={"opt/lr": 0.1, "wd": 0.1})
    for result in (*head, *tail):
        h = core.ask()
        assert h["opt/lr"] == result.config["opt"]["lr"], "as the search that nobody interrupts"
        core.tell(h, bowl({"lr": h["opt/lr"], "wd": h["wd"]}))
    other = CoordinateDescentSearch(space, "acc", "max")
    other.add_evaluated_trials(tune.ExperimentAnalysis(head.experiment_path), "acc")
    assert other.search.best[1] == head.get_best_result().metrics["acc"]
