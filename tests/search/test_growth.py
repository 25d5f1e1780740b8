"""Ranges that grow where the best lies at their end, up to a limit."""

from functools import partial
from math import log2

import numpy as np
import pytest
from contract import advance
from searches import descent, pausing

from tune_cd import Axis, CoordinateDescent, Space

LOW, HIGH, GROWTH = 2.0**-10, 2.0**4, 6.0
GROWING = Space(**{name: Axis(name, LOW, HIGH, growth=GROWTH) for name in ("Lambda_p", "Lambda_e")})
FIXED = GROWING.fixed
HALF = Space(Lambda_p=GROWING.axes[0], Lambda_e=(LOW, HIGH))
START = {"Lambda_p": 0.1, "Lambda_e": 0.1}


def peak(at):
    """A score of 1 where the logarithms of both weights are `at`."""
    return lambda h: float(np.exp(-sum((log2(h[name]) - x) ** 2 for name, x in zip(("Lambda_p", "Lambda_e"), at)) / 40))


@pytest.mark.parametrize("make", [descent, partial(pausing, lengths=(0.5, 1.0), budget=40)])
@pytest.mark.parametrize("at", [(0, 7), (-13, -2), (6.5, 6.5)])
def test_a_best_outside_is_reached_by_ranges_that_grow(make, at):
    search = make(GROWING, start=START)
    advance(search, 30, peak(at))
    assert search.best[1] > 0.98
    for name, x in zip(GROWING.names, at):
        reached = [log2(h[name]) for h in (h for h, _ in search.history)]
        assert min(reached) >= -10 - GROWTH and max(reached) <= 4 + GROWTH
        assert max(reached) <= (4 + 1e-9 if x < 3 else x + 4), "it grows only where the best lies, step by step"


def test_ends_that_are_no_powers_of_two_are_reached():
    """The end of a grown range, times 2^4, may be off by a rounding."""
    search = CoordinateDescent(Space(a=Axis("a", 1e-3, 1.0, growth=8.0), b=Axis("b", 1e-2, 1.0, growth=4.0)), seed=1)
    asked = advance(search, 30, lambda h: -((log2(h["a"]) - 5) ** 2) - (log2(h["b"]) + 12) ** 2)
    assert min(h["b"] for h in asked) == pytest.approx(1e-2 / 2**4)


def test_a_range_grown_to_its_limit_ends_at_the_limit_itself():
    space = Space(a=Axis("a", 0.44, 3.96, growth=0.1))
    asked = advance(CoordinateDescent(space), 8, lambda h: h["a"])
    assert asked == [space.check(h) for h in asked]


@pytest.mark.parametrize("space, ends", [(FIXED, (4, 4)), (HALF, (10, 4)), (GROWING, (10, 10))])
def test_no_range_grows_beyond_its_limit(space, ends):
    asked = advance(descent(space, start=START), 30, lambda h: log2(h["Lambda_p"]) + log2(h["Lambda_e"]))
    most = [max(log2(h[name]) for h in asked) for name in space.names]
    assert most == pytest.approx(ends, abs=0.5)


def test_a_start_outside_is_searched_around():
    search = descent(GROWING, start={"Lambda_p": 1.0, "Lambda_e": 200.0})
    advance(search, 12, peak((0, 7.6)))
    assert search.best[1] > 0.98
    with pytest.raises(ValueError, match=r"Lambda_e = 200.0 is outside \[0.0009765625, 16.0\]"):
        descent(FIXED, start={"Lambda_p": 1.0, "Lambda_e": 200.0})


@pytest.mark.parametrize("space, best, bracketed", [(GROWING, 7.0, True), (FIXED, 4.0, False)])
def test_a_line_is_bracketed_by_neighbours_alone(space, best, bracketed):
    """The end of a range that does not grow is no neighbour: such a line ends, and says that it is not bracketed."""
    line = CoordinateDescent(space, rule="line", directions=[[1.0, 1.0]], start=START, budget=20)
    advance(line, 30, peak((7, 7)))
    assert line.finished and line.bracketed == bracketed
    assert log2(line.best[0]["Lambda_p"]) == pytest.approx(best, abs=0.4)


@pytest.mark.parametrize("at", [0.0, -4.5, 2.1])
def test_a_line_with_its_best_inside_stays_inside(at):
    """Its points are rounded, so that one at the end lies a billionth of an octave outside."""
    joint, lengths = [[1.0, 1.0]], (0.125, 1.0)
    line = CoordinateDescent(GROWING, rule="line", directions=joint, start=START, lengths=lengths, budget=20)
    values = [log2(h["Lambda_p"]) for h in advance(line, 60, peak((at, at)))]
    assert line.bracketed and min(values) > -10 - 1e-6 and max(values) < 4 + 1e-6


@pytest.mark.parametrize("axis", [{"step": 1}, {"scale": "linear"}, {"values": (1.0, 2.0)}, {"growth": 2e3}])
def test_only_real_weights_on_a_log_scale_grow(axis):
    axis = {"growth": 2.0} | axis
    with pytest.raises(ValueError, match=f"growth {axis['growth']}: octaves, 0 to 1000, of a real, log-scaled range"):
        Axis("x", 1.0, 2.0, **axis)
