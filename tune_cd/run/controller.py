"""Tune's controller, which takes the loss of a process for one failure: the one private API of Tune that a study needs.

Tune keeps idle processes for the next trial. If one is gone by then, with its node for instance, Tune 2.60 reports the
loss twice: for the process, and begins the trial again; then for the call, and ends it, however many failures are
allowed.
"""

from ray.exceptions import RayActorError
from ray.tune import tune
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial


class Controller(TuneController):
    """Passes over the second report: of a lost process, while the trial waits for another one."""

    def _trial_task_failure(self, trial: Trial, exception: Exception) -> None:
        if isinstance(exception, RayActorError) and trial.status == Trial.PENDING:
            self._resetting_trials.discard(trial)  # else it would count as one that has a process
        else:
            super()._trial_task_failure(trial, exception)


def count_losses_once() -> None:
    """Have every `Tuner.fit` of this process use this controller."""
    tune.TuneController = Controller
