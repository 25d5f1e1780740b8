"""Rows of trainings that did not write their own."""

from types import SimpleNamespace

import pytest
from fake_trials import FakeTrial
from rows import evaluation, full, held, minimal

from trainables.trial import UNSTORED
from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.results.rows import trial_row
from tune_cd.run.failures import DriverRows

TRACEBACK = """ray::TrainTrial.train() (pid=1, ip=10.0.0.1)
  File "/home/me/train.py", line 12, in f
RuntimeError: all of them"""


@pytest.fixture
def rows(tmp_path):
    def row(config, ended, machine):
        constants = {"study": "mine", "metric_name": "acc", "search": "cd", "seed": 3}
        return trial_row(config["origin"], {"lr": config["lr"]}, {}, ended, machine, constants)

    return DriverRows(tmp_path, SimpleNamespace(params=lambda config: {}, row=row))


@pytest.fixture
def trial(tmp_path):
    """One process trained two; it failed when one was done."""
    origins = [{"trial_index": n, "trial_id": f"cd-{n}-seed3", "attempt": 2 * n} for n in range(2)]
    pack = [{"lr": lr, "origin": origin} for origin, lr in zip(origins, (0.1, 0.2))]
    reports = {"pack": {"0": {"acc": 0.7, "done": True}, "1": {"acc": 0.1}}, "done": False}
    return FakeTrial(1, {"pack": pack}, reports).fail(tmp_path, TRACEBACK)


def test_only_what_was_not_done_has_failed_and_that_is_the_machines_fault(rows, trial, tmp_path):
    for _ in range(2):
        rows.on_trial_error(0, [], trial)
    [row] = results.read(tmp_path, "mine").to_dict("records")
    assert (row["trial_id"], row["attempt"], row["seed"], row["params"]) == ("cd-1-seed3", 2, 3, {"lr": 0.2})
    assert (row["status"], row["failure_kind"], row["error"]) == ("failed", "lost", "lost: RuntimeError: all of them")
    assert row["gpus"] == 0.25 and row["scores"] == {"acc": 0.1}


@pytest.mark.parametrize("recorded, stored", [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_a_failure_that_the_training_has_recorded_itself_is_no_second_attempt(rows, trial, tmp_path, recorded, stored):
    row = minimal(study="mine", trial_id="cd-1-seed3", status="failed", error="timeout", attempt=recorded)
    results.write_trial(tmp_path, row)
    rows.on_trial_error(0, [], trial)
    kept = held(tmp_path, "mine", "cd-1-seed3")
    assert (kept["attempt"], kept["error"] == "timeout") == (stored, recorded >= 2)


def test_what_a_training_could_not_store_is_stored_with_its_curve(rows, trial, tmp_path):
    stored = {"row": full(study="mine"), "curve": [evaluation(images_seen=n) for n in (1, 2)]}
    (tmp_path / "curves").touch()  # a folder is needed there: the store does not answer
    config = trial.config["pack"][0]
    rows.ended(config, {"acc": 0.5}, 1.0)
    rows.ended(config, {"acc": 0.5, UNSTORED: stored}, 1.0)
    with pytest.warns(UserWarning, match="1 result rows were not written .cd-0-seed3.*; 1 wait in"):
        rows.close()
    (tmp_path / "curves").unlink()
    merge(tmp_path)
    assert held(tmp_path, "mine", "t0")["val_score"] == full()["val_score"]
    assert len(results.read_curves(tmp_path, "mine")) == 2
