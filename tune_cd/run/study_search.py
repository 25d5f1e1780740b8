"""The searches of a study as one Ray Tune searcher, whose trials are packs of trainings or of parts of trainings.

A pack lasts as long as its longest part, and places whose part has ended are idle until then. So all parts of a pack
are as long as the shortest; longer trainings continue in the next pack, beside new ones. The path of a training:

    StudySearch.suggest    Portfolio.ask, CoordinateDescent.ask
    `trainables.trial`     trains it; `Recorder` writes its row before it is reported as done
    StudySearch.end        Listener.ended (its line on the screen, the log of --log-to, what else follows from it)
                           Portfolio.tell, CoordinateDescent.tell
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher
from ray.tune.utils.util import unflatten_dict

from trainables.trial import PACK, UNTIL
from tune_cd.run.budget import Meter
from tune_cd.run.curves import reaches
from tune_cd.run.portfolio import ORIGIN, Asked, Portfolio
from tune_cd.search.training import Curve


class Listener(Callback):
    """Follows a study: Tune's events of its trials, and the ends of trainings, which come while a pack still runs."""

    def ended(self, config: Mapping[str, Any], told: Mapping[str, Any], seconds: float) -> None:
        """A training has paused or ended. config: the training's, with batch size, seed, and origin. told: its last
        report. seconds: of its process."""

    def __getstate__(self) -> dict:
        """Empty: Tune pickles a copy with a Tuner, and never reads it."""
        return {}


class StudySearch(Searcher):
    """Hands out a portfolio's trainings, up to `size` as a trial, `packs` trials at a time.

    All trainings of a configuration begin in one trial, even beyond `size`. fixed: parameters that are not searched.
    reported: (training, its last report, {} if it was lost) -> its learning curve. meter: of the --budget. note: is
    told what the table does not know of the searches. It keeps no state: `--resume` continues from the results table,
    which knows more than any snapshot.
    """

    def __init__(
        self, portfolio: Portfolio, size: int, packs: int,
        reported: Callable[[Asked, Mapping[str, Any]], Curve], fixed: Mapping[str, Any] | None = None,
        listeners: Sequence[Listener] = (), meter: Meter | None = None,
        note: Callable[[list[dict]], None] = lambda running: None,
    ):  # fmt: skip
        super().__init__(metric="val_score", mode="max")
        self._portfolio, self._size, self._packs, self._reported = portfolio, size, packs, reported
        self._fixed, self._listeners = dict(fixed or {}), listeners
        self.meter, self._note = meter or Meter(None, packs, 0.0), note
        # trial id -> place in its pack -> training not yet told, and the share to which the trial trains it
        self._running: dict[str, dict[int, tuple[Asked, float]]] = {}
        self._cut: list[Asked] = []  # continue in the next pack

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Tune's call for a snapshot; none is taken."""

    __getstate__ = Listener.__getstate__

    def suggest(self, trial_id: str) -> dict | str | None:
        """{"pack": configurations}, as many as are available and fit; None while the searches wait; or FINISHED."""
        if len(self._running) >= self._packs:
            return None
        if isfinite(left := self.meter.left):
            self._portfolio.allow(left)
        pack = self._next_pack()
        self._note(self._portfolio.unrecorded)
        if not pack:
            return Searcher.FINISHED if self._portfolio.finished else None
        part = min(asked.until - asked.reached for asked in pack)
        self.meter.begin(trial_id, part * len(pack))
        parts = [(asked, asked.reached + part) for asked in pack]
        self._running[trial_id] = dict(enumerate(parts))
        return {PACK: [self._config(asked) | {UNTIL: until} for asked, until in parts]}

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Tell trainings that are done at once, so that the searches can go on before the pack ends."""
        for place, told in reports_in(result).items():
            if told.get("done"):
                self._end(trial_id, int(place), told, result)

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """End a pack: trainings not yet done have failed if the pack failed; else their last reports count."""
        self.meter.end(trial_id)
        reports = reports_in(result)
        for place in list(self._running.get(trial_id, {})):
            told = reports.get(str(place), {})
            self._end(trial_id, place, told if told.get("done") or not error else {}, result or {})
        self._running.pop(trial_id, None)

    def _next_pack(self) -> list[Asked]:
        pack, self._cut = self._cut[: self._size], self._cut[self._size :]
        while not pack or len(pack) + len(self._portfolio.seeds) <= self._size:
            if not (asked := self._portfolio.ask()):
                break
            pack += asked
        return pack

    def _config(self, asked: Asked) -> dict[str, Any]:
        return {**self._fixed, **asked.h, "seed": asked.seed, ORIGIN: asked.origin}

    def _end(self, trial_id: str, place: int, told: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Take the end of a training. told: its last report; {}: none, or its pack failed. result: of the pack."""
        if place not in self._running.get(trial_id, {}):  # it was told before: a pack's report has all its trainings
            return
        asked, reached = self._running[trial_id].pop(place)
        if told.get("done"):
            for listener in self._listeners:
                listener.ended(self._config(asked), told, result.get("time_total_s", 0.0))
        curve = self._reported(asked, told)
        if told.get("status") == "stopped" and not reaches(curve, asked.until):
            origin = {**asked.origin, "attempt": asked.origin["attempt"] + 1}
            self._cut.append(replace(asked, origin=origin, reached=reached))
        else:
            self._portfolio.tell(asked, curve)


def reports_in(result: Mapping[str, Any] | None) -> dict[str, dict]:
    """The reports of a pack's trainings by index. result: nested as reported, or with flat keys as searchers get it."""
    nested = unflatten_dict({name: value for name, value in (result or {}).items() if name.split("/")[0] == PACK})
    return nested.get(PACK, {})


def not_done(trial: Trial) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(configuration, last report) of each training of a trial that was not done."""
    reports = reports_in(trial.last_result)
    members = [(config, reports.get(str(place), {})) for place, config in enumerate(trial.config[PACK])]
    return [(config, told) for config, told in members if not told.get("done")]
