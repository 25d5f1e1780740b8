"""Starts that someone chose: a recipe in use, or bests of similar studies."""

from math import log2

from searches import walk

from tune_cd import LENGTHS, CoordinateDescent, Space, balance
from tune_cd.search.prior import AROUND

SPACE = Space(Lambda_p=(1e-4, 1e3), Lambda_e=(1e-4, 1e3))
NEAR, FAR = {"Lambda_p": 0.6, "Lambda_e": 8.0}, {"Lambda_p": 0.01, "Lambda_e": 2.0}


def score(h, share):
    """A narrow ridge with its top an octave from NEAR."""
    p, e = log2(h["Lambda_p"] / 0.6), log2(h["Lambda_e"] / 16.0)
    return 0.2 + 0.5 * share**0.3 * 2.0 ** -(((e - p) / 3) ** 2 + ((p + e) / 8) ** 2)


def made(start, budget=6.0):
    return CoordinateDescent(SPACE, start=start, lengths=LENGTHS, budget=budget, **balance.of(SPACE))


def test_starts_are_tried_short_and_the_best_of_them_is_trained_to_its_end_first():
    first = walk(made([FAR, NEAR]), score, 3)
    assert first == [(FAR, LENGTHS[0]), (NEAR, LENGTHS[0]), (NEAR, 1.0)]
    assert [until for _, until in walk(made(None), score, 3)] == [LENGTHS[0]] * 3, "nobody chose its start"


def test_with_several_workers_no_other_setting_is_trained_to_its_end_before_the_starts_are_compared():
    search = made(NEAR)
    search.workers = 2
    start, other = search.ask(), search.ask()
    assert start == NEAR and max(abs(log2(other[name] / NEAR[name])) for name in NEAR) < 3 * AROUND
    search.tell(other, 0.4, share=search.until(other))
    third = search.ask()
    assert search.until(third) < 1, "the start may be better"
    search.tell(NEAR, 0.5, share=LENGTHS[0])
    assert search.ask() == NEAR and search.until(NEAR) == 1


def test_the_search_finds_the_top_beside_a_start():
    search = made(NEAR)
    walk(search, score)
    assert search.best[1] > 0.99 * 0.7
