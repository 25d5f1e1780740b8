"""Stops a study whose trials are all lost, or whose first trainings all raise an error, since the others would tell
nothing; with unusable data at the first trial."""

from collections.abc import Callable, Mapping
from typing import Any

from ray.tune import Stopper
from ray.tune.experiment import Trial

from trainables.trial import UnusableData
from tune_cd.run.portfolio import ORIGIN
from tune_cd.run.resources import Resources
from tune_cd.tune.callback.rows import failure_of

UNUSABLE = f"{UnusableData.__module__}.{UnusableData.__qualname__}: "
"""The beginning of Tune's message of such an error."""
LEAST = 3
"""A study stops after so many failures, and more than run at a time: a node takes its trials with it."""


class StudyStopper(Stopper):
    """Ends the Tune run, and says why in `broken`: at once if the data cannot be used, or if `outside` gives a reason;
    after several trials whose process or node was lost, with no result between them; and if all of the first settings
    raised an error. Too little memory and timeouts depend on the setting and do not count.

    worked: whether a training of an earlier call did not fail. outside: the reason why the driver must end, or None.
    lost: trials lost since the last result.
    """

    def __init__(self, resources: Resources, worked: bool = False, outside: Callable[[], str | None] = lambda: None):
        self._most_lost = max(LEAST, resources.processes + 1)
        self._most_raising = max(LEAST, resources.workers + 1)
        self._worked, self._outside = worked, outside
        self._raising: set[tuple[str, int]] = set()  # settings
        self.lost, self.broken = 0, None

    def __getstate__(self) -> dict:
        """Empty: Tune pickles a copy with a Tuner, and never reads it."""
        return {}

    def ended(self, config: Mapping[str, Any], told: Mapping[str, Any], seconds: float) -> None:
        """Take the end of a training."""
        self._worked |= told.get("status") != "failed"
        if told.get("failure_kind") == "error":
            self._raising.add((config[ORIGIN]["search"], config[ORIGIN]["trial_index"]))
            if len(self._raising) >= self._most_raising and not self._worked:
                error = told["error"].splitlines()[0]
                self._end(f"the first {len(self._raising)} settings raised errors; the last: {error}")

    def failed(self, trial: Trial, again: bool = False) -> None:
        """Take the failure of a trial. again: Tune begins it again."""
        self.lost += not again
        error = failure_of(trial, {})[1]
        if error.startswith(UNUSABLE):
            self._end(error.removeprefix(UNUSABLE))
        elif self.lost >= self._most_lost:
            self._end(f"{self.lost} trials in a row were lost, with no result between them; the last: {error}")

    def __call__(self, trial_id: str, result: dict) -> bool:
        return False

    def stop_all(self) -> bool:
        self._end(self._outside())
        return self.broken is not None

    def _end(self, reason: str | None) -> None:
        self.broken = self.broken or reason
