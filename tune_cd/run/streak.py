"""Stops a study that loses every trial, since the others would tell nothing; with unusable data at the first trial."""

from typing import Any

from ray.tune import Callback, Stopper

from trainables.trial import UnusableData
from tune_cd.tune.callback.failures import failure_of

UNUSABLE = f"{UnusableData.__module__}.{UnusableData.__qualname__}: "
"""The beginning of Tune's message of such an error."""

LEAST = 3
"""A study stops after so many trials lost in a row, and more than run at a time: a node takes its trials with it."""


def unusable_data(trial: Any) -> str | None:
    """The reason why the data are unusable, if that was the trial's last failure; else None. trial: Tune's."""
    error = failure_of(trial, {})[1]
    return error.removeprefix(UNUSABLE) if error.startswith(UNUSABLE) else None


class LossesInARow(Callback, Stopper):
    """Ends the Tune run after `most` trials whose process or node was lost, with no result of any trial between them;
    at once if the data cannot be used.

    As a callback it counts, as a stopper it ends the run. broken: the reason, or None.
    """

    def __init__(self, at_a_time: int):
        self.most = max(LEAST, at_a_time + 1)
        self._lost = 0
        self.broken: str | None = None

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        self._lost = 0

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        self._lost = 0

    def on_trial_recover(self, iteration, trials, trial, **info) -> None:
        self.broken = self.broken or unusable_data(trial)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._lost += 1
        self.broken = self.broken or unusable_data(trial)
        if self.broken is None and self._lost >= self.most:
            self.broken = (
                f"{self._lost} trials in a row were lost, and no trial gave a result between them; "
                f"the last: {failure_of(trial, {})[1]}"
            )

    def __call__(self, trial_id: str, result: dict) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.broken is not None
