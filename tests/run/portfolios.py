"""Portfolios of small searches over two parameters, for tests that ask and tell them by hand. No test in here."""

import math

from bowl import PLANE, START, bowl
from ray.tune.search import Searcher

from trainables.trial import PACK, UNTIL
from tune_cd import LENGTHS, CoordinateDescent
from tune_cd.run.portfolio import ORIGIN, Portfolio, Setting


def line(direction, start=START, budget=5):
    """A search of one line, with so many settings to train."""
    return CoordinateDescent(
        PLANE, rule="paper", directions=[direction], budgets=5, start=start, workers=1, budget=budget
    )


def pausing(start=START, budget=4):
    return CoordinateDescent(PLANE, start=start, lengths=LENGTHS, budget=budget)


def portfolio(workers, known=(), seeds=(0,), weights=None, **searches):
    """known: (h, seed, value at full length) of each training that has ended."""
    settings = {}
    for h, seed, value in known:
        settings.setdefault(PLANE.key(h), Setting(h)).curves[seed] = whole(value)
    return Portfolio(searches, PLANE, seeds, workers, settings, weights)


def whole(value):
    return {1.0: -math.inf if value is None else value}


def until(asked, value=bowl):
    """What a training has reached where it is to pause: it rises with length."""
    return {share: value(asked.h) * (0.9 + share / 10) for share in LENGTHS if share <= asked.until}


def run(asking, value=bowl):
    """Carry out all that is asked for, the oldest training ending first; the trainings in the order they were begun."""
    begun, live = [], []
    while (asked := asking.ask()) or live:
        begun, live = begun + asked, live + asked
        if not asked:
            first = live.pop(0)
            asking.tell(first, until(first, value))
    assert asking.finished
    return begun


class Process:
    """Trains what a `StudySearch` hands out, a pack after the other, and reports it as `TrainTrial` does.

    passed: is called with the share of its full length by which each training of a pack went on.  packs: these shares.
    """

    def __init__(self, search, passed=lambda share: None):
        self.search, self.passed, self.done, self.packs = search, passed, {}, []

    def run(self):
        while isinstance(config := self.search.suggest(str(len(self.packs))), dict):
            parts, reports = [], {}
            for place, member in enumerate(config[PACK]):
                key = member[ORIGIN]["search"], member[ORIGIN]["trial_index"], member["seed"]
                parts.append(member[UNTIL] - self.done.get(key, 0.0))
                self.done[key] = member[UNTIL]
                status = "completed" if member[UNTIL] == 1 else "stopped"
                reports[str(place)] = {"status": status, "share": member[UNTIL], "done": True}
            self.search.meter.start(str(len(self.packs)))
            self.passed(parts[0])
            self.packs.append(parts)
            self.search.on_trial_complete(str(len(self.packs) - 1), {PACK: reports})
        assert config == Searcher.FINISHED
        return self


def as_reported(asked, told):
    """The curve of a training by its last report."""
    return {share: bowl(asked.h) * (0.9 + share / 10) for share in LENGTHS if share <= told["share"]}
