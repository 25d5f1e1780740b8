"""`CoordinateDescentSearch`: the search as a Ray Tune `Searcher`, with or without trials that pause.

`CoordinateDescent` decides which configuration is trained next, and how long; `Trials` knows which trial trains it.
This class takes Tune's calls. The path of a trial:

    suggest               Trials.begin      CoordinateDescent.ask
    on_trial_result       Reports.observe   where trials pause: PausingScheduler, Trials.report, CoordinateDescent.tell
    on_trial_complete     Trials.end        CoordinateDescent.tell
    its row               ResultsCallback   from the same reports, RowWriter
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune.result import DEFAULT_METRIC
from ray.tune.search import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE, Searcher
from ray.tune.utils import flatten_dict
from ray.tune.utils.util import unflatten_dict

from tune_cd import results
from tune_cd.search.directions import Directions
from tune_cd.search.protocol import check_version, check_workers
from tune_cd.search.search import CoordinateDescent, Start
from tune_cd.search.space import Space
from tune_cd.tune.callback import ResultsCallback
from tune_cd.tune.known import Earlier, starts_and_values
from tune_cd.tune.param_space import check_goal, check_ranges, drawn_in, space_from_tune, space_of
from tune_cd.tune.reports import Reports
from tune_cd.tune.scheduler import PausingScheduler
from tune_cd.tune.trials import Trials

STATE_VERSION = 4


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
    metric, mode: as in `TuneConfig`; "min" negates values once, in `Reports`. metric None: Ray's default, "_metric".
    rule, prior, directions, budgets, seed, lengths, budget: see `CoordinateDescent`. Where trials pause, at `lengths`,
        they need full_length, and the Tuner `scheduler()`. Trainables must then report checkpoints (functions), or save
        and load them (classes); without a checkpoint a function's trial starts over when it resumes, with a warning.
    start: one configuration or several, nested or flat.
    workers: largest number of concurrent trials; None: as many as Tune asks for, until the cluster is full.
        `TuneConfig`'s max_concurrent_trials and a ConcurrencyLimiter override it.
    full_length: (key of a result, its value at the end of a whole training), such as ("training_iteration", 100). A
        trial that ends below was stopped early. Its value may lose a comparison, never win one. None: each trial counts
        as whole; under a scheduler that ends trials early, such as ASHA, pass it.
    use_result: the reported value that a trial counts with, the "best" so far or the "last"; "best" where trials pause.
    points_to_evaluate: configurations tried first, in this order; the descent starts from the best of them.
    evaluated_rewards: the known values of these points, one each; the points then cost no trial.

    Raises ValueError, before any trial starts, for arguments that the search does not support.
    """

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
        check_goal(metric, mode)
        check_workers(workers)
        lengths = tuple(lengths) if isinstance(lengths, Iterable) else (lengths,)  # refused where the search is made
        if len(lengths) > 1 and (full_length is None or use_result != "best"):
            said = "trials that pause need full_length, and count with their best value so far"
            raise ValueError(f"full_length {full_length!r}, use_result {use_result!r}: {said}")
        super().__init__(metric=metric, mode=mode)
        self._space, self._earlier = space_of(space), None  # rows of the table
        starts, self._values = starts_and_values(start, points_to_evaluate, evaluated_rewards)
        self._arguments = {
            "start": starts, "rule": rule, "prior": prior, "directions": directions, "budgets": budgets,
            "workers": workers, "seed": seed, "lengths": lengths, "budget": budget,
        }  # fmt: skip
        self._reports = Reports(full_length, use_result)
        self.drawn: list[str] = []  # entries of param_space that a function gives to each trial
        self._trials: Trials | None = None
        _ = self.trials  # refuses now what does not fit, if all is known

    @classmethod
    def from_results(
        cls, path: str | Path, study: str | None = None, *, resume: bool = False, **arguments: Any
    ) -> "CoordinateDescentSearch":
        """A search that knows the trials of a results folder, or of one study in it, before its first suggestion.

        These trials cost no new ones; the other arguments are the constructor's. Use it to continue a finished search,
        or to warm-start one over the same parameters. Trials outside the space are left out with a warning; those that
        searched more parameters count, with a warning.

        resume: continue the same search, with the same arguments, from the rows of its own study. Trials that were
        running when it stopped are suggested first, whatever they had reported, then what would have come next. Trials
        whose process or node was lost are run again. `recalled` is the number of the others; Tune's num_samples counts
        only trials still to come. A paused trial keeps its values and starts over, since only Tune had its checkpoint.
        A study without rows starts from the beginning.

        Raises ValueError if no trial completed (except with resume), for several metrics, and, with resume, without a
        study, for one that several searches share, and for rows outside the space or of more parameters. Once metric
        and mode are known, scores of the other sign raise it, and scores of another metric give a warning.
        """
        searcher = cls(**arguments)
        searcher._earlier, searcher._trials = Earlier.read(path, study, resume, searcher.pauses), None
        _ = searcher.trials
        return searcher

    @property
    def trials(self) -> Trials | None:
        """The trials, over a search that was told what is known beforehand; None until space and mode are known."""
        known = self._space is not None and self._mode is not None
        known &= self._earlier is None or self._metric is not None  # which that of the rows is compared with
        if self._trials is None and known:
            self._reports.aim(self._metric, self._mode)
            search = CoordinateDescent(self._space, **self._arguments)
            for h, value in self._values:
                search.tell(h, self._reports.signed(value), 1.0, external=True)
            if self._earlier is not None:
                self._earlier.check(self._reports)
                self._earlier.tell(search, self._reports.full_length)
            self._trials = Trials(search, self._reports)
        return self._trials

    @property
    def search(self) -> CoordinateDescent | None:
        """The search that decides; None until space and mode are known."""
        return None if self.trials is None else self.trials.search

    @property
    def recalled(self) -> int:
        """Number of trials of an earlier run that are not run again, see `from_results`."""
        return 0 if self._earlier is None else self._earlier.recalled

    @property
    def pauses(self) -> bool:
        """Whether trials may pause."""
        return len(self.search.lengths if self.search else self._arguments["lengths"]) > 1

    @property
    def best(self) -> tuple[dict, float] | None:
        """The best whole training: its configuration, nested as in `param_space`, and its value. None before one is.

        Tune's `get_best_result` compares the last reports of all trials, and may return one that was paused.
        """
        if self.trials is None:
            return None
        self.trials.warn_of_paused()  # Tune says nothing of the end of an experiment, e.g. by time_budget_s
        whole = self.trials.best(whole=True)
        return None if whole is None else (unflatten_dict(whole.h), self.trials.reports.sign * whole.last)

    # Tune's calls, in their order -----------------------------------------------------------------------------

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec) -> bool:
        """Called before the first trial of an experiment, by `Tuner.restore` before `restore`. With trials of an
        earlier experiment the search goes on.

        Raises ValueError for a metric, a mode or a domain that the search does not support, and for a mode or ranges
        other than those that it has.
        """
        check_goal(metric, mode, of_search=(self._metric, self._mode))
        given, self.drawn = space_from_tune(config), drawn_in(config)
        if self._earlier is not None:
            self._earlier.check_fixed(config)
        self._metric, self._mode = metric or self._metric, mode or self._mode
        self._space = self._space or given
        if self.trials is not None:
            self.trials.reports.aim(self._metric, self._mode)
            if self.trials.configurations:  # of an earlier experiment: its live trials no longer run anywhere
                self.trials.forget()
        if given is not None:
            check_ranges(given, self.search.space if self.search else self._space)
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit concurrent trials, for Tune's max_concurrent_trials or a ConcurrencyLimiter; overrides `workers`."""
        self._arguments["workers"] = max_concurrent
        if self.search is not None:
            self.search.workers = max_concurrent
        return True

    def suggest(self, trial_id: str) -> dict | str | None:
        """The next configuration, nested as in `param_space`; None while a live trial must finish first; or FINISHED.

        Returns the same configuration again for the same trial id. Raises RuntimeError while space or mode are unknown.
        """
        self._metric = self._metric or (self._mode and DEFAULT_METRIC)
        trials = self.required()
        h = trials.begin(trial_id)
        if h is not None:
            return unflatten_dict(h)
        if trials.finished:
            trials.say_once(f"the search has ended: {trials.search.ending}")
            return Searcher.FINISHED
        trials.warn_of_waiting()
        return None

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Take a report. Where trials pause our scheduler has taken it; ValueError if the Tuner has another one."""
        if not self.pauses:
            self.required().reports.observe(trial_id, result)
        elif self.trials is None or not self.trials.scheduled:
            raise ValueError("no trial can pause: it needs TuneConfig(..., scheduler=search.scheduler())")

    def on_pause(self, trial_id: str) -> None:
        """Ray's HyperBandForBOHB pauses a trial. Nothing changes: it is live until it ends."""

    on_unpause = on_pause

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """Tell the end of a trial. An error, NaN or ±inf in the end, or never a number: it failed, the worst value."""
        if self.trials is not None:
            self.trials.end(trial_id, result, error)

    def add_evaluated_point(
        self, parameters: dict, value: float | None, error: bool = False, pruned: bool = False,
        intermediate_values: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        """Tell a value measured elsewhere. Before the first suggestion it is a starting point, later a known value. A
        trial that was pruned is left out, since its trained length is not known. Raises RuntimeError as `required`."""
        trials = self.required()
        if not pruned:
            told = None if error else trials.reports.signed(value)
            trials.search.tell(flatten_dict(parameters), told, 1.0, external=True)

    # Its state, as JSON, in the file that Tune keeps in an experiment's folder ----------------------------------

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        trials = None if self._trials is None else self._trials.state()
        return {"version": STATE_VERSION, "metric": self._metric, "mode": self._mode, "trials": trials}

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        check_version(state, STATE_VERSION)
        self._metric, self._mode = state["metric"], state["mode"]
        self._trials = None if state["trials"] is None else Trials.from_state(state["trials"])
        if self._trials is not None:
            self._trials.reports.aim(self._metric, self._mode)

    def save(self, checkpoint_path: str) -> None:
        """Write the state, whatever Tune names the file."""
        results.publish(Path(checkpoint_path), json.dumps(self.get_state()).encode())

    def restore(self, checkpoint_path: str) -> None:
        """Read a file of `save`. Raises ValueError naming the file if it is not one."""
        try:
            self.set_state(json.loads(Path(checkpoint_path).read_text(encoding="utf-8")))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{checkpoint_path} is not a saved {type(self).__name__}: {error!r}") from error

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Restore the latest state in an experiment's folder. After an error Tune goes on with a blank searcher, which
        would train everything again; so its next call raises it as well."""
        try:
            super().restore_from_dir(checkpoint_dir)
        except Exception as error:
            self.required = partial(_refuse, error)  # type: ignore[method-assign]
            raise

    # Its scheduler and its callback ---------------------------------------------------------------------------

    def scheduler(self) -> PausingScheduler:
        """The scheduler for the same Tuner. Raises ValueError if nothing pauses."""
        if not self.pauses:
            raise ValueError(f"lengths {self._arguments['lengths']}: nothing pauses; LENGTHS are the usual ones")
        return PausingScheduler(self)

    def callback(
        self, results: str | Path, study: str, *, search: str = "cd", fields: Mapping[str, Any] | None = None
    ) -> ResultsCallback:
        """The callback for the same Tuner, which writes a row for each trial. Raises ValueError as it does."""
        return ResultsCallback(results, study, self, search=search, fields=dict(fields or {}))

    def required(self) -> Trials:
        """The trials. Raises RuntimeError with Ray's message while space, mode or what else is needed are unknown."""
        cls = type(self).__name__
        if self._space is None and self.trials is None:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls=cls, space="space"))
        if self.trials is None:
            raise RuntimeError(UNDEFINED_METRIC_MODE.format(cls=cls, metric=self._metric, mode=self._mode))
        return self.trials


def _refuse(error: Exception) -> None:
    raise ValueError(f"this search cannot go on, but from_results(..., resume=True) can: {error}") from error
