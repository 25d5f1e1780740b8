"""The one builder of rows."""

import json

import numpy as np
import pandas as pd
import pytest

from tune_cd import results
from tune_cd.results.observations import looks, mean
from tune_cd.results.rows import finite, trial_name, trial_row
from tune_cd.search.space import is_number

IDENTITY = {"search": "cd", "trial_id": "cd-00000", "trial_index": 0, "attempt": 0}
FAILED = {"status": "failed", "scores": {}, "error": "no"}
CONSTANTS = {"study": "demo", "metric_name": "acc"}


def row(config, machine=None, **constants):
    return results.check_trial(trial_row(IDENTITY, {"lr": 1}, config, FAILED, machine or {}, CONSTANTS | constants))


def test_a_row_is_complete_and_allowed():
    made = row({"Lambda_p": 1, "Lambda_e": np.float32(0.5), "batch_size": np.int64(64), "lr": 1}, {"gpus": 0.5})
    assert (made["Lambda_p"], made["Lambda_e"], made["batch_size"], made["gpus"]) == (1.0, 0.5, 64, 0.5)
    assert made["params"] == {"lr": 1.0} and made["ended_at"] is not None and made["hostname"]
    assert "numpy" in json.loads(made["software"]) and json.loads(made["config"])["lr"] == 1


@pytest.mark.parametrize("config", [{}, {"Lambda_p": "1", "Lambda_e": True, "batch_size": 64.0}, {"batch_size": True}])
def test_what_a_user_calls_by_our_names_and_is_no_number_is_left_out(config):
    made = row(config)
    assert made["Lambda_p"] is made["Lambda_e"] is made["batch_size"] is None


def test_the_study_s_constants_come_before_what_is_found_here():
    made = row({}, {"hostname": "node-1"}, git_commit="abc", hostname="node-2", dataset="toy")
    assert (made["git_commit"], made["hostname"], made["dataset"]) == ("abc", "node-2", "toy")
    assert row({}, {"hostname": "node-1"})["hostname"] == "node-1"


def test_a_config_that_json_does_not_know_is_stored_as_text():
    loop: dict = {}
    loop["self"] = loop
    for config in (loop, {("a", 1): 2}, {"f": print}):
        assert isinstance(json.loads(row(config)["config"]), dict)


def test_numbers():
    assert [is_number(value) for value in (1, 0.5, np.float32(1), float("nan"), True, "1", None)] == [True] * 4 + [
        False
    ] * 3
    assert [finite(value) for value in (1, float("inf"), float("nan"), None, np.int64(2))] == [
        1.0,
        None,
        None,
        None,
        2.0,
    ]
    assert trial_name("cd", 7) == "cd-00007"


def test_looks_say_how_far_each_configuration_was_trained_and_what_it_reached():
    """Means over seeds at each length; of what failed nothing, at the length that is known, else at the whole."""
    told = [
        (0, "completed", 0.9, 16), (0, "completed", 0.7, 16), (1, "stopped", 0.5, 4), (1, "stopped", 0.6, 8),
        (2, "failed", None, None), (3, "diverged", None, 2), (4, "stopped", 0.4, None),
    ]  # fmt: skip
    rows = pd.DataFrame(
        [
            {
                "study": "s", "search": "cd", "trial_index": n, "params": {"lr": 2.0**-at}, "status": status,
                "val_score": score, "scores": {} if epoch is None else {"epoch": epoch}, "images_seen": None,
            }
            for n, (at, status, score, epoch) in enumerate(told)
        ]
    )  # fmt: skip
    found = {params["lr"]: ends for params, ends in looks(rows, "epoch", 16)}
    assert found == {
        1.0: {1.0: pytest.approx(0.8)}, 0.5: {0.25: 0.5, 0.5: 0.6}, 0.25: {1.0: None}, 0.125: {0.125: None},
    }  # fmt: skip
    seen = rows.assign(images_seen=[epoch and 100 * epoch for *_, epoch in told])
    assert {params["lr"]: ends for params, ends in looks(seen, "images_seen", 1600)} == found


def test_the_mean_of_any_finite_values_is_finite():
    assert mean([1.7e308, 1.7e308]) == pytest.approx(1.7e308) and mean([1e308, -1e308]) == 0 and mean([]) is None
    assert finite(10**400) is None and finite(np.array([0.5])) == 0.5 and finite("0.5") is None
