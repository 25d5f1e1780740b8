"""Stops a study that loses every trial, or whose trainings all raise one error, since the others would tell nothing;
with unusable data at the first trial."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ray.tune import Callback, Stopper

from trainables.trial import UnusableData
from tune_cd.run.portfolio import ORIGIN
from tune_cd.tune.callback.failures import failure_of
from tune_cd.tune.packs import members_of

UNUSABLE = f"{UnusableData.__module__}.{UnusableData.__qualname__}: "
"""The beginning of Tune's message of such an error."""

LEAST = 3
"""A study stops after so many trials lost in a row, and more than run at a time: a node takes its trials with it."""


def unusable_data(trial: Any) -> str | None:
    """The reason why the data are unusable, if that was the trial's last failure; else None. trial: Tune's."""
    error = failure_of(trial, {})[1]
    return error.removeprefix(UNUSABLE) if error.startswith(UNUSABLE) else None


NUMBERS = re.compile(r"0x[0-9a-fA-F]+|/tmp/\S+|\b[0-9a-f]{6,}\b|[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?|\b(?:nan|inf)\b")
"""What may differ between two messages of one error."""


class LossesInARow(Callback, Stopper):
    """Ends the Tune run, and says why in `broken`, after `most` trials whose process or node was lost, with no result
    between them; at once if the data cannot be used; and once more settings than run at a time, LEAST at least, have
    raised the same error, if no training has ended otherwise. Too little memory and timeouts depend on the setting and
    do not count. settings: trained at a time. worked: whether a training of an earlier call did not fail.
    """

    def __init__(self, at_a_time: int, settings: int = 1, worked: bool = False):
        self.most, self._most_raising = max(LEAST, at_a_time + 1), max(LEAST, settings + 1)
        self._lost, self._worked = 0, worked
        self._raising: dict[str, set[tuple[str, int]]] = defaultdict(set)  # error without numbers -> settings
        self.broken: str | None = None

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        self._lost = 0
        for config, told in members_of(trial.config, result):
            self._worked |= bool(told.get("done")) and told.get("status") != "failed"
            if told.get("done") and told.get("failure_kind") == "error":
                self._raised(told["error"].splitlines()[0], config[ORIGIN])

    def on_trial_complete(self, iteration, trials, trial, **info) -> None:
        self.on_trial_result(iteration, trials, trial, trial.last_result)

    def _raised(self, error: str, origin: Mapping[str, Any]) -> None:
        settings = self._raising[NUMBERS.sub("0", error)]
        settings.add((origin["search"], origin["trial_index"]))
        if len(settings) >= self._most_raising and not self._worked and self.broken is None:
            self.broken = f"{len(settings)} settings raised the same error, and no training ended otherwise: {error}"

    def on_trial_recover(self, iteration, trials, trial, **info) -> None:
        self.broken = self.broken or unusable_data(trial)

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        self._lost += 1
        self.on_trial_recover(iteration, trials, trial)
        if self.broken is None and self._lost >= self.most:
            self.broken = (
                f"{self._lost} trials in a row were lost, and no trial gave a result between them; "
                f"the last: {failure_of(trial, {})[1]}"
            )

    def __call__(self, trial_id: str, result: dict) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.broken is not None
