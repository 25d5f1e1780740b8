"""Laws of the bracket, on brackets far from zero."""

import itertools
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tune_cd.search.bracket import FAILED, GOLDEN, GROWTH, Bracket

finite = st.floats(-1e6, 1e6)


@st.composite
def brackets(draw):
    """Brackets anywhere on the line, some with the interior point at an end."""
    low = draw(finite)
    width = draw(st.floats(1e-3, 1e3))
    share = draw(st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1)))
    high = low + width
    return Bracket(low, min(max(low + share * width, low), high), high, draw(st.floats(-1, 1)))


@given(brackets())
def test_the_proposal_is_golden_of_the_longer_part_and_inside(bracket):
    above, below = bracket.high - bracket.interior, bracket.interior - bracket.low
    expected = bracket.interior + GOLDEN * above if above >= below else bracket.interior - GOLDEN * below
    assert bracket.proposal() == expected
    assert bracket.low <= bracket.proposal() <= bracket.high


@given(brackets(), st.floats(-2, 2))
def test_the_bracket_shrinks_exactly_and_keeps_the_better_point_inside(bracket, value):
    position = bracket.proposal()
    after = bracket.told(position, value)
    assert bracket.low <= after.low <= after.interior <= after.high <= bracket.high
    assert after.value == max(bracket.value, value)
    assert after.interior == (position if value > bracket.value else bracket.interior)
    above, below = bracket.high - bracket.interior, bracket.interior - bracket.low
    longer, shorter = max(above, below), min(above, below)
    lost = shorter if value > bracket.value else (1 - GOLDEN) * longer
    assert after.width == pytest.approx(bracket.width - lost, rel=1e-6, abs=1e-6)


def test_in_golden_proportion_every_step_shrinks_by_0_618():
    low, high = 1000.0, 1001.0
    bracket = Bracket(low, low + GOLDEN * (high - low), high, 0.0)
    for step in range(1, 20):
        bracket = bracket.told(bracket.proposal(), -1.0 if step % 3 else float(step))
        assert bracket.width == pytest.approx((1 - GOLDEN) ** step, rel=1e-6)


@given(brackets(), st.floats(-100, 100), st.lists(st.floats(-2, 2), min_size=1, max_size=12))
@settings(max_examples=60)
def test_translation_moves_everything_and_changes_nothing(bracket, shift, values):
    moved = Bracket(bracket.low + shift, bracket.interior + shift, bracket.high + shift, bracket.value)
    above, below = bracket.high - bracket.interior, bracket.interior - bracket.low
    assume(abs(above - below) > 1e-6)
    for value in values:
        if bracket.width < 1e-4:
            break
        assert moved.proposal() == pytest.approx(bracket.proposal() + shift, abs=1e-6)
        parts = sorted((bracket.high - bracket.interior, bracket.interior - bracket.low))
        assume(parts[1] - parts[0] > 1e-6)  # equal parts: rounding decides which is the longer
        bracket, moved = bracket.told(bracket.proposal(), value), moved.told(moved.proposal(), value)


@pytest.mark.parametrize("peak", [-1e5, -3.0, 0.0, 7.25, 4e5])
@pytest.mark.parametrize("grows", [False, True])
def test_it_closes_in_on_the_maximum_of_a_unimodal_function(peak, grows):
    """One that grows also where the maximum lies far outside of what it began with."""
    bracket, most = (
        Bracket(peak - 13, peak - 12.5, peak + 6, -(12.5**2)),
        8 + math.log(1e-3 / 19) / math.log(1 - GOLDEN),
    )
    if grows:
        bracket, most = Bracket(peak - 904, peak - 900, peak - 896, -(900.0**2), peak - 1900, peak + 100), 50
    evaluations = 0
    while not bracket.narrower_than(1e-3):
        position = bracket.proposal()
        bracket = bracket.told(position, -((position - peak) ** 2))
        evaluations += 1
    assert abs(bracket.interior - peak) < 1e-3 and evaluations <= most + 1


def test_a_failed_interior_point_holds_no_ground():
    bracket = Bracket(0.0, 10.0, 12.0, FAILED)
    first = bracket.proposal()
    bracket = bracket.told(first, FAILED)
    assert bracket.interior == first < 10.0, "the search leaves the failing start, although the new point failed too"
    second = bracket.proposal()
    bracket = bracket.told(second, 0.1)
    assert (bracket.interior, bracket.value) == (second, 0.1)
    bracket = bracket.told(bracket.proposal(), FAILED)
    assert bracket.interior == second, "against a number, a failure loses"


def test_a_bracket_of_no_width_is_narrow():
    assert Bracket(3.0, 3.0, 3.0, 0.0).narrower_than(0.0)
    assert Bracket(1e6, 1e6, math.nextafter(1e6, 2e6), 0.0).narrower_than(0.0), "no float lies in between"


# Brackets that grow ---------------------------------------------------------------------------------------------


@st.composite
def growing(draw):
    """Brackets anywhere on the line, with room at either end or none."""
    bracket = draw(brackets())
    below, above = (draw(st.one_of(st.just(0.0), st.floats(0, 1e3))) for _ in range(2))
    lowest, highest = bracket.low - below, bracket.high + above
    return Bracket(bracket.low, bracket.interior, bracket.high, bracket.value, lowest, highest)


@given(growing(), st.lists(st.floats(-2, 2), min_size=1, max_size=12))
def test_a_growing_bracket_stays_within_its_limits_and_keeps_the_best_inside(bracket, values):
    lowest, highest = bracket.lowest, bracket.highest
    for value in values:
        if bracket.narrower_than(1e-6):
            break
        best = max(bracket.value, value)
        bracket = bracket.told(bracket.proposal(), value)
        assert lowest <= bracket.lowest <= bracket.low <= bracket.interior <= bracket.high <= bracket.highest <= highest
        assert bracket.value == best


@given(growing(), st.floats(-2, 2))
def test_without_room_it_is_the_bracket_of_the_paper(bracket, value):
    plain = Bracket(bracket.low, bracket.interior, bracket.high, bracket.value)
    shut = Bracket(bracket.low, bracket.interior, bracket.high, bracket.value, bracket.low, bracket.high)
    for _ in range(8):
        if plain.narrower_than(1e-6):
            break
        assert shut.proposal() == plain.proposal()
        plain, shut = plain.told(plain.proposal(), value), shut.told(shut.proposal(), value)
        value = -value
        assert (shut.low, shut.interior, shut.high) == (plain.low, plain.interior, plain.high)


def test_steps_towards_an_end_that_keeps_getting_better_grow_by_the_golden_ratio():
    bracket, positions = Bracket(-4.0, 0.0, 4.0, 0.0, -1000.0, 1000.0), [0.0]
    for value in range(1, 8):
        positions.append(bracket.proposal())
        bracket = bracket.told(positions[-1], float(value))
    steps = [after - before for before, after in itertools.pairwise(positions)]
    assert steps[0] == pytest.approx(GOLDEN * 4)
    assert [after / before for before, after in itertools.pairwise(steps)] == pytest.approx([GROWTH] * 6)
    assert pytest.approx((1 + 5**0.5) / 2) == GROWTH


def test_an_end_where_something_was_evaluated_stays():
    bracket = Bracket(-4.0, 0.0, 4.0, 0.0, -100.0, 100.0)
    worse = bracket.told(bracket.proposal(), -1.0)
    assert (worse.low, worse.high, worse.highest) == (-4.0, bracket.proposal(), bracket.proposal())
    better = worse.told(worse.proposal(), 1.0)  # on the other side
    assert better.low < -4.0 and better.high == 0.0 == better.highest


def test_on_a_plateau_it_does_not_grow():
    bracket = Bracket(-4.0, 0.0, 4.0, 0.5, -100.0, 100.0)
    for _ in range(20):
        bracket = bracket.told(bracket.proposal(), 0.5)
        assert bracket.interior == 0.0 and bracket.width <= 8
