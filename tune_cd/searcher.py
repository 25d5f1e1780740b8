"""`CoordinateDescentSearch`: the coordinate descent as a Ray Tune `Searcher`.

Thin on purpose. It converts Tune's `param_space`, maps trial ids to configurations, turns results into numbers of
which larger is better, and saves its state as JSON. What to try next is decided in `descent.py`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher
from ray.tune.search.sample import Categorical, Domain, Float, Integer, LogUniform, Quantized
from ray.tune.search.variant_generator import parse_spec_vars
from ray.tune.utils import flatten_dict
from ray.tune.utils.util import unflatten_dict

from tune_cd.descent import CoordinateDescent
from tune_cd.space import Axis, Space
from tune_cd.trajectory import SearchSettings

STATE_VERSION = 1


class CoordinateDescentSearch(Searcher):
    """Reparameterised coordinate descent over a few positive, log-scaled parameters.

        tuner = tune.Tuner(
            trainable,
            param_space={"lr": tune.loguniform(1e-6, 1.0), "weight_decay": tune.loguniform(1e-8, 1e-1), "epochs": 10},
            tune_config=tune.TuneConfig(metric="accuracy", mode="max", num_samples=20,
                                        search_alg=CoordinateDescentSearch(start={"lr": 1e-3, "weight_decay": 1e-4})),
        )

    space: the searched box; None: converted from `param_space` (loguniform, lograndint, their q-forms, numeric
        choice; nested keys are joined by "/"). metric, mode: as in `TuneConfig`; "min" negates once, here.
    settings, directions, budgets, start, seed: see `CoordinateDescent`.
    points_to_evaluate: configurations tried first, in this order; the descent starts from the best of them.
    evaluated_rewards: their known values, one each: then they cost no trial.
    use_result: a finished trial counts with its "last" reported value or with its "best".
    annotate: a config key under which every suggestion carries {"direction", "line_position", "trial_index"} for
        trainables that write their own result rows; None adds nothing.

    Raises ValueError, before any trial starts, for what the search cannot answer for.
    """

    def __init__(
        self,
        space: Space | None = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        settings: str | SearchSettings = "default",
        directions: Sequence[Sequence[float]] | None = None,
        budgets: int | Sequence[int] = 3,
        start: Mapping[str, Any] | None = None,
        seed: int = 0,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        evaluated_rewards: Sequence[float] | None = None,
        use_result: str = "last",
        annotate: str | None = None,
    ):
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode {mode!r}: 'min' or 'max'")
        if use_result not in ("last", "best"):
            raise ValueError(f"use_result {use_result!r}: 'last' or 'best'")
        super().__init__(metric=metric, mode=mode)
        self._use_result, self._annotate = use_result, annotate
        self._points = _points(points_to_evaluate, evaluated_rewards)
        self._how = {"settings": settings, "directions": directions, "budgets": budgets, "seed": seed}
        self._space, self._start = space, start
        self._search: CoordinateDescent | None = None
        self._trials: dict[str, dict] = {}  # trial id -> h
        self._best_seen: dict[str, float] = {}  # trial id -> best value reported so far, for use_result="best"
        self._restored = False
        self._orphans: list[dict] = []  # asked for by trials of an experiment that is gone
        if space is not None and mode is not None:
            self._begin(space)

    # Tune's side ----------------------------------------------------------------------------------------------

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec) -> bool:
        """Called by Tune before the first trial, and again (before `restore`) by `Tuner.restore`."""
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode {mode!r}: 'min' or 'max'")
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if self._metric is None or self._mode is None:
            raise ValueError(f"metric {self._metric!r}, mode {self._mode!r}: name both, in TuneConfig or in the searcher")
        given = space_from_tune(config)
        if self._search is None:
            if given is None and self._space is None:
                raise ValueError("nothing to search: param_space has no domain and no space was given")
            self._begin(self._space or given)
        if given is not None and not set(given.names) <= set(self._search.space.names):
            unanswered = sorted(set(given.names) - set(self._search.space.names))
            raise ValueError(f"param_space leaves {unanswered} open, but the searched space is {self._search.space}")
        if self._restored:  # a new experiment with a restored searcher: nobody runs its live trials any more
            self._orphans, self._restored = self._search.live, False
        return True

    def suggest(self, trial_id: str) -> dict | str | None:
        """The next configuration, nested as in `param_space`; None while a live trial must finish first; FINISHED."""
        if self._search is None:
            raise ValueError("pass space, metric and mode to the searcher, or a param_space with domains to the Tuner")
        h = self._orphans.pop(0) if self._orphans else self._search.ask()
        if h is None:
            return Searcher.FINISHED if self._search.finished else None
        self._trials[trial_id] = h
        config = unflatten_dict(h)
        if self._annotate is not None:
            config[self._annotate] = self._search.annotation(h)
        return config

    def on_trial_result(self, trial_id: str, result: dict) -> None:
        value = self._number(result)
        if value is not None:
            self._best_seen[trial_id] = max(value, self._best_seen.get(trial_id, value))

    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """A missing result, a missing metric, NaN, ±inf or an error is a failed trial: the worst value."""
        h = self._trials.get(trial_id) or self._adopted(trial_id, result)
        if h is None or self._search is None:
            return
        value = None if error else self._number(result)
        best = self._best_seen.pop(trial_id, None)
        if value is not None and best is not None and self._use_result == "best":
            value = max(value, best)
        self._search.tell(h, value)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """The searcher limits itself: it proposes only what is worth running beside the live trials."""
        return True

    # Knowledge from elsewhere ---------------------------------------------------------------------------------

    def add_evaluated_point(
        self,
        parameters: dict,
        value: float | None,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Tell a value measured elsewhere. Before the first suggestion it is a starting point, later a known value.

        A pruned trial's value is left out: it is a lower bound, not a value. Needs `space`, or a Tuner that was built.
        """
        if pruned:
            return
        if self._mode is None or self._search is None:
            raise ValueError("add_evaluated_point needs the searcher's space, metric and mode: pass them to the constructor")
        flat = flatten_dict(parameters)
        self._search.tell(self._search.space.check(flat), None if error else self._signed(value))

    def recall(self, known: Sequence[tuple[Mapping[str, Any], float | None]]) -> int:
        """Continue a search from the values it measured, see `CoordinateDescent.recall`. Values in the metric's sign."""
        if self._mode is None or self._search is None:
            raise ValueError("recall needs the searcher's space, metric and mode: pass them to the constructor")
        return self._search.recall([(h, self._signed(value)) for h, value in known])

    # State ----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict:
        """Everything needed to continue, as plain JSON types."""
        return {
            "version": STATE_VERSION,
            "metric": self._metric,
            "mode": self._mode,
            "search": self._search and self._search.state(),
            "trials": self._trials,
            "best_seen": self._best_seen,
        }

    def set_state(self, state: dict) -> None:
        """The inverse of `get_state`; the saved state wins over the constructor's arguments."""
        if state.get("version") != STATE_VERSION:
            raise ValueError(f"searcher state of version {state.get('version')!r}; this release reads version {STATE_VERSION}")
        self._metric, self._mode = state["metric"], state["mode"]
        if state["search"] is not None:
            self._search = CoordinateDescent.from_state(state["search"])
        self._trials, self._best_seen = dict(state["trials"]), dict(state["best_seen"])
        self._restored, self._orphans = True, []

    def save(self, checkpoint_path: str) -> None:
        """Write the state as JSON (Tune names the file .pkl; it holds no pickle)."""
        temporary = f"{checkpoint_path}.part"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(self.get_state(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        """Read what `save` wrote. Raises ValueError naming the file if it is not that."""
        try:
            state = json.loads(Path(checkpoint_path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{checkpoint_path} is not a saved CoordinateDescentSearch: {error}") from error
        self.set_state(state)

    # ----------------------------------------------------------------------------------------------------------

    def _begin(self, space: Space) -> None:
        tried = [point for point, reward in self._points if reward is None]
        starts = tried + ([self._start] if self._start is not None else [])
        self._search = CoordinateDescent(space, start=starts or None, **self._how)
        for point, reward in self._points:
            if reward is not None:
                self._search.tell(point, reward if self._mode != "min" else -reward)

    def _adopted(self, trial_id: str, result: dict | None) -> dict | None:
        """The configuration of a trial we never suggested, if its result names one inside the space."""
        if not result or self._search is None:
            return None
        config = flatten_dict(result.get("config") or {})
        config |= {key.removeprefix("config/"): value for key, value in result.items() if key.startswith("config/")}
        try:
            self._trials[trial_id] = self._search.space.check(config)
        except ValueError:
            return None
        return self._trials[trial_id]

    def _number(self, result: dict | None) -> float | None:
        """The result's value, larger is better; None where there is no finite number."""
        value = (result or {}).get(self._metric)
        return self._signed(value) if isinstance(value, Real) and isfinite(value) else None

    def _signed(self, value: float | None) -> float | None:
        return value if value is None else -float(value) if self._mode == "min" else float(value)


def space_from_tune(config: Mapping[str, Any]) -> Space | None:
    """The searched space of a Tune `param_space`; None where it holds no domain.

    Raises ValueError for domains a log-scaled search cannot answer for, with a hint.
    """
    _, domains, grids = parse_spec_vars(config)
    if grids:
        raise ValueError(f"{'/'.join(grids[0][0])}: grid_search is not supported; use tune.choice, or list the values in a Space")
    axes = {"/".join(map(str, path)): domain for path, domain in domains}
    return Space(**{name: _axis_from_tune(name, domain) for name, domain in axes.items()}) if axes else None


def _axis_from_tune(name: str, domain: Domain) -> Axis:
    if isinstance(domain, Categorical):
        if not all(isinstance(value, Real) and not isinstance(value, bool) for value in domain.categories):
            raise ValueError(f"{name}: choice({domain.categories!r}) is not numeric; only ordered, positive values can be searched")
        return Axis.choice(name, domain.categories)
    sampler = domain.get_sampler() if isinstance(domain, (Float, Integer)) else None
    step = None
    if isinstance(sampler, Quantized):
        step, sampler = sampler.q, sampler.get_sampler()
    if not isinstance(sampler, LogUniform):
        hint = "use tune.loguniform or tune.lograndint: only positive, log-scaled parameters can be searched"
        raise ValueError(f"{name}: {domain.domain_str or type(domain).__name__} with {type(sampler).__name__} sampling is not supported; {hint}")
    if isinstance(domain, Float):
        return Axis(name, float(domain.lower), float(domain.upper), step=step)
    upper = domain.upper if step not in (None, 1) else domain.upper - 1  # Tune: exclusive, unless quantised
    return Axis(name, domain.lower, upper, step=step or 1)


def _points(
    points: Sequence[Mapping[str, Any]] | None, rewards: Sequence[float] | None
) -> list[tuple[dict, float | None]]:
    """(configuration, known value or None) pairs, flattened."""
    if rewards is not None and len(rewards) != len(points or []):
        raise ValueError(f"evaluated_rewards has {len(rewards)} values for {len(points or [])} points_to_evaluate")
    flat = [flatten_dict(dict(point)) for point in points or []]
    return list(zip(flat, rewards if rewards is not None else [None] * len(flat)))
