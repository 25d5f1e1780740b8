"""The protocol of every search method, around a rule that only chooses the next configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

from tune_cd.search.coordinate_descent import value_of
from tune_cd.search.golden_section import FAILED
from tune_cd.search.protocol import Proposal, Told, best_of, check_workers, is_free, uncensored
from tune_cd.search.space import Configuration, Key, Space

STATE_VERSION = 1


@dataclass
class Trial:
    """A configuration, its `Proposal.direction` (None: told unasked), and its value once told (None: failed)."""

    h: Configuration
    direction: str | None
    told: bool = False
    value: float | None = None


class Rule(Protocol):
    """The part in which baselines differ: the choice of the next configuration. known: all trials so far, by key."""

    def propose(self, known: Mapping[Key, Trial]) -> Configuration | None:
        """A configuration that is not known; None if none is left."""

    def exhausted(self, known: Mapping[Key, Trial]) -> bool:
        """True when `propose` has nothing left, whatever is observed."""

    def take(self, h: Configuration) -> None:
        """Note that `h` is evaluated without having been proposed: a start, or a configuration told unasked."""

    def observe(self, h: Configuration, value: float | None) -> None:
        """Note the value of a proposed or taken configuration, None for a failure; a second one replaces the first."""


class Baseline:
    """A search method that follows a `Rule`, after `starts`. Its history, event by event, is its state.

    method, options: the constructor in `OPTIMISERS` that made it and its options, for `restore`.
    """

    def __init__(
        self,
        space: Space,
        rule: Rule,
        starts: list[Configuration],
        *,
        method: str,
        seed: int,
        workers: int | None,
        options: Mapping[str, Any],
    ):
        check_workers(workers)
        self.space, self.seed, self.workers = space, index(seed), workers
        self._rule, self._starts, self._method, self._options = rule, starts, method, dict(options)
        self._trials: dict[Key, Trial] = {}  # in asking order; if never asked for, in telling order
        self._events: list[dict[str, Any]] = []
        self._recalled: dict[Key, Told] = {}  # by key

    def ask(self) -> Configuration | None:
        """The next configuration; None while `workers` trials are live, and when finished."""
        while is_free(self.workers, len(self.live)) and (h := self._next()) is not None:
            if self.space.key(h) not in self._recalled:
                return h
            self.tell(*self._recalled.pop(self.space.key(h)))
        return None

    def recall(self, history: Sequence[Told]) -> None:
        """Trials of an earlier run of this search: each is told at once when the search comes to it.

        A sampler that draws at random proposes them again, provided that it had one trial at a time.
        """
        self._recalled |= {self.space.key(told.h): told._replace(h=self.space.check(told.h)) for told in history}

    def _next(self) -> Configuration | None:
        start = next((h for h in self._starts if self.space.key(h) not in self._trials), None)
        if start is not None:
            self._rule.take(start)
        h = start or self._rule.propose(self._trials)
        if h is None:
            return None
        self._trials[self.space.key(h)] = Trial(dict(h), "sampled" if start is None else "start")
        self._events.append({"event": "ask", "h": dict(h)})
        return dict(h)

    def tell(self, h: Mapping[str, Any], value: float | None, censored: bool = False) -> None:
        """Report the value of a configuration; None, NaN or ±inf: the trial failed. Unknown configurations are adopted.

        A censored value counts as just below the best of those told so far, if it is not lower already.

        Raises ValueError for a configuration outside the space.
        """
        h, key = self.space.check(h), self.space.key(h)
        told = value_of(value)
        value = None if told == FAILED else told
        if value is not None:
            value = uncensored(value, censored, self.best and self.best[1])
        if key not in self._trials:
            self._rule.take(h)
            self._trials[key] = Trial(h, None)
        trial = self._trials[key]
        if not trial.told or trial.value != value:
            self._events.append({"event": "tell", "h": h, "value": value})
            self._rule.observe(trial.h, value)
            trial.told, trial.value = True, value

    @property
    def finished(self) -> bool:
        return all(self.space.key(h) in self._trials for h in self._starts) and self._rule.exhausted(self._trials)

    @property
    def live(self) -> list[Configuration]:
        return [dict(trial.h) for trial in self._trials.values() if not trial.told]

    @property
    def history(self) -> list[tuple[Configuration, float | None]]:
        """(h, value) of all told trials in asking order; a failed trial's value is None."""
        return [(dict(trial.h), trial.value) for trial in self._trials.values() if trial.told]

    @property
    def best(self) -> tuple[Configuration, float] | None:
        return best_of(self.history)

    def origin(self, h: Mapping[str, Any]) -> Proposal:
        direction = self._trials[self.space.key(h)].direction
        if direction is None:
            raise KeyError(f"{dict(h)} was told, but never asked for")
        return Proposal(dict(h), direction, 0.0)

    def state(self) -> dict[str, Any]:
        """The events in their order and the search's arguments; `restore` replays the events."""
        state = {"version": STATE_VERSION, "method": self._method, "options": self._options, "seed": self.seed}
        state |= {"workers": self.workers, "recalled": list(self._recalled.values())}
        return state | {"space": self.space.to_json(), "starts": self._starts, "events": list(self._events)}
