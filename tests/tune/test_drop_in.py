"""In the place of OptunaSearch: what Ray's own tests ask of a searcher, called as Tune calls it, and in Tuners.

Ray's are test_searchers.py, test_searcher_utils.py, test_sample.py and test_tune_restore_warm_start.py.
"""

import copy
import importlib
import json
import math
import pickle
import re
import time
from functools import partial

import fake_tuner
import pytest
from fake_tuner import report_to
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Repeater, Searcher
from ray.tune.search.repeater import TRIAL_INDEX
from ray.tune.utils import flatten_dict
from tuners import tuner_of

from tune_cd import LENGTHS, CoordinateDescentSearch, Space

PAUSING = {"lengths": LENGTHS, "full_length": ("training_iteration", 1)}
KINDS = {"whole": CoordinateDescentSearch, "pausing": partial(CoordinateDescentSearch, **PAUSING)}
both = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
"""The searcher, with and without trials that pause; a trial of one iteration has nowhere to pause."""

USUAL = {
    "opt": {"lr": tune.loguniform(1e-5, 1.0), "momentum": tune.uniform(0.0, 0.99), "nesterov": True},
    "layers": tune.randint(1, 6), "width": tune.choice([32, 64, 128]), "epochs": 3, "sizes": [1, 2],
}  # fmt: skip
POINTS = [
    {"opt": {"lr": 0.1, "momentum": 0.0}, "layers": layers, "width": width}
    for layers, width in ((1, 32), (5, 128), (3, 64), (2, 32))
]  # fmt: skip


def score(config):
    """Largest, 0, at the second of three layers, lr 1e-2, momentum 0.9, width 128."""
    opt = config["opt"]
    away = [math.log10(opt["lr"]) + 2, 4 * (opt["momentum"] - 0.9), (config["layers"] - 2) / 2]
    return -sum(x**2 for x in away) - math.log2(128 / config["width"]) / 4


def informed(searcher=None, metric="acc", mode="max", config=USUAL):
    """As Tune leaves it before the first trial."""
    searcher = searcher or CoordinateDescentSearch()
    assert searcher.set_search_properties(metric, mode, config, num_samples=20) is True
    return searcher


drive = partial(fake_tuner.drive, value=score)


def told(searcher):
    """Values of the configurations told, in order; None: it failed."""
    return [value for _, value in searcher.search.history]


def distinct(configs):
    return len({repr(config) for config in configs})


# How many at a time ----------------------------------------------------------------------------------------------


@both
def test_it_fills_whatever_asks_but_for_a_limit_of_its_own_or_of_tunes(kind):
    """Also far more slots than there is knowledge for. Tune's own limit takes the place of `workers`."""
    searcher = informed(kind())
    configs = [searcher.suggest(f"t{n}") for n in range(50)]
    assert all(isinstance(config, dict) for config in configs) and distinct(configs) == 50
    limited = informed(kind(workers=3))
    assert None not in [limited.suggest(f"t{n}") for n in range(3)] and limited.suggest("t3") is None
    assert limited.set_max_concurrency(4) is True
    assert limited.suggest("t3") is not None and limited.suggest("t4") is None
    for workers in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"workers {workers}: a whole number, at least 1, or None"):
            kind(workers=workers)


@both
def test_a_concurrency_limiter_limits_it_and_saves_and_restores_it(kind, tmp_path):
    limiter = informed(ConcurrencyLimiter(kind(), max_concurrent=2))
    configs = [limiter.suggest("a"), limiter.suggest("b")]
    assert distinct(configs) == 2 and limiter.suggest("c") is None
    limiter.on_trial_complete("a", {"acc": score(configs[0])})
    limiter.save(str(tmp_path / "state"))
    other = ConcurrencyLimiter(kind(), max_concurrent=2)
    other.restore(str(tmp_path / "state"))
    assert other.suggest("c") == limiter.suggest("c") is not None and other.suggest("d") is None


@pytest.mark.parametrize("workers", [None, 1])
def test_a_repeater_runs_each_suggestion_so_many_times_and_tells_the_mean(workers):
    repeater = informed(Repeater(CoordinateDescentSearch(workers=workers), repeat=3))
    configs = [repeater.suggest(f"t{n}") for n in range(3)]
    assert [config.pop(TRIAL_INDEX) for config in configs] == [0, 1, 2] and distinct(configs) == 1
    for n, value in enumerate((0.1, math.nan, 0.3)):
        repeater.on_trial_complete(f"t{n}", {"acc": value})
    assert repeater.searcher.search.best[1] == pytest.approx(0.2)
    assert distinct([repeater.suggest("t3") | {TRIAL_INDEX: 0}, configs[0] | {TRIAL_INDEX: 0}]) == 2


# What is known beforehand ----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("metric, mode", [("acc", "max"), ("loss", "min")])
def test_points_to_evaluate_come_first_and_in_order_whoever_is_still_running(kind, metric, mode):
    searcher = informed(kind(points_to_evaluate=POINTS), metric, mode)
    first = [searcher.suggest(f"t{n}") for n in range(2)]
    searcher.on_trial_complete("t1", {metric: 0.5})
    assert [*first, searcher.suggest("t2"), searcher.suggest("t3")] == POINTS
    assert searcher.suggest("t4") not in POINTS


@both
@pytest.mark.parametrize(
    "points, said",
    [
        ([{"layers": 2}], "lacks .'opt/lr', 'opt/momentum', 'width'."),
        ([POINTS[0] | {"layers": 9}], "layers = 9 is outside"),
        ({"layers": 2}, "points_to_evaluate .*: a list of dicts"),
        (["layers"], "points_to_evaluate .*: a list of dicts"),
    ],
)
def test_points_that_cannot_be_are_refused_before_a_trial_runs(kind, points, said):
    with pytest.raises(ValueError, match=said):
        informed(kind(points_to_evaluate=points))
    with pytest.raises(ValueError, match="1 values for 4"):
        kind(points_to_evaluate=POINTS, evaluated_rewards=[0.5])


# What is searched ------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("of_tune", [True, False], ids=["param_space", "space"])
def test_a_suggestion_holds_what_is_searched_nested_as_it_was_and_nothing_else(kind, of_tune):
    searcher = informed(kind()) if of_tune else kind(USUAL, "acc", "max")
    config = searcher.suggest("t0")
    assert set(config) == {"opt", "layers", "width"} and set(config["opt"]) == {"lr", "momentum"}
    assert 1e-5 <= config["opt"]["lr"] <= 1 and type(config["layers"]) is int and config["width"] in (32, 64, 128)


@both
def test_what_is_not_known_is_said_in_rays_words_when_it_is_needed(kind):
    name = type(kind()).__name__
    space = f"Trying to sample a configuration from {name}, but no search space has been defined"
    mode = r"the `metric` \({}\) or `mode` \(None\) parameters have not been set"
    for searcher in (kind(), kind(metric="acc", mode="max")):
        with pytest.raises(RuntimeError, match=space):
            searcher.suggest("t0")
        with pytest.raises(RuntimeError, match=space):
            searcher.add_evaluated_point(POINTS[0], 1.0)
    with pytest.raises(RuntimeError, match=space):
        informed(kind(), config={"epochs": 3}).suggest("t0")
    with pytest.raises(RuntimeError, match=mode.format("acc")):
        kind(Space(lr=(0.1, 1.0)), metric="acc").suggest("t0")
    with pytest.raises(RuntimeError, match=mode.format("None")):
        informed(kind(), metric=None, mode=None).suggest("t0")


@both
def test_without_a_metric_it_is_rays_default(kind):
    searcher = informed(kind(), metric=None)
    configs = drive(searcher, 3, metric="_metric")
    assert searcher.metric == "_metric" and searcher.search.best[1] == max(map(score, configs))
    alone = kind(USUAL, mode="max")
    drive(alone, 1, metric="_metric")
    assert alone.metric == "_metric" and len(told(alone)) == 1


# Trials ----------------------------------------------------------------------------------------------------------


@both
def test_the_same_trial_is_suggested_the_same_again(kind, tmp_path):
    """While it runs, after it has ended, and where the searcher was restored."""
    searcher = informed(kind())
    first, second = searcher.suggest("a"), searcher.suggest("b")
    assert searcher.suggest("a") == first != second == searcher.suggest("b") and len(searcher.search.live) == 2
    searcher.on_trial_complete("a", {"acc": 0.1})
    searcher.save(str(tmp_path / "state"))
    other = kind()
    other.restore(str(tmp_path / "state"))
    assert (other.suggest("a"), other.suggest("b")) == (first, second) and len(other.search.live) == 1
    other.suggest("a")["layers"] = None
    assert other.suggest("a") == first


@both
def test_more_results_after_the_end_do_no_harm(kind):
    searcher = informed(kind())
    config = searcher.suggest("a")
    for training_iteration in (1, 3):
        report_to(searcher, "a", {"training_iteration": training_iteration, "acc": 1.0})
        searcher.on_trial_complete("a", {"training_iteration": training_iteration + 1, "acc": 1.0})
    assert told(searcher) == [1.0] and searcher.suggest("b") != config


WIDTHS, RATES = {"b": tune.choice([16, 32, 64])}, {"lr": tune.loguniform(1e-3, 1e-2)}
ENDINGS = {
    "a small space": ({}, WIDTHS, ".* has no more than 3 configurations; a larger one has"),
    "a small space, pausing": (PAUSING, WIDTHS, ".* has no more than 3 configurations; a larger one has"),
    "a budget": ({"budget": 3}, USUAL, ".*budget.* allows no more"),
    "the paper's": ({"budget": 3, "rule": "paper"}, USUAL, ".*budget.* allows no more"),
    "local": ({"budget": 3, "rule": "local"}, USUAL, ".*budget.* allows no more"),
    "nothing to gain": ({}, RATES, r"after \d+ configurations no step promises to gain"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_search_that_ends_by_itself_says_why_once_and_is_never_waited_for(caplog, ending):
    """Of 30 trials that were asked for: Tune says nothing, and would ask again for ever."""
    arguments, config, said = ENDINGS[ending]
    searcher, suggested = informed(CoordinateDescentSearch(**arguments), config=config), []
    while Searcher.FINISHED not in suggested:
        assert len(suggested) < 30 and not caplog.records
        trial = f"t{len(suggested)}"
        suggested.append(searcher.suggest(trial))
        value = 1.0 if config is RATES else 1 / len(suggested)
        searcher.on_trial_complete(trial, {"acc": value, "training_iteration": 1})
    assert searcher.suggest("more") == Searcher.FINISHED and (config is RATES or len(suggested) == 4)
    [record] = caplog.records
    assert re.search("the search has ended: " + said, record.getMessage())


# State -----------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("how", ["save", "save_to_dir"])
def test_five_trials_and_five_more_of_a_searcher_that_knows_nothing_are_ten(kind, tmp_path, how):
    """Ray's test of warm starts: a space with zero and negative values, one trial at a time, the smallest loss."""
    space = {"width": tune.uniform(0, 20), "height": tune.uniform(-100, 100)}

    def cost(config):
        return (config["height"] - 14) ** 2 - abs(config["width"] - 3)

    whole = drive(kind(space, "loss", "min", workers=1), 10, value=cost, metric="loss")
    first, second = kind(space, "loss", "min", workers=1), kind()
    head = drive(first, 5, value=cost, metric="loss")
    if how == "save":
        first.save(str(tmp_path / "state"))
        assert json.loads((tmp_path / "state").read_text()) == json.loads(json.dumps(first.get_state()))
        second.restore(str(tmp_path / "state"))
    else:
        first.save_to_dir(str(tmp_path), "session")
        second.restore_from_dir(str(tmp_path))
    assert head + drive(second, 5, value=cost, metric="loss", name="more") == whole
    assert min(map(cost, whole)) < cost(whole[0])


@both
def test_it_is_the_same_for_the_same_seed_and_when_copied(kind):
    searcher = informed(kind(seed=3))
    head, copies = drive(searcher, 4), [pickle.loads(pickle.dumps(searcher)), copy.deepcopy(searcher)]
    rest, *others = (drive(one, 3, name="more") for one in (searcher, *copies))
    assert others == [rest, rest] and drive(informed(kind(seed=3)), 7) == head + rest
    assert drive(informed(kind(seed=4)), 1) != head[:1]


# In Tuners -------------------------------------------------------------------------------------------------------


def slowly(config):
    """A trial that is still running when the next is asked for."""
    time.sleep(0.5)
    tune.report({"acc": score(config), "kept": (config["opt"]["nesterov"], config["epochs"], config["sizes"])})


class Begun(tune.Callback):
    """How many trials had been begun and not ended, at most."""

    most = 0

    def on_step_begin(self, iteration, trials, **info):
        self.most = max(self.most, sum(not trial.is_finished() for trial in trials))


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("ours", [pytest.param(False, id="OptunaSearch", marks=pytest.mark.faults), True])
def test_in_optunas_place_the_same_tuner_runs_the_same_points_first_and_fills_the_cluster(ray_session, tmp_path, ours):
    if not ours:
        pytest.importorskip("optuna")
    kind = CoordinateDescentSearch if ours else importlib.import_module("ray.tune.search.optuna").OptunaSearch
    points = [{"opt/lr": 0.1, "opt/momentum": 0.0, "layers": n, "width": 64} for n in (1, 2)]
    begun, searcher = Begun(), kind(points_to_evaluate=points, seed=1)
    grid = tuner_of(slowly, searcher, USUAL, tmp_path, 8, callbacks=[begun]).fit()
    assert len(grid) == 8 and grid.num_errors == 0
    assert all(point.items() <= flatten_dict(result.config).items() for point, result in zip(points, grid))
    assert begun.most >= 2, "both CPUs have one"
    assert all(list(result.metrics["kept"]) == [True, 3, [1, 2]] for result in grid)
