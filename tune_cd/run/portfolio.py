"""The searches of a study side by side, so that a free worker always has something to do; without Ray.

A line search waits for its own trials; beside it another search can use the workers it leaves idle. Each is told of its
own settings only and takes the course it would take alone. A setting is trained once with each seed, whichever search
asks for it first: what is known of it, or is being found out, is told to the others. Where one wants it trained further
than another did, it goes on under the name that it has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_cd.run.looks import Looks, over_seeds, reaches
from tune_cd.run.members import Member
from tune_cd.search.space import Configuration, Key, Space

ORIGIN = "origin"
"""The config key under which a trial finds the `Asked.origin` of its setting."""

TrainingKey = tuple[Key, int]
"""A setting's key and a seed: what is trained once."""


@dataclass(frozen=True)
class Asked:
    """A training that is to be run, or to go on, until a share of its full length. origin: the search it is for, and
    that one's annotation of the setting."""

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
    """The searches of a study that train alike; the first in order that has a setting to train is served.

    members: by name; each limits how many of its own are live.  seeds: of every setting's trainings.  workers: settings
    being trained at a time.  known: how far each training is.  origins: of settings that have a name already, by key.
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
        self._running: dict[Key, set[int]] = {}  # settings being trained: the seeds that are left
        self._waiting: dict[Key, list[_Wanted]] = {}  # who is told when a setting has been trained so far

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask for, whatever is told."""
        return not self._waiting and all(member.finished for member in self.members.values())

    def ask(self) -> list[Asked]:
        """The trainings of the next setting, one a seed that is not so far yet; none while all searches wait, or have
        ended."""
        if len(self._running) >= self._workers:
            return []
        for key, (first, *_) in self._waiting.items():
            if key not in self._running:  # it was trained for another search, and not as far
                return self._begin(first)
        return next((asked for name in self.members if (asked := self._next(name))), [])

    def allow(self, worth: float) -> None:
        """Let the searches ask for so much more together, in whole trainings' worth: by their weights, what each has
        spent included, so that what one leaves the others may have."""
        limited = [member for member in self.members.values() if member.weight and member.open]
        total = worth / len(self.seeds) + sum(member.spent for member in limited)
        for member in limited:
            member.allow(total * member.weight / sum(one.weight for one in limited) - member.spent)

    def tell(self, asked: Asked, looks: Looks) -> None:
        """How far a training is that has paused or ended. A setting counts with the mean over its seeds."""
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
        """The share of its full length at which a training goes on that was asked for."""
        return max(self._known.get((self._space.key(asked.h), asked.seed), {}), default=0.0)

    def _next(self, name: str) -> list[Asked]:
        """The trainings of a search's next setting that nobody has trained, or is training, so far yet."""
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
        """Report a setting's scores to every search that has it, also where it was trained for another one. Each then
        knows what it would read from the table."""
        key = self._space.key(h)
        several = [self._known.get((key, seed), {}) for seed in self.seeds]
        if all(several):
            for name, member in self.members.items():
                member.hear(h, over_seeds(several), self._origins.get(key, {}).get("search") == name)

    def _missing(self, wanted: _Wanted) -> list[int]:
        """The seeds with which the setting is still to be trained."""
        key = self._space.key(wanted.h)
        return [seed for seed in self.seeds if not reaches(self._known.get((key, seed)), wanted.until)]
