"""Tune's controller without processes, with a searcher, its scheduler and its callback. No test in here."""

import json
from contextlib import suppress
from math import inf
from types import SimpleNamespace

from fake_trials import FakeTrial
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from tune_cd import results


class FakeTuner:
    """As Tune's controller calls a searcher, the scheduler of one whose trials pause, and its callback. A trial reports
    every epoch.

    value: (config, epoch) -> the metric "acc" of a report, None where it has none.  epochs: after so many a trial ends
    by itself, where trials do not pause.  samples: Tune's num_samples.  slots: trials at a time; the one at place
    `ends(n)` of the n that run goes on until it pauses or ends.  folder: of the rows of study "s", if there is one.
    """

    def __init__(
        self, search, value, space=None, mode="max", *, epochs=1, samples=inf, slots=1, ends=None, folder=None
    ):
        self.search, self.value, self.space, self.mode = search, value, space or {}, mode
        self.epochs, self.samples, self.slots, self.ends = epochs, samples, slots, ends or (lambda n: 0)
        search.set_search_properties("acc", mode, self.space)
        self.scheduler = search.scheduler() if search.pauses else FIFOScheduler()
        self.folder, self.callback = folder, Callback() if folder is None else search.callback(folder, "s")
        self.trials, self.running = [], []
        self.over, self.trained, self.limit = False, 0, inf
        self.search_alg = SimpleNamespace(is_finished=lambda: self.over)
        self.checkpoint, self.told, self.trainable = "there", {}, None  # of the trials
        self.callback.setup()

    # What the scheduler calls

    def get_trials(self):
        return self.trials

    def stop_trial(self, trial):
        trial.status = Trial.TERMINATED
        self.search.on_trial_complete(trial.trial_id, trial.last_result)

    # An experiment

    def add(self):
        """Ask for a trial, if there may be another."""
        if len(self.trials) < self.samples:
            config = self.search.suggest(f"t{len(self.trials)}")
            if isinstance(config, dict):
                number = len(self.trials) + 1
                trial = FakeTrial(number, config, trial_id=f"t{number - 1}")
                trial.checkpoint, trial.trainable = self.checkpoint, self.trainable
                self.trials.append(trial)
                self.scheduler.on_trial_add(self, trial)
            self.over = config == Searcher.FINISHED
        self.over = self.over or len(self.trials) >= self.samples

    def fill(self):
        """Begin or resume trials while a slot is free."""
        while len(self.running) < self.slots:
            self.callback.on_step_begin(0, self.trials)
            if not self.over:
                self.add()
            trial = self.scheduler.choose_trial_to_run(self)
            if trial is None:
                return
            trial.status = Trial.RUNNING
            self.running.append(trial)
            self.callback.on_trial_start(0, self.trials, trial)

    def run(self, most=inf):
        """Run to the end, or until so many epochs are trained. Raises RuntimeError where it would wait for ever."""
        waited = 0
        while self.trained < most:
            self.fill()
            if self.running:
                waited, trial = 0, self.running[self.ends(len(self.running))]
                while trial.status == Trial.RUNNING:
                    self.step(trial)
            elif self.over:
                break
            else:
                waited += 1
                if waited > 3:
                    raise RuntimeError(f"nothing runs, and {self.search.search.ask()} is to be next")
        return self

    def step(self, trial):
        """Train a trial by an epoch."""
        if self.trained >= self.limit:
            raise KeyboardInterrupt
        trial.epoch, self.trained = trial.epoch + 1, self.trained + 1
        value = self.value(trial.config, trial.epoch)
        trial.last_result = {"epoch": trial.epoch, "training_iteration": trial.epoch, **self.told}
        trial.last_result |= {} if value is None else {"acc": value}
        decision = self.scheduler.on_trial_result(self, trial, trial.last_result)
        if not self.search.pauses:
            self.search.on_trial_result(trial.trial_id, trial.last_result)
        self.callback.on_trial_result(0, self.trials, trial, trial.last_result)
        if decision == TrialScheduler.STOP or (not self.search.pauses and trial.epoch >= self.epochs):
            self.stop(trial)
        elif decision == TrialScheduler.PAUSE:
            trial.status = Trial.PAUSED
        self._leave(trial)

    def stop(self, trial):
        """A trial ends, by itself or as a stopper has it."""
        self.stop_trial(trial)
        self.callback.on_trial_complete(0, self.trials, trial)
        self._leave(trial)

    def fail(self, trial, text="Error: no"):
        """A trial ends with an error; Tune may run it again."""
        trial.status = Trial.ERROR
        self.scheduler.on_trial_error(self, trial)
        self.search.on_trial_complete(trial.trial_id, None, error=True)
        if self.folder is not None:
            trial.fail(self.folder, text)
        self.callback.on_trial_error(0, self.trials, trial)
        self._leave(trial)

    def _leave(self, trial):
        self.callback.on_step_end(0, self.trials)
        if trial in self.running and trial.status != Trial.RUNNING:
            self.running.remove(trial)

    def rows(self, after=inf):
        """Run to the end, or to Ctrl-C after so many epochs, maybe in the middle of a trial; the rows then."""
        self.limit = after
        with suppress(KeyboardInterrupt):
            self.run()
        self.callback.on_experiment_end(self.trials)
        return results.read(self.folder, "s").sort_values("trial_index", ignore_index=True)

    def restored(self, search, state, ended=()):
        """A Tuner with these trials and another searcher in this state, each as its own snapshot had it. ended:
        statuses of trials that are run again, besides those that were under way."""
        alike = {"epochs": self.epochs, "samples": self.samples, "folder": self.folder}
        again = FakeTuner(search, self.value, self.space, self.mode, **alike)
        search.set_state(json.loads(json.dumps(state)))
        again.trials, again.trained = list(self.trials), sum(trial.epoch for trial in self.trials)
        for trial in self.trials:
            if trial.status in (Trial.PAUSED, Trial.RUNNING, *ended):
                trial.status = Trial.PENDING
                again.scheduler.on_trial_add(again, trial)
        return again


def report_to(search, trial, result):
    """As Tune does; where trials pause, it is their scheduler that hears first."""
    (search.trials.report if search.pauses else search.on_trial_result)(trial, result)


def drive(search, trials, value, metric="acc", name="t"):
    """So many trials, `name` and a number each, one after the other, with the value of each configuration at their end;
    the configurations."""
    configs = []
    for trial in (f"{name}{number}" for number in range(trials)):
        configs.append(search.suggest(trial))
        report_to(search, trial, {metric: value(configs[-1]), "training_iteration": 1})
        search.on_trial_complete(trial, result={metric: value(configs[-1])}, error=False)
    return configs
