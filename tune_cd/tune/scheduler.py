"""The scheduler of a `CoordinateDescentSearch` whose trials pause: it pauses and resumes the search's trials."""

from typing import TYPE_CHECKING

from ray.tune import Trainable
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search.repeater import TRIAL_INDEX as REPETITION

if TYPE_CHECKING:
    from tune_cd.tune.searcher import CoordinateDescentSearch

OF_TRAIN = "checkpoint_path"
"""Key under which Ray Train's `TuneReportCallback` reports the path of a checkpoint, which Train itself loads."""


class PausingScheduler(FIFOScheduler):
    """The scheduler that `search.scheduler()` returns. The search decides, so the scheduler saves no state."""

    _supports_buffered_results = False

    def __init__(self, search: "CoordinateDescentSearch"):
        super().__init__()
        self._search = search

    def on_trial_add(self, tune_controller, trial: Trial) -> None:
        """Register a trial, and pause it unless the search trains it now; Tune would resume all restored ones at once.

        Raises ValueError for a Repeater, for a trainable class that cannot be saved, and in another search's Tuner.
        """
        if self._search.trials is None:
            raise ValueError("this scheduler is of another search than the Tuner's search_alg")
        if REPETITION in trial.config:
            raise ValueError(
                "Repeater around a search whose trials pause: only the first repetition of a setting could pause; "
                "average over seeds within the trainable"
            )
        _require_saved(trial)
        if trial.status == Trial.PENDING and self._search.trials.must_wait(trial.trial_id, trial.evaluated_params):
            trial.set_status(Trial.PAUSED)

    def on_trial_error(self, tune_controller, trial: Trial) -> None:
        self._search.on_trial_complete(trial.trial_id, error=True)

    def on_trial_result(self, tune_controller, trial: Trial, result: dict) -> str:
        return self._search.trials.report(trial.trial_id, result)

    def choose_trial_to_run(self, tune_controller) -> Trial | None:
        """Choose a new trial, else a paused one if it is the search's next step; end paused ones if nothing is left.

        Once Tune has started num_samples trials, only these go on.
        """
        trials = tune_controller.get_trials()
        self._search.trials.agree(trials)
        pending = next((trial for trial in trials if trial.status == Trial.PENDING), None)
        if pending is not None:
            return pending
        of_search = self._search.trials
        paused = {trial.trial_id: trial for trial in trials if trial.status == Trial.PAUSED}
        if not paused:
            return None
        exhausted = tune_controller.search_alg.is_finished()
        if exhausted:
            of_search.stop_new()
        h = of_search.next()
        trial = None if h is None else paused.get(of_search.of(h))
        if trial is not None:
            if trial.checkpoint is None and OF_TRAIN not in trial.last_result:
                of_search.say_once(
                    "a trial that goes on has no checkpoint and begins again: report one (functions), or save and load "
                    "it (classes)"
                )
            of_search.step = None
            return trial
        running = any(trial.status == Trial.RUNNING for trial in trials)
        if not running and (of_search.finished or exhausted):
            of_search.warn_of_paused()
            for trial in paused.values():
                tune_controller.stop_trial(trial)
        return None


def _require_saved(trial: Trial) -> None:
    cls = trial.get_trainable_cls()
    if cls is not None and (cls.save, cls.save_checkpoint) == (Trainable.save, Trainable.save_checkpoint):
        raise ValueError(
            f"{cls.__name__} cannot be saved, so its trials cannot pause: it needs save_checkpoint and load_checkpoint"
        )
