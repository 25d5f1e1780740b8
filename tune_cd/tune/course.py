"""A search on its way: the order in which it asked, what has to be run once more, and how it goes on from its rows in
the results table as if it had never stopped.

What is asked next depends on the trials that have ended, and on those that are live. So the search is walked again: it
asks and is told in the order in which the rows say that it was, and what was running when it stopped comes out as well.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from tune_cd import results
from tune_cd.search.protocol import Optimiser, Proposal, Told
from tune_cd.search.registry import restore
from tune_cd.search.space import Configuration

LONGEST_WALK = 1000  # rows along which a search is walked again, in a time that grows with their square
Key = tuple


@dataclass
class Course:
    """An optimiser and what was asked of it so far.

    places: configurations by key, in the order of asking.  waiting: asked for, and nobody runs them any more; they come
    before anything new.  again: keys of those that run although the search has a value (a failure) for them.
    origins: by key, of those that this search has not asked for itself.
    """

    search: Optimiser
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
        if self._repeats and len(self._running()) >= self.search.workers:
            return None
        h = self._waiting_one() or self.search.ask()
        if h is not None:
            self.place(h)
        return h

    def place(self, h: Configuration) -> int:
        """Its place in the order of asking, the next one if it has none yet."""
        return self.places.setdefault(self.search.space.key(h), max(self.places.values(), default=-1) + 1)

    def tell(self, h: Configuration, value: float | None, censored: bool = False) -> None:
        self.again.discard(self.search.space.key(h))
        self.search.tell(h, value, censored=censored)

    def annotation(self, h: Configuration) -> dict[str, Any]:
        """Where a configuration comes from, in the results table's columns."""
        key = self.search.space.key(h)
        origin = self.origins.get(key) or self.search.origin(h)
        return {
            "direction": origin.direction,
            "line_position": origin.line_position,
            "trial_index": self.places[key],
        }

    def rerun(self, configurations: Iterable[Configuration], but: Collection[Key] = ()) -> None:
        """Run these once more, and what waits already, none of those whose key is in `but`, in the order of asking."""
        key = self.search.space.key
        distinct = {key(h): h for h in [*configurations, *self.waiting] if key(h) not in but}
        self.waiting = [distinct[k] for k in sorted(distinct, key=lambda k: self.places.get(k, len(self.places)))]

    def recall(self, begun: pd.DataFrame, ended: pd.DataFrame, again: pd.DataFrame, others: pd.DataFrame) -> bool:
        """Go on where an earlier run of this same search stopped; before anything is asked.

        begun: all its rows of the results table.  ended: those of the configurations it was told of.  again: those of
        them that are to be run again.  others: rows of other searches that stand for its own where it comes by them;
        they steer nothing else. Returns whether the rows are those that this search asks for; if not, it knows them,
        but goes on otherwise. Raises ValueError for a row outside the space.
        """
        key = self.search.space.key
        if len(begun) <= LONGEST_WALK and self._walk(begun, ended, again, others):
            return True
        self.search.recall(results.history(ended.drop(again.index, errors="ignore")))
        self.places |= {key(params): int(index) for params, index in zip(begun["params"], begun["trial_index"])}
        for row in again.itertuples():
            self.origins[key(row.params)] = Proposal(row.params, row.direction, row.line_position)
        self.rerun(self.search.space.check(params) for params in again["params"])
        return False

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

    def _walk(self, begun: pd.DataFrame, ended: pd.DataFrame, again: pd.DataFrame, others: pd.DataFrame) -> bool:
        """Take the course that the rows say was taken; the number of workers may have changed since."""
        search = restore(self.search.state())
        key, workers = search.space.key, self.search.workers
        at = {
            int(index): key(search.space.check(params)) for index, params in zip(begun["trial_index"], begun["params"])
        }
        told, events = _events(search, ended)
        own = set(at.values())
        foreign = others[others["params"].map(lambda params: key(params) not in own).astype(bool)]
        known, their_events = _events(search, foreign)
        events = sorted(events + their_events)
        repeated, there = {key(params) for params in again["params"]}, set()
        asked: dict[Key, Configuration] = {}
        search.workers = workers + len(begun)  # any number may have been live
        while True:
            before, free = search.state(), workers - len(_keys(search, search.live) | (repeated & asked.keys()))
            h = search.ask() if len(asked) in at or free > 0 else None
            if h is not None and at.get(len(asked), key(h)) == key(h):
                asked[key(h)] = h
                if key(h) in there:
                    search.tell(*known[key(h)])
                continue
            if h is not None:  # asked for later, when more was known
                search = restore(before)
            if not events:
                break
            _, _, ended_key = events.pop(0)
            if ended_key in known:
                there.add(ended_key)
                if ended_key in asked:
                    search.tell(*known[ended_key])
            elif ended_key in asked:
                search.tell(*told[ended_key])
            else:
                return False
        if not own <= asked.keys() or not set(at) <= set(range(len(asked))):
            return False
        search.workers = workers
        live = _keys(search, search.live)
        self.search, self.places = search, {found: place for place, found in enumerate(asked)}
        self.waiting = [h for found, h in asked.items() if found in live | repeated]
        return True


def _events(search: Optimiser, rows: pd.DataFrame) -> tuple[dict[Key, Told], list[tuple]]:
    """What the configurations of some rows came to, by key, and when: (time, place in the order of asking, key) of the
    last of each."""
    key = search.space.key
    ends = sorted(zip(rows["ended_at"], rows["trial_index"], map(key, rows["params"])))
    last = {end[-1]: end for end in ends}
    return {key(told.h): told for told in results.history(rows)}, list(last.values())


def _keys(search: Optimiser, configurations: Iterable[Configuration]) -> set[Key]:
    return {search.space.key(h) for h in configurations}
