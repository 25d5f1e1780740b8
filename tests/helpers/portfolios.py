"""Portfolios of small searches over two parameters, for tests that ask and tell them by hand. No test in here."""

import math

from tune_cd import CoordinateDescent, PausingDescent, Space
from tune_cd.run.members import Pausing, Whole
from tune_cd.run.portfolio import Portfolio
from tune_cd.search.model_guided import LENGTHS
from tune_cd.tune.course import Course

PLANE = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))
BEST = {"lr": 1e-3, "wd": 1e-4}
START = {"lr": 0.1, "wd": 0.1}


def bowl(h):
    return math.exp(-sum((math.log2(h[name] / at) / 6) ** 2 for name, at in BEST.items()))


def line(direction, start=START, budget=5):
    """A search of one line, with so many settings to train."""
    search = CoordinateDescent(PLANE, settings="paper", directions=[direction], budgets=5, start=start, workers=1)
    return Whole(Course(search), budget)


def pausing(start=START, budget=4):
    return Pausing(PausingDescent(PLANE, start=start, budget=budget))


def portfolio(workers, known=None, seeds=(0,), **members):
    """known: the value at full length of each training that has ended."""
    return Portfolio(
        members, PLANE, seeds, workers, {training: whole(value) for training, value in (known or {}).items()}
    )


def whole(value):
    return {1.0: math.nan if value is None else value}


def until(asked, value=bowl):
    """What a training has reached where it is to pause: it rises with length."""
    return {share: value(asked.h) * (0.9 + share / 10) for share in LENGTHS if share <= asked.until}
