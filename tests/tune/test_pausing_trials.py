"""Trials of a user's own Tuner that pause and go on."""

import json
import os
import pickle
import signal
from contextlib import suppress
from functools import cache
from math import inf, log2, nan
from types import SimpleNamespace

import pytest
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Repeater, Searcher
from snapshots import RestoredTrial

from tune_cd import LENGTHS, CoordinateDescent, CoordinateDescentSearch, Space, results
from tune_cd.results.schema import CUT
from tune_cd.search.training import Proposal

SPACE = {"lr": tune.loguniform(1e-5, 1.0), "decay": tune.loguniform(1e-4, 10.0)}
PLANE = Space(lr=(1e-5, 1.0), decay=(1e-4, 10.0))
WHOLE = 16
FULL = ("epoch", WHOLE)


def pausing(**arguments):
    """The searcher whose trials pause."""
    return CoordinateDescentSearch(**{"lengths": LENGTHS, "full_length": FULL, "budget": 4} | arguments)


def from_results(folder, study="own", **arguments):
    """The same, from rows."""
    named = {"lengths": LENGTHS, "full_length": FULL, "budget": 4} | arguments
    return CoordinateDescentSearch.from_results(folder, study, **named)


def curve(search, h):
    """Values of a configuration by share; -inf: it failed there."""
    return search.search.training(h).curve


def trained(search):
    """The share of each configuration that was trained or asked for, in the order of asking."""
    return [one.length for one in search.search.trainings]


def score(config, epoch):
    """A bowl, which longer training raises."""
    return -((log2(config["lr"]) + 7) ** 2) - (log2(config["decay"]) + 5) ** 2 / 4 + 3 * log2(epoch / WHOLE)


class Tuner:
    """Tune's controller as far as searcher and scheduler see it; one trial trains at a time, an epoch a step."""

    def __init__(self, search, value=score, mode="max", checkpoint="there", told=None):
        self.search, self.scheduler, self.value, self.mode = search, search.scheduler(), value, mode
        self.checkpoint, self.told = checkpoint, told or {}
        search.set_search_properties("acc", mode, SPACE)
        self.trials: list[SimpleNamespace] = []
        self.search_alg = SimpleNamespace(is_finished=lambda: self.over)
        self.over, self.epochs, self.trainable = False, 0, None

    def get_trials(self):
        return self.trials

    def stop_trial(self, trial):
        trial.status = Trial.TERMINATED
        self.search.on_trial_complete(trial.trial_id, trial.last_result)

    def add(self, number):
        config = self.search.suggest(f"t{number}")
        if isinstance(config, dict):
            trial = RestoredTrial(
                trial_id=f"t{number}", config=config, status=Trial.PENDING, epoch=0, last_result={}, pauses=0,
                checkpoint=self.checkpoint, set_status=lambda status: setattr(trial, "status", status),
                evaluated_params=config, get_trainable_cls=lambda: self.trainable,
            )  # fmt: skip
            self.trials.append(trial)
            self.scheduler.on_trial_add(self, trial)
        self.over = config == Searcher.FINISHED

    def run(self, most=10_000):
        """Raises RuntimeError where it would wait for ever."""
        waited = 0
        while self.epochs < most:
            if not self.over:
                self.add(len(self.trials))
            trial = self.scheduler.choose_trial_to_run(self)
            if trial is None:
                waited += 1
                if self.over:
                    break
                if waited > 3:
                    raise RuntimeError(f"nothing runs, and {self.search.search.ask()} is to be next")
                continue
            trial.status, waited = Trial.RUNNING, 0
            while trial.status == Trial.RUNNING:
                self.step(trial)
        return self

    def step(self, trial):
        trial.epoch, self.epochs = trial.epoch + 1, self.epochs + 1
        value = self.value(trial.config, trial.epoch)
        trial.last_result = {"epoch": trial.epoch, **({} if value is None else {"acc": value}), **self.told}
        decision = self.scheduler.on_trial_result(self, trial, trial.last_result)
        if decision == TrialScheduler.STOP:
            self.stop_trial(trial)
        elif decision == TrialScheduler.PAUSE:
            trial.status, trial.pauses = Trial.PAUSED, trial.pauses + 1


def course(tuner):
    return [(PLANE.key(trial.config), trial.epoch) for trial in tuner.trials]


@pytest.fixture
def search():
    return pausing()


@cache
def uninterrupted():
    """A Tuner at its end, to compare with."""
    return Tuner(pausing()).run()


@pytest.mark.parametrize(
    ("checkpoint", "told", "warned"),
    [("there", {}, 0), (None, {}, 1), (None, {"checkpoint_path": "s3://bucket/train/t0/checkpoint_1"}, 0)],
    ids=["Tune's", "none", "Ray Train's"],
)
def test_a_trial_that_goes_on_without_a_checkpoint_is_warned_of_once(search, caplog, checkpoint, told, warned):
    Tuner(search, checkpoint=checkpoint, told=told).run()
    assert caplog.text.count("begins again") == warned


def test_it_trains_what_the_descent_alone_would(search):
    """The same settings to the same lengths, for exactly the budget; all paused trials are ended at the end."""
    alone = CoordinateDescent(PLANE, lengths=LENGTHS, budget=4)
    while (h := alone.ask()) is not None:
        for share in [share for share in LENGTHS if share <= alone.until(h)]:
            alone.tell(h, score(h, share * WHOLE), share)
    tuner = Tuner(search).run()
    assert course(tuner) == [(PLANE.key(one.h), one.share * WHOLE) for one in alone.trainings]
    assert tuner.epochs == round(alone.spent * WHOLE) and search.suggest("more") == Searcher.FINISHED
    assert {trial.status for trial in tuner.trials} == {Trial.TERMINATED}
    assert WHOLE in {trial.epoch for trial in tuner.trials}, "the best is trained whole"


def test_saved_and_restored_in_another_experiment_it_begins_there(search, tmp_path):
    """Once num_samples trials had begun, nothing new was asked for in the first."""
    tuner = Tuner(search)
    tuner.add = lambda number, add=tuner.add: add(number) or setattr(tuner, "over", number + 1 >= 3)
    tuner.run()
    assert len(tuner.trials) == 3
    search.save(str(tmp_path / "state.json"))
    restored = pausing(budget=8)
    restored.restore(str(tmp_path / "state.json"))
    another = Tuner(restored).run()
    assert len(another.trials) > 3 and restored.trials.finished


def test_the_best_is_a_whole_training_and_a_better_paused_one_is_warned_of(search, caplog):
    assert search.best is None
    tuner = Tuner(search).run()
    (h, value), whole = search.best, [trial for trial in tuner.trials if trial.epoch == WHOLE]
    assert (
        value == max(trial.last_result["acc"] for trial in whole) == score(h, WHOLE)
        and "the best known is" not in caplog.text
    )
    search.search.tell(GIVEN[0], 9.0, 0.5, external=True)
    search.trials.warn_of_paused()
    assert "paused at 0.5 of its length with 9, and the best whole training has" in caplog.text
    assert search.best == (h, value)


def test_of_a_loss_less_is_better():
    worse = Tuner(pausing(), lambda *at: -score(*at), "min").run()
    assert course(uninterrupted()) == course(worse)


def test_a_trial_that_fails_is_the_worst_and_never_goes_on(search):
    tuner = Tuner(search)
    tuner.add(0)
    first = tuner.scheduler.choose_trial_to_run(tuner)
    first.status = Trial.ERROR
    tuner.scheduler.on_trial_error(tuner, first)
    search.on_trial_complete("t0", None, error=True)
    tuner.run()
    assert first.epoch == 0 and trained(search)[0] <= 1 and len(tuner.trials) > 5


def until_it_pauses(tuner):
    """The first trial."""
    tuner.add(0)
    first = tuner.scheduler.choose_trial_to_run(tuner)
    first.status = Trial.RUNNING
    while first.status == Trial.RUNNING:
        tuner.step(first)
    return first


def test_a_trial_that_fails_as_it_is_saved_is_not_begun_again(search):
    """Its score was told and it was to pause: then it failed."""
    tuner = Tuner(search)
    first = until_it_pauses(tuner)
    first.status = Trial.ERROR
    tuner.scheduler.on_trial_error(tuner, first)
    search.on_trial_complete("t0", None, error=True)
    assert curve(search, first.config) == {LENGTHS[0]: -inf}
    tuner.run()
    assert first.epoch == WHOLE * LENGTHS[0] and course(tuner).count((PLANE.key(first.config), first.epoch)) == 1


def test_one_that_failed_as_it_was_saved_and_is_run_again_is_told_again(search):
    """As with max_failures: else the search waits for its score for ever."""
    tuner = Tuner(search)
    first = until_it_pauses(tuner)
    told = dict(curve(search, first.config))
    tuner.scheduler.on_trial_error(tuner, first)
    first.status, first.epoch = Trial.PENDING, 0
    tuner.scheduler.on_trial_add(tuner, first)
    assert first.status == Trial.PENDING
    tuner.run()
    assert told and told.items() <= curve(search, first.config).items()
    assert search.trials.finished and {trial.status for trial in tuner.trials} == {Trial.TERMINATED}


def test_a_report_without_its_length_ends_the_experiment_only_where_none_ever_had_it(search):
    tuner = Tuner(search)
    tuner.add(0)
    with pytest.raises(ValueError, match="full_length names 'epoch', and a result has no such number but"):
        search.trials.report("t0", {"acc": 0.5})
    assert search.trials.report("t0", {"epoch": 1, "acc": 0.5}) == TrialScheduler.CONTINUE
    assert search.trials.report("t0", {"test": 0.5}) == TrialScheduler.CONTINUE


@pytest.mark.parametrize("samples", [1, 3])
def test_what_an_earlier_study_left_paused_leads_no_trials_of_a_number_that_is_given(search, samples):
    """It has no trial here that could go on; the best of these trials is trained whole."""
    tuner = Tuner(search)
    for h in GIVEN:
        search.search.tell(h, score(h, WHOLE / 2) + 9, 0.5, external=True)
    for h in [{"lr": 1e-3, "decay": 1e-3}, *([GIVEN[0]] if samples == 3 else [])]:
        search.search.begin(Proposal(h, "resumed", 0.0), 0.125 if h not in GIVEN else 1.0)
    tuner.add = lambda number, add=tuner.add: add(number) or setattr(tuner, "over", number + 1 >= samples)
    tuner.run()
    assert len(tuner.trials) == samples and {trial.status for trial in tuner.trials} == {Trial.TERMINATED}
    assert max(trial.epoch for trial in tuner.trials) == WHOLE


def test_with_another_scheduler_the_experiment_ends_at_the_first_report(search):
    """It may stop trials that this search takes for whole."""
    Tuner(search).add(0)
    with pytest.raises(ValueError, match="no trial can pause: .*scheduler=search.scheduler()"):
        search.on_trial_result("t0", {"epoch": 1, "acc": 0.5})
    search.trials.report("t0", {"epoch": 1, "acc": 0.5})
    search.on_trial_result("t0", {"epoch": 1, "acc": 0.5})


def test_a_class_that_cannot_be_saved_is_refused_before_it_is_trained(search):
    class Unsaved(tune.Trainable):
        pass

    tuner = Tuner(search)
    tuner.trainable = Unsaved
    with pytest.raises(ValueError, match="Unsaved cannot be saved, .* needs save_checkpoint and load_checkpoint"):
        tuner.add(0)
    tuner.trainable = Bowl
    tuner.add(1)


@pytest.mark.parametrize("epochs", [1, 2, 3, 4, 5, 8, 32])
def test_the_budget_is_of_what_was_trained_however_seldom_it_is_reported(epochs):
    search = pausing(full_length=("epoch", epochs), budget=6)
    tuner = Tuner(search, lambda config, epoch: score(config, epoch * WHOLE / epochs)).run()
    shares, charged = [trial.epoch / epochs for trial in tuner.trials], trained(search)
    assert charged == shares
    assert search.search.spent == sum(charged) <= 6 + 1 / epochs and max(shares) == 1
    assert all(trial.status == Trial.TERMINATED for trial in tuner.trials)


def test_a_trial_is_trained_on_until_it_has_a_score(search):
    """Scores every four epochs of 16, and pauses from the second on."""
    tuner = Tuner(search, lambda config, epoch: None if epoch % 4 else score(config, epoch)).run()
    assert {trial.epoch for trial in tuner.trials} <= {4, 8, 16} and max(trial.epoch for trial in tuner.trials) == 16
    assert search.search.spent == sum(trial.epoch for trial in tuner.trials) / WHOLE <= 4.25


@pytest.mark.parametrize("samples", [1, 2, 4])
def test_with_a_number_of_trials_these_alone_go_on_and_the_best_is_trained_whole(search, samples):
    tuner = Tuner(search)
    tuner.add = lambda number, add=tuner.add: add(number) or setattr(tuner, "over", number + 1 >= samples)
    tuner.run()
    assert len(tuner.trials) == samples and search.search.spent <= 4
    assert all(trial.status == Trial.TERMINATED for trial in tuner.trials)
    whole = [trial for trial in tuner.trials if trial.epoch == WHOLE]
    assert PLANE.key(search.search.incumbent.h) in {PLANE.key(trial.config) for trial in whole}


def test_a_trial_without_a_number_is_stopped(search):
    tuner = Tuner(search, lambda config, epoch: nan if log2(config["lr"]) < -9 else score(config, epoch)).run()
    lost = [trial for trial in tuner.trials if log2(trial.config["lr"]) < -9]
    assert lost and all(trial.epoch == 1 for trial in lost)


def test_a_trial_that_ends_early_is_no_whole_training_and_never_goes_on(search, caplog):
    """By itself, or by a RunConfig(stop=...) below the full length; its row is "stopped" as well."""
    tuner = Tuner(search)
    tuner.add(0)
    search.on_trial_complete("t0", {"epoch": 1, "acc": 0.5})
    assert search.search.history[0][1] == 0.5 and trained(search) == [1 / WHOLE]
    assert search.best is None and search.best is None and caplog.text.count("none is whole") == 1
    first, state = tuner.trials[0], json.loads(json.dumps(search.get_state()))
    first.status = Trial.TERMINATED
    again = pausing()
    restored = Tuner(again)
    again.set_state(state)
    for one, rest in ((search, tuner), (again, restored)):
        rest.trials = [first]
        rest.run(most=100)
        assert one.trials.finished and all(
            PLANE.key(trial.config) != PLANE.key(first.config) for trial in rest.trials[1:]
        )
        assert one.best is not None


@pytest.mark.parametrize("cut", [1, 9, 30, 50])
def test_restored_it_goes_on_as_if_it_had_never_stopped(search, cut):
    """Tune has all that had not ended begin again at once: those that were paused are put to wait."""
    whole = uninterrupted()
    before = Tuner(search).run(most=cut)
    assert course(restored(before.trials, search.get_state()).run()) == course(whole)


def until_the_winner_pauses(tuner):
    """The trial that is trained whole in the end, once it has paused for the first time."""
    whole = uninterrupted()
    [at] = [n for n, trial in enumerate(whole.trials) if trial.epoch == WHOLE]
    while len(tuner.trials) <= at or tuner.trials[at].status != Trial.PAUSED:
        tuner.run(most=tuner.epochs + 1)
    return tuner.trials[at]


def test_in_another_experiment_paused_and_running_trials_begin_again(search, tmp_path):
    """What is known of them stays; those that go on have new trials, and what was decided comes first."""
    before = Tuner(search)
    winner, decided = until_the_winner_pauses(before), search.trials.next()
    search.save(str(tmp_path / "state"))
    again = pausing()
    again.restore(str(tmp_path / "state"))
    after = Tuner(again).run()
    assert after.trials[0].config == decided
    assert [trial.epoch for trial in after.trials if trial.config == winner.config] == [WHOLE]
    assert len({PLANE.key(trial.config) for trial in after.trials}) == len(after.trials)


def restored(trials, state, ended=()):
    """A Tuner that goes on with Tune's trials and the searcher's state, each as its own snapshot had it."""
    again = pausing()
    tuner = Tuner(again)
    again.set_state(json.loads(json.dumps(state)))
    tuner.trials, tuner.epochs = list(trials), sum(trial.epoch for trial in trials)
    for trial in trials:
        if trial.status in (Trial.PAUSED, Trial.RUNNING, *ended):
            trial.status = Trial.PENDING
            tuner.scheduler.on_trial_add(tuner, trial)
    return tuner


@pytest.mark.parametrize("cut, behind", [(3, 2), (9, 2), (9, 5), (20, 9), (30, 14)])
def test_an_older_searcher_learns_what_tune_knows(search, cut, behind):
    """Tune copies its own snapshot and the searcher's one by one. Nothing is trained twice, nothing without end."""
    whole = uninterrupted()
    old, new = Tuner(search).run(most=cut - behind), Tuner(pausing()).run(most=cut)
    state = search.get_state()
    assert course(old) != course(new)
    after = restored(new.trials, state).run(most=200)
    configs = [PLANE.key(trial.config) for trial in after.trials]
    assert len(set(configs)) == len(configs) and {trial.status for trial in after.trials} == {Trial.TERMINATED}
    assert after.epochs <= whole.epochs + WHOLE and max(trial.epoch for trial in after.trials) == WHOLE


@pytest.mark.parametrize("cut, ahead", [(9, 2), (9, 5), (20, 9), (30, 14), (40, 30)])
def test_what_tune_has_lost_is_trained_again(search, cut, ahead):
    """The searcher's snapshot is the newer one: trials of its are not in Tune's, or are not as far there."""
    whole = uninterrupted()
    new, old = Tuner(search).run(most=cut + ahead), Tuner(pausing()).run(most=cut)
    assert course(old) != course(new)
    after = restored(old.trials, search.get_state()).run(most=300)
    assert {trial.status for trial in after.trials} == {Trial.TERMINATED}
    assert after.epochs <= whole.epochs + ahead and max(trial.epoch for trial in after.trials) == WHOLE
    assert len({PLANE.key(trial.config) for trial in after.trials}) == len(after.trials)


def test_a_failed_trial_that_tune_runs_again_is_trained(search):
    tuner = Tuner(search)
    tuner.add(0)
    [trial] = tuner.trials
    trial.status = Trial.ERROR
    tuner.scheduler.on_trial_error(tuner, trial)
    after = restored([trial], search.get_state(), ended=(Trial.ERROR,))
    assert trial.status == Trial.PENDING, "it does not wait for ever"
    after.run()
    assert trial.epoch >= LENGTHS[0] * WHOLE and after.search.search.best is not None


def test_a_trial_that_was_ended_while_it_paused_has_a_new_one_where_it_goes_on(search):
    """By a stopper of the user's. The search does not wait for a trial that Tune will not run."""
    tuner = Tuner(search)
    winner = until_the_winner_pauses(tuner)
    tuner.stop_trial(winner)
    tuner.run(most=200)
    assert {trial.status for trial in tuner.trials} == {Trial.TERMINATED}
    assert [trial.epoch for trial in tuner.trials if trial.config == winner.config] == [winner.epoch, WHOLE]


# What is known beforehand ----------------------------------------------------------------------------------------

GIVEN = [{"lr": 2.0**-n, "decay": 2.0**-5} for n in (3, 6, 9)]


def test_points_to_evaluate_are_trained_short_first():
    tuner = Tuner(pausing(points_to_evaluate=GIVEN[:2], start=GIVEN[2])).run(most=6)
    assert course(tuner) == [(PLANE.key(h), LENGTHS[0] * WHOLE) for h in GIVEN]


def stored(folder, tuner):
    """A row a trial of a Tuner."""
    for n, trial in enumerate(tuner.trials):
        value = score(trial.config, trial.epoch)
        ended = {"status": "completed" if trial.epoch == WHOLE else "stopped", "val_score": value}
        row = {
            "study": "own", "search": "cd", "trial_id": f"cd-{n:05d}", "trial_index": n, "attempt": 0,
            "params": trial.config, "metric_name": "acc", "scores": {"epoch": trial.epoch}, "config": "{}",
            "software": "{}", **ended,
        }  # fmt: skip
        results.write_trial(folder, row)
    return results.read(folder, "own")


@pytest.mark.parametrize("given", [True, False], ids=["space given", "space from Tune"])
def test_a_search_begins_with_what_another_has_found(tmp_path, given):
    """Rows count at the length that they were trained; they cost nothing, and none is trained as far again."""
    rows = stored(tmp_path, uninterrupted())
    named = {"space": PLANE, "metric": "acc", "mode": "max"} if given else {}
    again = from_results(tmp_path, budget=2, **named)
    after = Tuner(pickle.loads(pickle.dumps(again)))
    reached = {PLANE.key(one.h): one.share * WHOLE for one in after.search.search.trainings}
    assert reached == {PLANE.key(h): s["epoch"] for h, s in zip(rows["params"], rows["scores"])}
    assert after.search.search.spent == 0
    after.run()
    assert all(epoch > reached.get(key, 0) for key, epoch in course(after)) and after.epochs >= WHOLE


class RecordedTuner(Tuner):
    """A Tuner whose trials have rows, and which Ctrl-C may end in the middle of a trial."""

    def __init__(self, search, folder):
        super().__init__(search)
        self.callback, self.left, self.begun = search.callback(folder, "own"), inf, set()
        self.callback.setup()

    def add(self, number):
        super().add(number)
        for place, trial in enumerate(self.trials, 1):
            trial.experiment_tag, trial.error_file, trial.pickled_error_file = f"{place}_lr=1", None, None

    def step(self, trial):
        if self.epochs >= self.left:
            raise KeyboardInterrupt
        if trial.trial_id not in self.begun:
            self.callback.on_trial_start(0, self.trials, trial)
            self.begun.add(trial.trial_id)
        super().step(trial)
        trial.last_result["training_iteration"] = trial.epoch
        self.callback.on_trial_result(0, self.trials, trial, trial.last_result)
        if trial.status != Trial.RUNNING:
            self.begun.discard(trial.trial_id)
        if trial.status == Trial.TERMINATED:
            self.callback.on_trial_complete(0, self.trials, trial)
        self.callback.on_step_end(0, self.trials)

    def rows(self, left=inf):
        """Run until Ctrl-C after so many epochs, if at all; the rows then."""
        self.left = left
        with suppress(KeyboardInterrupt):
            self.run()
        self.callback.on_experiment_end(self.trials)
        return results.read(self.callback.rows.location, "own").sort_values("trial_index")


def outcomes(rows):
    """What rows say, but for attempts and times."""
    told = ["trial_index", "direction", "line_position", "params", "status", "val_score", "scores"]
    return [{k: v for k, v in row.items() if k in told} for row in rows.to_dict("records")]


@pytest.mark.parametrize("stopped", range(3, 60, 14))
def test_resumed_from_its_rows_it_goes_on_as_if_it_had_never_stopped(tmp_path, stopped):
    """Stopped after so many epochs. Those of a trial that was cut off are trained again, first, and count as none."""
    whole = RecordedTuner(pausing(), tmp_path / "whole").rows()
    cut = RecordedTuner(pausing(), tmp_path / "cut")
    assert cut.rows(stopped)["error"].dropna().tolist() == [CUT] * len(cut.begun)
    searcher = from_results(tmp_path / "cut", resume=True)
    assert outcomes(RecordedTuner(searcher, tmp_path / "cut").rows()) == outcomes(whole)


def test_what_was_lost_after_a_pause_is_known_as_far_as_that(tmp_path):
    """Its row lists the runs before; as does the row of its next run, which goes to the next length first."""
    tuner = RecordedTuner(pausing(), tmp_path)
    while not (paused := [trial for trial in tuner.trials if trial.epoch == 4]):
        tuner.run(most=tuner.epochs + 1)
    [trial] = paused
    trial.status, trial.error_file = Trial.RUNNING, str(tmp_path / "error.txt")
    (tmp_path / "error.txt").write_text("The actor died unexpectedly before finishing this task.")
    trial.pickled_error_file, place = "error.pkl", tuner.trials.index(trial)
    tuner.callback.on_trial_start(0, tuner.trials, trial)
    tuner.callback.on_trial_error(0, tuner.trials, trial)
    tuner.callback.on_experiment_end(tuner.trials)
    row = results.read(tmp_path, "own").sort_values("trial_index").iloc[place]
    assert (row["status"], row["failure_kind"]) == ("failed", "lost") and row["params"].keys() == trial.config.keys()
    runs = json.loads(row["config"])["runs"]
    assert [(run["scores"]["epoch"], run["val_score"]) for run in runs] == [(n, score(trial.config, n)) for n in (2, 4)]
    again = from_results(tmp_path, resume=True)
    after = Tuner(again)
    after.add(0)
    assert PLANE.key(after.trials[0].config) == PLANE.key(trial.config), "it runs first"
    assert curve(again, trial.config) == {n / WHOLE: score(trial.config, n) for n in (2, 4)}
    assert again.search.until(trial.config) == 0.5


def test_tune_may_pickle_it_with_its_scheduler(search):
    Tuner(search).run(most=20)
    other, scheduler = pickle.loads(pickle.dumps((search, search.scheduler())))
    assert scheduler._search is other and other.get_state() == search.get_state()


def test_a_repeater_around_it_is_refused(search):
    """Of the repetitions of a setting Tune would pause the first alone."""
    tuner = Tuner(search)
    tuner.add(0)
    repeated = Repeater(search, repeat=2).suggest("t1")
    tuner.trials[0].config = repeated
    with pytest.raises(ValueError, match="Repeater around a search whose trials pause"):
        tuner.scheduler.on_trial_add(tuner, tuner.trials[0])


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
    tuner = tune.Tuner(
        Bowl,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="acc", mode="max", num_samples=-1, search_alg=search, scheduler=search.scheduler(),
            max_concurrent_trials=1, reuse_actors=True,
        ),
        run_config=tune.RunConfig(name="run", storage_path=str(tmp_path), verbose=0, callbacks=[callback, Interrupt()]),
    )  # fmt: skip
    Interrupt.left = 2
    tuner.fit()
    for left in (1, 0):
        assert Interrupt.left == left
        grid = tune.Tuner.restore(str(tmp_path / "run"), Bowl, param_space=SPACE).fit()
    found = {PLANE.key(result.config): result.metrics["epoch"] for result in grid}
    whole = Tuner(pausing(budget=1.5)).run()
    assert found == dict(course(whole)) and len(grid) == len(whole.trials)
    rows = results.read(tmp_path / "results", "own")
    reached = {PLANE.key(params): scores["epoch"] for params, scores in zip(rows["params"], rows["scores"])}
    assert reached == found and set(rows["status"]) == {"completed", "stopped"} and rows["attempt"].max() > 0
