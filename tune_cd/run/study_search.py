"""The searches of a study as one Ray Tune searcher, whose trials are packs of trainings or of parts of trainings.

A pack lasts as long as its longest part, and places whose part has ended are idle until then. So all parts of a pack
are as long as the shortest; longer trainings continue in the next pack, beside new ones.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from ray.tune.search import Searcher

from trainables.trial import UNTIL
from tune_cd.run.budget import Meter
from tune_cd.run.curves import reaches
from tune_cd.run.portfolio import ORIGIN, Asked, Portfolio
from tune_cd.search.training import Curve
from tune_cd.tune.packs import SEED, Packing

Trial = tuple[str, int, int]
"""(search, trial_index, seed) of a training."""

Reported = Callable[[Asked, Mapping[str, Any]], Curve]
"""(training, its last report, {} if it was lost) -> its learning curve."""


class StudySearch(Packing):
    """Hands out a portfolio's trainings, up to `size` as a trial, `packs` trials at a time.

    All trainings of a configuration begin in one trial, even beyond `size`. attempts: earlier runs of recorded trials
    that may run again. meter: of the --budget. note: is told what the table does not know of the searches. It keeps no
    state: `--resume` continues from the results table, which knows more than any snapshot.
    """

    def __init__(
        self,
        portfolio: Portfolio,
        size: int,
        packs: int,
        reported: Reported,
        attempts: Mapping[Trial, int] | None = None,
        meter: Meter | None = None,
        note: Callable[[list[dict]], None] | None = None,
    ):
        super().__init__("val_score", "max", packs)
        self._portfolio, self._size, self._reported, self._meter = portfolio, size, reported, meter
        self._note = note
        self._attempts = dict(attempts or {})
        self._cut: dict[Trial, tuple[Asked, float]] = {}  # continue in the next pack; with the share reached
        self._until: dict[Trial, float] = {}  # the share to which each was handed out

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Tune's call for a snapshot; none is taken."""

    def __getstate__(self) -> dict:
        """Empty: Tune pickles a copy with a Tuner, and never reads it."""
        return {}

    def _fill(self, trial_id: str) -> list[tuple[Asked, dict]] | str | None:
        if self._meter is not None and isfinite(self._meter.left):
            self._portfolio.allow(self._meter.left)
        pack = [self._cut.pop(trial) for trial in list(self._cut)[: self._size]]
        while not pack or len(pack) + len(self._portfolio.seeds) <= self._size:
            asked = self._portfolio.ask()
            if not asked:
                break
            pack += [(one, self._portfolio.reached(one)) for one in asked]
        if self._note is not None:
            self._note(self._portfolio.unrecorded)
        if not pack:
            return Searcher.FINISHED if self._portfolio.finished else None
        part = min(asked.until - reached for asked, reached in pack)
        if self._meter is not None:
            self._meter.begin(trial_id, part * len(pack))
        return [(asked, self._config(asked, reached + part)) for asked, reached in pack]

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        if self._meter is not None:
            self._meter.end(trial_id)
        super().on_trial_complete(trial_id, result, error)

    def _config(self, asked: Asked, until: float) -> dict:
        trial = trial_of(asked)
        attempt = self._attempts.get(trial, 0)
        self._attempts[trial], self._until[trial] = attempt + 1, until
        return {**asked.h, SEED: asked.seed, UNTIL: until, ORIGIN: {**asked.origin, "attempt": attempt}}

    def _tell(self, member: Asked, told: Mapping[str, Any] | None) -> None:
        told = told or {}
        curve, until = self._reported(member, told), self._until[trial_of(member)]
        if told.get("status") == "stopped" and not reaches(curve, member.until):
            self._cut[trial_of(member)] = member, until
        else:
            self._portfolio.tell(member, curve)


def trial_of(asked: Asked) -> Trial:
    return asked.origin["search"], asked.origin["trial_index"], asked.seed
