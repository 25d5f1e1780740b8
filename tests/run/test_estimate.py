"""How long a study takes and what it costs, from trainings of its kind in the results."""

from dataclasses import asdict

import pytest
from made_studies import study
from studies import row

from tune_cd import results
from tune_cd.run.announcement import PRICED, PRICES, estimate, gpu_of
from tune_cd.run.resources import Resources

NEW = "--study new --setup small --num-samples 10 --no-baseline --confirm 2"
TWO, ON_GPUS = (Resources(cpus=1, gpus=gpus, workers=2, pack=1) for gpus in (0.0, 0.5))
UNKNOWN = "speed unknown, since no training of this kind is in the results"


@pytest.fixture
def made(tmp_path):
    made = study(tmp_path, *NEW.split())
    for index, other in enumerate(({"images_seen": 1}, {"batch_size": 16}, {"network": "resnet18_gem"})):
        store(made, f"other-{index}", 600, "NVIDIA L4", **other)
        store(made, f"other-{index}", 600, **other)
    return made


def store(made, old, seconds, device="cpu", **changed):
    config = asdict(made.setup) | {"batch_size": 64} | changed
    named = {"study": f"{old}-{device[-2:]}", "dataset": made.dataset, "device": device}
    results.write_trial(made.results, row(0, times=(0, seconds), config=config, **named))


def test_without_a_training_of_its_kind_the_images_are_told(made):
    images = 12 * made.setup.images_seen
    left = f"12 trainings' worth is left at most, {images:,} images"
    assert [*estimate(made, TWO)] == [left, f"on CPUs: {UNKNOWN}"]
    first, *known = [*estimate(made, ON_GPUS)]
    assert first == left and known[-1] == PRICED and len(known) == len(PRICES) + 1
    assert f"on L4: {UNKNOWN}; $0.80 an hour" in known


def test_the_median_of_its_kind_on_its_gpu_tells_time_and_cost(made):
    for number, seconds in enumerate((1200, 1800, 5400)):
        store(made, number, seconds)
        store(made, number, 2 * seconds, "NVIDIA L4")
    assert [*estimate(made, TWO)][1] == "on CPUs: about 3:00:00; a training of this kind took 1800 s"
    on_l4 = "on L4: about 6:00:00 and 6 GPU-hours, $4.80; a training of this kind took 3600 s"
    assert {on_l4, f"on H100: {UNKNOWN}; $6.88 an hour", PRICED} <= {*estimate(made, ON_GPUS)}


def test_what_is_in_the_table_is_not_left(made):
    for number in range(5):
        results.write_trial(made.results, row(number, study="new"))
    assert next(estimate(made, TWO)).startswith("7 trainings' worth is left")
    half = {"config": asdict(made.setup), "images_seen": made.setup.images_seen // 2}
    for number in range(2):
        results.write_trial(made.results, row(number, "stopped", study="new", search="cd", **half))
    assert next(estimate(made, TWO)).startswith("6 trainings' worth is left")


def test_the_runs_of_a_training_that_paused_count_together(made):
    earlier = {"images_seen": 100, "val_score": 0.1, "started_at": "2026-01-01T00:00:00+00:00",
               "ended_at": "2026-01-01T00:00:40+00:00", "hostname": "a", "device": "cpu"}  # fmt: skip
    store(made, 0, 20, runs=[earlier])
    assert "a training of this kind took 60 s" in [*estimate(made, TWO)][1]


def test_gpus_are_known_by_the_names_of_torch_and_of_ray():
    names = {"NVIDIA L4": "L4", "NVIDIA L40S": "L40S", "Tesla V100-SXM2-16GB": "V100", "NVIDIA A100-SXM4-40GB": "A100",
             "A100-80G": "A100", "NVIDIA H100 80GB HBM3": "H100", "NVIDIA A10G": "A10G"}  # fmt: skip
    assert {name: gpu_of(name) for name in names} == names and gpu_of("Quadro M2") == "Quadro M2"
