"""Any `Optimiser` as a Ray Tune `Searcher`: a trial is trained to its end, or until a scheduler stops it."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.results.attempts import to_retry, were_cut
from tune_cd.results.rows import finite
from tune_cd.search.protocol import Optimiser, Told
from tune_cd.search.registry import restore
from tune_cd.search.space import Configuration, Space
from tune_cd.tune.adapter import Adapter
from tune_cd.tune.arguments import check_full_length, check_use_result, configurations
from tune_cd.tune.callback.rows import stopped_early
from tune_cd.tune.course import Course
from tune_cd.tune.earlier import inside


class OptimiserSearch(Adapter):
    """Any `Optimiser` as a Searcher.

    make: a picklable function (space, start=configurations or None) -> Optimiser, e.g. one of
        `tune_cd.search.registry.OPTIMISERS`. The other arguments are `CoordinateDescentSearch`'s.
    """

    STATE_VERSION = 1
    _course: Course | None
    _warned = False  # of results without the key of full_length

    def __init__(
        self,
        space: Space | Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        make: Callable[..., Optimiser],
        start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[float] | None = None,
        use_result: str = "last",
        full_length: tuple[str, float] | None = None,
        annotate: str | None = None,
    ):
        check_use_result(use_result)
        if full_length is not None:
            check_full_length(full_length)
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, annotate)
        self._make, self._use_result, self._full_length = make, use_result, full_length
        self._start = configurations(start)
        self._rows = {"full_length": full_length, "use_result": use_result}
        self._best_seen: dict[str, float] = {}  # trial id -> best value reported so far, for use_result="best"
        self._last_seen: dict[str, dict[str, float]] = {}  # trial id -> metric and length in its last report
        self._begin_if_known()

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        value = self._number(result)
        if value is not None:
            self._best_seen[trial_id] = max(value, self._best_seen.get(trial_id, value))
        counted = (self._metric, self._full_length[0]) if self._full_length else (self._metric,)
        self._last_seen[trial_id] = {
            name: number for name in counted if (number := finite(result.get(name))) is not None
        }

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """A missing metric, NaN, ±inf, an error or an end before any report is a failure: the worst value.

        When a scheduler ends a paused trial, Tune passes no result: its last report then counts, as stopped early if it
        is below full_length or full_length is None.
        """
        h = self._trials.get(trial_id) or self._adopted(trial_id, result)
        last = self._last_seen.pop(trial_id, None)
        if h is None or self._course is None:
            return
        cut = result is None and not error and last is not None
        result = last if cut else result
        value = None if error else self._number(result)
        best = self._best_seen.pop(trial_id, None)
        if value is not None and best is not None and self._use_result == "best":
            value = max(value, best)
        if self._full_length is not None and value is not None and self._full_length[0] not in result:
            self._warn_of_length(result)
        early = stopped_early(result, self._full_length) or (cut and self._full_length is None)
        self._course.tell(h, value, censored=early)

    def _warn_of_length(self, result: Mapping[str, Any]) -> None:
        """Warn once of results without the key of full_length."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"full_length {self._full_length}: results have no {self._full_length[0]!r} but {sorted(result)}; "
                "trials that end early count as whole ones",
                stacklevel=3,
            )

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        return super().get_state() | {"best_seen": self._best_seen, "last_seen": self._last_seen}

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        super().set_state(state)
        self._best_seen, self._last_seen = dict(state["best_seen"]), dict(state.get("last_seen", {}))

    # The adapter's --------------------------------------------------------------------------------------------

    def _begin(self, space: Space) -> Course:
        tried = [point for point, reward in self._points if reward is None]
        search = self._limited(self._make(space, start=tried + self._start or None))
        for point, reward in self._points:
            if reward is not None:
                search.tell(point, self._signed(reward))
        for told in inside(self._known, search.space):
            search.tell(*told)
        return Course(search)

    _loaded, _order = staticmethod(restore), staticmethod(Course)

    def _knowledge(self, trials: pd.DataFrame) -> list[Told]:
        return results.history(trials)

    def _recall(self, rows: pd.DataFrame) -> None:
        ended = rows[~were_cut(rows)]  # the search was told of all others, also of those that were lost
        if not self._course.recall(rows, ended, again=rows[to_retry(rows)], others=rows[:0]):
            reason = "the stored trials are not those that this search asks for (other settings, start or seed?)"
            warnings.warn(f"{reason}; it knows them, but goes on otherwise", stacklevel=4)

    def _tell(self, h: Configuration, value: float | None, pruned: bool) -> None:
        """Tell a value measured elsewhere; a pruned trial's value is censored."""
        self._search.tell(h, value, censored=pruned)
