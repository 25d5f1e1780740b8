"""The search of one line until it is exhausted, as the baselines of a study are."""

import json
from math import log2

import numpy as np
import pytest
from contract import FINITE, MIXED, PLANE, advance

from tune_cd import balance
from tune_cd.balance import RATE_RESOLUTION as RESOLUTION
from tune_cd.landscapes.find import MEASURED, find
from tune_cd.search.baselines.line import most_trials
from tune_cd.search.golden_section import Bracket
from tune_cd.search.registry import line_search, restore
from tune_cd.search.space import Space

JOINT = [1.0, 1.0]
START = {"Lambda_p": 0.1, "Lambda_e": 0.1}


def search(start=START, space=PLANE, direction=JOINT, **arguments):
    return line_search(space, start=start, direction=direction, **arguments)


def rate(h):
    return log2(h["Lambda_p"] / START["Lambda_p"])


def peak_at(octaves):
    return lambda h: -abs(rate(h) - octaves)


@pytest.mark.parametrize("octaves", np.linspace(-16.6, 7.4, 25))
def test_the_best_is_bracketed_to_a_third_of_an_octave_wherever_it_lies(octaves):
    ended = search()
    asked = advance(ended, 50, peak_at(octaves))
    assert ended.finished and len(asked) <= most_trials(PLANE, START, JOINT) <= 14
    assert rate(ended.best[0]) == pytest.approx(octaves, abs=RESOLUTION)
    assert all(h["Lambda_p"] == pytest.approx(h["Lambda_e"]) for h in asked)


@pytest.mark.parametrize("end, value", [("high", 17.0), ("low", 1e-6)])
def test_an_optimum_at_the_end_of_the_range_is_evaluated_there(end, value):
    ended = search()
    advance(ended, 50, lambda h: rate(h) if end == "high" else -rate(h))
    assert ended.best[0]["Lambda_p"] == pytest.approx(value)


def test_it_is_golden_section_step_by_step():
    ours, bracket = (
        search(),
        Bracket(*(log2(end / 0.1) if end else 0.0 for end in (1e-6, 0, 17.0)), value=peak_at(-3.3)(START)),
    )
    advance(ours, 1, peak_at(-3.3))
    for _ in range(8):
        h = ours.ask()
        assert rate(h) == pytest.approx(bracket.proposal())
        ours.tell(h, peak_at(-3.3)(h))
        bracket = bracket.told(bracket.proposal(), peak_at(-3.3)(h))


def test_what_is_known_on_the_line_is_not_run_again_and_narrows_the_bracket():
    alone, helped = search(), search()
    for known in (0.01, 0.5, 3.0):
        helped.tell({"Lambda_p": known, "Lambda_e": known}, peak_at(2.0)({"Lambda_p": known, "Lambda_e": known}))
    helped.tell({"Lambda_p": 0.2, "Lambda_e": 5.0}, 9.0)  # beside the line
    assert len(advance(helped, 50, peak_at(2.0))) <= len(advance(alone, 50, peak_at(2.0))) - 2
    assert helped.finished and rate({"Lambda_p": helped.history[-1][0]["Lambda_p"]}) == pytest.approx(2.0, abs=1)


def test_failures_are_left_behind():
    ended = search(start={"Lambda_p": 10.0, "Lambda_e": 10.0})
    asked = advance(ended, 50, lambda h: None if h["Lambda_p"] > 0.5 else peak_at(0.0)(h))
    assert ended.finished and len(asked) < 20 and rate(ended.best[0]) == pytest.approx(0.0, abs=RESOLUTION)


def test_where_everything_fails_it_ends():
    ended = search()
    assert len(advance(ended, 50, lambda h: None)) < 20 and ended.finished


def test_one_trial_at_a_time_and_none_while_it_is_live():
    ours = search(workers=3)
    h = ours.ask()
    assert h == START and ours.ask() is None and not ours.finished
    ours.tell(h, 0.5)
    assert ours.ask() is not None and ours.ask() is None


def test_resumed_equals_never_stopped():
    whole = advance(search(), 50, peak_at(5.1))
    for stop in range(1, len(whole)):
        begun = search()
        first = advance(begun, stop, peak_at(5.1))
        assert first + advance(restore(json.loads(json.dumps(begun.state()))), 50, peak_at(5.1)) == whole


def test_proposals_say_where_they_lie_on_the_line():
    ours = search(name="joint")
    asked = advance(ours, 50, peak_at(5.1))
    origins = [ours.origin(h) for h in asked]
    assert [origin.direction for origin in origins] == ["start"] + ["joint"] * (len(asked) - 1)
    assert [origin.line_position for origin in origins] == pytest.approx([rate(h) for h in asked])


def test_axes_that_the_direction_does_not_move_stay():
    asked = advance(search({"lr": 0.1, "steps": 100, "batch_size": 64}, MIXED, [1.0, 0.0, 0.0]), 30)
    assert {(h["steps"], h["batch_size"]) for h in asked} == {(100, 64)} and len({h["lr"] for h in asked}) == len(asked)


def test_a_line_along_allowed_values_is_refused():
    with pytest.raises(ValueError, match=r"moves \['width'\]"):
        search({"width": 64, "depth": 2}, FINITE, [1.0, 0.0])


@pytest.mark.parametrize(
    "start, direction, said",
    [
        (None, JOINT, "start None"),
        (START, [0.0, 0.0], "must differ from 0"),
        ({"Lambda_p": 99.0, "Lambda_e": 1}, JOINT, "outside"),
    ],
)
def test_impossible_lines_are_refused(start, direction, said):
    with pytest.raises(ValueError, match=said):
        search(start, direction=direction)


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("average", balance.AVERAGES)
def test_on_measured_landscapes_it_finds_what_the_diagonal_has(name, average):
    """Within a twentieth of the range of the line's own scores; the InfoNCE line has several peaks."""
    landscape = find(name)
    start = balance.from_recipe(0.1, average, 64)
    ended = line_search(landscape.space, start=start, direction=JOINT)
    asked = advance(ended, 50, lambda h: landscape.validation(landscape.space.to_coordinates(h)).item())
    low, high = landscape.space.chord(landscape.space.to_coordinates(start), JOINT)
    line = [
        float(landscape.validation(landscape.space.to_coordinates(start) + step))
        for step in np.linspace(low, high, 500)
    ]
    short = (np.nanmax(line) - ended.best[1]) / np.ptp(np.array(line)[np.isfinite(line)])
    assert ended.finished and len(asked) <= 13 and short < (0.12 if "infonce" in name else 0.05)


def test_most_trials_bounds_what_any_score_makes_of_it():
    rng, space = np.random.default_rng(0), Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0))
    bound = most_trials(space, START, JOINT)
    counts = [len(advance(search(space=space), 50, lambda h: float(rng.standard_normal()))) for _ in range(200)]
    assert max(counts) <= bound
