"""`PausingDescent` in a user's own Tuner: a searcher, and the scheduler that pauses its trials and has them go on.

    search = PausingSearch(full_length=("training_iteration", 100), budget=20)
    tune.TuneConfig(metric="accuracy", mode="max", num_samples=-1, search_alg=search, scheduler=search.scheduler())

A searcher cannot pause a trial, a scheduler cannot ask for a new one. The two share what is to be done next: where that
is a new configuration the searcher suggests it, where it is a paused trial the scheduler has it go on.
"""

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from ray.tune.schedulers import TrialScheduler
from ray.tune.utils import flatten_dict

from tune_cd import results
from tune_cd.results.attempts import to_retry
from tune_cd.results.rows import finite
from tune_cd.search.golden_section import FAILED
from tune_cd.search.model_guided import LENGTHS
from tune_cd.search.pausing_descent import PausingDescent
from tune_cd.search.protocol import Proposal, check_workers
from tune_cd.search.space import Configuration, Space
from tune_cd.tune.adapter import Adapter
from tune_cd.tune.arguments import check_full_length, configurations
from tune_cd.tune.course import Order
from tune_cd.tune.earlier import inside
from tune_cd.tune.pausing_scheduler import PausingScheduler
from tune_cd.tune.snapshot import Ran

log = logging.getLogger(__name__)

ROUNDING = 1e-9  # of a share

Looks = Mapping[float, float | None]
"""Share of the full length -> value, larger is better; None: it failed there."""


class PausingSearch(Adapter):
    """Searches with trials that pause at shares of their full length, and go on when that is worth most.

    full_length: (key of a result, its value at the end of a whole training), such as ("training_iteration", 100).
    budget: in whole trainings; None: until no step promises more. lengths: shares at which trials may pause.
    start: one configuration or several. points_to_evaluate: others, which come before it in this order; each is trained
        to the shortest length. evaluated_rewards: their values after a whole training, where these are known.
    space, metric, mode, directions, workers, seed, annotate: as for `CoordinateDescentSearch`.

    A trial's value is the best that it has reported so far. Trainables must report a checkpoint (functions), or save
    and load one (classes); without any, a trial that goes on begins again, which a warning says. Raises ValueError for
    arguments that do not fit.
    """

    STATE_VERSION = 2
    KNOWN = ("completed", "stopped")

    scheduled = False  # our scheduler is the Tuner's, or it was said that it is not
    _counted = _warned = False  # whether a report has said how far its trial is; whether it was said that one did not

    def __init__(
        self,
        space: Space | Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        full_length: tuple[str, float],
        budget: float | None = 20.0,
        lengths: Sequence[float] = LENGTHS,
        directions: Sequence[Sequence[float]] | None = None,
        start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        workers: int | None = None,
        seed: int = 0,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[float] | None = None,
        annotate: str | None = None,
    ):
        check_workers(workers)
        check_full_length(full_length)
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, annotate)
        self.full_length = full_length[0], float(full_length[1])
        self._shaped = {
            "budget": budget, "lengths": tuple(lengths), "directions": directions, "workers": workers, "seed": seed,
        }  # fmt: skip
        self._start = configurations(start)
        self._best: dict[str, float] = {}  # trial id -> the best reported, larger is better
        self._reached: dict[str, float] = {}  # trial id -> the longest length told
        self._ended: set[str] = set()  # ids of trials that Tune has ended
        self._step: Configuration | None = None  # decided, and not yet under way
        self._begin_if_known()

    def scheduler(self) -> PausingScheduler:
        """The scheduler to be given to the same Tuner."""
        return PausingScheduler(self)

    def believed(self, config: Mapping[str, Any]) -> tuple[float, float] | None:
        """What a configuration is believed to report at full length, and the standard deviation of that, in the
        metric's own sign; None where it failed, and before the first number. See `PausingDescent.believed`."""
        found = None if self._search is None else self._search.believed(flatten_dict(dict(config)))
        return None if found is None else (self._signed(found[0]), found[1])

    # Tune's side ----------------------------------------------------------------------------------------------

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """The scheduler tells what is to be told; a warning says where the Tuner has another one."""
        if not self.scheduled:
            self.scheduled = True
            log.warning("no trial can pause: a PausingSearch needs TuneConfig(..., scheduler=search.scheduler())")

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """The end of a trial: of one that ended before its full length by itself, what it reached; an error or no value
        is a failure, also of one that has just been told to pause. A paused one that Tune removes has told everything.
        """
        h = self._trials.get(trial_id)
        self._ended.add(trial_id)
        if h is None and (h := self._adopted(trial_id, result)) is not None:
            self._search.tell(h, None if error else self._number(result), self._share(result) or 1.0, free=True)
        if h is None or self._search is None:
            return
        if not self._under_way(h):
            if error and max(self._search.looks(h), default=1.0) < 1:  # as while it was saved; it cannot go on
                self._search.tell(h, None, max(self._search.looks(h)))
            return
        if not error:
            self._take(trial_id, result or {})
        value = None if error else self._best.get(trial_id)
        self._search.tell(h, value, 1.0 if value is not None else self._search.until(h))

    # The scheduler's side -------------------------------------------------------------------------------------

    def next_step(self) -> Configuration | None:
        """What to train next, new or paused; the same until it is under way."""
        if self._step is None:
            self._step = self._course.next()
        return self._step

    def stop_new_trials(self) -> None:
        """Tune has begun as many trials as it may: those that paused go on while that is worth anything. Configurations
        without a trial, as of an earlier study, cannot."""
        asked = [*([] if self._step is None else [self._step]), *self._course.waiting]
        for h in [h for h in asked if self.trial_of(h) is None]:
            self._search.withdraw(h)
            self._course.drop(h)
        if self._step is not None and self.trial_of(self._step) is None:
            self._step = None
        self._search.grows = False
        self._search.leave(h for h, _ in self._search.reached if self.trial_of(h) is None)

    def mark_resumed(self) -> None:
        """The paused trial that was decided is under way."""
        self._step = None

    def trial_of(self, h: Configuration) -> str | None:
        """The id of a configuration's trial, which may go on; None where it has none, or that has ended."""
        key = self._search.space.key
        mine = (trial for trial, other in self._trials.items() if key(other) == key(h))
        return next((trial for trial in mine if trial not in self._ended), None)

    @property
    def finished(self) -> bool:
        """True when nothing is left to suggest: the search has stopped by itself."""
        return self._step is None and super().finished

    def must_wait(self, trial_id: str, params: Mapping[str, Any]) -> bool:
        """Register a trial that Tune adds, new or restored; True: it stays paused.

        A trial that Tune runs although the search did not ask for more (it failed, its end is not in Tune's snapshot,
        or the search does not know it) is trained to the length that it had reached.
        """
        h = self._trials.get(trial_id) or self._adopted(trial_id, {"config": params})
        if h is None:
            return False
        self._ended.discard(trial_id)
        looks = self._search.looks(h)
        if not self._under_way(h) and (not looks or FAILED in looks.values() or max(looks) == 1):
            self._search.begin(Proposal(h, "again", 0.0), self._length_of(trial_id, max(looks, default=0.0)))
            self._reached[trial_id] = max(self._search.looks(h), default=0.0)
        if not self._under_way(h):
            return True
        key = self._search.space.key
        self._step = None if self._step is not None and key(self._step) == key(h) else self._step
        self._course.rerun([], but=[key(h)])
        return False

    def _length_of(self, trial_id: str, share: float) -> float:
        """The length to which a trial was trained that failed at this share: as it was saved, what had been told; while
        under way, what it was asked for."""
        told, lengths = self._reached.get(trial_id, 0.0), self._search.lengths
        if told and told == max(length for length in lengths if length <= share + ROUNDING):
            return told
        return next(length for length in lengths if length >= share - ROUNDING)

    def take_report(self, trial_id: str, result: Mapping[str, Any]) -> str:
        """Take a report; what becomes of the trial: TrialScheduler.CONTINUE, PAUSE or STOP."""
        h = self._trials.get(trial_id)
        if h is None:
            return TrialScheduler.CONTINUE
        share = self._share(result)
        if share is None:
            self._uncounted(result)
            return TrialScheduler.CONTINUE
        self._counted = True
        value = self._take(trial_id, result)
        if not self._under_way(h):  # as where Tune has begun it again after a restart
            return TrialScheduler.PAUSE
        if value is None and self._metric in result:
            self._search.tell(h, None, max(share, ROUNDING))
            return TrialScheduler.STOP
        whole = share >= 1 - ROUNDING
        if trial_id not in self._best:  # nothing to be told yet: it is trained on until there is
            if whole:
                self._search.tell(h, None, 1.0)
            return TrialScheduler.STOP if whole else TrialScheduler.CONTINUE
        until = self._search.until(h)
        length = max((length for length in self._search.lengths if length <= share + ROUNDING), default=0.0)
        if length > self._reached.get(trial_id, 0.0):  # a report may come late, even beyond several lengths
            self._search.tell(h, self._best[trial_id], 1.0 if whole else max(length, share))
            self._reached[trial_id] = length
        if share < until - ROUNDING:
            return TrialScheduler.CONTINUE
        return TrialScheduler.STOP if whole else TrialScheduler.PAUSE

    def _uncounted(self, result: Mapping[str, Any]) -> None:
        """A report that does not say how far its trial is. Raises ValueError where none ever did; else warns once."""
        key = self.full_length[0]
        said = f"a result without the number {key!r}, which full_length names; it has {sorted(result)}"
        if not self._counted:
            raise ValueError(said)
        if not self._warned:
            self._warned = True
            log.warning("%s: it is passed over", said)

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        state = super().get_state()
        decided = [] if self._step is None else [self._step]
        own = {"best": self._best, "reached": self._reached, "ended": sorted(self._ended)}
        return state | own | {"orphans": decided + state["orphans"]}

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        super().set_state(state)
        self._best, self._reached = dict(state["best"]), dict(state["reached"])
        self._ended, self._step = set(state["ended"]), None
        self._counted = bool(self._reached)

    # The adapter's --------------------------------------------------------------------------------------------

    def _begin(self, space: Space) -> Order:
        tried = [point for point, reward in self._points if reward is None]
        search = self._limited(PausingDescent(space, start=tried + self._start or None, **self._shaped))
        told = [(point, {1.0: self._signed(reward)}) for point, reward in self._points if reward is not None]
        for h, looks in [*told, *inside(self._known, space)]:
            for share, value in looks.items():
                search.tell(h, value, share, free=True)
        return Order(search)

    _loaded, _order = staticmethod(PausingDescent.from_state), staticmethod(Order)

    def _next(self) -> Configuration | None:
        h = self.next_step()
        if h is None or self.trial_of(h) is not None:
            return None
        self._step = None
        return h

    def _knowledge(self, trials: pd.DataFrame) -> list[tuple[Configuration, Looks]]:
        return results.looks(trials, *self.full_length)

    def _recall(self, rows: pd.DataFrame) -> None:
        """What had paused is known, and goes on as a new trial from its beginning."""
        again, space = rows[to_retry(rows)], self._search.space
        lost = [(space.check(params), self._search.lengths[0]) for params in again["params"]]
        self._search.recall(results.looks(rows.drop(again.index), *self.full_length), lost)
        self._course.remember(rows, again)
        origins = (Proposal(row.params, row.direction, row.line_position) for row in rows.itertuples())
        self._course.origins = {space.key(origin.h): origin for origin in origins}

    def _tell(self, h: Configuration, value: float | None, pruned: bool) -> None:
        """A pruned trial's value says nothing, since it is not known how far it was trained."""
        if pruned:
            warnings.warn(f"a pruned trial is left out, of which is not known how far it was: {h}", stacklevel=3)
            return
        self._search.tell(h, value, free=True)

    def run_anew(self, but: Iterable[str] = ()) -> None:
        """In another experiment even paused trials begin again: Tune has none of them."""
        super().run_anew(but)
        self._trials, self._best, self._reached, self._ended, self._step = {}, {}, {}, set(), None

    def _agree(self, trials: list[Ran]) -> None:
        super()._agree(trials)
        there = {trial.trial_id for trial in trials}
        self._ended = {trial.trial_id for trial in trials if trial.ended}
        for of_trial in (self._trials, self._best, self._reached):
            for gone in of_trial.keys() - there:
                del of_trial[gone]

    def _hear(self, trial: Ran) -> None:
        if self._share(trial.result) is not None:
            self.take_report(trial.trial_id, trial.result)

    def _asked_since(self, trial: Ran) -> Configuration | None:
        h = super()._asked_since(trial)
        if h is not None and not self._under_way(h) and not self._search.looks(h):
            self._search.begin(Proposal(h, "again", 0.0), self._search.lengths[0])
        return h

    def _share(self, result: Mapping[str, Any] | None) -> float | None:
        """How much of a whole training a result has; None where it does not say."""
        key, amount = self.full_length
        reached = finite((result or {}).get(key))
        return None if reached is None else max(ROUNDING, min(1.0, reached / amount))

    def _take(self, trial_id: str, result: Mapping[str, Any]) -> float | None:
        """The result's value, larger is better, which counts if it is the best so far; None where there is none."""
        value = self._number(result)
        if value is not None:
            self._best[trial_id] = max(value, self._best.get(trial_id, value))
        return value


__all__ = ["PausingScheduler", "PausingSearch"]
