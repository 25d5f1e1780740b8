"""`PausingDescent` in a user's own Tuner: a searcher, and a scheduler that pauses and resumes its trials.

    search = PausingSearch(full_length=("training_iteration", 100), budget=20)
    tune.TuneConfig(metric="accuracy", mode="max", num_samples=-1, search_alg=search, scheduler=search.scheduler())

A searcher cannot pause a trial, and a scheduler cannot ask for a new one. So the two share the next step: if it is a
new configuration, the searcher suggests it; if it is a paused trial, the scheduler resumes it.
"""

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from ray.tune.schedulers import TrialScheduler
from ray.tune.utils import flatten_dict
from ray.tune.utils.util import unflatten_dict

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
from tune_cd.tune.reports import ROUNDING
from tune_cd.tune.snapshot import Ran

log = logging.getLogger(__name__)

Looks = Mapping[float, float | None]
"""Share of the full length -> value, larger is better; None: the training failed there."""


class PausingSearch(Adapter):
    """Searches with trials that pause at shares of their full length and resume when that promises most.

    full_length: (key of a result, its value at the end of a whole training), such as ("training_iteration", 100).
    budget: in whole trainings; None: the search ends when no step promises an improvement.
    lengths: shares of the full length at which trials may pause.
    start: one configuration or several. points_to_evaluate: further ones, tried before `start` in the given order; each
        is trained to the shortest length. evaluated_rewards: their values after a whole training, if known.
    space, metric, mode, directions, workers, seed, annotate: as for `CoordinateDescentSearch`.

    A trial's value is the best that it has reported so far. Trainables must report checkpoints (functions), or save
    and load them (classes). Without a checkpoint a function's trial starts over when it resumes, with a warning.
    Raises ValueError for arguments that do not fit.
    """

    STATE_VERSION = 2
    KNOWN = ("completed", "stopped")

    scheduled = False  # whether the Tuner has our scheduler, or a warning was given that it has not
    _counted = _warned = False  # whether a report had the key of full_length; whether a missing key was warned of

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
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, annotate, full_length, "best")
        self.full_length = self._reports.full_length
        self._shaped = {
            "budget": budget, "lengths": tuple(lengths), "directions": directions, "workers": workers, "seed": seed,
        }  # fmt: skip
        self._start = configurations(start)
        self._rows = {"full_length": full_length, "use_result": "best", "record": "pauses"}
        self._reached: dict[str, float] = {}  # trial id -> the longest length told
        self._ended: set[str] = set()  # ids of trials that Tune has ended
        self._step: Configuration | None = None  # the next step, decided but not yet started
        self._told_of: tuple[Configuration, float, float] | None = None  # the paused training last warned of
        self._begin_if_known()

    def scheduler(self) -> PausingScheduler:
        """The scheduler for the same Tuner."""
        return PausingScheduler(self)

    @property
    def best(self) -> tuple[dict, float] | None:
        """The best whole training: its configuration, nested as in `param_space`, and its value. None before one is.

        Tune's `get_best_result` compares the last reports of all trials, and may return one that was paused.
        """
        whole = self._best_at(lambda share: share == 1)
        self.warn_of_paused()  # Tune says nothing of the end of an experiment, e.g. by time_budget_s
        return None if whole is None else (unflatten_dict(whole[0]), self._signed(whole[2]))

    def believed(self, config: Mapping[str, Any]) -> tuple[float, float] | None:
        """Predicted value of a configuration at full length, and its standard deviation, in the metric's own sign.

        None if it failed, and before the first value. See `PausingDescent.believed`.
        """
        found = None if self._search is None else self._search.believed(flatten_dict(dict(config)))
        return None if found is None else (self._signed(found[0]), found[1])

    # Tune's side ----------------------------------------------------------------------------------------------

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Warn once if the Tuner has another scheduler; ours takes the reports."""
        if not self.scheduled:
            self.scheduled = True
            log.warning("no trial can pause: a PausingSearch needs TuneConfig(..., scheduler=search.scheduler())")

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """Tell the end of a trial.

        A trial that ended below its full length, by itself or by RunConfig(stop=...), has its best value there, and
        cannot go on. An error or no value is a failure, also of a trial that was just told to pause. A paused trial
        that Tune removes has told everything before.
        """
        h = self._trials.get(trial_id)
        self._ended.add(trial_id)
        seen = self._ended_with(trial_id, result)
        value, share = None if error else self._reports.value(seen), self._reports.share(seen) or 1.0
        if h is None and (h := self._adopted(trial_id, result)) is not None:
            self._search.tell(h, value, share, free=True, left=share < 1)
        if h is None or self._search is None:
            return
        if not self._under_way(h):
            if error and max(self._search.looks(h), default=1.0) < 1:  # e.g. while it was saved; it cannot resume
                self._search.tell(h, None, max(self._search.looks(h)))
            return
        at = share if value is not None else self._search.until(h)
        self._search.tell(h, value, at, left=value is not None and share < 1)

    # The scheduler's side -------------------------------------------------------------------------------------

    def next_step(self) -> Configuration | None:
        """The next configuration to train, new or paused; the same one until its training starts."""
        if self._step is None:
            self._step = self._course.next()
        return self._step

    def stop_new_trials(self) -> None:
        """Only resume paused trials from now on, since Tune has started num_samples trials.

        Configurations without a trial, e.g. of an earlier study, cannot resume.
        """
        asked = [*([] if self._step is None else [self._step]), *self._course.waiting]
        for h in [h for h in asked if self.trial_of(h) is None]:
            self._search.withdraw(h)
            self._course.drop(h)
        if self._step is not None and self.trial_of(self._step) is None:
            self._step = None
        self._search.grows = False
        self._search.leave(h for h, _ in self._search.reached if self.trial_of(h) is None)

    def warn_of_paused(self) -> None:
        """Warn, once of each, if a training that is not whole has a better value than every whole one."""
        whole, paused = self._best_at(lambda share: share == 1), self._best_at(lambda share: share < 1)
        if paused is not None and (whole is None or paused[2] > whole[2]) and self._told_of != paused:
            self._told_of = paused
            best = "none is whole" if whole is None else f"the best whole training has {self._signed(whole[2]):.6g}"
            log.warning(
                "the best known is %s, paused at %.3g of its length with %.6g, and %s; a budget larger by %.3g would "
                "finish it, unless it was stopped there", *paused[:2], self._signed(paused[2]), best, 1 - paused[1],
            )  # fmt: skip

    def mark_resumed(self) -> None:
        """Note that the paused trial of the next step has resumed."""
        self._step = None

    def trial_of(self, h: Configuration) -> str | None:
        """The id of a configuration's trial that has not ended; None if there is none."""
        key = self._search.space.key
        mine = (trial for trial, other in self._trials.items() if key(other) == key(h))
        return next((trial for trial in mine if trial not in self._ended), None)

    @property
    def finished(self) -> bool:
        """True when nothing is left to suggest: the search has stopped by itself."""
        return self._step is None and super().finished

    def must_wait(self, trial_id: str, params: Mapping[str, Any]) -> bool:
        """Register a trial that Tune adds, new or restored; return whether it stays paused.

        Tune may run a trial that the search did not ask for: it failed, its end is missing in Tune's snapshot, or the
        search does not know it. Such a trial is trained to the length that it had reached.
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
        """The length to which a trial was trained when it failed at this share: the length told last if it failed
        while it was saved, else the length asked for."""
        told, lengths = self._reached.get(trial_id, 0.0), self._search.lengths
        if told and told == max(length for length in lengths if length <= share + ROUNDING):
            return told
        return next(length for length in lengths if length >= share - ROUNDING)

    def take_report(self, trial_id: str, result: Mapping[str, Any]) -> str:
        """Take a report, tell its value if a length is reached, and return TrialScheduler.CONTINUE, PAUSE or STOP."""
        h = self._trials.get(trial_id)
        if h is None:
            return TrialScheduler.CONTINUE
        seen = self._heard(trial_id, result)
        if finite(result.get(self.full_length[0])) is None:
            self._uncounted(result)
        share = self._reports.share(seen)
        if share is None:
            return TrialScheduler.CONTINUE
        self._counted = True
        if not self._under_way(h):  # e.g. if Tune started it again after a restart
            return TrialScheduler.PAUSE
        if seen.diverged and self._metric in result:
            self._search.tell(h, None, share)
            return TrialScheduler.STOP
        whole = share == 1
        if seen.best is None:  # no value yet: training continues until there is one
            if whole:
                self._search.tell(h, None, 1.0)
            return TrialScheduler.STOP if whole else TrialScheduler.CONTINUE
        until = self._search.until(h)
        length = max((length for length in self._search.lengths if length <= share + ROUNDING), default=0.0)
        if length > self._reached.get(trial_id, 0.0):  # a report may come late, even beyond several lengths
            self._search.tell(h, seen.best, max(length, share))
            self._reached[trial_id] = length
        if share < until - ROUNDING:
            return TrialScheduler.CONTINUE
        return TrialScheduler.STOP if whole else TrialScheduler.PAUSE

    def _uncounted(self, result: Mapping[str, Any]) -> None:
        """Handle a report without the key of full_length: warn once; raise ValueError if no report ever had it."""
        key = self.full_length[0]
        said = f"a result without the number {key!r}, which full_length names; it has {sorted(result)}"
        if not self._counted:
            raise ValueError(said)
        if not self._warned:
            self._warned = True
            log.warning("%s: its value counts at the length before", said)

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        state = super().get_state()
        decided = [] if self._step is None else [self._step]
        own = {"reached": self._reached, "ended": sorted(self._ended)}
        return state | own | {"orphans": decided + state["orphans"]}

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        super().set_state(state)
        self._reached = dict(state["reached"])
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
        """Recall the search from its rows. Paused trainings keep their values but resume as new trials from scratch.

        Those that are run again are under way: as far as the search asks, else to the length after their last pause.
        """
        again, search, space = rows[to_retry(rows)], self._search, self._search.space
        search.recall(results.looks(rows, *self.full_length, again=again.index))
        lost = {space.key(h): h for h in map(space.check, again["params"])}
        while lost and (h := search.ask()) is not None:
            if lost.pop(space.key(h), None) is None:
                search.withdraw(h)
                break
        for h in lost.values():
            reached = max(search.looks(h), default=0.0) + ROUNDING
            search.begin(Proposal(h, "again", 0.0), next(length for length in search.lengths if length > reached))
        self._course.remember(rows, again)
        origins = (Proposal(row.params, row.direction, row.line_position) for row in rows.itertuples())
        self._course.origins = {space.key(origin.h): origin for origin in origins}

    def _tell(self, h: Configuration, value: float | None, pruned: bool) -> None:
        """Tell the value of a whole training. A pruned trial is left out, since its trained length is not known."""
        if pruned:
            warnings.warn(f"a pruned trial is left out, of which is not known how far it was: {h}", stacklevel=3)
            return
        self._search.tell(h, value, 1.0, free=True)

    def run_anew(self, but: Iterable[str] = ()) -> None:
        """Forget all trials: in another experiment even paused ones start over, since Tune does not have them."""
        super().run_anew(but)
        self._search.grows = True
        self._search.leave([])
        self._reports.restore({})
        self._trials, self._reached, self._ended, self._step = {}, {}, set(), None

    def _agree(self, trials: list[Ran]) -> None:
        super()._agree(trials)
        there = {trial.trial_id for trial in trials}
        self._ended = {trial.trial_id for trial in trials if trial.ended}
        for of_trial in (self._trials, self._reports.seen, self._reached):
            for gone in of_trial.keys() - there:
                del of_trial[gone]

    def _hear(self, trial: Ran) -> None:
        if finite(trial.result.get(self.full_length[0])) is not None:
            self.take_report(trial.trial_id, trial.result)

    def _asked_since(self, trial: Ran) -> Configuration | None:
        h = super()._asked_since(trial)
        if h is not None and not self._under_way(h) and not self._search.looks(h):
            self._search.begin(Proposal(h, "again", 0.0), self._search.lengths[0])
        return h

    def _best_at(self, wanted: Callable[[float], bool]) -> tuple[Configuration, float, float] | None:
        """(configuration, share trained, value, larger is better) of the best training whose share is wanted."""
        reached = [] if self._search is None else self._search.reached
        told = [(h, max(looks), looks[max(looks)]) for h, looks in reached if looks]
        return max((one for one in told if wanted(one[1]) and one[2] != FAILED), key=lambda one: one[2], default=None)


__all__ = ["PausingScheduler", "PausingSearch"]
