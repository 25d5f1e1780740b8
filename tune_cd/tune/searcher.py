"""`CoordinateDescentSearch`: the search as a Ray Tune `Searcher`, with or without trials that pause.

    search = CoordinateDescentSearch()                                                   # whole trials
    search = CoordinateDescentSearch(lengths=LENGTHS, full_length=("training_iteration", 100), budget=20)
    tune.TuneConfig(metric="accuracy", mode="max", num_samples=-1, search_alg=search, scheduler=search.scheduler())

`CoordinateDescent` decides which configuration is trained next, and how long; `Trials` knows which trial trains it.
This class converts Tune's `param_space` and what is known beforehand, and saves its state as JSON. The path of a trial:

    suggest               Trials.begin      CoordinateDescent.ask
    on_trial_result       Reports.observe   where trials pause: PausingScheduler, Trials.report, CoordinateDescent.tell
    on_trial_complete     Trials.end        CoordinateDescent.tell
    its row               ResultsCallback   from the same reports, RowWriter
"""

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.result import DEFAULT_METRIC
from ray.tune.search import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE, Searcher
from ray.tune.utils import flatten_dict
from ray.tune.utils.util import unflatten_dict

from tune_cd import results
from tune_cd.search.bracket import FAILED
from tune_cd.search.directions import Directions
from tune_cd.search.protocol import check_version, check_workers
from tune_cd.search.search import CoordinateDescent
from tune_cd.search.space import Space
from tune_cd.search.training import Training, value_of
from tune_cd.tune.callback import ResultsCallback
from tune_cd.tune.known_rows import Earlier
from tune_cd.tune.param_space import configurations, points, space_from_tune, space_of
from tune_cd.tune.reports import Reports
from tune_cd.tune.scheduler import PausingScheduler
from tune_cd.tune.trials import Trials

log = logging.getLogger(__name__)

STATE_VERSION = 3

Start = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class CoordinateDescentSearch(Searcher):
    """Reparameterised coordinate descent over a few parameters.

        tuner = tune.Tuner(
            trainable,
            param_space={"lr": tune.loguniform(1e-6, 1.0), "weight_decay": tune.loguniform(1e-8, 1e-1), "epochs": 10},
            tune_config=tune.TuneConfig(metric="accuracy", mode="max", num_samples=20,
                                        search_alg=CoordinateDescentSearch(start={"lr": 1e-3, "weight_decay": 1e-4})),
        )

    space: the search space, a `Space` or a dict of Tune's domains; None: `param_space`. loguniform and lograndint
        become log-scaled axes, uniform and randint linear ones; a q-form allows only multiples of q. A choice of
        numbers is ordered, on a log scale unless one is negative; with text, booleans or None it has no order. Nested
        keys are joined by "/".
    metric, mode: as in `TuneConfig`; "min" negates values once, in this class. metric None: Ray's default, "_metric".
    rule, prior, directions, budgets, seed: see `CoordinateDescent`. start: one configuration or several, nested or
        flat.
    workers: largest number of concurrent trials; None: as many as Tune asks for, until the cluster is full.
        `TuneConfig`'s max_concurrent_trials and a ConcurrencyLimiter override it.
    lengths: shares of the full length at which trials may pause, such as `LENGTHS`; they need full_length, and the
        Tuner `scheduler()`. Trainables must then report checkpoints (functions), or save and load them (classes);
        without a checkpoint a function's trial starts over when it resumes, with a warning.
    budget: in whole trainings; None: the search ends when no step promises an improvement.
    full_length: (key of a result, its value at the end of a whole training), such as ("training_iteration", 100). A
        trial that ends below was stopped early. Its value may lose a comparison, never win one. None: each trial counts
        as whole; under a scheduler that ends trials early, such as ASHA, pass it.
    use_result: the reported value that a trial counts with, the "best" so far or the "last"; "best" where trials pause.
    points_to_evaluate: configurations tried first, in this order; the descent starts from the best of them.
    evaluated_rewards: the known values of these points, one each; the points then cost no trial.

    Raises ValueError, before any trial starts, for arguments that the search does not support.
    """

    _earlier: Earlier | None = None  # rows that it starts from
    _saved = False  # whether it was restored from a saved state
    _restored = False  # likewise, until it has been compared with Tune's trials
    _limit: int | None = None  # of live trials, if Tune sets one
    _scores_told: tuple[str, str] | None = None  # metric and mode of the callback made by `callback`
    _trials: Trials | None = None  # None until space and mode are known
    _properties_set = False  # whether `set_search_properties` was called
    _scheduled = False  # whether the Tuner has our scheduler, or a warning was given that it has not
    _said: str | None = None  # the last message to the user
    _paused_said: Training | None = None  # the paused training last warned of

    def __init__(
        self,
        space: Space | Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        rule: str = "default",
        prior: str | None = None,
        directions: Directions = None,
        budgets: int | Sequence[int] = 3,
        start: Start = None,
        workers: int | None = None,
        seed: int = 0,
        lengths: Sequence[float] = (1.0,),
        budget: float | None = None,
        full_length: tuple[str, float] | None = None,
        use_result: str = "best",
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[float] | None = None,
    ):
        _check(metric, mode)
        check_workers(workers)
        if len(tuple(lengths)) > 1 and (full_length is None or use_result != "best"):
            said = "trials that pause need full_length, and count with their best value so far"
            raise ValueError(f"full_length {full_length!r}, use_result {use_result!r}: {said}")
        super().__init__(metric=metric, mode=mode)
        self._space, self._points = space_of(space), points(points_to_evaluate, evaluated_rewards)
        self._start = configurations(start)
        self._arguments = {
            "rule": rule, "prior": prior, "directions": directions, "budgets": budgets, "workers": workers,
            "seed": seed, "lengths": tuple(lengths), "budget": budget,
        }  # fmt: skip
        self._reports = Reports(full_length, use_result)
        self._begin_if_known()

    @property
    def search(self) -> CoordinateDescent | None:
        """The search that decides; None until space and mode are known."""
        return None if self._trials is None else self._trials.search

    @property
    def full_length(self) -> tuple[str, float] | None:
        """(key of a result, its value at the end of a whole training)."""
        return self._reports.full_length

    @property
    def recalled(self) -> int:
        """Number of trials of an earlier run that are not run again, see `from_results`."""
        return 0 if self._earlier is None else self._earlier.recalled

    def knows(self, study: str) -> bool:
        """Whether it goes on from a saved state, or from the rows of a study."""
        return self._saved or (self._earlier is not None and self._earlier.study in (study, None))

    @property
    def pauses(self) -> bool:
        """Whether trials may pause."""
        return len(self._arguments["lengths"]) > 1 if self._trials is None else self._trials.pauses

    @property
    def best(self) -> tuple[dict, float] | None:
        """The best whole training: its configuration, nested as in `param_space`, and its value. None before one is.

        Tune's `get_best_result` compares the last reports of all trials, and may return one that was paused.
        """
        self.warn_of_paused()  # Tune says nothing of the end of an experiment, e.g. by time_budget_s
        whole = None if self._trials is None else self._trials.best(whole=True)
        return None if whole is None else (unflatten_dict(whole.h), self._signed(whole.last))

    def believed(self, config: Mapping[str, Any]) -> tuple[float, float] | None:
        """Predicted value of a configuration at full length, and its standard deviation, in the metric's own sign.

        None if it failed, and before the first value. See `CoordinateDescent.believed`.
        """
        found = None if self.search is None else self.search.believed(flatten_dict(dict(config)))
        return None if found is None else (self._signed(found[0]), found[1])

    # Tune's side ----------------------------------------------------------------------------------------------

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec) -> bool:
        """Called by Tune before the first trial, and again (before `restore`) by `Tuner.restore`.

        Returns False on a second call, unless a state was restored in between. Raises ValueError for a metric, a mode
        or a domain that the search does not support, and for a mode or ranges other than those that it has.
        """
        if self._properties_set and not self._restored:
            return False
        _check(metric, mode)
        if mode is not None and self._mode not in (None, mode):
            raise ValueError(f"the Tuner has mode {mode!r}, and the search {self._mode!r}")
        given = space_from_tune(config)
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if self._scores_told not in (None, (self._metric, self._mode)):
            stored = "metric {!r} and mode {!r}".format(*self._scores_told)
            raise ValueError(f"the callback has {stored}, the Tuner {self._metric!r} and {self._mode!r}")
        self._space = self._space or given
        self._begin_if_known()
        searched = self.search.space if self.search else self._space
        if given is not None and not set(given.axes) <= set(searched.axes):
            raise ValueError(
                f"param_space has {given}, but the searched space is {searched}; allowed: the same ranges in both, "
                "or in one alone (from_results goes on in another range)"
            )
        if self._restored:  # a new experiment with a restored searcher: its live trials no longer run anywhere
            self._trials.forget()
        self._restored, self._properties_set = False, True
        return True

    def callback(
        self,
        results: str | Path,
        study: str,
        *,
        metric: str | None = None,
        mode: str | None = None,
        search: str = "cd",
        fields: Mapping[str, Any] | None = None,
    ) -> ResultsCallback:
        """The callback that writes the rows of this search; a Tuner with another metric or mode is then refused.

        metric, mode: as in `TuneConfig`; not needed if the searcher has them. search, fields: see `ResultsCallback`.
        Raises ValueError as that does.
        """
        metric, mode = metric or self._metric, mode or self._mode
        _check(metric, mode)
        if metric is None or mode is None:
            raise ValueError(f"callback(metric={metric!r}, mode={mode!r}): both are required, as in TuneConfig")
        self._scores_told = metric, mode
        sign = -1.0 if mode == "min" else 1.0
        reports = Reports(self.full_length, self._reports.use_result, metric, sign, quiet=True)
        return ResultsCallback(results, study, self, reports, search=search, fields=dict(fields or {}))

    def origin_of(self, trial_id: str) -> dict[str, Any]:
        """direction, line_position and trial_index of a trial; {} for one that the search did not ask for."""
        try:
            return self._trials.search.annotation(self._trials.configurations[trial_id]) if self._trials else {}
        except KeyError:
            return {}

    @property
    def finished(self) -> bool:
        """True when nothing is left to suggest: the search has stopped by itself."""
        return self._trials is not None and self._trials.finished

    def suggest(self, trial_id: str) -> dict | str | None:
        """The next configuration, nested as in `param_space`; None while a live trial must finish first; or FINISHED.

        Returns the same configuration again for the same trial id. Raises RuntimeError while space or mode are unknown.
        """
        self._require_known()
        h = self._trials.begin(trial_id)
        if h is not None:
            return unflatten_dict(h)
        if not self.finished:
            if self._restored and not self.pauses:
                self._say_once(
                    "the restored search waits for %d trials that ran before. If Tune shows none of them, run a new "
                    "Tuner with a search after restore_from_dir(FOLDER)", len(self.search.live),
                )  # fmt: skip
            return None
        self._say_once("the search has ended: %s", self.search.ending)
        return Searcher.FINISHED

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Take a report. Where trials pause, our scheduler has taken it; warn once if the Tuner has another one."""
        if not self.pauses and self._trials is not None:
            self._trials.reports.observe(trial_id, result)
        elif not self._scheduled:
            self._scheduled = True
            log.warning("no trial can pause: it needs TuneConfig(..., scheduler=search.scheduler())")

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """Tell the end of a trial. An error, NaN or ±inf in the end, or never a number: it failed, the worst value."""
        if self._trials is not None:
            self._trials.end(trial_id, result, error)

    def scheduler(self) -> PausingScheduler:
        """The scheduler for the same Tuner. Raises ValueError if nothing pauses."""
        if not self.pauses:
            raise ValueError(f"lengths {self._arguments['lengths']}: nothing pauses; LENGTHS are the usual ones")
        return PausingScheduler(self)

    def schedule(self) -> Trials:
        """The trials, for the scheduler, which says with this that it is there."""
        self._scheduled = True
        return self._trials

    def agree(self, trials: Sequence[Trial]) -> None:
        """Compare a restored search with the trials that Tune has restored; called by scheduler and callback."""
        if self._restored and self._trials is not None:
            self._restored = False
            self._trials.agree(trials)

    def warn_of_paused(self) -> None:
        """Warn, once of each, if a training that is not whole has a better value than every whole one."""
        if not self.pauses or self._trials is None:
            return
        whole, paused = self._trials.best(whole=True), self._trials.best(whole=False)
        if paused is None or paused == self._paused_said or (whole is not None and whole.last >= paused.last):
            return
        self._paused_said = paused
        said = "none is whole" if whole is None else f"the best whole training has {self._signed(whole.last):.6g}"
        log.warning(
            "the best known is %s, paused at %.3g of its length with %.6g, and %s; a budget larger by %.3g would "
            "finish it, unless it was stopped there",
            paused.h, paused.share, self._signed(paused.last), said, 1 - paused.share,
        )  # fmt: skip

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit concurrent trials, for Tune's max_concurrent_trials or a ConcurrencyLimiter; overrides `workers`."""
        self._limit = max_concurrent
        if self.search is not None:
            self.search.workers = max_concurrent
        return True

    # Knowledge from elsewhere ---------------------------------------------------------------------------------

    @classmethod
    def from_results(
        cls,
        path: str | Path,
        study: str | None = None,
        *,
        resume: bool = False,
        space: Space | Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **arguments,
    ) -> "CoordinateDescentSearch":
        """A search that knows the trials of a results folder, or of one study in it, before its first suggestion.

        These trials cost no new ones; the other arguments are the constructor's. Use it to continue a finished search,
        or to warm-start one over the same parameters. Trials outside the space are left out with a warning.

        resume: continue the same search, with the same arguments, from the rows of its own study. Trials that were
        running when it stopped are suggested first, whatever they had reported, then what would have come next. Trials
        whose process or node was lost are run again. `recalled` is the number of the others; Tune's num_samples counts
        only trials still to come. A paused trial keeps its values and starts over, since only Tune had its checkpoint.
        A study without rows starts from the beginning. The rows of `callback` record the order of asking.

        Raises ValueError if no trial completed (except with resume), for several metrics, and, with resume, without a
        study, for one that several searches share, and for rows outside the space. Once metric and mode are known,
        scores of the other sign raise it, and scores of another metric give a warning.
        """
        searcher = cls(None, metric, mode, **arguments)
        searcher._earlier, searcher._space = Earlier.read(path, study, resume, searcher.pauses), space_of(space)
        searcher._begin_if_known()
        return searcher

    def add_evaluated_point(
        self,
        parameters: dict,
        value: float | None,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Tell a value measured elsewhere. Before the first suggestion it is a starting point, later a known value.

        A trial that was pruned is left out, since its trained length is not known.
        Raises RuntimeError while `space` or `mode` are unknown.
        """
        self._require_known()
        if not pruned:
            told = None if error else self._signed(value)
            self.search.tell(flatten_dict(parameters), told, 1.0, external=True)

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        return {
            "version": STATE_VERSION,
            "metric": self._metric,
            "mode": self._mode,
            "search": self.search and self.search.state(),
            "trials": self._trials.configurations if self._trials else {},
            "ended": sorted(self._trials.ended) if self._trials else [],
            "full_length": self.full_length and list(self.full_length),
            "use_result": self._reports.use_result,
            "reports": self._reports.state(),
        }

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        check_version(state, STATE_VERSION)
        self._metric, self._mode = state["metric"], state["mode"]
        self._reports = Reports(state["full_length"], state["use_result"])
        if state["search"] is not None:
            self._begin_with(CoordinateDescent.from_state(state["search"]))
            self._trials.configurations, self._trials.ended = dict(state["trials"]), set(state["ended"])
        self._reports.restore(state["reports"])
        self._restored = self._saved = True
        if self._earlier is not None:
            self._earlier.scores = None

    def save(self, checkpoint_path: str) -> None:
        """Write the state as JSON (Tune names the file .pkl; it holds no pickle)."""
        results.publish(Path(checkpoint_path), json.dumps(self.get_state()).encode())

    def restore(self, checkpoint_path: str) -> None:
        """Read a file of `save`. Raises ValueError naming the file if it is not one."""
        try:
            self.set_state(json.loads(Path(checkpoint_path).read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{checkpoint_path} is not a saved {type(self).__name__}: {error!r}") from error

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Restore the latest state in an experiment's folder. After an error Tune goes on with a blank searcher, which
        would train everything again; so `suggest` raises it as well."""
        try:
            super().restore_from_dir(checkpoint_dir)
        except Exception as error:
            self.suggest = partial(_refuse, error)
            raise

    # ----------------------------------------------------------------------------------------------------------

    def _begin_if_known(self) -> None:
        """Begin the search once space and mode are known, and tell it all values known beforehand."""
        if self._earlier is not None and self._metric is not None and self._mode is not None:
            self._earlier.check(self._metric, self._mode)
        if self._trials is not None or self._space is None or self._mode is None:
            return
        tried = [point for point, reward in self._points if reward is None]
        search = CoordinateDescent(self._space, start=tried + self._start, **self._arguments)
        self._begin_with(search)
        for point, reward in self._points:
            if reward is not None:
                search.tell(point, self._signed(reward), 1.0, external=True)
        if self._earlier is not None:
            self._earlier.tell(search, self.full_length)

    def _begin_with(self, search: CoordinateDescent) -> None:
        if self._limit is not None:
            search.workers = self._limit
        self._reports.metric, self._reports.sign = self._metric or DEFAULT_METRIC, self._sign
        self._trials = Trials(search, self._reports)

    def _require_known(self) -> None:
        """Raise RuntimeError with Ray's message while space or mode are unknown. An unnamed metric becomes Ray's
        default."""
        cls = type(self).__name__
        if self._space is None and self._trials is None:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls=cls, space="space"))
        if self._mode is None:
            raise RuntimeError(UNDEFINED_METRIC_MODE.format(cls=cls, metric=self._metric, mode=self._mode))
        self._metric = self._reports.metric = self._metric or DEFAULT_METRIC
        self._begin_if_known()

    def _say_once(self, message: str, *told: Any) -> None:
        if message != self._said:
            self._said = message
            log.warning(message, *told)

    @property
    def _sign(self) -> float:
        return -1.0 if self._mode == "min" else 1.0

    def _signed(self, value: Any) -> float | None:
        """A value with its sign turned if smaller is better; None: a failure. ValueError for what is no number."""
        number = FAILED if value is None else value_of(value)
        return None if number == FAILED else self._sign * number


def _refuse(error: Exception, trial_id: str) -> None:
    raise ValueError(f"this search cannot go on, but from_results(..., resume=True) can: {error}") from error


def _check(metric: str | None, mode: str | None) -> None:
    """Raise ValueError unless metric is one name or None, and mode is "min", "max" or None."""
    if metric is not None and not isinstance(metric, str):
        raise ValueError(f"metric {metric!r}: the name of one metric; several are not searched for at a time")
    if mode not in (None, "min", "max"):
        raise ValueError(f"mode {mode!r}: 'min' or 'max'")
