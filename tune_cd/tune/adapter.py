"""Base class that adapts an ask-and-tell search to Ray Tune, with or without trials that pause.

Thin on purpose. The adapter converts Tune's `param_space`, maps trial ids to configurations, turns results into values
(larger is better), reads rows of earlier runs, and saves its state as JSON. The search decides which configuration
comes next; the subclass interprets the end of a trial.
"""

import logging
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
from ray.tune.result import DEFAULT_METRIC
from ray.tune.search import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE, Searcher
from ray.tune.utils import flatten_dict
from ray.tune.utils.util import unflatten_dict

from tune_cd.results.attempts import to_retry
from tune_cd.search.coordinate_descent import value_of
from tune_cd.search.golden_section import FAILED
from tune_cd.search.protocol import check_version
from tune_cd.search.space import Configuration, Space
from tune_cd.tune.arguments import check_metric, check_mode, points
from tune_cd.tune.course import AnySearch, Order
from tune_cd.tune.earlier import Rows, check_scores, rows_at, rows_of
from tune_cd.tune.json_state import JsonState
from tune_cd.tune.param_space import space_from_tune, space_of
from tune_cd.tune.reports import Reports, Seen
from tune_cd.tune.snapshot import Ran, trials_in

if TYPE_CHECKING:
    from tune_cd.tune.callback.results_callback import ResultsCallback

logger = logging.getLogger(__name__)


class Adapter(JsonState, Searcher):
    """A Searcher around a search and its order of asking. The arguments are those of `CoordinateDescentSearch`."""

    STATE_VERSION: ClassVar[int]
    KNOWN: ClassVar[tuple[str, ...]] = ("completed",)
    """Row statuses that a search can start from."""

    earlier = 0  # number of trials of an earlier run that are not run again, see `from_results`
    goes_on = False  # whether it was restored from a saved state
    starts_from: tuple[Rows, ...] = ()
    _properties_set = False  # whether `set_search_properties` was called

    def __init__(
        self,
        space: Space | Mapping[str, Any] | None,
        metric: str | None,
        mode: str | None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None,
        evaluated_rewards: Sequence[float] | None,
        annotate: str | None,
        full_length: tuple[str, float] | None,
        use_result: str,
    ):
        check_metric(metric)
        check_mode(mode)
        super().__init__(metric=metric, mode=mode)
        self._space, self._points = space_of(space), points(points_to_evaluate, evaluated_rewards)
        self._annotate = annotate
        self._reports = Reports(full_length, use_result)
        self._rows: dict[str, Any] = {}  # arguments of `ResultsCallback` that follow from the searcher's own
        self._scores_told: tuple[str, str] | None = None  # metric and mode of the callback made by `callback`
        self._course: Order | None = None  # None until space and mode are known
        self._trials: dict[str, Configuration] = {}  # trial id -> h
        self._known: list[Any] = []  # result of `_knowledge` on earlier rows, told when the search begins
        self._scores_of: str | None = None  # metric of the rows that the search starts from, until it is checked
        self._limit: int | None = None  # of live trials, if Tune sets one
        self._restored = False
        self._rows_before: pd.DataFrame | None = None  # earlier rows of this same search, until the first suggestion

    # The subclass's -------------------------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, space: Space) -> Order:
        """Create the search and tell it all values known beforehand."""

    @staticmethod
    @abstractmethod
    def _loaded(state: Mapping[str, Any]) -> AnySearch:
        """Restore a search from its `state()`."""

    @abstractmethod
    def _order(self, search: AnySearch, places: dict, waiting: list[Configuration]) -> Order:
        """Wrap a restored search with its saved places in the order of asking and its waiting configurations."""

    @abstractmethod
    def _knowledge(self, trials: pd.DataFrame) -> list[Any]:
        """Convert rows to observations for a search that asked for none of them."""

    @abstractmethod
    def _recall(self, rows: pd.DataFrame) -> None:
        """Continue the search from the end of its own rows."""

    @abstractmethod
    def _tell(self, h: Mapping[str, Any], value: float | None, pruned: bool) -> None:
        """Tell a value that was measured elsewhere, larger is better; None: a failure."""

    @abstractmethod
    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None: ...

    # Tune's side ----------------------------------------------------------------------------------------------

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec) -> bool:
        """Called by Tune before the first trial, and again (before `restore`) by `Tuner.restore`.

        Returns False on a second call, unless a state was restored in between. Raises ValueError for a metric, a mode
        or a domain that the search does not support, for ranges that differ from the searched space, and for another
        mode once the search has values.
        """
        if self._properties_set and not self._restored:
            return False
        check_metric(metric)
        check_mode(mode)
        given = space_from_tune(config)
        if self._search is not None and self._told and mode not in (None, self._mode):
            raise ValueError(f"mode {mode!r}: the search was told values under {self._mode!r}")
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if self._scores_told not in (None, (self._metric, self._mode)):
            stored = "metric {!r} and mode {!r}".format(*self._scores_told)
            raise ValueError(f"the callback has {stored}, the Tuner {self._metric!r} and {self._mode!r}")
        self._space = self._space or given
        self._check_earlier()
        self._begin_if_known()
        searched = self._search.space if self._search else self._space
        if given is not None and not set(given.names) <= set(searched.names):
            unanswered = sorted(set(given.names) - set(searched.names))
            raise ValueError(f"param_space leaves {unanswered} open, but the searched space is {searched}")
        if given is not None and (other := set(given.axes) - set(searched.axes)):
            raise ValueError(
                f"{', '.join(sorted(axis.name for axis in other))}: param_space has {given}, but the searched space is "
                f"{searched}; allowed: the same range in both, or one alone (from_results goes on in another range)"
            )
        if self._restored:  # a new experiment with a restored searcher: its live trials no longer run anywhere
            self.run_anew()
        self._restored, self._properties_set = False, True
        return True

    def callback(
        self, results: str | Path, study: str, *, metric: str | None = None, mode: str | None = None, **options: Any
    ) -> "ResultsCallback":
        """The callback that writes the rows of this search; a Tuner with another metric or mode is then refused.

        metric, mode: as in `TuneConfig`; not needed if the searcher has them. options: other arguments of
        `ResultsCallback`; full_length, use_result and annotate are the searcher's. Raises ValueError as that does.
        """
        from tune_cd.tune.callback.results_callback import ResultsCallback  # it imports packs of these searchers

        metric, mode = metric or self._metric, mode or self._mode
        if metric is None or mode is None:
            raise ValueError(f"callback(metric={metric!r}, mode={mode!r}): both are required, as in TuneConfig")
        self._scores_told = metric, mode
        own = {"annotate": self._annotate, **self._rows}
        made = ResultsCallback(results, study, metric=metric, mode=mode, **own | options)
        made.searcher = self
        return made

    def origin_of(self, trial_id: str) -> dict[str, Any]:
        """What `annotate` adds to a trial's configuration; {} for a trial that the search did not ask for."""
        try:
            return self._course.annotation(self._trials[trial_id]) if self._course else {}
        except KeyError:
            return {}

    @property
    def finished(self) -> bool:
        """True when nothing is left to suggest: the search has stopped by itself."""
        return self._course is not None and self._course.finished

    def suggest(self, trial_id: str) -> dict | str | None:
        """The next configuration, nested as in `param_space`; None while a live trial must finish first; or FINISHED.

        Returns the same configuration again for the same trial id. Raises RuntimeError while space or mode are unknown.
        """
        self._require_known()
        self._go_on()
        h = self._trials.get(trial_id) or self._next()
        if h is None:
            return Searcher.FINISHED if self.finished else None
        self._trials[trial_id] = h
        config = unflatten_dict(h)
        if self._annotate is not None:
            config[self._annotate] = self._course.annotation(h)
        return config

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit concurrent trials, for Tune's max_concurrent_trials or a ConcurrencyLimiter; overrides `workers`."""
        self._limit = max_concurrent
        if self._search is not None:
            self._limited(self._search)
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
    ) -> "Adapter":
        """A search that knows the trials of a results folder, or of one study in it, before its first suggestion.

        These trials cost no new ones; the other arguments are the constructor's. Use it to continue a finished search,
        or to warm-start one over the same parameters. Trials outside the space are left out with a warning.

        resume: continue the same search, with the same arguments, from the rows of its own study. Trials that were
        running when it stopped are suggested first, whatever they had reported, then what would have come next. Trials
        whose process or node was lost are run again. `earlier` is the number of the others; Tune's num_samples counts
        only trials still to come. Without `workers`, the smallest number of concurrent trials that explains the rows is
        assumed. A study without rows starts from the beginning. The rows of `callback` record the order of asking;
        other callbacks need the same `annotate` as the search.

        Raises ValueError if no trial completed (except with resume), for several metrics, and, with resume, without a
        study or for one that several searches share; then the first suggestion raises it for rows outside the space.
        Once metric and mode are known, scores of the other sign raise it, and scores of another metric give a warning.
        """
        trials = rows_of(path, study, resume, cls.KNOWN)
        searcher = cls(space, metric, mode, **arguments)
        searcher.starts_from = (rows_at(path, study),)
        searcher._scores_of = next(iter(trials.loc[trials["status"].isin(cls.KNOWN), "metric_name"]), None)
        searcher._check_earlier()
        if resume:
            searcher.earlier = int((~to_retry(trials)).sum())
            searcher._rows_before = None if trials.empty else trials
            return searcher
        searcher._known = searcher._knowledge(trials)
        searcher._course = None
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

        A pruned trial's value is `value`, else the last of `intermediate_values`; without either the trial is ignored.
        Raises RuntimeError while `space` or `mode` are unknown.
        """
        self._require_known()
        if pruned and value is None:
            if not intermediate_values:
                return
            value = intermediate_values[-1]
        self._tell(flatten_dict(parameters), None if error else self._signed(value), pruned)

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        self._go_on()
        return {
            "version": self.STATE_VERSION,
            "metric": self._metric,
            "mode": self._mode,
            "search": self._search and self._search.state(),
            "trials": self._trials,
            "index": list(self._course.places.items()) if self._course else [],
            "orphans": self._course.waiting if self._course else [],
            "reports": self._reports.state(),
        }

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        check_version(state, self.STATE_VERSION)
        self._metric, self._mode = state["metric"], state["mode"]
        if state["search"] is not None:
            places = {tuple(key): place for key, place in state["index"]}
            search = self._limited(self._loaded(state["search"]))
            self._course = self._order(search, places, list(state.get("orphans", [])))
        self._trials = dict(state["trials"])
        self._reports.restore(state.get("reports", {}))
        self._restored, self._rows_before, self._scores_of = True, None, None
        self.goes_on = True

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Restore from the searcher's latest intact snapshot, then bring it up to date with Tune's own snapshot.

        The two may have been taken at different times. If no searcher snapshot is intact, Tune's alone is enough.
        Raises as `JsonState.restore_from_dir` if neither can be used.
        """
        trials = trials_in(checkpoint_dir)
        try:
            super().restore_from_dir(checkpoint_dir)
        except ValueError as error:
            if not trials or self._search is None:
                raise
            del self.suggest
            self._go_on()
            logger.warning("%s; the search goes on from what Tune's own snapshot says of its trials", error)
        if trials and self._search is not None:
            self._agree(trials)

    def __getstate__(self) -> dict:
        """Replace the search by its JSON state: Tune pickles the searcher, but a search need not be picklable."""
        return {**vars(self), "_course": self._course and replace(self._course, search=self._search.state())}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        if self._course is not None:
            self._course.search = self._loaded(self._course.search)

    # ----------------------------------------------------------------------------------------------------------

    @property
    def _search(self) -> AnySearch | None:
        return self._course and self._course.search

    @property
    def _told(self) -> bool:
        """Whether the search has, or will begin with, any values."""
        known = any(reward is not None for _, reward in self._points) or bool(self._known) or self._restored
        return known or (self._search is not None and self._search.best is not None)

    def _begin_if_known(self) -> None:
        """Begin the search once space and mode are known."""
        if self._course is None and self._space is not None and self._mode is not None:
            self._course = self._begin(self._space)

    def _check_earlier(self) -> None:
        """Check the metric and sign of the rows that the search starts from, once metric and mode are known."""
        if self._scores_of is not None and self._metric is not None and self._mode is not None:
            of, self._scores_of = self._scores_of, None
            check_scores(of, self._metric, self._mode)

    def _next(self) -> Configuration | None:
        """The configuration of a new trial; None if there is none for now."""
        return self._course.next()

    def run_anew(self, but: Iterable[str] = ()) -> None:
        """Suggest live configurations again, before new ones, since their trials (other than `but`) no longer run."""
        key = self._search.space.key
        self._course.rerun(self._search.live, but={key(self._trials[name]) for name in but if name in self._trials})

    def _limited(self, search: AnySearch) -> AnySearch:
        if self._limit is not None:
            search.workers = self._limit
        return search

    def _require_known(self) -> None:
        """Raise RuntimeError with Ray's message while space or mode are unknown. An unnamed metric becomes Ray's
        default."""
        cls = type(self).__name__
        if self._space is None and self._course is None:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls=cls, space="space"))
        if self._mode is None:
            raise RuntimeError(UNDEFINED_METRIC_MODE.format(cls=cls, metric=self._metric, mode=self._mode))
        self._metric = self._metric or DEFAULT_METRIC
        self._check_earlier()

    def _go_on(self) -> None:
        """Advance a resumed search through its own earlier rows, once, before it is used."""
        if self._rows_before is not None and self._course is not None:
            rows, self._rows_before = self._rows_before, None
            self._recall(rows)

    def _agree(self, trials: list[Ran]) -> None:
        """Bring this state up to date with Tune's snapshot: add missing trials, and end those that have ended.

        Those that were cut off are suggested again, since Tune does not run them any more.
        """
        key, run = self._search.space.key, set()
        for trial in trials:
            unknown = trial.trial_id not in self._trials
            h = self._asked_since(trial) if unknown else self._trials[trial.trial_id]
            if h is None:
                continue
            if not trial.cut:
                run.add(key(h))
            self._hear(trial)
            if trial.ended and not trial.cut and (unknown or self._under_way(h)):
                self.on_trial_complete(trial.trial_id, trial.result, trial.failed)
        self._course.rerun(self._search.live, but=run)

    def _hear(self, trial: Ran) -> None:
        """Take the last report of a trial in Tune's snapshot."""
        self._heard(trial.trial_id, trial.result)

    def _asked_since(self, trial: Ran) -> Configuration | None:
        """The configuration of a trial that is newer than the searcher's snapshot; the search asks for it again."""
        try:
            h = self._search.space.check({name: trial.params[name] for name in self._search.space.names})
        except (ValueError, KeyError):
            return None
        key, before = self._search.space.key, self._search.state()
        self._trials[trial.trial_id] = h
        if key(h) not in self._course.places:
            self._course.place(h)
            asked = self._search.ask()
            if asked is not None and key(asked) != key(h):  # asked at another moment: undo, only its value is told
                self._course.search = self._limited(self._loaded(before))
        return h

    def _adopted(self, trial_id: str, result: Mapping[str, Any] | None) -> Configuration | None:
        """The configuration of a trial that was never suggested, if its result has one inside the space."""
        if not result or self._search is None:
            return None
        config = flatten_dict(result.get("config") or {})
        config |= {key.removeprefix("config/"): value for key, value in result.items() if key.startswith("config/")}
        try:
            self._trials[trial_id] = self._search.space.check(config)
        except ValueError:
            return None
        return self._trials[trial_id]

    def _under_way(self, h: Configuration) -> bool:
        key = self._search.space.key
        return key(h) in map(key, self._search.live)

    def _heard(self, trial_id: str, result: Mapping[str, Any]) -> Seen:
        """Take a report; what is known of its trial."""
        return self._reports.hear(trial_id, result, self._metric or DEFAULT_METRIC, self._sign)

    def _ended_with(self, trial_id: str, result: Mapping[str, Any] | None) -> Seen:
        """What is known of a trial that ends with this report."""
        return self._reports.end(trial_id, result, self._metric or DEFAULT_METRIC, self._sign)

    @property
    def _sign(self) -> float:
        return -1.0 if self._mode == "min" else 1.0

    def _signed(self, value: Any) -> float | None:
        """A value with its sign turned if smaller is better; None: a failure. ValueError for what is no number."""
        number = FAILED if value is None else value_of(value)
        return None if number == FAILED else self._sign * number
