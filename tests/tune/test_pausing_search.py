"""Trials of a user's own Tuner that pause and go on."""

import json
import pickle
from math import log2, nan
from types import SimpleNamespace

import pytest
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher

from tune_cd import PausingDescent, PausingSearch, ResultsCallback, Space, results
from tune_cd.search.model_guided import LENGTHS

SPACE = {"lr": tune.loguniform(1e-5, 1.0), "decay": tune.loguniform(1e-4, 10.0)}
PLANE = Space(lr=(1e-5, 1.0), decay=(1e-4, 10.0))
WHOLE = 16
FULL = ("epoch", WHOLE)


def score(config, epoch):
    """A bowl, which longer training raises."""
    return -((log2(config["lr"]) + 7) ** 2) - (log2(config["decay"]) + 5) ** 2 / 4 + 3 * log2(epoch / WHOLE)


class Tuner:
    """Tune's controller as far as searcher and scheduler see it; one trial trains at a time, an epoch a step."""

    def __init__(self, search, value=score, mode="max"):
        self.search, self.scheduler, self.value, self.mode = search, search.scheduler(), value, mode
        search.set_search_properties("acc", mode, SPACE)
        self.trials: list[SimpleNamespace] = []
        self.search_alg = SimpleNamespace(is_finished=lambda: self.over)
        self.over, self.epochs = False, 0

    def get_trials(self):
        return self.trials

    def stop_trial(self, trial):
        trial.status = Trial.TERMINATED
        self.search.on_trial_complete(trial.trial_id, trial.last)

    def add(self, number):
        config = self.search.suggest(f"t{number}")
        if isinstance(config, dict):
            trial = SimpleNamespace(
                trial_id=f"t{number}", config=config, status=Trial.PENDING, epoch=0, last=None, checkpoint="there",
                set_status=lambda status: setattr(trial, "status", status),
            )  # fmt: skip
            self.trials.append(trial)
            self.scheduler.on_trial_add(self, trial)
        self.over = config == Searcher.FINISHED

    def run(self, most=10_000):
        while self.epochs < most:
            if not self.over:
                self.add(len(self.trials))
            trial = self.scheduler.choose_trial_to_run(self)
            if trial is None:
                if self.over:
                    break
                continue
            trial.status = Trial.RUNNING
            while trial.status == Trial.RUNNING:
                self.step(trial)
        return self

    def step(self, trial):
        trial.epoch, self.epochs = trial.epoch + 1, self.epochs + 1
        trial.last = {"epoch": trial.epoch, "acc": self.value(trial.config, trial.epoch)}
        decision = self.scheduler.on_trial_result(self, trial, trial.last)
        if decision == TrialScheduler.STOP:
            self.stop_trial(trial)
        elif decision == TrialScheduler.PAUSE:
            trial.status = Trial.PAUSED


def course(tuner):
    return [(PLANE.key(trial.config), trial.epoch) for trial in tuner.trials]


@pytest.fixture
def search():
    return PausingSearch(full_length=FULL, budget=4)


def test_it_trains_what_the_descent_alone_would(search):
    """The same settings to the same lengths, for exactly the budget; all paused trials are ended at the end."""
    alone = PausingDescent(PLANE, budget=4)
    while (h := alone.ask()) is not None:
        for share in [share for share in LENGTHS if share <= alone.until(h)]:
            alone.tell(h, score(h, share * WHOLE), share)
    tuner = Tuner(search).run()
    assert course(tuner) == [(PLANE.key(one.h), max(one.looks) * WHOLE) for one in alone._trainings.values()]
    assert tuner.epochs == round(alone.spent * WHOLE) and search.suggest("more") == Searcher.FINISHED
    assert {trial.status for trial in tuner.trials} == {Trial.TERMINATED}
    assert WHOLE in {trial.epoch for trial in tuner.trials}, "the best is trained whole"


def test_of_a_loss_less_is_better(search):
    better = Tuner(search).run()
    worse = Tuner(PausingSearch(full_length=FULL, budget=4), lambda *at: -score(*at), "min").run()
    assert course(better) == course(worse)


def test_a_trial_that_fails_is_the_worst_and_never_goes_on(search):
    tuner = Tuner(search)
    tuner.add(0)
    first = tuner.scheduler.choose_trial_to_run(tuner)
    first.status = Trial.ERROR
    tuner.scheduler.on_trial_error(tuner, first)
    search.on_trial_complete("t0", None, error=True)
    tuner.run()
    assert first.epoch == 0 and search._search.trained[0] <= 1 and len(tuner.trials) > 5


def test_a_trial_without_a_number_is_stopped(search):
    tuner = Tuner(search, lambda config, epoch: nan if log2(config["lr"]) < -9 else score(config, epoch)).run()
    lost = [trial for trial in tuner.trials if log2(trial.config["lr"]) < -9]
    assert lost and all(trial.epoch == 1 for trial in lost)


def test_a_trial_that_ends_by_itself_has_reached_what_it_has(search):
    tuner = Tuner(search)
    tuner.add(0)
    search.on_trial_complete("t0", {"epoch": 1, "acc": 0.5})
    assert search._search.best[1] == 0.5 and search._search.trained == [1.0]


def test_a_result_must_say_how_long_it_was_trained(search):
    tuner = Tuner(search)
    tuner.add(0)
    with pytest.raises(ValueError, match="'epoch', which full_length names"):
        tuner.scheduler.on_trial_result(tuner, tuner.trials[0], {"acc": 0.5})


@pytest.mark.parametrize("cut", [1, 9, 30, 50])
def test_restored_it_goes_on_as_if_it_had_never_stopped(search, cut):
    """Tune has all that had not ended begin again at once: those that were paused are put to wait."""
    whole = Tuner(PausingSearch(full_length=FULL, budget=4)).run()
    before = Tuner(search).run(most=cut)
    state = json.loads(json.dumps(search.get_state()))
    again = PausingSearch(full_length=FULL, budget=4)
    after = Tuner(again)
    again.set_state(state)
    after.trials, after.epochs = before.trials, before.epochs
    for trial in after.trials:
        if trial.status in (Trial.PAUSED, Trial.RUNNING):
            trial.status = Trial.PENDING
            after.scheduler.on_trial_add(after, trial)
    assert course(after.run()) == course(whole)


def test_what_ran_in_a_trial_that_tune_does_not_have_is_asked_for_again(search):
    tuner = Tuner(search)
    tuner.add(0)
    (gone,) = tuner.trials
    tuner.trials.clear()
    again = Tuner(search)
    assert again.scheduler.choose_trial_to_run(again) is None
    again.add(1)
    assert again.trials[0].config == gone.config


def test_tune_may_pickle_it_with_its_scheduler(search):
    Tuner(search).run(most=20)
    other, scheduler = pickle.loads(pickle.dumps((search, search.scheduler())))
    assert scheduler._search is other and other.get_state() == search.get_state()


def test_a_limit_of_tune_s_counts_what_is_trained(search):
    assert search.set_max_concurrency(2)
    Tuner(search)
    assert [isinstance(search.suggest(f"t{n}"), dict) for n in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    "wrong", [{"full_length": ("epoch", 0)}, {"full_length": (3, 16)}, {"workers": 0}, {"mode": "up"}]
)
def test_bad_arguments_are_refused(wrong):
    with pytest.raises(ValueError):
        PausingSearch(**{"full_length": FULL} | wrong)


def test_before_it_knows_what_is_searched_it_says_so(search):
    with pytest.raises(RuntimeError, match="space"):
        search.suggest("t0")


class Bowl(tune.Trainable):
    def setup(self, config):
        self.epoch = 0

    def step(self):
        self.epoch += 1
        if self.config["lr"] > 0.5:
            raise ValueError("too hot")
        return {"epoch": self.epoch, "acc": score(self.config, self.epoch), "done": self.epoch >= WHOLE}

    def reset_config(self, new_config):
        self.epoch = 0
        return True

    def save_checkpoint(self, checkpoint_dir):
        return {"epoch": self.epoch}

    def load_checkpoint(self, checkpoint):
        self.epoch = checkpoint["epoch"]


@pytest.mark.ray
@pytest.mark.slow
def test_in_a_real_tuner_trials_pause_and_go_on(ray_session, tmp_path):
    """The course of one trial at a time without Ray; every trial has a row that says how far it is."""
    search = PausingSearch(full_length=FULL, budget=2)
    callback = ResultsCallback(tmp_path / "results", "own", metric="acc", full_length=FULL)
    tuner = tune.Tuner(
        Bowl,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="acc", mode="max", num_samples=-1, search_alg=search, scheduler=search.scheduler(),
            max_concurrent_trials=1, reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0, callbacks=[callback]),
    )  # fmt: skip
    grid = tuner.fit()
    rows = results.read(tmp_path / "results", "own").sort_values("trial_index")
    hot = Tuner(PausingSearch(full_length=FULL, budget=2), lambda c, e: nan if c["lr"] > 0.5 else score(c, e)).run()
    assert [PLANE.key(params) for params in rows["params"]] == [PLANE.key(trial.config) for trial in hot.trials]
    trained = [scores.get("epoch", 1) for scores in rows["scores"]]
    assert trained == [trial.epoch for trial in hot.trials] and max(trained) == WHOLE
    expected = {
        "failed" if t.config["lr"] > 0.5 else "completed" if t.epoch == WHOLE else "stopped" for t in hot.trials
    }
    assert set(rows["status"]) == expected and len(grid) == len(rows)
