"""How long a study takes, from trainings of its kind in the results."""

from dataclasses import asdict

import pytest
from made_studies import study
from studies import row

from tune_cd import results
from tune_cd.run.announcement import estimate
from tune_cd.run.resources import Resources

NEW = "--study new --setup small --num-samples 10 --no-baseline --confirm 2"
TWO = Resources(cpus=1, gpus=0.0, workers=2, pack=1)


@pytest.fixture
def made(tmp_path):
    return study(tmp_path, *NEW.split())


def store(made, index, seconds, **changed):
    of_row = {"study": "old", "device": "cpu"}
    of_row |= {name: changed.pop(name) for name in of_row if name in changed}
    config = asdict(made.setup) | {"batch_size": 64} | changed
    trial = row(index, times=(0, seconds), config=config, dataset=made.dataset, **of_row)
    results.write_trial(made.results, trial)


def test_without_a_training_of_its_kind_nothing_is_said(made):
    assert estimate(made, TWO) is None
    for index, other in enumerate(({"images_seen": 1}, {"batch_size": 16}, {"device": "NVIDIA H200"})):
        store(made, index, 60, **other)
    assert estimate(made, TWO) is None


def test_the_median_of_its_kind_tells_the_time_for_all_trainings(made):
    for index, seconds in enumerate((20, 30, 90)):
        store(made, index, seconds)
    said = estimate(made, TWO)
    assert said.startswith("12 trainings' worth is left at most: about 0:03:00 and 0 GPU-hours")
    assert "3 trainings of this kind took 30 s each" in said
    on_gpus = Resources(cpus=1, gpus=0.5, workers=2, pack=1)
    for index, seconds in enumerate((20, 30, 90), 3):
        store(made, index, seconds, device="NVIDIA H200")
    assert "0:03:00 and 0.05 GPU-hours" in estimate(made, on_gpus)


def test_what_is_in_the_table_is_not_left(made):
    for index in range(5):
        store(made, index, 30, study="new")
    assert estimate(made, TWO).startswith("7 trainings' worth is left")


def test_what_is_paused_is_left_for_the_most_part(made):
    config = asdict(made.setup)
    paused = row(0, "stopped", study="new", search="cd", times=(0, 5), config=config, dataset=made.dataset,
                 images_seen=made.setup.images_seen // 2)  # fmt: skip
    store(made, 0, 30)
    results.write_trial(made.results, paused)
    results.write_trial(made.results, {**paused, "trial_id": "other", "trial_index": 1})
    assert estimate(made, TWO).startswith("11 trainings' worth is left")


def test_the_runs_of_a_training_that_paused_count_together(made):
    earlier = {"images_seen": 100, "val_score": 0.1, "started_at": "2026-01-01T00:00:00+00:00",
               "ended_at": "2026-01-01T00:00:40+00:00", "hostname": "a", "device": "cpu"}  # fmt: skip
    store(made, 0, 20, runs=[earlier])
    assert "1 trainings of this kind took 60 s each" in estimate(made, TWO)
