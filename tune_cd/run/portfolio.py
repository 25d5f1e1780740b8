"""Runs the searches of a study side by side, so that a free worker always has something to do; without Ray.

A line search waits for its own trials; meanwhile another search can use the idle workers. Each search is told only of
its own configurations and proceeds as it would alone. A configuration is trained once with each seed, for the search
that asks first; others that ask for it are told the same scores. If one of them wants it trained further, the training
continues under its first name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_cd.run.looks import Looks, over_seeds, reaches
from tune_cd.run.members import Member
from tune_cd.search.space import Configuration, Key, Space

ORIGIN = "origin"
"""The config key under which a trial finds the `Asked.origin` of its configuration."""

TrainingKey = tuple[Key, int]
"""The key of a configuration and a seed, which identify a training."""


@dataclass(frozen=True)
class Asked:
    """A training that is to begin or to continue. until: a share of its full length. origin: the search it is trained
    for, and that search's annotation of the configuration."""

    h: Configuration
    seed: int
    origin: dict[str, Any]
    until: float


@dataclass(frozen=True)
class _Wanted:
    search: str
    h: Configuration
    until: float


class Portfolio:
    """Searches that share trainings; the first in order that has a configuration to train is served.

    members: by name; each limits how many of its own are live.  seeds: of every configuration's trainings.  workers:
    configurations trained at a time.  known: the looks of each training.  origins: by key, of configurations that have
    one.
    """

    def __init__(
        self,
        members: Mapping[str, Member],
        space: Space,
        seeds: Sequence[int],
        workers: int,
        known: Mapping[TrainingKey, Looks],
        origins: Mapping[Key, dict[str, Any]] | None = None,
    ):
        self.members, self.seeds = dict(members), tuple(seeds)
        self._space, self._workers = space, workers
        self._known, self._origins = dict(known), dict(origins or {})
        self._running: dict[Key, set[int]] = {}  # configurations in training: the seeds not done yet
        self._waiting: dict[Key, list[_Wanted]] = {}  # searches to be told, by configuration

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask for, now or after further results."""
        return not self._waiting and all(member.finished for member in self.members.values())

    def ask(self) -> list[Asked]:
        """The trainings of the next configuration, one for each seed that is not as far yet. [] while all searches wait
        or all workers are busy, and at the end."""
        if len(self._running) >= self._workers:
            return []
        for key, (first, *_) in self._waiting.items():
            if key not in self._running:  # trained for another search, but not as far
                return self._begin(first)
        return next((asked for name in self.members if (asked := self._next(name))), [])

    def allow(self, worth: float) -> None:
        """Divide a budget, in full trainings' worth still to come, among the searches by their weights. Earlier
        spending counts in each share, so a search may use what another leaves."""
        limited = [member for member in self.members.values() if member.weight and member.open]
        total = worth / len(self.seeds) + sum(member.spent for member in limited)
        for member in limited:
            member.allow(total * member.weight / sum(one.weight for one in limited) - member.spent)

    def tell(self, asked: Asked, looks: Looks) -> None:
        """Report the looks of a training that has paused or ended. The searches are told means over seeds."""
        key = self._space.key(asked.h)
        self._known[key, asked.seed] = looks
        self._running[key].discard(asked.seed)
        if self._running[key]:
            return
        del self._running[key]
        waiting = self._waiting.pop(key)
        for wanted in waiting:
            if not self._missing(wanted):
                self._tell(wanted)
        self._let_hear(asked.h)
        if further := [wanted for wanted in waiting if self._missing(wanted)]:
            self._waiting[key] = further

    def reached(self, asked: Asked) -> float:
        """The share of its full length that an asked training has reached already."""
        return max(self._known.get((self._space.key(asked.h), asked.seed), {}), default=0.0)

    def _next(self, name: str) -> list[Asked]:
        """The trainings of a search's next configuration that is neither trained nor in training so far. Those that are
        trained are told at once."""
        while (found := self.members[name].next()) is not None:
            wanted = _Wanted(name, *found)
            if not self._missing(wanted):
                self._tell(wanted)
                continue
            key = self._space.key(wanted.h)
            self._waiting.setdefault(key, []).append(wanted)
            if key not in self._running:
                return self._begin(wanted)
        return []

    def _begin(self, wanted: _Wanted) -> list[Asked]:
        key, missing = self._space.key(wanted.h), self._missing(wanted)
        own = {**self.members[wanted.search].annotation(wanted.h), "search": wanted.search}
        origin = self._origins.setdefault(key, own)
        if origin["search"] == wanted.search:
            self.members[wanted.search].begun(wanted.h)
        self._running[key] = set(missing)
        return [Asked(wanted.h, seed, origin, wanted.until) for seed in missing]

    def _tell(self, wanted: _Wanted) -> None:
        key = self._space.key(wanted.h)
        looks = over_seeds([self._known[key, seed] for seed in self.seeds])
        own = self._origins.get(key, {}).get("search") == wanted.search
        self.members[wanted.search].tell(wanted.h, looks, own)

    def _let_hear(self, h: Configuration) -> None:
        """Report a configuration's scores to every search that has it, also if it was trained for another one. Each
        then knows what it would read from the table."""
        key = self._space.key(h)
        several = [self._known.get((key, seed), {}) for seed in self.seeds]
        if all(several):
            for name, member in self.members.items():
                member.hear(h, over_seeds(several), self._origins.get(key, {}).get("search") == name)

    def _missing(self, wanted: _Wanted) -> list[int]:
        """The seeds with which the configuration is still to be trained."""
        key = self._space.key(wanted.h)
        return [seed for seed in self.seeds if not reaches(self._known.get((key, seed)), wanted.until)]
