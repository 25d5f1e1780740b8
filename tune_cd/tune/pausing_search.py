"""`PausingDescent` in a user's own Tuner: a searcher, and the scheduler that pauses its trials and has them go on.

    search = PausingSearch(full_length=("training_iteration", 100), budget=20)
    tune.TuneConfig(metric="accuracy", mode="max", num_samples=-1, search_alg=search, scheduler=search.scheduler())

A searcher cannot pause a trial, a scheduler cannot ask for a new one. The two share what is to be done next: where that
is a new configuration the searcher suggests it, where it is a paused trial the scheduler has it go on.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.result import DEFAULT_METRIC
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE, Searcher
from ray.tune.utils.util import unflatten_dict

from tune_cd.results.rows import finite
from tune_cd.search.model_guided import LENGTHS
from tune_cd.search.pausing_descent import PausingDescent
from tune_cd.search.protocol import check_version, check_workers
from tune_cd.search.space import Configuration, Space
from tune_cd.tune.arguments import check_metric, check_mode
from tune_cd.tune.json_state import JsonState
from tune_cd.tune.param_space import space_from_tune, space_of

STATE_VERSION = 1
ROUNDING = 1e-9  # of a share

log = logging.getLogger(__name__)


class PausingSearch(JsonState, Searcher):
    """Searches with trials that pause at shares of their full length, and go on when that is worth most.

    full_length: (key of a result, its value at the end of a whole training), such as ("training_iteration", 100).
    budget: in whole trainings; None: until no step promises more. lengths: shares at which trials may pause.
    space, metric, mode, directions, start, workers, seed: as for `CoordinateDescentSearch`.

    A trial's value is the best that it has reported so far. Trainables must report a checkpoint (functions), or save
    and load one (classes); without any, a trial that goes on begins again, which a warning says. Raises ValueError for
    arguments that do not fit.
    """

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
    ):
        check_metric(metric)
        check_mode(mode)
        check_workers(workers)
        key, amount = full_length
        if not (isinstance(key, str) and finite(amount) is not None and amount > 0):
            raise ValueError(f"full_length {full_length!r}: the key of a result, and its value above 0 at the end")
        super().__init__(metric=metric, mode=mode)
        self.full_length = key, float(amount)
        self._shaped = {
            "budget": budget, "lengths": tuple(lengths), "directions": directions, "start": start, "workers": workers,
            "seed": seed,
        }  # fmt: skip
        self._space = space_of(space)
        self._search: PausingDescent | None = None
        self._trials: dict[str, Configuration] = {}  # trial id -> h
        self._best: dict[str, float] = {}  # trial id -> the best reported, larger is better
        self._reached: dict[str, float] = {}  # trial id -> the longest length told
        self._step: Configuration | None = None  # decided, and not yet under way
        self._again: list[Configuration] = []  # under way in a snapshot whose trials Tune does not have
        self._begin()

    def scheduler(self) -> "PausingScheduler":
        """The scheduler to be given to the same Tuner."""
        return PausingScheduler(self)

    # Tune's side ----------------------------------------------------------------------------------------------

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec) -> bool:
        """Tune's call before the first trial. Raises ValueError as the constructor does."""
        check_metric(metric)
        check_mode(mode)
        self._metric, self._mode = metric or self._metric, mode or self._mode
        self._space = self._space or space_from_tune(config)
        self._begin()
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Tune's max_concurrent_trials: so many are trained at a time, those that are paused not counted."""
        self._shaped["workers"] = max_concurrent
        if self._search is not None:
            self._search.workers = max_concurrent
        return True

    def suggest(self, trial_id: str) -> dict | str | None:
        """A new configuration; None while a trial must end first, or a paused one goes on; FINISHED."""
        self._require_known()
        h = self.decided()
        if h is None:
            return Searcher.FINISHED if self.finished else None
        if self.trial_of(h) is not None:
            return None
        self._step = None
        self._trials[trial_id] = h
        return unflatten_dict(h)

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """The scheduler has told what is to be told."""

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """The end of a trial: of one that ended before its full length by itself, what it reached; an error or no value
        is a failure. A paused one that Tune removes has told everything."""
        h = self._trials.get(trial_id)
        if h is None or self._search is None or not self._under_way(h):
            return
        if not error:
            self._take(trial_id, result or {})
        value = None if error else self._best.get(trial_id)
        self._search.tell(h, value, 1.0 if value is not None else self._search.until(h))

    # The scheduler's side -------------------------------------------------------------------------------------

    def decided(self) -> Configuration | None:
        """What to train next, new or paused; the same until it is under way."""
        if self._step is None:
            self._step = self._again.pop(0) if self._again else self._search.ask()
        return self._step

    def goes_on(self) -> None:
        """The paused trial that was decided is under way."""
        self._step = None

    def trial_of(self, h: Configuration) -> str | None:
        """The id of a configuration's trial."""
        key = self._search.space.key
        return next((trial for trial, other in self._trials.items() if key(other) == key(h)), None)

    @property
    def finished(self) -> bool:
        return self._search is not None and self._step is None and not self._again and self._search.finished

    def pauses(self, trial_id: str) -> bool:
        """Whether a trial is known, and is to wait."""
        h = self._trials.get(trial_id)
        return h is not None and (not self._under_way(h) or h == self._step)

    def reported(self, trial_id: str, result: Mapping[str, Any]) -> str:
        """Take a report; what becomes of the trial: TrialScheduler.CONTINUE, PAUSE or STOP."""
        h = self._trials.get(trial_id)
        if h is None:
            return TrialScheduler.CONTINUE
        key, amount = self.full_length
        if finite(result.get(key)) is None:
            raise ValueError(f"a result without the number {key!r}, which full_length names; it has {sorted(result)}")
        share = min(1.0, result[key] / amount)
        value = self._take(trial_id, result)
        if not self._under_way(h):  # as where Tune has begun it again after a restart
            return TrialScheduler.PAUSE
        if value is None and self._metric in result:
            self._search.tell(h, None, max(share, ROUNDING))
            return TrialScheduler.STOP
        until = self._search.until(h)
        for length in self._search.lengths:
            if self._reached.get(trial_id, 0.0) < length <= min(until, share + ROUNDING) and trial_id in self._best:
                self._search.tell(h, self._best[trial_id], length)
                self._reached[trial_id] = length
        if share < until - ROUNDING:
            return TrialScheduler.CONTINUE
        return TrialScheduler.STOP if until == 1 else TrialScheduler.PAUSE

    def agree(self, trial_ids: set[str]) -> None:
        """Tune has these trials, after a restart: what ran in others is asked for again."""
        gone = [trial for trial in self._trials if trial not in trial_ids]
        lost = [self._trials.pop(trial) for trial in gone]
        self._again += [h for h in lost if self._under_way(h) and h != self._step]

    def lost(self, trial_id: str) -> None:
        """A trial has failed."""
        self.on_trial_complete(trial_id, error=True)

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        return {
            "version": STATE_VERSION,
            "metric": self._metric,
            "mode": self._mode,
            "search": self._search and self._search.state(),
            "trials": self._trials,
            "best": self._best,
            "reached": self._reached,
            "step": self._step,
        }

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        check_version(state, STATE_VERSION)
        self._metric, self._mode = state["metric"], state["mode"]
        self._search = None if state["search"] is None else PausingDescent.from_state(state["search"])
        self._trials, self._best = dict(state["trials"]), dict(state["best"])
        self._reached, self._step = dict(state["reached"]), state["step"]

    def __getstate__(self) -> dict:
        """Tune pickles a Tuner with its searcher."""
        return {**vars(self), "_search": self._search and self._search.state()}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        self._search = self._search and PausingDescent.from_state(self._search)

    # ----------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The search begins once it is known what is searched."""
        if self._search is None and self._space is not None:
            self._search = PausingDescent(self._space, **self._shaped)

    def _take(self, trial_id: str, result: Mapping[str, Any]) -> float | None:
        """The result's value, larger is better, which counts if it is the best so far; None where there is none."""
        value = finite(result.get(self._metric))
        if value is None:
            return None
        value = -value if self._mode == "min" else value
        self._best[trial_id] = max(value, self._best.get(trial_id, value))
        return value

    def _under_way(self, h: Configuration) -> bool:
        key = self._search.space.key
        return key(h) in map(key, self._search.live)

    def _require_known(self) -> None:
        name = type(self).__name__
        if self._search is None:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls=name, space="space"))
        if self._mode is None:
            raise RuntimeError(UNDEFINED_METRIC_MODE.format(cls=name, metric=self._metric, mode=self._mode))
        self._metric = self._metric or DEFAULT_METRIC


class PausingScheduler(FIFOScheduler):
    """What `PausingSearch.scheduler()` gives. It decides nothing itself, so there is nothing of it to be saved."""

    _supports_buffered_results = False

    def __init__(self, search: PausingSearch):
        super().__init__()
        self._search = search
        self._agreed = self._said = False

    def on_trial_add(self, tune_controller, trial: Trial) -> None:
        """Tune has restored trials go on all at once: those that were paused wait."""
        if trial.status == Trial.PENDING and self._search.pauses(trial.trial_id):
            trial.set_status(Trial.PAUSED)

    def on_trial_error(self, tune_controller, trial: Trial) -> None:
        self._search.lost(trial.trial_id)

    def on_trial_result(self, tune_controller, trial: Trial, result: dict) -> str:
        return self._search.reported(trial.trial_id, result)

    def choose_trial_to_run(self, tune_controller) -> Trial | None:
        """A new trial first; then, if that was decided, a paused one. When nothing is left, paused ones are ended."""
        trials = tune_controller.get_trials()
        if not self._agreed:
            self._agreed = True
            self._search.agree({trial.trial_id for trial in trials})
        pending = next((trial for trial in trials if trial.status == Trial.PENDING), None)
        if pending is not None:
            return pending
        paused = {trial.trial_id: trial for trial in trials if trial.status == Trial.PAUSED}
        if not paused:
            return None
        h = self._search.decided()
        trial = None if h is None else paused.get(self._search.trial_of(h))
        if trial is not None:
            self._warn(trial)
            self._search.goes_on()
            return trial
        running = any(trial.status == Trial.RUNNING for trial in trials)
        if not running and (self._search.finished or tune_controller.search_alg.is_finished()):
            for trial in paused.values():
                tune_controller.stop_trial(trial)
        return None

    def _warn(self, trial: Trial) -> None:
        if trial.checkpoint is None and not self._said:
            self._said = True
            log.warning(
                "%s has no checkpoint and begins again: report one (functions), or save and load it (classes)",
                trial,
            )


__all__ = ["PausingScheduler", "PausingSearch"]
