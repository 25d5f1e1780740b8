"""A search on its way: the order in which it asked, what has to be run once more, and how it goes on from its rows in
the results table as if it had never stopped.

What is asked next depends on the trials that have ended, and on those that are live. So the search is walked again: it
asks and is told in the order in which the rows say that it was, and what was running when it stopped comes out as well.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.search.pausing_descent import PausingDescent
from tune_cd.search.protocol import Optimiser, Proposal, Told, is_free
from tune_cd.search.registry import restore
from tune_cd.search.space import Configuration, Key

LONGEST_WALK = 1000  # rows along which a search is walked again, in a time that grows with their square
MOST_LIVE = 64  # trials at a time that a search without a number of workers is taken to have had at most
TOGETHER = pd.Timedelta(seconds=1)  # trials that end within it may have been told in the other order
TURNS = 8  # pairs of those that are tried the other way round, where the order of the rows leads nowhere


AnySearch = Optimiser | PausingDescent


@dataclass
class Order:
    """A search and the order in which it asked.

    places: index in the order of asking, by key.  waiting: configurations that lost their trial; they are suggested
    before new ones.  again: keys of failed configurations that run once more.  origins: proposals of an earlier run, by
    key.
    """

    search: AnySearch
    places: dict[Key, int] = field(default_factory=dict)
    waiting: list[Configuration] = field(default_factory=list)
    again: set[Key] = field(default_factory=set)
    origins: dict[Key, Proposal] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to run: the search has stopped by itself."""
        return self.search.finished and not self._repeats

    def next(self) -> Configuration | None:
        """The next configuration; None while a live trial must finish first, or where nothing is left."""
        if self._repeats and not is_free(self.search.workers, len(self._running())):
            return None
        h = self._waiting_one() or self.search.ask()
        if h is not None:
            self.place(h)
        return h

    def place(self, h: Configuration) -> int:
        """Its place in the order of asking, the next one if it has none yet."""
        return self.places.setdefault(self.search.space.key(h), max(self.places.values(), default=-1) + 1)

    def annotation(self, h: Configuration) -> dict[str, Any]:
        """Where a configuration comes from, in the results table's columns."""
        key = self.search.space.key(h)
        origin = self.origins.get(key) or self.search.origin(h)
        return origin.annotation(self.places[key])

    def rerun(self, configurations: Iterable[Configuration], but: Collection[Key] = ()) -> None:
        """Run these once more, and what waits already, none of those whose key is in `but`, in the order of asking."""
        key = self.search.space.key
        distinct = {key(h): h for h in [*configurations, *self.waiting] if key(h) not in but}
        self.waiting = [distinct[k] for k in sorted(distinct, key=lambda k: self.places.get(k, len(self.places)))]

    def drop(self, h: Configuration) -> None:
        """It is not run once more."""
        key = self.search.space.key
        self.waiting = [other for other in self.waiting if key(other) != key(h)]
        self.again.discard(key(h))

    def remember(self, begun: pd.DataFrame, again: pd.DataFrame) -> None:
        """Places of an earlier run's rows, and what of them is to be run again, with its origin.

        Raises ValueError for a row to be run again that lies outside the space.
        """
        key = self.search.space.key
        self.places |= {key(params): int(index) for params, index in zip(begun["params"], begun["trial_index"])}
        for row in again.itertuples():
            self.origins[key(row.params)] = Proposal(row.params, row.direction, row.line_position)
        self.rerun(self.search.space.check(params) for params in again["params"])

    @property
    def _repeats(self) -> bool:
        return bool(self.waiting or self.again)

    def _running(self) -> set[Key]:
        return _keys(self.search, self.search.live) - _keys(self.search, self.waiting) | self.again

    def _waiting_one(self) -> Configuration | None:
        if not self.waiting:
            return None
        h = self.waiting.pop(0)
        if (key := self.search.space.key(h)) not in _keys(self.search, self.search.live):
            self.again.add(key)
        return h


@dataclass
class Course(Order):
    """An `Order` that is rebuilt from an earlier run's rows."""

    search: Optimiser

    def tell(self, h: Configuration, value: float | None, censored: bool = False) -> None:
        self.again.discard(self.search.space.key(h))
        self.search.tell(h, value, censored=censored)

    def recall(self, begun: pd.DataFrame, ended: pd.DataFrame, again: pd.DataFrame, others: pd.DataFrame) -> bool:
        """Go on where an earlier run of this same search stopped; before anything is asked.

        begun: all its rows of the results table.  ended: those of the configurations it was told of.  again: those of
        them that are to be run again.  others: rows of other searches that stand for its own where it comes by them;
        they steer nothing else. Returns whether the rows are those that this search asks for; if not, it knows them,
        but goes on otherwise. Raises ValueError for a row outside the space.
        """
        if len(begun) <= LONGEST_WALK and self._walk(begun, ended, again, others):
            return True
        self.search.recall(results.history(ended.drop(again.index, errors="ignore")))
        self.remember(begun, again)
        return False

    def _walk(self, begun: pd.DataFrame, ended: pd.DataFrame, again: pd.DataFrame, others: pd.DataFrame) -> bool:
        """Take the course that the rows say was taken. Without a number of workers: with the fewest that could, up to
        where one more comes no further."""
        workers, record = self.search.workers, _Record.of(self.search, begun, ended, again, others)
        before = -1
        for limit in range(_most_at_once(begun), MOST_LIVE + 1) if workers is None else (workers,):
            walk = self._furthest(record, limit, always=workers is None)
            if walk.arrived:
                walk.search.workers = workers
                live = _keys(walk.search, walk.search.live)
                self.search, self.places = walk.search, {key: place for place, key in enumerate(walk.asked)}
                self.waiting = [h for key, h in walk.asked.items() if key in live | record.repeated]
                return True
            if not walk.waited or len(walk.asked) == before:
                break
            before = len(walk.asked)
        return False

    def _furthest(self, record: "_Record", limit: int, always: bool) -> "_Walk":
        """The walk that arrives, else the one that comes furthest: in the order of the ends, and, from where that leads
        nowhere backwards, with trials that ended together the other way round."""

        def walk(ends: list[Key]) -> _Walk:
            return _Walk(restore(self.search.state()), record, ends, limit, always).go()

        best = walk(record.ends)
        before = len(best.told)
        for _ in range(TURNS):
            pairs = [] if best.arrived else [at for at in record.together(best.ends) if at < before]
            if not pairs:
                break
            before = pairs[-1]
            other = walk([*best.ends[:before], *best.ends[before : before + 2][::-1], *best.ends[before + 2 :]])
            if other.arrived or len(other.told) > len(best.told):
                best, before = other, len(other.told)
        return best


@dataclass(frozen=True)
class _Record:
    """What rows say of a search.

    at: keys by place in the order of asking.  told: what configurations came to, by key.  ends: in the order of their
    ends, the last of each key.  times: of those.  foreign: keys of other searches' trials.  repeated: keys that are to
    be run again.
    """

    at: dict[int, Key]
    told: dict[Key, Told]
    ends: list[Key]
    times: dict[Key, pd.Timestamp]
    foreign: set[Key]
    repeated: set[Key]

    @classmethod
    def of(
        cls, search: Optimiser, begun: pd.DataFrame, ended: pd.DataFrame, again: pd.DataFrame, others: pd.DataFrame
    ) -> "_Record":
        """See `Course.recall`. Raises ValueError for a row outside the space."""
        key, check = search.space.key, search.space.check
        at = {int(index): key(check(params)) for index, params in zip(begun["trial_index"], begun["params"])}
        foreign = others[others["params"].map(lambda params: key(params) not in at.values()).astype(bool)]
        told = {key(told.h): told for rows in (foreign, ended) for told in results.history(rows)}
        ends = sorted(
            end for rows in (ended, foreign)
            for end in zip(rows["ended_at"], rows["trial_index"], map(key, rows["params"]))
        )  # fmt: skip
        last = list(dict.fromkeys(reversed([end[-1] for end in ends])))[::-1]
        times = {at: time for time, _, at in ends}
        return cls(at, told, last, times, set(map(key, foreign["params"])), set(map(key, again["params"])))

    def together(self, ends: list[Key]) -> list[int]:
        """Where two that follow each other ended almost together."""
        return [
            at for at, (one, other) in enumerate(pairwise(ends)) if abs(self.times[other] - self.times[one]) <= TOGETHER
        ]


@dataclass
class _Walk:
    """A search on the way that a record says it took.

    ends: the order in which it is told of them.  limit: trials that are live at a time.  always: it holds for trials of
    the record as well; else it held at the end only, and any number may have been live before.  told: of `ends`, those
    it came to.  waited: the limit kept a trial from being asked for.
    """

    search: Optimiser
    record: _Record
    ends: list[Key]
    limit: int
    always: bool
    asked: dict[Key, Configuration] = field(default_factory=dict)
    told: list[Key] = field(default_factory=list)
    waited: bool = False
    arrived: bool = False

    def go(self) -> "_Walk":
        self.arrived = self._arrives()
        return self

    def _arrives(self) -> bool:
        """Ask and tell until the record ends, and all that was live then is asked for; whether it can be."""
        key, at, ends, there = self.search.space.key, self.record.at, list(self.ends), set()
        self.search.workers = None
        while True:
            before = self.search.state()
            h = self.search.ask() if self._may_ask() else None
            if h is not None and at.get(len(self.asked), key(h)) == key(h):
                self.asked[key(h)] = h
                if key(h) in there:
                    self.search.tell(*self.record.told[key(h)])
                continue
            if h is not None:  # asked for later, when more was known
                self.search = restore(before)
                if not self.search.live:
                    return False
            if not ends:
                break
            ended = ends.pop(0)
            self.told.append(ended)
            if ended in self.record.foreign:
                there.add(ended)
            elif ended not in self.asked:
                return False
            if ended in self.asked:
                self.search.tell(*self.record.told[ended])
        return set(at.values()) <= self.asked.keys() and set(at) <= set(range(len(self.asked)))

    def _may_ask(self) -> bool:
        running = _keys(self.search, self.search.live) | (self.record.repeated & self.asked.keys())
        free = len(running) < self.limit
        self.waited |= not free
        return free or (not self.always and len(self.asked) in self.record.at)


def _most_at_once(rows: pd.DataFrame) -> int:
    """Trials that ran at the same time, at least 1; those that do not say when they began are not counted."""
    timed = rows.dropna(subset=["started_at", "ended_at"])
    running = [((timed["started_at"] <= at) & (at < timed["ended_at"])).sum() for at in timed["started_at"]]
    return int(max(running, default=1)) or 1


def _keys(search: AnySearch, configurations: Iterable[Configuration]) -> set[Key]:
    return {search.space.key(h) for h in configurations}
