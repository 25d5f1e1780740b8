"""Trials of a user's own Tuner that pause and go on."""

import json
import os
import pickle
import signal
from functools import cache
from math import inf, log2, nan

import pytest
import tuners
from fake_tuner import FakeTuner
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.search import Repeater, Searcher

from tune_cd import LENGTHS, CoordinateDescent, CoordinateDescentSearch, Space, results
from tune_cd.analysis.parts import set_ups
from tune_cd.results.schema import CUT
from tune_cd.search.training import Proposal

SPACE = {"lr": tune.loguniform(1e-5, 1.0), "decay": tune.loguniform(1e-4, 10.0)}
PLANE = Space(lr=(1e-5, 1.0), decay=(1e-4, 10.0))
WHOLE = 16
ARGUMENTS = {"lengths": LENGTHS, "full_length": ("epoch", WHOLE), "budget": 4}
GIVEN = [{"lr": 2.0**-n, "decay": 2.0**-5} for n in (3, 6, 9)]


def pausing(**arguments):
    """The searcher whose trials pause."""
    return CoordinateDescentSearch(**ARGUMENTS | arguments)


def from_results(folder, **arguments):
    """The same, from rows."""
    return CoordinateDescentSearch.from_results(folder, "s", **ARGUMENTS | arguments)


def score(config, epoch):
    """A bowl, which longer training raises."""
    return -((log2(config["lr"]) + 7) ** 2) - (log2(config["decay"]) + 5) ** 2 / 4 + 3 * log2(epoch / WHOLE)


def tuner_of(search, value=score, mode="max", **more):
    return FakeTuner(search, value, SPACE, mode, **more)


def course(tuner):
    """The setting of each trial, and how far it was trained."""
    return [(PLANE.key(trial.config), trial.epoch) for trial in tuner.trials]


def statuses(tuner):
    return {trial.status for trial in tuner.trials}


def curve(search, h):
    """Values of a configuration by share; -inf: it failed there."""
    return search.search.training(h).curve


@pytest.fixture
def search():
    return pausing()


@cache
def uninterrupted():
    """A Tuner at its end, to compare with."""
    return tuner_of(pausing()).run()


# Alone ------------------------------------------------------------------------------------------------------------


def test_it_trains_what_the_descent_alone_would(search):
    """The same settings to the same lengths, for exactly the budget; all paused trials are ended at the end."""
    alone = CoordinateDescent(PLANE, lengths=LENGTHS, budget=4)
    while (h := alone.ask()) is not None:
        for share in [share for share in LENGTHS if share <= alone.until(h)]:
            alone.tell(h, score(h, share * WHOLE), share)
    tuner = tuner_of(search).run()
    assert course(tuner) == [(PLANE.key(one.h), one.share * WHOLE) for one in alone.trainings]
    assert tuner.trained == round(alone.spent * WHOLE) and search.suggest("more") == Searcher.FINISHED
    assert statuses(tuner) == {Trial.TERMINATED}
    assert WHOLE in {trial.epoch for trial in tuner.trials}, "the best is trained whole"


def test_of_a_loss_less_is_better():
    assert course(uninterrupted()) == course(tuner_of(pausing(), lambda *at: -score(*at), "min").run())


@pytest.mark.parametrize("epochs", [1, 3, 5, 32])
def test_the_budget_is_of_what_was_trained_however_seldom_it_is_reported(epochs):
    search = pausing(full_length=("epoch", epochs), budget=6)
    tuner = tuner_of(search, lambda config, epoch: score(config, epoch * WHOLE / epochs)).run()
    shares = [trial.epoch / epochs for trial in tuner.trials]
    assert [one.length for one in search.search.trainings] == shares
    assert search.search.spent == sum(shares) <= 6 + 1 / epochs and max(shares) == 1
    assert statuses(tuner) == {Trial.TERMINATED}


def test_a_score_may_be_nan_before_the_first_pause_and_then_no_more(search):
    """As that of a mean over several epochs; NaN later, or still then, is a failure."""
    tuner = tuner_of(search, lambda config, epoch: nan if epoch == 1 else score(config, epoch)).run()
    assert course(tuner) == course(uninterrupted())
    for value in (lambda config, epoch: nan, lambda config, epoch: 0.5 if epoch == 1 else nan):
        never = tuner_of(pausing(), value).run()
        assert {trial.epoch for trial in never.trials} == {2} and never.search.best is None


@pytest.mark.parametrize("epochs, warned", [(1, 1), (2, 0)])
def test_a_first_value_too_late_to_pause_is_said_once(epochs, warned, caplog):
    tuner_of(pausing(full_length=("epoch", epochs)), slots=3).run()
    assert caplog.text.count(f"first value of a trial came at full_length ('epoch', {epochs}.0), too late") == warned


def test_a_trial_is_trained_on_until_it_has_a_score(search):
    """Scores every four epochs of 16, and pauses from the second on."""
    tuner = tuner_of(search, lambda config, epoch: None if epoch % 4 else score(config, epoch)).run()
    assert {trial.epoch for trial in tuner.trials} <= {4, 8, 16} and max(trial.epoch for trial in tuner.trials) == 16
    assert search.search.spent == tuner.trained / WHOLE <= 4.25


def test_the_best_is_a_whole_training_and_a_better_paused_one_is_warned_of(search, caplog):
    assert search.best is None
    tuner = tuner_of(search).run()
    h, value = best = search.best
    assert value == score(h, WHOLE) == max(score(one.config, WHOLE) for one in tuner.trials if one.epoch == WHOLE)
    assert "the best known is" not in caplog.text
    search.search.tell(GIVEN[0], 9.0, 0.5, external=True)
    assert search.best == best
    assert "of full_length ('epoch', 16.0) with 9, and the best whole training has" in caplog.text
    assert "a larger budget or time_budget_s would finish it" in caplog.text


@pytest.mark.parametrize(
    "checkpoint, told, warned",
    [("there", {}, 0), (None, {}, 1), (None, {"checkpoint_path": "s3://bucket/train/t0/checkpoint_1"}, 0)],
    ids=["Tune's", "none", "Ray Train's"],
)
def test_a_trial_that_goes_on_without_a_checkpoint_is_warned_of_once(search, caplog, checkpoint, told, warned):
    tuner = tuner_of(search)
    tuner.checkpoint, tuner.told = checkpoint, told
    tuner.run()
    assert caplog.text.count("begins again") == warned


# Refused before anything is trained -------------------------------------------------------------------------------


def test_with_another_scheduler_the_experiment_ends_at_the_first_report(search):
    """It may stop trials that this search takes for whole."""
    tuner_of(search).add()
    with pytest.raises(ValueError, match="no trial can pause: .*scheduler=search.scheduler()"):
        search.on_trial_result("t0", {"epoch": 1, "acc": 0.5})


def test_the_scheduler_of_another_search_is_refused(search):
    tuner = tuner_of(search)
    other = CoordinateDescentSearch(lengths=LENGTHS, full_length=("epoch", 16))
    tuner.scheduler = other.scheduler()
    with pytest.raises(ValueError, match="this scheduler is of another search"):
        tuner.add()


def test_a_class_that_cannot_be_saved_is_refused(search):
    class Unsaved(tune.Trainable):
        pass

    tuner = tuner_of(search)
    tuner.trainable = Unsaved
    with pytest.raises(ValueError, match="Unsaved cannot be saved, .* needs save_checkpoint and load_checkpoint"):
        tuner.add()
    tuner.trainable = Bowl
    tuner.add()


def test_a_repeater_around_it_is_refused(search):
    """Of the repetitions of a setting Tune would pause the first alone."""
    tuner = tuner_of(search)
    tuner.search = Repeater(search, repeat=2)
    with pytest.raises(ValueError, match="Repeater around a search whose trials pause"):
        tuner.add()


# Trials that fail or end early ------------------------------------------------------------------------------------


def first_of(tuner, pauses=True):
    """The first trial, begun and, if it should, paused."""
    tuner.fill()
    [first] = tuner.trials
    while pauses and first.status == Trial.RUNNING:
        tuner.step(first)
    return first


@pytest.mark.parametrize("as_saved", [False, True], ids=["before a report", "as it is saved"])
def test_a_trial_that_fails_is_the_worst_and_never_goes_on(search, as_saved):
    tuner = tuner_of(search)
    first = first_of(tuner, as_saved)
    tuner.fail(first)
    reached, failed = first.epoch, curve(search, first.config)
    assert list(failed.values()) == [-inf] and max(failed) <= LENGTHS[0]
    tuner.run()
    assert first.epoch == reached == as_saved * WHOLE * LENGTHS[0] and len(tuner.trials) > 5
    assert len(set(course(tuner))) == len(tuner.trials), "no other trial begins its setting again"


def test_a_trial_that_tune_ends_without_saying_so_has_failed_and_is_not_waited_for(search, tmp_path):
    """As Tune does where actors are to be reused and a class has no reset_config."""
    tuner = tuner_of(search, folder=tmp_path)
    first = first_of(tuner, pauses=False)
    tuner.running, first.status = [], Trial.ERROR
    first.fail(tmp_path, "Error: no reset_config", pickled=False)
    rows = tuner.rows()
    assert search.trials.finished and set(curve(search, first.config).values()) == {-inf}
    assert rows["error"].tolist()[0] == "Error: no reset_config" and rows["status"].tolist().count("failed") == 1


def test_one_that_failed_as_it_was_saved_and_is_run_again_is_told_again(search):
    """As with max_failures: else the search waits for its score for ever."""
    tuner = tuner_of(search)
    first = first_of(tuner)
    told = dict(curve(search, first.config))
    tuner.scheduler.on_trial_error(tuner, first)
    first.status, first.epoch = Trial.PENDING, 0
    tuner.scheduler.on_trial_add(tuner, first)
    assert first.status == Trial.PENDING
    tuner.run()
    assert told and told.items() <= curve(search, first.config).items()
    assert search.trials.finished and statuses(tuner) == {Trial.TERMINATED}


def test_a_trial_that_ends_early_is_no_whole_training_and_never_goes_on(search, caplog):
    """By itself, or by a RunConfig(stop=...) below the full length."""
    tuner = tuner_of(search)
    first = first_of(tuner, pauses=False)
    search.on_trial_complete("t0", {"epoch": 1, "acc": 0.5})
    [ended] = search.search.trainings
    assert (ended.last, ended.length) == (0.5, 1 / WHOLE)
    assert search.best is None and search.best is None and caplog.text.count("none is whole; full_length may") == 1
    tuner.running, first.status = [], Trial.TERMINATED
    after = tuner.restored(pausing(), search.get_state())
    for one in (tuner, after):
        one.run(most=100)
        keys = [PLANE.key(trial.config) for trial in one.trials]
        assert one.search.trials.finished and one.search.best is not None and keys.count(keys[0]) == 1


def until_the_winner_pauses(tuner):
    """The last trial that is trained whole, once it has paused for the first time."""
    *_, at = [n for n, trial in enumerate(uninterrupted().trials) if trial.epoch == WHOLE]
    while len(tuner.trials) <= at or tuner.trials[at].status != Trial.PAUSED:
        tuner.run(most=tuner.trained + 1)
    return tuner.trials[at]


def test_a_trial_that_was_ended_while_it_paused_has_a_new_one_where_it_goes_on(search):
    """By a stopper of the user's. The search does not wait for a trial that Tune will not run."""
    tuner = tuner_of(search)
    winner = until_the_winner_pauses(tuner)
    tuner.stop_trial(winner)
    tuner.run(most=200)
    assert statuses(tuner) == {Trial.TERMINATED}
    assert [trial.epoch for trial in tuner.trials if trial.config == winner.config] == [winner.epoch, WHOLE]


# Restored ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 9, 30, 50])
def test_restored_it_goes_on_as_if_it_had_never_stopped(search, cut):
    """Tune has all that had not ended begin again at once: those that were paused are put to wait."""
    before = tuner_of(search).run(most=cut)
    assert course(before.restored(pausing(), search.get_state()).run()) == course(uninterrupted())


@pytest.mark.parametrize(
    "tunes, searchers", [(3, 1), (9, 6), (9, 4), (20, 11), (30, 16), (9, 11), (9, 14), (20, 29), (30, 44), (40, 70)]
)
def test_snapshots_of_tune_and_searcher_may_be_of_different_ages(search, tunes, searchers):
    """Tune copies one after the other; each is of so many epochs. No setting has a second trial, none is trained
    without end, and what Tune has lost is trained again."""
    old, new = tuner_of(search).run(most=searchers), tuner_of(pausing()).run(most=tunes)
    assert course(old) != course(new)
    after = new.restored(pausing(), search.get_state()).run(most=300)
    assert statuses(after) == {Trial.TERMINATED} and max(trial.epoch for trial in after.trials) == WHOLE
    assert len({PLANE.key(trial.config) for trial in after.trials}) == len(after.trials)
    assert after.trained <= uninterrupted().trained + max(WHOLE, searchers - tunes)


def test_a_failed_trial_that_tune_runs_again_is_trained(search):
    tuner = tuner_of(search)
    trial = first_of(tuner, pauses=False)
    tuner.fail(trial)
    after = tuner.restored(pausing(), search.get_state(), ended=(Trial.ERROR,))
    assert trial.status == Trial.PENDING, "it does not wait for ever"
    after.run()
    assert trial.epoch >= LENGTHS[0] * WHOLE and after.search.search.best is not None


def test_in_another_experiment_paused_and_running_trials_begin_again(search, tmp_path):
    """What is known of them stays; those that go on have new trials, and what was decided comes first."""
    winner = until_the_winner_pauses(tuner_of(search))
    decided = search.trials.next()
    search.save(str(tmp_path / "state"))
    again = pausing()
    again.restore(str(tmp_path / "state"))
    after = tuner_of(again).run()
    assert after.trials[0].config == decided
    assert [trial.epoch for trial in after.trials if trial.config == winner.config] == [WHOLE]
    assert len({PLANE.key(trial.config) for trial in after.trials}) == len(after.trials)


def test_another_experiment_may_have_more_trials_than_the_first_one_was_allowed(search, tmp_path):
    """Once num_samples trials had begun, nothing new was asked for there."""
    assert len(tuner_of(search, samples=3).run().trials) == 3
    search.save(str(tmp_path / "state.json"))
    again = pausing(budget=8)
    again.restore(str(tmp_path / "state.json"))
    assert tuner_of(again).run().trials and len(again.search.trainings) > 3 and again.trials.finished


# What is known beforehand -----------------------------------------------------------------------------------------


def test_points_to_evaluate_are_trained_short_first():
    tuner = tuner_of(pausing(points_to_evaluate=GIVEN[:2], start=GIVEN[2])).run(most=6)
    assert course(tuner) == [(PLANE.key(h), LENGTHS[0] * WHOLE) for h in GIVEN]


@pytest.mark.parametrize("samples", [1, 3])
def test_what_an_earlier_study_left_paused_leads_no_trials_of_a_number_that_is_given(search, samples):
    """It has no trial here that could go on; the best of these trials is trained whole."""
    tuner = tuner_of(search, samples=samples)
    for h in GIVEN:
        search.search.tell(h, score(h, WHOLE / 2) + 9, 0.5, external=True)
    search.search.begin(Proposal({"lr": 1e-3, "decay": 1e-3}, "resumed", 0.0), 0.125)
    if samples == 3:
        search.search.begin(Proposal(GIVEN[0], "resumed", 0.0), 1.0)
    tuner.run()
    assert len(tuner.trials) == samples and statuses(tuner) == {Trial.TERMINATED}
    assert max(trial.epoch for trial in tuner.trials) == WHOLE


@pytest.mark.parametrize("given", [True, False], ids=["space given", "space from Tune"])
def test_a_search_begins_with_what_another_has_found(tmp_path, given):
    """Rows count at the length that they were trained; they cost nothing, and none is trained as far again."""
    reached = dict(course(tuner_of(pausing(), folder=tmp_path).run()))
    named = {"space": PLANE, "metric": "acc", "mode": "max"} if given else {}
    after = tuner_of(pickle.loads(pickle.dumps(from_results(tmp_path, budget=2, **named))))
    known = after.search.search
    assert {PLANE.key(one.h): one.share * WHOLE for one in known.trainings} == reached and known.spent == 0
    after.run()
    assert all(epoch > reached.get(key, 0) for key, epoch in course(after)) and after.trained >= WHOLE


def outcomes(rows):
    """What rows say, but for attempts and times."""
    return rows[["trial_index", "direction", "line_position", "params", "status", "val_score", "scores"]].to_dict()


@pytest.mark.parametrize("stopped", [17, 48, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 31, 59))])
def test_resumed_from_its_rows_it_goes_on_as_if_it_had_never_stopped(tmp_path, stopped):
    """Stopped after so many epochs, 48 on the way to a length beyond the next. Those of a trial that was cut off are
    trained again, first, and count as none."""
    whole = tuner_of(pausing(), folder=tmp_path / "whole").rows()
    cut = tuner_of(pausing(), folder=tmp_path / "cut")
    assert cut.rows(stopped)["error"].dropna().tolist() == [CUT] * len(cut.running)
    again = tuner_of(from_results(tmp_path / "cut", resume=True), folder=tmp_path / "cut")
    for h in [trial.config for trial in cut.running]:
        assert again.search.search.until(h) == cut.search.search.until(h), "as far as it was to go"
    known, before = ([one.curve for one in tuner.search.search.trainings] for tuner in (again, cut))
    assert known == before, "also at lengths that were passed without a pause"
    assert outcomes(again.rows()) == outcomes(whole)
    assert set_ups(whole).nunique() == 1


def test_what_was_lost_after_a_pause_is_known_as_far_as_that(tmp_path):
    """Its row lists the runs before, and it goes to the next length first."""
    tuner = tuner_of(pausing(), folder=tmp_path)
    while not (twice := [trial for trial in tuner.trials if trial.epoch == 4]):
        tuner.run(most=tuner.trained + 1)
    [trial] = twice
    tuner.callback.on_trial_start(0, tuner.trials, trial)
    tuner.fail(trial, "The actor died unexpectedly before finishing this task.")
    row = tuner.rows(after=0).iloc[tuner.trials.index(trial)]
    assert (row["status"], row["failure_kind"], row["params"]) == ("failed", "lost", trial.config)
    runs = [(run["scores"]["epoch"], run["val_score"]) for run in json.loads(row["config"])["runs"]]
    assert runs == [(n, score(trial.config, n)) for n in (2, 4)]
    again = from_results(tmp_path, resume=True)
    after = tuner_of(again)
    after.add()
    assert PLANE.key(after.trials[0].config) == PLANE.key(trial.config), "it runs first"
    assert curve(again, trial.config) == {n / WHOLE: score(trial.config, n) for n in (2, 4)}
    assert again.search.until(trial.config) == 0.5


# A real Tuner -----------------------------------------------------------------------------------------------------


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


class Interrupt(tune.Callback):
    """Ctrl-C after eight results of a run, of as many runs as `left` says."""

    left = 0

    def setup(self, **info):
        self.seen = 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.seen += 1
        if self.seen == 8 and Interrupt.left:
            Interrupt.left -= 1
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.ray
@pytest.mark.slow
def test_a_tuner_interrupted_and_restored_in_one_process_again_and_again(ray_session, tmp_path, monkeypatch):
    """The course of the search that nobody interrupts; a trial is trained once, and has a row."""
    monkeypatch.setenv("TUNE_DISABLE_SIGINT_HANDLER", "0")  # `tune_cd.run` sets it for its process
    search = pausing(budget=1.5)
    callback = search.callback(tmp_path / "results", "own")
    tuner = tuners.tuner_of(Bowl, search, SPACE, tmp_path, callbacks=[callback, Interrupt()], max_concurrent_trials=1)
    Interrupt.left = 2
    tuner.fit()
    for left in (1, 0):
        assert Interrupt.left == left
        grid = tune.Tuner.restore(str(tmp_path / "run"), Bowl, param_space=SPACE).fit()
    found = {PLANE.key(result.config): result.metrics["epoch"] for result in grid}
    whole = tuner_of(pausing(budget=1.5)).run()
    assert found == dict(course(whole)) and len(grid) == len(whole.trials)
    rows = results.read(tmp_path / "results", "own")
    reached = {PLANE.key(params): scores["epoch"] for params, scores in zip(rows["params"], rows["scores"])}
    assert reached == found and set(rows["status"]) == {"completed", "stopped"} and rows["attempt"].max() > 0
