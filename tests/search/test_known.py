"""Starts at bests of similar studies: the prior "known"."""

from math import log2

import numpy as np
import pytest

from tune_cd import LENGTHS, CoordinateDescent, Space, balance
from tune_cd.search.prior import KNOWN

SPACE = Space(Lambda_p=(1e-4, 1e3), Lambda_e=(1e-4, 1e3))
NEAR, FAR = {"Lambda_p": 0.6, "Lambda_e": 8.0}, {"Lambda_p": 0.01, "Lambda_e": 2.0}


def score(h, share):
    """A narrow ridge with its top an octave from NEAR."""
    p, e = log2(h["Lambda_p"] / 0.6), log2(h["Lambda_e"] / 16.0)
    return 0.2 + 0.5 * share**0.3 * 2.0 ** -(((e - p) / 3) ** 2 + ((p + e) / 8) ** 2)


def made(start, known=True, budget=6.0):
    return CoordinateDescent(SPACE, start=start, lengths=LENGTHS, budget=budget, **balance.of(SPACE, known=known))


def steps(search):
    """(h, until) of every step, told at its end."""
    while (h := search.ask()) is not None:
        until = search.until(h)
        yield h, until
        search.tell(h, score(h, until), share=until)


def test_known_bests_are_tried_short_and_the_best_of_them_is_trained_to_its_end_first():
    first = [next(asked) for asked in [steps(made([FAR, NEAR]))] for _ in range(3)]
    assert first == [(FAR, LENGTHS[0]), (NEAR, LENGTHS[0]), (NEAR, 1.0)]
    recipe = [next(asked) for asked in [steps(made([FAR, NEAR], known=False))] for _ in range(3)]
    assert recipe[:2] == first[:2] and recipe[2][1] < 1, "a recipe in use is no best: others are compared first"


def test_with_several_workers_no_other_setting_is_trained_to_its_end_before_the_starts_are_compared():
    search = made(NEAR)
    search.workers = 2
    start, other = search.ask(), search.ask()
    assert start == NEAR and max(abs(log2(other[name] / NEAR[name])) for name in NEAR) < 3 * KNOWN
    search.tell(other, 0.4, share=search.until(other))
    third = search.ask()
    assert search.until(third) < 1, "the start may be better"
    search.tell(NEAR, 0.5, share=LENGTHS[0])
    assert search.ask() == NEAR and search.until(NEAR) == 1


def test_the_search_stays_near_a_known_best_and_finds_the_top_beside_it():
    known, recipe = made(NEAR), made(NEAR, known=False)
    away = []
    for search in (known, recipe):
        list(steps(search))
        first = [one.h for one in search.trainings[1:5]]
        away.append(np.mean([max(abs(log2(h[name] / NEAR[name])) for name in h) for h in first]))
    assert away[0] < 0.9 * away[1]
    assert known.best[1] > 0.99 * 0.7


def test_bests_are_known_of_two_weights_and_a_batch_size_alone():
    space = Space(Lambda_p=(1e-4, 1e3), Lambda_e=(1e-4, 1e3), batch_size=[16, 64])
    assert balance.of(space, known=True)["prior"] == "known"
    with pytest.raises(ValueError, match="Lambda_p and Lambda_e"):
        balance.of(Space(Lambda_a=(1e-4, 1e3), Lambda_b=(1e-4, 1e3)), known=True)
