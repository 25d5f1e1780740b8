"""Stops a study whose trials are all lost, or whose first trainings all raise an error, since the others would tell
nothing; with unusable data at the first trial."""

from collections.abc import Callable

from ray.tune import Callback, Stopper

from trainables.trial import UnusableData
from tune_cd.run.portfolio import ORIGIN
from tune_cd.run.resources import Resources
from tune_cd.tune.callback.failures import failure_of
from tune_cd.tune.packs import members_of

UNUSABLE = f"{UnusableData.__module__}.{UnusableData.__qualname__}: "
"""The beginning of Tune's message of such an error."""
LEAST = 3
"""A study stops after so many failures, and more than run at a time: a node takes its trials with it."""


class StudyStopper(Callback, Stopper):
    """Ends the Tune run, and says why in `broken`: at once if the data cannot be used, or if `outside` gives a reason;
    after several trials whose process or node was lost, with no result between them; and if all of the first settings
    raised an error. Too little memory and timeouts depend on the setting and do not count.

    worked: whether a training of an earlier call did not fail. outside: the reason why the driver must end, or None.
    """

    def __init__(self, resources: Resources, worked: bool = False, outside: Callable[[], str | None] = lambda: None):
        self._most_lost = max(LEAST, resources.processes + 1)
        self._most_raising = max(LEAST, resources.workers + 1)
        self._lost, self._worked, self._outside = 0, worked, outside
        self._raising: set[tuple[str, int]] = set()  # settings
        self.broken: str | None = None

    def __getstate__(self) -> dict:
        """Empty: Tune pickles a copy with a Tuner, and never reads it."""
        return {}

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        self._lost = 0
        for config, told in members_of(trial.config, result):
            if told.get("done"):
                self._worked |= told.get("status") != "failed"
                if told.get("failure_kind") == "error":
                    self._raising.add((config[ORIGIN]["search"], config[ORIGIN]["trial_index"]))
                    self._check_raising(told["error"].splitlines()[0])

    def _check_raising(self, error: str) -> None:
        if len(self._raising) >= self._most_raising and not self._worked and self.broken is None:
            self.broken = f"the first {len(self._raising)} settings raised errors; the last: {error}"

    def on_trial_recover(self, iteration, trials, trial, **info) -> None:
        error = failure_of(trial, {})[1]
        if self.broken is None and error.startswith(UNUSABLE):
            self.broken = error.removeprefix(UNUSABLE)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._lost += 1
        self.on_trial_recover(iteration, trials, trial)
        if self.broken is None and self._lost >= self._most_lost:
            self.broken = (
                f"{self._lost} trials in a row were lost, and no trial gave a result between them; "
                f"the last: {failure_of(trial, {})[1]}"
            )

    def __call__(self, trial_id: str, result: dict) -> bool:
        return False

    def stop_all(self) -> bool:
        self.broken = self.broken or self._outside()
        return self.broken is not None
