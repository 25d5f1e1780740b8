"""The search of one line until its best is bracketed, as the baselines of a study are."""

from math import log2
from types import SimpleNamespace

import numpy as np
import pytest
from contract import FINITE, MIXED, PLANE
from lengths import spend
from searches import filled, walk

from tune_cd import LENGTHS, CoordinateDescent, balance
from tune_cd.balance import RATE_RESOLUTION as RESOLUTION
from tune_cd.landscapes.find import find
from tune_cd.search.space import Space

JOINT = [1.0, 1.0]
START = {"Lambda_p": 0.1, "Lambda_e": 0.1}


def search(start=START, space=PLANE, direction=JOINT, lengths=(1.0,), budget=20, **arguments):
    return CoordinateDescent(
        space, rule="line", start=start, directions={"joint": direction}, lengths=lengths, budget=budget, **arguments
    )


def rate(h):
    return log2(h["Lambda_p"] / START["Lambda_p"])


def peak_at(octaves):
    return lambda h: -((rate(h) - octaves) ** 2)


def advance(search, value, most=50):
    """Ask and tell in turn, each with half of what it will be at half its length; what was asked for."""
    return walk(search, lambda h, share: None if (told := value(h)) is None else told - 1 + share, most)


@pytest.mark.parametrize("octaves", np.linspace(-16, 7, 9))
def test_the_best_is_bracketed_wherever_it_lies(octaves):
    ended = search()
    asked = [h for h, _ in advance(ended, peak_at(octaves))]
    assert ended.finished and ended.bracketed and len(asked) <= 16
    assert rate(ended.best[0]) == pytest.approx(octaves, abs=RESOLUTION / 2)
    assert all(h["Lambda_p"] == pytest.approx(h["Lambda_e"]) for h in asked)


@pytest.mark.parametrize("lengths", [(1.0,), LENGTHS])
def test_without_a_budget_it_ends_by_itself_with_the_best_bracketed_on_a_plateau_too(lengths):
    for value, top in ((peak_at(-7.3), 0.0), (lambda h: min(1.0, 3 - abs(rate(h) + 7.3) / 4), 1.0)):
        ended = search(budget=None, lengths=lengths)
        advance(ended, value, most=200)
        assert ended.finished and ended.bracketed
        assert value(ended.best[0]) == pytest.approx(top, abs=RESOLUTION**2)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("budget", [None, 10])
def test_with_several_workers_too_it_ends_with_the_best_bracketed(workers, budget):
    """What runs as the best is bracketed ends first."""
    ended, value = search(budget=budget, workers=workers, lengths=LENGTHS), peak_at(-7.3)
    most = 0
    while live := filled(ended):
        most = max(most, len(live))
        ended.tell(live[0], value(live[0]) - 1 + ended.until(live[0]))
    assert ended.finished and ended.bracketed and most == workers
    assert value(ended.best[0]) == pytest.approx(0.0, abs=RESOLUTION**2)


@pytest.mark.parametrize("end, value", [("high", 17.0), ("low", 1e-6)])
def test_an_optimum_at_the_end_of_the_range_is_evaluated_there(end, value):
    ended = search()
    advance(ended, lambda h: rate(h) if end == "high" else -rate(h))
    assert ended.finished and not ended.bracketed
    assert ended.best[0]["Lambda_p"] == pytest.approx(value, rel=0.07)


def test_of_two_peaks_the_higher_one_is_found():
    """Golden section takes the one that it falls into."""

    def two(h):
        return max(np.exp(-((rate(h) + 1) ** 2) / 4), 1.5 * np.exp(-((rate(h) + 12) ** 2) / 4))

    ended = search()
    advance(ended, two)
    assert rate(ended.best[0]) == pytest.approx(-12, abs=RESOLUTION)


def test_trained_short_first_it_takes_fewer_images_and_ends_with_a_whole_training():
    whole, pausing = search(), search(lengths=LENGTHS)
    advance(whole, peak_at(3.3))
    asked = advance(pausing, peak_at(3.3))
    assert pausing.bracketed and pausing.spent < 0.95 * whole.spent
    assert {share for _, share in asked} >= {0.125, 1.0}
    assert rate(max((h for h, share in asked if share == 1), key=peak_at(3.3))) == pytest.approx(3.3, abs=RESOLUTION)


def test_the_budget_ends_it():
    ended = search(budget=3)
    assert len(advance(ended, peak_at(3.3))) == 3 and ended.finished and not ended.bracketed
    failing = search(lengths=(0.125, 1.0), budget=2)
    for _ in range(16):
        failing.tell(failing.ask(), None, share=0.01)
    assert failing.ask() is None and failing.finished and failing.best is None


def test_late_the_neighbours_of_the_best_are_tried_at_the_shortest_length():
    """Here nothing else promises anything: of two values the lower is only had at the start."""
    ended = search(lengths=(0.125, 1.0), budget=6)
    asked = advance(ended, lambda h: float(rate(h) != 0))
    around = {share for h, share in asked if 0 < abs(rate(h) - rate(ended.best[0])) < 0.4}
    assert ended.finished and ended.spent < ended.budget and around == {0.125}


@pytest.mark.parametrize("known", [[-0.33385], [-0.3333, 0.33385], [0.41, -0.42], [-0.45, 0.49], [0.6, -0.61], [-0.1]])
def test_no_neighbour_is_tried_beside_one_that_is_known(known):
    """As where another search trained it."""
    ours, value = search(budget=6), peak_at(0.0)
    tried = [0.0, *known]
    for octaves in tried:
        ours.tell(h := dict.fromkeys(START, 0.1 * 2**octaves), value(h))
    for h, _ in advance(ours, value):
        assert min(abs(rate(h) - one) for one in tried) > RESOLUTION / 4 - 1e-6
        tried.append(rate(h))
    assert ours.bracketed


def test_failures_are_left_behind():
    ended = search(start={"Lambda_p": 10.0, "Lambda_e": 10.0})
    advance(ended, lambda h: None if h["Lambda_p"] > 0.5 else peak_at(0.0)(h))
    assert ended.bracketed and rate(ended.best[0]) == pytest.approx(0.0, abs=RESOLUTION)


def test_while_all_fail_it_stays_on_its_line():
    ours = search(lengths=(0.125, 1.0), budget=3, workers=3)
    for _ in range(4):
        asked = [ours.ask() for _ in range(3)]
        assert len({rate(h) for h in asked}) == 3
        for h in asked:
            assert h["Lambda_p"] == pytest.approx(h["Lambda_e"])
            ours.tell(h, None, share=0.01)


def test_proposals_say_where_they_lie_on_the_line():
    ours = search()
    asked = [h for h, _ in advance(ours, peak_at(5.1))]
    origins = [ours.origin(h) for h in asked]
    assert [origin.direction for origin in origins] == ["start"] + ["joint"] * (len(asked) - 1)
    through = [rate(origin.h) - origin.line_position for origin in origins[1:]]
    assert all(any(at == pytest.approx(rate(h), abs=1e-6) for h in asked) for at in through), "through one asked before"


def test_axes_that_the_direction_does_not_move_stay():
    ours = search({"lr": 0.1, "steps": 100, "batch_size": 64}, MIXED, [1.0, 0.0, 0.0])
    asked = [h for h, _ in advance(ours, lambda h: -abs(log2(h["lr"] / 0.03)))]
    assert {(h["steps"], h["batch_size"]) for h in asked} == {(100, 64)} and len({h["lr"] for h in asked}) == len(asked)


@pytest.mark.parametrize(
    "start, space, direction, said",
    [
        (None, PLANE, JOINT, "one configuration"),
        ([START, {"Lambda_p": 1.0, "Lambda_e": 1.0}], PLANE, JOINT, "one configuration"),
        (START, PLANE, [0.0, 0.0], "does not move"),
        (START, PLANE, [1e-200, 1e-200], "from 1e-12 to 1e\\+12"),
        (START, PLANE, [1e200, 1.0], "from 1e-12 to 1e\\+12"),
        ({"Lambda_p": 99.0, "Lambda_e": 1}, PLANE, JOINT, "outside"),
        ({"Lambda_p": 17.0, "Lambda_e": 1e-6}, PLANE, JOINT, "leaves Space"),
        ({"width": 64, "depth": 2}, FINITE, [1.0, 0.0], r"moves \['width'\]"),
    ],
)
def test_impossible_lines_are_refused(start, space, direction, said):
    with pytest.raises(ValueError, match=said):
        search(start, space, direction)


@pytest.mark.parametrize(
    "name, average", [("glyphs-margin", "separate"), ("glyphs-margin", "global"), ("omniglot-242-margin", "global")]
)
def test_on_measured_curves_it_finds_what_the_diagonal_has(name, average):
    """Within 3 % of its best, with the noise between seeds, for at most as much as the search of the plane."""
    curves = find(name)
    space = Space(**dict.fromkeys(START, curves.space.axes[0].domain))
    start = dict(zip(START, (0.1 * share for share in balance.average_weights(average, 64))))
    diagonal, found = SimpleNamespace(space=space, looks=curves.looks, curve=curves.curve), []
    for seed in range(10):
        ended = search(start, space, lengths=LENGTHS, budget=10, prior="balance")
        found.append(spend(ended, diagonal, seed=seed, budget=30)[-1])
        assert ended.spent < 11
    steps = np.linspace(*space.chord(space.to_coordinates(start), np.array(JOINT)), 200)
    best = max(curves.curve(space.along(start, JOINT, step))[-1] for step in steps)
    assert np.mean(found) > 0.97 * best
