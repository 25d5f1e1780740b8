"""Runs the searches of a study side by side, so that no worker waits where another search has work; without Ray.

Each search is told only of its own configurations and proceeds as it would alone. A configuration is trained once with
each seed, for the search that asks first; others that ask for it are told the same scores. If one of them wants it
trained further, the training continues under its first name.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_cd.run.curves import over_seeds, reaches
from tune_cd.search.protocol import Optimiser
from tune_cd.search.space import Configuration, Key, Space
from tune_cd.search.training import Curve

ORIGIN = "origin"
"""The config key under which a trial finds the `Asked.origin` of its configuration."""

TrainingKey = tuple[Key, int]
"""The key of a configuration and a seed, which identify a training."""


@dataclass(frozen=True)
class Asked:
    """A training that is to begin or to continue. reached, until: shares of its full length. origin: the search it is
    trained for, and that search's annotation of the configuration."""

    h: Configuration
    seed: int
    origin: dict[str, Any]
    reached: float
    until: float


class Portfolio:
    """Searches that share trainings; the first in order that has a configuration to train is served.

    searches: by name; each limits how many of its own are live. seeds: of every configuration's trainings. workers:
    configurations trained at a time. known: the learning curve of each training. origins: by key, of configurations
    that have one. weights: shares of the searches in a common budget, 1 if not named; 0: it is not limited.
    """

    def __init__(
        self, searches: Mapping[str, Optimiser], space: Space, seeds: Sequence[int], workers: int,
        known: Mapping[TrainingKey, Curve], origins: Mapping[Key, dict[str, Any]] | None = None,
        weights: Mapping[str, float] | None = None,
    ):  # fmt: skip
        self.searches, self.seeds = dict(searches), tuple(seeds)
        self._space, self._workers, self._weights = space, workers, dict(weights or {})
        self._known, self._origins = dict(known), dict(origins or {})
        self._running: dict[Key, set[int]] = {}  # configurations in training: the seeds not done yet
        self._waiting: dict[Key, dict[str, float]] = {}  # configuration -> searches to be told, and until where
        self._handed: dict[str, dict[Key, Configuration]] = defaultdict(dict)  # what a search has asked for here
        self._budgets = {name: search.budget for name, search in searches.items()}
        self.lent: dict[str, float] = defaultdict(float)  # what was trained of a search's settings for others
        self._last: dict[str, Key | None] = {}  # the training of a search that may exceed its budget

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask for, now or after further results."""
        return not self._waiting and all(search.finished for search in self.searches.values())

    @property
    def unrecorded(self) -> list[dict[str, Any]]:
        """What the searches have asked for and has no row of theirs: search, params, until (None: it was trained for
        another search), and their annotation."""
        rows = []
        for name, search in self.searches.items():
            live = {self._space.key(h) for h in search.live}
            for key, h in self._handed[name].items():
                if key in live or self._origins.get(key, {}).get("search") != name:
                    until = search.until(h) if key in live else None
                    rows.append({"search": name, "params": h, "until": until, **search.annotation(h)})
        return rows

    @property
    def done(self) -> float:
        """What was trained so far, in this run and earlier ones, in full trainings."""
        return sum(max(curve, default=0.0) for curve in self._known.values())

    @property
    def left(self) -> float:
        """The most that is still to be trained, in full trainings: what runs, and what the searches may ask for."""
        running = sum(
            max(self._waiting[key].values()) - self._reached(key, seed)
            for key, seeds in self._running.items()
            for seed in seeds
        )
        open_ones = (search for search in self.searches.values() if not search.finished)
        return running + len(self.seeds) * sum(max(0.0, search.budget - search.spent) for search in open_ones)

    def ask(self) -> list[Asked]:
        """The trainings of the next configuration, one for each seed that is not as far yet. [] while all searches wait
        or all workers are busy, and at the end."""
        if len(self._running) >= self._workers:
            return []
        for key, waiting in self._waiting.items():
            if key not in self._running:  # trained for another search, but not as far
                return self._begin(next(iter(waiting)), key)
        return next((asked for name in self.searches if (asked := self._next(name))), [])

    def allow(self, worth: float) -> None:
        """Divide a budget, in full trainings' worth still to come, among the searches by their weights. Earlier
        spending counts in each share, so a search may use what another leaves."""
        weights = {name: self._weights.get(name, 1.0) for name in self.searches}
        limited = {name: weight for name, weight in weights.items() if weight and self._is_open(name)}
        total = worth / len(self.seeds) + sum(self.searches[name].spent for name in limited)
        for name, weight in limited.items():
            self._allow(name, total * weight / sum(limited.values()) - self.searches[name].spent)

    def tell(self, asked: Asked, curve: Curve) -> None:
        """Report the learning curve of a training that has paused or ended. The searches are told means over seeds."""
        key = self._space.key(asked.h)
        self._known[key, asked.seed] = curve
        self._running[key].discard(asked.seed)
        if self._running[key]:
            return
        del self._running[key]
        further = {name: until for name, until in self._waiting.pop(key).items() if self._missing(key, until)}
        if all(self._known.get((key, seed)) for seed in self.seeds):
            for name, search in self.searches.items():  # each that pauses knows what it would read from the table
                if key in self._handed[name] and (len(search.lengths) > 1 or name not in further):
                    self._tell(name, asked.h)
        if further:
            self._waiting[key] = further

    def _reached(self, key: Key, seed: int) -> float:
        return max(self._known.get((key, seed), {}), default=0.0)

    def _next(self, name: str) -> list[Asked]:
        """The trainings of a search's next configuration that is neither trained nor in training so far. Those that are
        trained are told at once."""
        search = self.searches[name]
        live = (h for h in search.live if self._space.key(h) not in self._handed[name])
        while (h := next(live, None) or search.ask()) is not None:  # first what an earlier run was training at its end
            key, until = self._space.key(h), search.until(h)
            self._handed[name][key] = h
            if not self._missing(key, until):
                self._tell(name, h)
                continue
            self._waiting.setdefault(key, {})[name] = until
            if key not in self._running:
                return self._begin(name, key)
        return []

    def _begin(self, name: str, key: Key) -> list[Asked]:
        h, until = self._handed[name][key], self._waiting[key][name]
        origin = self._origins.setdefault(key, {**self.searches[name].annotation(h), "search": name})
        missing = self._missing(key, until)
        self._running[key] = set(missing)
        asked = [Asked(h, seed, origin, self._reached(key, seed), until) for seed in missing]
        if origin["search"] != name:
            self.lent[origin["search"]] += sum(one.until - one.reached for one in asked) / len(self.seeds)
        return asked

    def _tell(self, name: str, h: Configuration) -> None:
        """Tell a search what a configuration has reached, its end alone where nothing pauses."""
        key, search = self._space.key(h), self.searches[name]
        curve = over_seeds([self._known[key, seed] for seed in self.seeds])
        if len(search.lengths) == 1:
            curve = {1.0: curve[max(curve)]}
        external = self._origins.get(key, {}).get("search") != name
        for share, value in curve.items():
            search.tell(h, value, share, external=external)

    def _missing(self, key: Key, until: float) -> list[int]:
        """The seeds with which the configuration is still to be trained."""
        return [seed for seed in self.seeds if not reaches(self._known.get((key, seed)), until)]

    def _is_open(self, name: str) -> bool:
        """Whether a search would ask for more if the budget allowed it."""
        search = self.searches[name]
        return not search.finished or (search.budget < self._budgets[name] and not search.bracketed)

    def _allow(self, name: str, worth: float) -> None:
        """Limit what a search may still ask for, in full trainings' worth. Its best may exceed the limit to reach full
        length."""
        search, incumbent = self.searches[name], self.searches[name].incumbent
        best = None if incumbent is None else self._space.key(incumbent.h)
        lacks = 0.0 if incumbent is None else 1 - max(incumbent.share, incumbent.until or 0.0)  # not asked for yet
        if worth >= 1:
            self._last[name] = None
        elif worth < lacks and self._last.get(name) in (None, best):
            self._last[name], worth = best, lacks  # one training may exceed it; if it disappoints, the next may not
        search.budget = min(self._budgets[name], search.spent + max(0.0, worth))
