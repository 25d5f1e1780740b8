"""The searches of a study side by side, so that a free worker always has something to do; without Ray.

A line search waits for its own trials; beside it another search can use the workers it leaves idle. Each is told of its
own settings only and takes the course it would take alone. A setting is trained once with each seed, whichever search
asks for it first: what is known of it, or is being found out, is told to the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

from tune_cd.results.observations import mean
from tune_cd.search.space import Configuration, Key, Space
from tune_cd.tune.course import Course

Training = tuple[Key, int]
"""A setting's key and a seed: what is trained once."""


@dataclass(frozen=True)
class Asked:
    """A training that is to be run. origin: the search it is for, and that one's annotation of the setting."""

    h: Configuration
    seed: int
    origin: dict[str, Any]


@dataclass
class Member:
    """One of the searches: how far it is, and how many settings it may still have trained."""

    course: Course
    budget: int


class Portfolio:
    """The searches of a study that train alike; the first in order that has a setting to train is served.

    members: by name; each limits how many of its own are live.  seeds: of every setting's trainings.  workers: settings
    being trained at a time.  known: the value of each training that has ended, NaN where it gave none.
    """

    def __init__(
        self,
        members: Mapping[str, Member],
        space: Space,
        seeds: Sequence[int],
        workers: int,
        known: Mapping[Training, float],
    ):
        self.members, self.seeds = dict(members), tuple(seeds)
        self._space, self._workers = space, workers
        self._known = dict(known)
        self._running: dict[Key, set[int]] = {}  # settings being trained: the seeds that are left
        self._waiting: dict[Key, list[tuple[str, Configuration]]] = {}  # who is told when a setting has been trained

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask for, whatever is told."""
        return all(member.budget == 0 or member.course.finished for member in self.members.values())

    def ask(self) -> list[Asked]:
        """The trainings of the next setting, one a seed that is not known; none while all searches wait, or have
        ended."""
        if len(self._running) >= self._workers:
            return []
        return next((asked for name in self.members if (asked := self._next(name))), [])

    def tell(self, asked: Asked, value: float | None) -> None:
        """A training has ended. value: its score, None where it gave none. A setting counts with the mean over its
        seeds."""
        key = self._space.key(asked.h)
        self._known[key, asked.seed] = nan if value is None else value
        self._running[key].discard(asked.seed)
        if self._running[key]:
            return
        del self._running[key]
        for name, h in self._waiting.pop(key):
            self.members[name].course.tell(h, self._value(key))

    def _next(self, name: str) -> list[Asked]:
        """The trainings of a search's next setting that nobody has trained, or is training, yet."""
        member = self.members[name]
        while member.budget > 0 and (h := member.course.next()) is not None:
            key = self._space.key(h)
            missing = [seed for seed in self.seeds if (key, seed) not in self._known]
            if not missing:
                member.course.tell(h, self._value(key))
                continue
            self._waiting.setdefault(key, []).append((name, h))
            if key in self._running:
                continue
            member.budget -= 1
            self._running[key] = set(missing)
            origin = {**member.course.annotation(h), "search": name}
            return [Asked(h, seed, origin) for seed in missing]
        return []

    def _value(self, key: Key) -> float | None:
        return mean(value for seed in self.seeds if isfinite(value := self._known[key, seed]))
