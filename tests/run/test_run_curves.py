"""How far trainings are, by what is on record or reported."""

import math
from dataclasses import replace

import pytest
from trainings import CPU, DATA, SETUP, advance_one

from trainables.training.loop import Training
from trainables.training.setups import find_setup
from tune_cd.run.curves import curve_so_far, failed, lengths_of, over_seeds, reaches, whole_length

LENGTHS = (0.125, 0.25, 0.5, 1.0)
OF_800 = replace(SETUP, images_seen=800, evaluations=8), 100
CURVE = [(400, 0.4), (100, 0.3), (200, 0.2), (300, 0.5), (800, 0.1)]


def test_trainings_pause_at_looks():
    of = {8: LENGTHS, 16: LENGTHS, 4: (0.25, 0.5, 1.0), 2: (0.5, 1.0), 1: (1.0,), 30: (4 / 30, 8 / 30, 0.5, 1.0)}
    assert {looks: lengths_of(replace(SETUP, evaluations=looks)) for looks in of} == of
    assert lengths_of(find_setup("glyphs", "small")) == LENGTHS, "small set-ups pause early"


@pytest.mark.parametrize("images, batch_size, looks", [(25_600, 32, 8), (1000, 32, 7), (640, 32, 30), (100, 16, 8)])
def test_a_training_has_reached_a_length_at_its_look(images, batch_size, looks):
    """Whatever the rounding of iterations: at the look where `TrainTrial` pauses."""
    setup = replace(SETUP, images_seen=images, evaluations=looks)
    whole = whole_length(setup, batch_size)
    training = Training(setup, DATA, {"Lambda_p": 0.1, "Lambda_e": 0.1, "batch_size": batch_size}, seed=0, device=CPU)
    assert whole == training.iterations * batch_size
    if images > 2000:
        return
    seen = []
    while not training.done:
        seen.append((advance_one(training).images_seen, 0.5))
        for length in lengths_of(setup):
            there = training.share >= length - 1e-9
            assert reaches(curve_so_far(setup, batch_size, "stopped", None, seen, seen[-1][0]), length) == there


def test_the_best_so_far_counts_at_each_length():
    assert curve_so_far(*OF_800, "stopped", 0.5, CURVE, 800) == {0.125: 0.3, 0.25: 0.3, 0.5: 0.5, 1.0: 0.5}
    assert curve_so_far(*OF_800, "stopped", 0.3, CURVE[1:3], 200) == {0.125: 0.3, 0.25: 0.3}
    assert curve_so_far(*OF_800, "completed", 0.5, CURVE, 800)[1.0] == 0.5
    assert curve_so_far(*OF_800, "completed", 0.5, [], 800) == {1.0: 0.5}, "of a row without a curve"
    assert curve_so_far(*OF_800, "stopped", None, [], 0) == {}


@pytest.mark.parametrize("status", ["diverged", "failed"])
def test_a_training_that_gave_out_has_ended_where_it_was(status):
    looks = curve_so_far(*OF_800, status, None, [(100, 0.3), (200, math.nan)], 250)
    assert list(looks) == [0.125, 250 / 800] and failed(looks) and reaches(looks, 1.0)
    at_once = curve_so_far(*OF_800, status, None, [], 0)
    assert failed(at_once) and 0 < max(at_once) < 1e-6
    late = curve_so_far(*OF_800, status, None, [(100 * n, 0.3) for n in range(1, 9)], 800)
    assert failed(late) and max(late) == 1.0, "as where its test failed"


def test_a_setting_has_reached_what_all_its_seeds_have():
    one, other = {0.125: 0.2, 0.25: 0.4}, {0.125: 0.4}
    assert over_seeds([one, other]) == {0.125: pytest.approx(0.3)}
    gone = {0.125: 0.9, 0.2: -math.inf}
    assert over_seeds([one, gone]) == one, "of those that gave a number"
    every = over_seeds([gone, {0.125: 0.1, 0.4: -math.inf}])
    assert failed(every) and list(every) == [0.125, 0.4] and every[0.125] == 0.5
    assert not reaches({}, 0.1) and not reaches(None, 0.1)
