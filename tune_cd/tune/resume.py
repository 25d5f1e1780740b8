"""A search that goes on from its rows in the results table as if it had never stopped.

What is asked next depends on the trials that have ended, and on those that are live. So the search is walked again: it
asks and is told in the order in which the rows say that it was, and what was running when it stopped comes out as well.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pandas as pd

from tune_cd import results
from tune_cd.search.protocol import Optimiser, Told
from tune_cd.search.registry import restore


@dataclass
class Course:
    """Where a search has come to.

    asked: all configurations so far, in order.  open: those of them that are to be run (again): they were running when
    the search stopped, or their process or node was lost.
    """

    search: Optimiser
    asked: list[dict]
    open: list[dict]


@dataclass
class Orphans:
    """Configurations that were asked for and that nobody runs any more. They are run again, before anything new.

    waiting: in the order of asking.  again: keys of those that run again though the search has a value (a failure) for
    them.
    """

    waiting: list[dict] = field(default_factory=list)
    again: set[tuple] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.waiting or self.again)

    def fill(self, search: Optimiser) -> bool:
        """Whether as many trials run as there are workers, with those that the search does not count as live."""
        running = _keys(search, search.live) - _keys(search, self.waiting) | self.again
        return bool(self) and len(running) >= search.workers

    def take(self, search: Optimiser) -> dict | None:
        """The next that waits, to be run."""
        if not self.waiting:
            return None
        h = self.waiting.pop(0)
        if search.space.key(h) not in _keys(search, search.live):
            self.again.add(search.space.key(h))
        return h

    def ended(self, key: tuple) -> None:
        self.again.discard(key)

    def add(
        self, search: Optimiser, places: Mapping[tuple, int], more: list[dict], but: Collection[tuple] = ()
    ) -> None:
        """`more` of them, none of those whose key is in `but`.  places: in the order of asking, by key."""
        distinct = {search.space.key(h): h for h in [*more, *self.waiting] if search.space.key(h) not in but}
        self.waiting = [distinct[key] for key in sorted(distinct, key=lambda key: places.get(key, len(places)))]


def walk_again(
    search: Optimiser, begun: pd.DataFrame, ended: pd.DataFrame, again: pd.DataFrame, known: pd.DataFrame
) -> Course | None:
    """The course of a search that has asked nothing yet, along its rows; None where they are not those that it asks
    for.

    begun: all its rows.  ended: those of the configurations it was told of.  again: those of them that are to be run
    again.
    known: rows of other searches that stand for its own. The number of workers may have changed since.
    Raises ValueError for a row outside the space.
    """
    key, workers = search.space.key, search.workers
    at = {int(index): key(search.space.check(params)) for index, params in zip(begun["trial_index"], begun["params"])}
    told, events = _events(search, ended)
    own = set(at.values())
    others, their_events = _events(
        search, known[known["params"].map(lambda params: key(params) not in own).astype(bool)]
    )
    events = sorted(events + their_events)
    repeated, asked, there = {key(params) for params in again["params"]}, {}, set()
    search.workers = workers + len(begun)  # any number may have been live
    while True:
        before, free = search.state(), workers - len(_keys(search, search.live) | (repeated & asked.keys()))
        h = search.ask() if len(asked) in at or free > 0 else None
        if h is not None and at.get(len(asked), key(h)) == key(h):
            asked[key(h)] = h
            if key(h) in there:
                search.tell(*others[key(h)])
            continue
        if h is not None:  # asked for later, when more was known
            search = restore(before)
        if not events:
            break
        _, _, ended_key = events.pop(0)
        if ended_key in others:
            there.add(ended_key)
            if ended_key in asked:
                search.tell(*others[ended_key])
        elif ended_key in asked:
            search.tell(*told[ended_key])
        else:
            return None
    if not own <= asked.keys() or not set(at) <= set(range(len(asked))):
        return None
    search.workers = workers
    live = _keys(search, search.live)
    return Course(search, list(asked.values()), [h for found, h in asked.items() if found in live | repeated])


def _events(search: Optimiser, rows: pd.DataFrame) -> tuple[dict[tuple, Told], list[tuple]]:
    """What the configurations of some rows came to, by key, and when: (time, place in the order of asking, key) of the
    last of each."""
    key = search.space.key
    ends = sorted(zip(rows["ended_at"], rows["trial_index"], map(key, rows["params"])))
    last = {end[-1]: end for end in ends}
    return {key(told.h): told for told in results.history(rows)}, list(last.values())


def _keys(search: Optimiser, configurations: list[dict]) -> set[tuple]:
    return {search.space.key(h) for h in configurations}
