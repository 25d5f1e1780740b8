"""The sampler in Optuna's own test suite, and beside the search that it adapts."""

import pickle
from contextlib import nullcontext
from functools import partial

import numpy as np
import optuna
import pytest
from contract import advance
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

from tune_cd import CoordinateDescent
from tune_cd.optuna import CoordinateDescentSampler, space_of

optuna.logging.set_verbosity(optuna.logging.WARNING)


class TestOptunasSuite(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    test_sample_relative_categorical = None  # it asks for eleven of nine configurations, and none twice is left

    @pytest.fixture
    def sampler(self):
        return CoordinateDescentSampler


SPACE = {"lr": FloatDistribution(1e-5, 1.0, log=True), "momentum": FloatDistribution(0.0, 0.95)}


def score(lr, momentum):
    return -((np.log2(lr) + 7) ** 2) - 20 * (momentum - 0.6) ** 2


def objective(trial, sign=1.0):
    return sign * score(trial.suggest_float("lr", 1e-5, 1.0, log=True), trial.suggest_float("momentum", 0.0, 0.95))


def run(sampler, n_trials=12, direction="maximize", of=objective, **how):
    study = optuna.create_study(direction=direction, sampler=sampler, **how)
    study.optimize(of, n_trials=n_trials)
    return study


def params(study):
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("rule", ["default", "paper"])
def test_it_proposes_what_the_search_does(rule):
    start = {"lr": 1e-3, "momentum": 0.1}
    search = CoordinateDescent(space_of(SPACE), start=start, rule=rule)
    study = run(CoordinateDescentSampler(SPACE, rule=rule, start=start))
    assert params(study) == advance(search, 12, lambda h: score(**h))


def test_smaller_is_better_where_the_study_says_so():
    start = {"lr": 1e-3, "momentum": 0.1}
    least = run(CoordinateDescentSampler(SPACE, start=start), direction="minimize", of=partial(objective, sign=-1.0))
    assert params(least) == params(run(CoordinateDescentSampler(SPACE, start=start)))
    assert least.best_value < 0.5


def test_without_a_space_the_first_trial_is_the_start():
    study = optuna.create_study(direction="maximize", sampler=CoordinateDescentSampler())
    study.enqueue_trial({"lr": 1e-3, "momentum": 0.1})
    study.optimize(objective, n_trials=12)
    known = run(CoordinateDescentSampler(dict(sorted(SPACE.items())), start={"lr": 1e-3, "momentum": 0.1}))
    assert params(study) == params(known) and study.best_value > -0.5


@pytest.mark.parametrize("storage", ["sqlite", "journal"])
def test_a_resumed_study_is_one_that_never_stopped(tmp_path, storage):
    journal, storages = optuna.storages.journal.JournalFileBackend, optuna.storages
    backend = {
        "sqlite": lambda: storages.RDBStorage(f"sqlite:///{tmp_path / 'study.db'}"),
        "journal": lambda: storages.JournalStorage(journal(str(tmp_path / "log"))),
    }[storage]

    def begun(**how):
        study = optuna.create_study(direction="maximize", sampler=CoordinateDescentSampler(), **how)
        if not study.trials:
            study.enqueue_trial({"lr": 1e-3, "momentum": 0.1})
        return study

    for _ in range(3):
        study = begun(storage=backend(), study_name="s", load_if_exists=True)
        study.optimize(objective, n_trials=4)
    whole = begun()
    whole.optimize(objective, n_trials=12)
    assert params(study) == params(whole)


def test_running_trials_are_known_before_they_suggest():
    study = optuna.create_study(direction="maximize", sampler=CoordinateDescentSampler(SPACE))
    asked = [study.ask() for _ in range(4)]
    assert len({trial.suggest_float("lr", 1e-5, 1.0, log=True) for trial in asked}) == 4


def test_several_threads_share_a_search():
    study = optuna.create_study(direction="maximize", sampler=CoordinateDescentSampler(SPACE))
    study.optimize(objective, n_trials=24, n_jobs=4)
    assert len({tuple(one.params.values()) for one in study.trials}) == 24 and study.best_value > -0.5


def test_processes_that_ask_at_once_train_different_settings(monkeypatch):
    """Another process asks twice, between what one has read and what it writes."""
    monkeypatch.setattr("tune_cd.optuna.LOCK", nullcontext(), raising=False)  # a process has one of its own
    study = optuna.create_study(sampler=CoordinateDescentSampler(SPACE))
    beside = optuna.load_study(study_name=None, storage=study._storage, sampler=CoordinateDescentSampler(SPACE))
    search, others = CoordinateDescentSampler._search, []

    def meanwhile(sampler, *args):
        found = search(sampler, *args)
        if sampler is study.sampler and not others:
            others.extend(beside.ask().relative_params["lr"] for _ in range(2))
        return found

    monkeypatch.setattr(CoordinateDescentSampler, "_search", meanwhile)
    assert len({study.ask().relative_params["lr"], *others}) == 3


def test_an_enqueued_trial_is_known_before_it_suggests():
    study = optuna.create_study(direction="maximize", sampler=CoordinateDescentSampler(SPACE))
    study.enqueue_trial({"lr": 1e-3, "momentum": 0.1})
    running = study.ask()
    [known] = study.sampler._search([one for one in study.trials if one.number == running.number], SPACE, 1.0).live
    assert known == {"lr": 1e-3, "momentum": 0.1}


def test_each_process_and_each_restart_draws_its_own_values_of_what_is_not_searched():
    """As in a job array of one trial each; the draws are the same again for the same seed."""

    def conditional(trial):
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return trial.suggest_float(f"only_{kind}", 0.0, 1.0)

    def array():
        study = optuna.create_study()
        for _ in range(8):
            beside = optuna.load_study(study_name=None, storage=study._storage, sampler=CoordinateDescentSampler())
            beside.optimize(conditional, n_trials=1)
        return [trial.values for trial in study.trials]

    drawn = array()
    assert len({*map(tuple, drawn)}) == 8 and array() == drawn


def test_a_sampler_can_be_pickled_in_the_middle():
    study = run(CoordinateDescentSampler(), 6)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))
    study.optimize(objective, n_trials=6)
    assert params(study) == params(run(CoordinateDescentSampler(), 12))


def test_what_is_not_searched_and_what_is_searched_in_vain_are_said_once(monkeypatch):
    said = []
    monkeypatch.setattr("tune_cd.optuna.logger.warning", said.append)
    run(CoordinateDescentSampler({"lr": SPACE["lr"], "momenta": FloatDistribution(0.0, 0.95)}), 4)
    assert said == [
        "momentum is sampled by TPESampler, not searched: other trials lack it, or have another range",
        "['momenta']: searched, but not suggested by the objective",
    ]


@pytest.mark.parametrize(
    "of, warned",
    [
        (lambda trial: trial.suggest_float("lr", 1e-5, 1 + trial.number / 100), 1),
        (lambda trial: sum(trial.suggest_categorical("sizes", [(1, 2), (3,), ()])), 1), (objective, 0),
    ],
    ids=["other ranges each time", "objects", "a search"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Choices for a categorical")
def test_a_study_in_which_nothing_is_searched_is_said_once(monkeypatch, of, warned):
    said = []
    monkeypatch.setattr("tune_cd.optuna.logger.warning", said.append)
    run(CoordinateDescentSampler(), 4, of=of)
    assert [one.split(":")[0] for one in said] == ["no parameter is searched, TPESampler draws all"] * warned


def test_a_pruned_trial_is_a_short_training_and_a_failed_one_is_the_worst():
    """Near the optimum the trials fail, and beyond it they are pruned; neither stops the search."""

    def fragile(trial):
        value = objective(trial)
        for step in range(4):
            trial.report(value - 3 + step, step)
            if trial.params["lr"] > 0.05 and step == 1:
                raise optuna.TrialPruned
        return float("nan") if 0.007 < trial.params["lr"] < 0.008 else value

    study = run(CoordinateDescentSampler(SPACE, start={"lr": 0.1, "momentum": 0.1}), 25, of=fragile)
    states = {trial.state.name for trial in study.trials}
    assert "PRUNED" in states and study.best_value > -1
    search = study.sampler._search(study.trials, SPACE, 1.0)
    short = [one for one in search.trainings if one.stopped]
    assert short and {one.share for one in short} == {0.5}


@pytest.mark.skipif(not hasattr(optuna.Trial, "set_constraint"), reason="Optuna has had constraints since version 5")
def test_a_trial_that_violates_a_constraint_is_the_worst():
    def constrained(trial):
        value = objective(trial)
        trial.set_constraint("slow", 0.001 - trial.params["lr"])
        trial.set_constraint("fast", np.log2(trial.params["lr"] / 0.002))  # the best of all has 0.008
        return value

    rates, momenta = (0.0011, 0.0013, 0.0015, 0.0019), (0.1, 0.3, 0.5, 0.9)
    starts = [{"lr": rate, "momentum": momentum} for rate in rates for momentum in momenta]
    studies = [run(CoordinateDescentSampler(SPACE, start=start), 25, of=constrained) for start in starts]
    assert np.mean([study.best_value for study in studies]) > score(0.002, 0.6) - 0.75
    study = studies[8]
    assert study.best_value > score(0.002, 0.6) - 1.0
    search = study.sampler._search(study.trials, SPACE, 1.0)
    feasible = [all(value <= 0 for value in trial.constraints.values()) for trial in study.trials]
    assert [not one.failed for one in search.trainings] == feasible and set(feasible) == {True, False}


def test_conditional_parameters_are_left_to_the_other_sampler():
    def conditional(trial):
        value = objective(trial)
        if trial.suggest_categorical("optimizer", ["sgd", "adam"]) == "adam":
            value -= (trial.suggest_float("beta", 0.5, 0.999) - 0.9) ** 2
        return value

    study = run(CoordinateDescentSampler(independent_sampler=optuna.samplers.RandomSampler(seed=0)), 15, of=conditional)
    assert all(set(trial.params) >= {"lr", "momentum", "optimizer"} for trial in study.trials)
    assert set(study.sampler.infer_relative_search_space(study, study.trials[-1])) == {"lr", "momentum", "optimizer"}


def test_steps_begin_at_the_lower_bound():
    """Optuna's steps are counted from `low`: 3, 5, 7, 9; and .1, .35, .6, .85."""
    space = {"n": IntDistribution(3, 9, step=2), "x": FloatDistribution(0.1, 0.85, step=0.25)}
    study = optuna.create_study(sampler=CoordinateDescentSampler(space))
    study.optimize(
        lambda trial: trial.suggest_int("n", 3, 9, step=2) + trial.suggest_float("x", 0.1, 0.85, step=0.25), 20
    )
    assert {trial.params["n"] for trial in study.trials} <= {3, 5, 7, 9} and study.best_params["n"] == 3
    assert np.allclose(sorted({trial.params["x"] for trial in study.trials[:8]} | {0.1, 0.35, 0.6, 0.85}),
                       [0.1, 0.35, 0.6, 0.85])  # fmt: skip


def test_the_end_of_a_search_is_said_once(monkeypatch):
    said = []
    monkeypatch.setattr("tune_cd.optuna.logger.info", said.append)
    study = optuna.create_study(sampler=CoordinateDescentSampler({"n": IntDistribution(1, 4)}))
    study.optimize(lambda trial: trial.suggest_int("n", 1, 4), n_trials=8)
    assert len(said) == 1 and "has no more than 4 configurations" in said[0]
    assert said[0].endswith("TPESampler goes on.")
    assert len({trial.params["n"] for trial in study.trials[:4]}) == 4


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"rule": "greedy", "space": SPACE}, "rule 'greedy': one of"), ({"rule": "greedy"}, "rule 'greedy': one of"),
        ({"seed": None}, "seed None: a whole number"), ({"seed": -1}, "seed -1: a whole number, at least 0"),
        ({"independent_sampler": 3}, "independent_sampler 3: a sampler of Optuna"),
        ({"space": {"lr": (1e-5, 1.0)}}, r"'lr': \(1e-05, 1.0\)}: a dict is required, name -> distribution"),
        ({"start": {"lr": 7.0, "momentum": 0.1}, "space": SPACE}, "lr = 7.0 is outside"),
        ({"start": {"n": 20}, "space": {"n": IntDistribution(2, 10, step=4)}}, "n = 20 is not in IntDistribution"),
        ({"start": {"n": 11}, "space": {"n": IntDistribution(2, 10, step=4)}}, "n = 11 is not in"),
        ({"start": {"x": 0.3}, "space": {"x": FloatDistribution(0, 1, step=0.25)}}, "x = 0.3 is not in"),
        ({"start": {"n": "6"}, "space": {"n": IntDistribution(2, 10, step=4)}}, "n = '6' is not in"),
        ({"budgets": 0}, "budgets 0: an int >= 1"), ({"space": {"n": IntDistribution(3, 3)}}, "can be searched, with"),
        ({"directions": [[1, -1]]}, "space is required too"), ({"directions": np.eye(2)}, "space is required too"),
        ({"start": {"lr": 1e-3}}, "space is required too; .* study.enqueue_trial"),
        ({"start": {"lr": 1e-3, "momenta": 0.1}, "space": SPACE}, r"each of \['lr', 'momentum'\]"),
        ({"start": [1e-3, 0.1], "space": SPACE}, r"start \[0.001, 0.1\]: a dict"),
        ({"directions": [[1, -1, 0]], "space": SPACE}, "directions"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_the_first_trial(arguments, said):
    with pytest.raises(ValueError, match=said):
        CoordinateDescentSampler(**arguments)


def test_a_start_may_name_more_parameters_than_are_searched():
    start = {"lr": 1e-3, "momentum": 0.1}
    assert params(run(CoordinateDescentSampler(SPACE, start=start | {"beta": 0.9}), 1)) == [start]


def test_trials_outside_the_space_are_passed_over():
    study = optuna.create_study(sampler=CoordinateDescentSampler({"c": CategoricalDistribution(["a", "b"])}))
    wider = {"c": CategoricalDistribution(["a", "b", "z"])}
    study.add_trial(optuna.trial.create_trial(params={"c": "z"}, distributions=wider, value=1.0))
    study.optimize(lambda trial: float(trial.suggest_categorical("c", ["a", "b"]) == "a"), 2)
    assert {trial.params["c"] for trial in study.trials[1:]} == {"a", "b"}


def test_a_category_is_searched_with_the_others_as_without_optuna():
    values = ["sgd", None, "adam"]
    space = SPACE | {"optimizer": CategoricalDistribution(values)}

    def value(h):
        return score(h["lr"], h["momentum"]) + 5 * (h["optimizer"] == "adam")

    def of(trial):
        objective(trial)
        return value(trial.params | {"optimizer": trial.suggest_categorical("optimizer", values)})

    study = run(CoordinateDescentSampler(space), 12, of=of)
    asked = advance(CoordinateDescent(space_of(space)), 12, value)
    assert params(study) == asked and study.best_params["optimizer"] == "adam"
    assert space_of(space).categories[0].values == tuple(values)
