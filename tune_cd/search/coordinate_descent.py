"""Reparameterised coordinate descent, ask and tell (`subsec:reparam`).

The algorithm is in `line_search`. `CoordinateDescent` keeps the values told so far and walks the trajectory along them.
Three things follow. A configuration that was evaluated before is never run again: the walk reads its value and goes on.
(So a repeated point is free, unlike in Algorithms 1 and 2.) Results may arrive in any order. And the history is the
whole state: saving is JSON, restoring is walking again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import isfinite
from operator import index
from typing import Any

import numpy as np

from tune_cd.search.beliefs import belief_over
from tune_cd.search.directions import directions_of
from tune_cd.search.golden_section import FAILED
from tune_cd.search.line_search import SETTINGS, Plan, SearchSettings, Trajectory
from tune_cd.search.model_guided import Guided
from tune_cd.search.protocol import Proposal, Told, best_of, check_version, check_workers, is_free, uncensored
from tune_cd.search.space import Configuration, Key, Space, number_of
from tune_cd.search.speculative import needed_next
from tune_cd.search.trainings import Training

STATE_VERSION = 1

Start = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""One starting configuration, several, or none."""


@dataclass
class _Trial:
    h: Configuration
    value: float | None = None  # None: live
    asked: Proposal | None = None  # None: told without having been asked for
    recalled: bool = False  # evaluated by an earlier run of the same search
    censored: bool = False  # stopped early

    def counts(self, best: float | None) -> float | None:
        """The value as it counts in comparisons, given the `best` so far; None: live."""
        return self.value if self.value is None else uncensored(self.value, self.censored, best)


class CoordinateDescent:
    """The search method of the paper (`subsec:reparam`), as an `Optimiser`.

    space: the box H. settings: "default", "paper", "local" (see `line_search.SETTINGS`) or a `SearchSettings`.
    directions: array [n_directions, n_axes], rows in the axes' coordinates, searched in turn. None: the rows of
        eq:matrix_a for (Lambda_p, Lambda_e[, batch_size]); joint and contrasts for other weights Lambda_<term>
        (`directions.rows_over`); else each axis. "default" also searches the axes and, unless the space is (Lambda_p,
        Lambda_e[, batch_size]), the diagonals of each pair of up to four axes.
    budgets: steps of a line search, one int or one per direction (c_i of `algo:cd`). "default" ignores them.
    start: one configuration or several, of which the best is descended from. None: one drawn by `seed`, uniformly in
        the box's coordinates, the paper's blind setting. Each start costs a trial. Values told before the first `ask`
        are starts that cost nothing, and replace the blind one.
    workers: the largest number of live trials; None: no limit. The next proposal depends on the asked, told and live
        trials in asking order, never on the order in which they end. With "paper" and "local" the trajectory is the
        same for any number of workers, and the further workers look ahead (`speculative`). With "default" they are sent
        to where least is known (`model_guided`).

    Raises ValueError for an argument that does not fit.
    """

    def __init__(
        self,
        space: Space,
        *,
        settings: str | SearchSettings = "default",
        directions: Sequence[Sequence[float]] | None = None,
        budgets: int | Sequence[int] = 3,
        start: Start = None,
        workers: int | None = None,
        seed: int = 0,
    ):
        check_workers(workers)
        self.space, self.workers = space, workers
        names, rows = directions_of(space, directions)
        self._plan = Plan(space, names, rows, _settings(settings))
        self._belief = belief_over(space)
        self._budgets = _budgets(budgets, len(rows))
        self._starts = starts_of(space, start)
        self.seed = index(seed)
        self._trials: dict[Key, _Trial] = {}  # in asking order; if never asked for, in telling order
        self._walked: Trajectory | None = None  # the state the walk has reached; None: walk again from the start
        self._modelled: Guided | None = None  # the state of the model-guided search

    def ask(self) -> Configuration | None:
        """The next configuration; None while `workers` trials are live, or when nothing is left to propose."""
        proposal = self._next() if is_free(self.workers, len(self.live)) else None
        if proposal is None:
            return None
        self._trials[self.space.key(proposal.h)] = _Trial(proposal.h, asked=proposal)
        return dict(proposal.h)

    def tell(self, h: Mapping[str, Any], value: float | None, censored: bool = False) -> None:
        """Report the value of a configuration; None, NaN or ±inf: the trial failed.

        A configuration never asked for is adopted. Before the first ask it is a starting point; later its value is used
        if the search comes to it. A second report of the same h replaces the first. The value of a trial that was
        stopped early is censored: it counts as just below the best uncensored value, if it is not lower already.
        Raises ValueError for a configuration outside the space.
        """
        h = self.space.check(h)
        trial = self._trials.setdefault(self.space.key(h), _Trial(h))
        value = value_of(value)
        if trial.value is not None and (trial.value, trial.censored) != (value, censored):
            self._walked = None  # history was rewritten: walk it again
        trial.value, trial.censored = value, censored

    def recall(self, history: Sequence[Told]) -> None:
        """Add the trials of an earlier run of this search, in asking order. They do not become starts, as told values
        do.

        Raises ValueError for a configuration outside the space.
        """
        for h, value, censored in history:
            h = self.space.check(h)
            self._trials[self.space.key(h)] = _Trial(h, value_of(value), recalled=True, censored=censored)
        self._walked = None

    @property
    def finished(self) -> bool:
        """True when nothing is left to propose and no live trial can change that."""
        return not self.live and self._next() is None

    @property
    def live(self) -> list[Configuration]:
        return [dict(trial.h) for trial in self._trials.values() if trial.value is None]

    @property
    def history(self) -> list[tuple[Configuration, float | None]]:
        """(h, value) of all told trials in asking order; a failed trial's value is None."""
        told = (trial for trial in self._trials.values() if trial.value is not None)
        return [(dict(trial.h), None if trial.value == FAILED else trial.value) for trial in told]

    @property
    def best(self) -> tuple[Configuration, float] | None:
        numbers = (trial for trial in self._trials.values() if trial.value not in (None, FAILED))
        return best_of([(dict(trial.h), trial.value) for trial in numbers if not trial.censored])

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        trial = self._trials[self.space.key(h)]
        if trial.asked is None:
            raise KeyError(f"{dict(h)} was told, but never asked for")
        return trial.asked

    def state(self) -> dict[str, Any]:
        """The history and the search's arguments, as plain JSON types; `from_state` inverts it."""
        plan = self._plan
        return {
            "version": STATE_VERSION,
            "space": self.space.to_json(),
            "settings": vars(plan.settings).copy(),
            "directions": plan.directions.tolist(),
            "direction_names": list(plan.names),
            "budgets": list(self._budgets),
            "start": self._starts,
            "workers": self.workers,
            "seed": self.seed,
            "trials": [_trial_to_json(trial) for trial in self._trials.values()],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "CoordinateDescent":
        """Continue where `state` was taken. Raises ValueError for a state of an unknown version."""
        check_version(state, STATE_VERSION)
        search = cls(
            Space.from_json(state["space"]),
            settings=SearchSettings(**state["settings"]),
            directions=state["directions"],
            budgets=state["budgets"],
            start=state["start"],
            workers=state["workers"],
            seed=state["seed"],
        )
        search._plan = replace(search._plan, names=tuple(state["direction_names"]))
        for entry in state["trials"]:
            trial = _trial_from_json(entry)
            search._trials[search.space.key(trial.h)] = trial
        return search

    def _next(self) -> Proposal | None:
        """The next proposal, given the live trials; None if there is none."""
        state = self._walk()
        if isinstance(state, Guided):
            return state.step.proposal if state.step else None
        return needed_next(state, {key: trial.counts(state.value) for key, trial in self._trials.items()})

    def _walk(self) -> Trajectory | Guided:
        """The state at the first proposal whose value is not known, or the model's state for "default"."""
        if self._plan.settings.proposals == "model":
            return self._guided()
        state = self._walked or self.first()
        while not state.finished:
            proposal = state.proposal()
            trial = self._trials.get(self.space.key(proposal.h))
            value = None if trial is None else trial.counts(state.value if state.here else None)
            if trial is None or value is None:
                break
            state = state.told(trial.h, value)
        if any(trial.asked or trial.recalled for trial in self._trials.values()):
            self._walked = state  # kept only once asked: until then a told point may still become a start
        return state

    def _guided(self) -> Guided:
        """The model-guided state after all trials, in asking order (in telling order if never asked for)."""
        best = self.best[1] if self.best else None
        counted = ((trial.h, trial.counts(best)) for trial in self._trials.values())
        trainings = tuple(
            Training(h, until=1.0) if value is None else Training(h, ((1.0, value),)) for h, value in counted
        )
        if self._modelled is None or self._modelled.trainings != trainings:
            starts = self._starting_points()
            self._modelled = Guided(self._plan, self._belief, starts, trainings, blind=not self._given())
        return self._modelled

    def first(self) -> Trajectory:
        """The first state of the line searches, before any evaluation, for callers that walk them themselves."""
        return Trajectory.first(self._plan, self._starting_points(), self._budgets)

    def _starting_points(self) -> tuple[Configuration, ...]:
        return self._given() or (self.space.sample(np.random.default_rng(self.seed)),)

    def _given(self) -> tuple[Configuration, ...]:
        """The starts that the user chose: `start`, and the configurations told before the first ask."""
        told = takewhile(lambda trial: trial.asked is None and not trial.recalled, self._trials.values())
        return (*(self._starts or ()), *(trial.h for trial in told))


def _settings(settings: str | SearchSettings) -> SearchSettings:
    if isinstance(settings, SearchSettings):
        return settings
    if settings not in SETTINGS:
        raise ValueError(f"settings {settings!r}: one of {sorted(SETTINGS)} or a SearchSettings")
    return SETTINGS[settings]


def _budgets(budgets: int | Sequence[int], n_directions: int) -> tuple[int, ...]:
    each = list(budgets) if isinstance(budgets, Sequence) else [budgets] * n_directions
    if len(each) != n_directions or not all(isinstance(b, int) and b >= 1 for b in each):
        raise ValueError(f"budgets {budgets!r}: an int >= 1, or {n_directions} of them, one per direction")
    return tuple(each)


def starts_of(space: Space, start: Start) -> list[Configuration] | None:
    """The starting configurations; None if there are none. Raises ValueError for one outside the space."""
    if start is None:
        return None
    points = [start] if isinstance(start, Mapping) else list(start)
    return [space.check(h) for h in points] or None


def value_of(value: Any) -> float:
    """A value as it is stored: FAILED for None, NaN and ±inf. Raises ValueError for what is no number (`number_of`)."""
    number = FAILED if value is None else number_of(value)
    if number is None:
        raise ValueError(f"value {value!r} ({type(value).__name__}): a number is required, or None for a failed trial")
    return float(number) if isfinite(number) else FAILED


def _trial_to_json(trial: _Trial) -> dict[str, Any]:
    entry = {"h": trial.h, "live": trial.value is None, "value": None if trial.value == FAILED else trial.value}
    if trial.asked is not None:
        entry |= {"direction": trial.asked.direction, "line_position": trial.asked.line_position}
    return entry | {name: True for name in ("recalled", "censored") if getattr(trial, name)}


def _trial_from_json(entry: Mapping[str, Any]) -> _Trial:
    asked = Proposal(entry["h"], entry["direction"], entry["line_position"]) if "direction" in entry else None
    value = None if entry["live"] else value_of(entry["value"])
    return _Trial(entry["h"], value, asked, entry.get("recalled", False), entry.get("censored", False))
