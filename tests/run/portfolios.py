"""Portfolios of small searches over two parameters, for tests that ask and tell them by hand. No test in here."""

import math

from tune_cd import LENGTHS, CoordinateDescent, Space
from tune_cd.run.portfolio import Portfolio, Setting

PLANE = Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0))
BEST = {"lr": 1e-3, "wd": 1e-4}
START = {"lr": 0.1, "wd": 0.1}


def bowl(h):
    return math.exp(-sum((math.log2(h[name] / at) / 6) ** 2 for name, at in BEST.items()))


def line(direction, start=START, budget=5):
    """A search of one line, with so many settings to train."""
    return CoordinateDescent(
        PLANE, rule="paper", directions=[direction], budgets=5, start=start, workers=1, budget=budget
    )


def pausing(start=START, budget=4):
    return CoordinateDescent(PLANE, start=start, lengths=LENGTHS, budget=budget)


def portfolio(workers, known=(), seeds=(0,), weights=None, runs=None, **searches):
    """known: (h, seed, value at full length) of each training that has ended. runs: of START, by seed, so far."""
    settings = {PLANE.key(START): Setting(START, runs=runs)} if runs else {}
    for h, seed, value in known:
        settings.setdefault(PLANE.key(h), Setting(h)).curves[seed] = whole(value)
    return Portfolio(searches, PLANE, seeds, workers, settings, weights)


def whole(value):
    return {1.0: -math.inf if value is None else value}


def until(asked, value=bowl):
    """What a training has reached where it is to pause: it rises with length."""
    return {share: value(asked.h) * (0.9 + share / 10) for share in LENGTHS if share <= asked.until}
