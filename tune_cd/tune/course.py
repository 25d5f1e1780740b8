"""The order in which a search asked, its configurations to be run again, and its resumption from the results table.

A resumed search goes on as if it had never stopped. Its next proposal depends on the ended and the live trials. So it
is replayed ("walked"): it asks and is told in the order that its rows record. This also recovers the configurations
that were running when it stopped.
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

LONGEST_WALK = 1000  # most rows that are replayed; the time grows with their square
MOST_LIVE = 64  # most concurrent trials that a search without a number of workers is assumed to have had
TOGETHER = pd.Timedelta(seconds=1)  # trials that end within this time may have been told in the other order
TURNS = 8  # most pairs of such trials that are swapped if the replay in the order of the rows fails


AnySearch = Optimiser | PausingDescent


@dataclass
class Order:
    """A search and the order in which it asked.

    places: key of a configuration -> its index in the order of asking.
    waiting: configurations that lost their trial; they are suggested before new ones.
    again: keys of failed configurations that run once more; the search does not count them as live.
    origins: key -> the proposal of an earlier run.
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
        """The next configuration; None while a live trial must finish first, or if nothing is left."""
        if self._repeats and not is_free(self.search.workers, len(self._running())):
            return None
        h = self._waiting_one() or self.search.ask()
        if h is not None:
            self.place(h)
        return h

    def place(self, h: Configuration) -> int:
        """The place of `h` in the order of asking; a new configuration gets the next one."""
        return self.places.setdefault(self.search.space.key(h), max(self.places.values(), default=-1) + 1)

    def annotation(self, h: Configuration) -> dict[str, Any]:
        """The origin of a configuration, in the results table's columns."""
        key = self.search.space.key(h)
        origin = self.origins.get(key) or self.search.origin(h)
        return origin.annotation(self.places[key])

    def rerun(self, configurations: Iterable[Configuration], but: Collection[Key] = ()) -> None:
        """Add configurations to `waiting`, in the order of asking, and remove those whose key is in `but`."""
        key = self.search.space.key
        distinct = {key(h): h for h in [*configurations, *self.waiting] if key(h) not in but}
        self.waiting = [distinct[k] for k in sorted(distinct, key=lambda k: self.places.get(k, len(self.places)))]

    def drop(self, h: Configuration) -> None:
        """Cancel the repetition of a configuration."""
        key = self.search.space.key
        self.waiting = [other for other in self.waiting if key(other) != key(h)]
        self.again.discard(key(h))

    def remember(self, begun: pd.DataFrame, again: pd.DataFrame) -> None:
        """Take over the places of an earlier run's rows, and queue rows to be run again, with their origins.

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
    """An `Order` that can be rebuilt from an earlier run's rows."""

    search: Optimiser

    def tell(self, h: Configuration, value: float | None, censored: bool = False) -> None:
        self.again.discard(self.search.space.key(h))
        self.search.tell(h, value, censored=censored)

    def recall(self, begun: pd.DataFrame, ended: pd.DataFrame, again: pd.DataFrame, others: pd.DataFrame) -> bool:
        """Continue an earlier run of this same search; call it before anything is asked.

        begun: all rows of the search.  ended: rows of the configurations that it was told.  again: rows to be run
        again.  others: rows of other searches, which only supply the value of a configuration that this search asks
        for as well. Returns whether the replay reproduces the rows; if not, the search knows them but takes another
        course. Raises ValueError for a row outside the space.
        """
        if len(begun) <= LONGEST_WALK and self._walk(begun, ended, again, others):
            return True
        self.search.recall(results.history(ended.drop(again.index, errors="ignore")))
        self.remember(begun, again)
        return False

    def _walk(self, begun: pd.DataFrame, ended: pd.DataFrame, again: pd.DataFrame, others: pd.DataFrame) -> bool:
        """Replay the search along its rows; return whether this succeeds.

        Without a number of workers, try increasing numbers until one succeeds or one more gets no further.
        """
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
        """The replay that reaches the end of the record, else the one that gets furthest.

        First tell trials in the order of their ends. If that fails, swap pairs that ended together, from the failure
        backwards.
        """

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
    """The course of a search, from its rows.

    at: place in the order of asking -> key.  told: key -> observation.  ends: keys by their trials' last end.
    times: key -> time of that end.  foreign: keys of other searches' trials.  repeated: keys to be run again.
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
        """Build the record from the arguments of `Course.recall`. Raises ValueError for a row outside the space."""
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
        """Indices i for which the trials ends[i] and ends[i + 1] ended within TOGETHER."""
        return [
            at for at, (one, other) in enumerate(pairwise(ends)) if abs(self.times[other] - self.times[one]) <= TOGETHER
        ]


@dataclass
class _Walk:
    """A replay of a search along a record.

    ends: keys in the order of telling.  limit: largest number of live trials.  always: the limit also holds for trials
    of the record; else only beyond it, and any number may have been live before.  told: the keys of `ends` reached so
    far.  waited: whether the limit ever prevented asking.
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
        """Ask and tell to the end of the record; return whether every recorded trial was asked for in its place."""
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
            if h is not None:  # not the recorded trial: more was known when that was asked for
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
    """The largest number of trials that ran at the same time, at least 1; rows that lack a time are not counted."""
    timed = rows.dropna(subset=["started_at", "ended_at"])
    running = [((timed["started_at"] <= at) & (at < timed["ended_at"])).sum() for at in timed["started_at"]]
    return int(max(running, default=1)) or 1


def _keys(search: AnySearch, configurations: Iterable[Configuration]) -> set[Key]:
    return {search.space.key(h) for h in configurations}
