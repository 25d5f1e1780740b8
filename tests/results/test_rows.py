"""The one builder of rows."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars
import pytest
import torch
from rows import full

from tune_cd import results
from tune_cd.results.observations import mean, trainings
from tune_cd.results.rows import finite, next_run, trial_name, trial_row

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


def test_what_a_user_calls_by_our_names_and_is_no_number_is_left_out():
    for config in ({}, {"Lambda_p": "1", "Lambda_e": True, "batch_size": 64.0}, {"batch_size": True}):
        made = row(config)
        assert made["Lambda_p"] is made["Lambda_e"] is made["batch_size"] is None


def test_the_study_s_constants_come_before_what_is_found_here():
    made = row({}, {"hostname": "node-1"}, git_commit="abc", hostname="node-2", dataset="toy")
    assert (made["git_commit"], made["hostname"], made["dataset"]) == ("abc", "node-2", "toy")
    assert row({}, {"hostname": "node-1"})["hostname"] == "node-1"


LOOP: dict = {"b": 1}
LOOP["self"] = [LOOP]
STRICT = [  # a value, and what JSON has of it
    (float("inf"), "inf"), (np.float32("nan"), "nan"), (np.float32(0.5), 0.5), (np.int64(3), 3), (2**63, 2**63),
    (np.bool_(True), True), (np.array(2.5), 2.5), (np.array([[1, 2]]), [[1, 2]]), (10**400, str(10**400)),
    (np.array([1.0, np.nan]), [1.0, "nan"]), ((1, 2), [1, 2]), (Decimal("0.25"), "0.25"), (Fraction(1, 4), 0.25),
    (np.longdouble("1e4000"), str(np.longdouble("1e4000"))), (torch.tensor(1.5), 1.5), (torch.tensor([True]), [True]),
    (torch.ones(2, requires_grad=True), [1.0, 1.0]), (print, "<built-in function print>"), (Path("/x"), "/x"),
    (1j, "1j"), ("\ud800x", "?x"), (pd.NA, "<NA>"), (np.str_("a"), "a"), (range(20_000), "range(0, 20000)"),
    ({("a", 1): 2, None: 3}, {"('a', 1)": 2, "None": 3}),
]  # fmt: skip


def strict(text):
    def refuse(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("value, expected", STRICT, ids=lambda value: type(value).__name__)
def test_a_config_is_strict_json_whatever_it_holds(value, expected):
    text = row({"lr": 1, "x": value})["config"]
    stored = strict(text)
    assert stored["x"] == expected and type(stored["x"]) is type(expected) and stored["lr"] == 1
    assert polars.Series([text]).str.json_decode(polars.Struct({"lr": polars.Int64}))[0] == {"lr": 1}
    assert duckdb.execute("SELECT (?::JSON)->>'lr'", [text]).fetchone() == ("1",)


@pytest.mark.parametrize("value", [np.zeros((1000, 1000)), list(range(20_000)), dict.fromkeys(range(20_000)), LOOP])
def test_objects_that_are_too_large_or_too_deep_are_text(value):
    text = row({"x": value, "lr": 1})["config"]
    assert len(text) < 2000 and strict(text)["lr"] == 1


def test_numbers():
    assert [finite(value) for value in (1, np.int64(2), np.array(0.5), "0.5")] == [1.0, 2.0, 0.5, None]
    assert [finite(value) for value in (float("inf"), float("nan"), None, 10**400)] == [None] * 4
    assert mean([1.7e308, 1.7e308]) == pytest.approx(1.7e308) and mean([1e308, -1e308]) == 0 and mean([]) is None
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
    found = {one.h["lr"]: dict(one.curve) for one in trainings(rows, ("epoch", 16))}
    assert found == {
        1.0: {1.0: pytest.approx(0.8)}, 0.5: {0.25: 0.5, 0.5: 0.6}, 0.25: {1.0: -math.inf}, 0.125: {0.125: -math.inf},
    }  # fmt: skip
    seen = rows.assign(images_seen=[epoch and 100 * epoch for *_, epoch in told])
    assert {one.h["lr"]: dict(one.curve) for one in trainings(seen, ("images_seen", 1600))} == found


@pytest.mark.parametrize(
    "config, scores, images_seen, full_length, share",
    [
        ({"full_length": ["epoch", 4]}, {"epoch": 4.0}, None, ("epoch", 16), 0.25),
        ({"full_length": ["epoch", 4]}, {"epoch": 3.0}, None, ("epoch", 4), 1.0),  # it said so itself
        ({"full_length": ["epoch", 16]}, {"epoch": 16.0}, None, ("epoch", 8), 1.0),
        ({"full_length": ["step", 4]}, {"epoch": 2.0}, None, ("epoch", 8), 0.25),
        ({"epoch": 9}, {"epoch": 2.0}, None, ("epoch", 8), 0.25),  # a user's own entry
        ({}, {"epoch": 2.0}, None, ("epoch", 8), 0.25),  # ended by a scheduler, in a study without full_length
        ({}, {}, None, ("epoch", 8), 1.0),
        ({}, {"epoch": 2.0}, None, None, 1.0),
        ({"images_seen": 1000}, {}, 960, ("images_seen", 1000), 1.0),  # whole batches
        ({"images_seen": 1000}, {}, 960, ("images_seen", 2000), 0.5),
    ],
)  # fmt: skip
def test_a_completed_row_counts_at_its_share_of_a_longer_training(config, scores, images_seen, full_length, share):
    done = full(params={"lr": 1.0}, scores=scores, images_seen=images_seen, config=json.dumps(config))
    [found] = trainings(pd.DataFrame([done]), full_length)
    assert dict(found.curve) == {share: done["val_score"]}


def test_a_pause_without_a_score_is_no_look():
    paused = full(status="stopped", error=None, val_score=math.nan, params={"lr": 1.0}, scores={"epoch": 4})
    again = next_run(full(attempt=1, params={"lr": 1.0}, scores={"epoch": 16}), paused)
    assert strict(again["config"])["runs"][0]["val_score"] is None
    [found] = trainings(pd.DataFrame([again]), ("epoch", 16))
    assert dict(found.curve) == {1.0: again["val_score"]}
