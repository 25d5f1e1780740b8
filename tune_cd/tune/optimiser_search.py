"""Any `Optimiser` as a Ray Tune `Searcher`: a trial is trained to its end, or until a scheduler stops it."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.results.attempts import to_retry, were_cut
from tune_cd.search.protocol import Optimiser, Told
from tune_cd.search.registry import restore
from tune_cd.search.space import Configuration, Space
from tune_cd.tune.adapter import Adapter
from tune_cd.tune.arguments import check_full_length, check_use_result, configurations
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
        super().__init__(
            space, metric, mode, points_to_evaluate, evaluated_rewards, annotate, full_length, use_result
        )  # fmt: skip
        self._make, self._full_length = make, full_length
        self._start = configurations(start)
        self._rows = {"full_length": full_length, "use_result": use_result}
        self._begin_if_known()

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        self._heard(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """An error, NaN or ±inf in the end, or no number ever is a failure: the worst value.

        When a scheduler ends a paused trial, Tune passes no result: what it reported before then counts.
        """
        h = self._trials.get(trial_id) or self._adopted(trial_id, result)
        if h is None or self._course is None:
            return
        seen, reports = self._ended_with(trial_id, result), self._reports
        value = None if error else reports.value(seen)
        early = value is not None and reports.short(trial_id, result, removed=result is None)
        if self._full_length is not None and value is not None and seen.length is None:
            self._warn_of_length(result or {})
        if not error:  # else Tune may run it again, from its checkpoint
            reports.forget(trial_id)
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
