"""What a trial's reports amount to: the same for the search and for the rows."""

import json
import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from fake_trials import FakeTrial
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from tuners import tuner_of

from tune_cd import LENGTHS, CoordinateDescentSearch, Space, results
from tune_cd.results.rows import sign_of

LINE = Space(lr=(1e-4, 1.0))
FULL = ("epoch", 8)
# What else is a number, or none: tests/search/test_space.py.
NUMBERS = [0.5, Decimal("0.5"), np.array([[0.5]]), torch.tensor([0.5], dtype=torch.bfloat16, requires_grad=True)]
NO_NUMBERS = ["0.5", None, True, torch.tensor(True), np.ones(2), torch.ones(2), np.timedelta64(3, "s"), Decimal("sNaN")]


def at(epoch, *acc, **more):
    return {"epoch": epoch, **({"acc": acc[0]} if acc else {}), **more}


CASES = {  # reports, and (status, the last value, the best) with mode "max"
    "metric at every third": ([at(3, 0.4), at(4), at(6, 0.6), at(8)], "completed", 0.6, 0.6),
    "falling": ([at(2, 0.9), at(5, 0.4), at(8)], "completed", 0.4, 0.9),
    "never a number": ([at(4), at(8)], "failed", None, None),
    "nothing": ([], "failed", None, None),
    "NaN at the end": ([at(4, 0.5), at(8, math.nan)], "diverged", None, None),
    "NaN, then none": ([at(4, 0.5), at(7, math.nan), at(8)], "diverged", None, None),
    "infinite": ([at(4, 0.5), at(8, -math.inf)], "diverged", None, None),
    "beyond a float": ([at(8, 10**400)], "diverged", None, None),
    "beyond a score": ([at(4, 0.5), at(8, -1e150)], "diverged", None, None),
    "text in between": ([at(2, 0.5), at(3, "n/a"), at(8)], "completed", 0.5, 0.5),
    "only text": ([at(8, "0.5")], "failed", None, None),
    "stopped": ([at(2, 0.5), at(4, 0.4)], "stopped", 0.4, 0.5),
    "stopped without the metric": ([at(2, 0.5), at(4)], "stopped", 0.5, 0.5),
    "the length is missing at the end": ([at(2, 0.5), {"acc": 0.6}], "stopped", 0.6, 0.6),
    "whole, and the length is missing at the end": ([at(8, 0.5), {"acc": 0.6}], "completed", 0.6, 0.6),
    "a tensor as length": ([{"epoch": torch.tensor(8), "acc": torch.tensor(0.5)}], "completed", 0.5, 0.5),
    "a Decimal as length": ([{"epoch": Decimal(4), "acc": Decimal("0.5")}], "stopped", 0.5, 0.5),
    "separate reports": ([at(4), {"acc": 0.5}, at(8), {"acc": 0.6}], "completed", 0.6, 0.6),
}


class Told:
    """A searcher and a callback that are told of one trial, in Tune's order."""

    def __init__(self, search, folder, before=None):
        """before: the same, before its experiment was restored."""
        self.search, self.folder, self.callback = search, folder, search.callback(folder, "s")
        self.callback.setup()
        if before is not None:
            search.set_state(json.loads(json.dumps(before.search.get_state())))
            self.callback.set_state(json.loads(json.dumps(before.callback.get_state())))
        self.trial = FakeTrial(1, search.suggest("t"), trial_id="t", status=Trial.RUNNING)
        self.callback.on_trial_start(0, [self.trial], self.trial)

    def report(self, result, last=False):
        """last: Tune ends the trial on this report, of which it tells the searcher only then. Whether it has ended."""
        if not last and self.search.pauses:
            last = self.search.trials.report("t", result) == TrialScheduler.STOP
        elif not last:
            self.search.on_trial_result("t", result)
        self.trial.last_result = result | {"done": last}
        self.callback.on_trial_result(0, [self.trial], self.trial, self.trial.last_result)
        return last

    def row(self, reports, stopped=False, error=False):
        """The row of the trial. stopped: by Tune on the last report; else the trial returns by itself, or fails."""
        for n, result in enumerate(reports, 1):
            if self.report(result, last=stopped and n == len(reports)):
                break
        self.trial.last_result |= {"done": True}
        self.search.on_trial_complete("t", None if error else self.trial.last_result, error)
        end = self.callback.on_trial_error if error else self.callback.on_trial_complete
        end(0, [self.trial], self.trial)
        self.callback.on_experiment_end([self.trial])
        [row] = results.read(self.folder, "s").to_dict("records")
        return row


def told(search):
    """(value, whether it counts as stopped early) of the one trial of a search."""
    again = CoordinateDescentSearch()
    again.set_state(json.loads(json.dumps(search.get_state())))
    [training] = again.search.trainings
    return None if training.failed else training.last, training.stopped


def agrees(row, search):
    value, short = told(search)
    assert (row["status"] in ("failed", "diverged")) == (value is None), (row["status"], value)
    assert (row["status"] == "stopped") == short and (value is None or sign_of(row["mode"]) * row["val_score"] == value)


KINDS = [  # arguments, and the sign of what is reported
    ({"mode": "min", "use_result": "last"}, -1),
    ({"mode": "max", "use_result": "best"}, 1),
    ({"mode": "max", "lengths": (0.99, 1.0)}, 1),  # the only pause is between the last two epochs
]


@pytest.mark.parametrize("stopped", [False, True], ids=["returns", "stopped"])
@pytest.mark.parametrize("arguments, sign", KINDS, ids=["last", "best", "pausing"])
@pytest.mark.parametrize("name", CASES)
def test_row_and_search_never_contradict_each_other(tmp_path, name, arguments, sign, stopped):
    reports, status, last, best = CASES[name]
    reports = [{key: _turned(value, sign) if key == "acc" else value for key, value in one.items()} for one in reports]
    search = CoordinateDescentSearch(LINE, "acc", full_length=FULL, **arguments)
    row = Told(search, tmp_path).row(reports, stopped)
    agrees(row, search)
    assert row["status"] == status
    whole_before_the_end = search.pauses and "epoch" not in (reports or [{}])[-1]  # what follows is not heard
    assert told(search)[0] == (last if sign < 0 else best) or whole_before_the_end
    if status in ("completed", "stopped"):
        assert {"acc", "epoch"} <= row["scores"].keys(), "also where the last report lacks one"


def _turned(value, sign):
    return value if isinstance(value, str) else sign * value


def test_a_trial_that_fails_has_failed_whatever_it_reported(tmp_path):
    search = CoordinateDescentSearch(LINE, "acc", "max", use_result="best")
    row = Told(search, tmp_path).row([at(8, 0.5)], error=True)
    agrees(row, search)
    assert row["status"] == "failed" and math.isnan(row["val_score"])


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_whatever_holds_one_number_is_that_number(tmp_path, value):
    search = CoordinateDescentSearch(LINE, "acc", "max")
    row = Told(search, tmp_path).row([{"acc": value, "other": value}])
    agrees(row, search)
    assert row["val_score"] == 0.5 == row["scores"]["other"]
    search.add_evaluated_point({"lr": np.array([0.25])}, value)
    points = [{"lr": Decimal("0.25")}]
    known = CoordinateDescentSearch(LINE, "acc", "max", points_to_evaluate=points, evaluated_rewards=[value])
    assert known.search.history == [({"lr": 0.25}, 0.5)] == search.search.history[1:]


@pytest.mark.parametrize("callback, pauses", [(False, False), (True, True)], ids=["searcher alone", "both"])
@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused_with_one_warning(tmp_path, caplog, value, pauses, callback):
    arguments = {"full_length": FULL, "lengths": LENGTHS} if pauses else {}
    search = CoordinateDescentSearch(LINE, "acc", "max", **arguments)
    if callback:
        row = Told(search, tmp_path).row([at(1, value), at(8, value)])
        assert row["status"] == "failed" and row["error"].startswith("it reported acc = ")
        assert type(value).__name__ in row["error"]
    else:
        for trial_id in ("a", "b"):
            search.suggest(trial_id)
            search.on_trial_complete(trial_id, at(8, value))
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        f"acc = {value!r} ({type(value).__name__}) is no number"
    ]


def test_trials_without_the_metric_that_report_others_are_said_once(caplog):
    search = CoordinateDescentSearch(LINE, mode="min")
    for trial_id in ("a", "b"):
        search.suggest(trial_id)
        search.on_trial_complete(trial_id, {"acc": 0.5, "loss": 1.0, "name": "t", "training_iteration": 1, "pid": 7})
    said = "trial a reported no '_metric' but ['acc', 'loss']: name the metric in TuneConfig(metric=...)"
    assert [record.getMessage() for record in caplog.records] == [said]


@pytest.mark.parametrize("reward", ["0.5", True, np.array([1.0, 2.0])])
def test_known_values_that_are_no_numbers_are_refused(reward):
    with pytest.raises(ValueError, match="number"):
        CoordinateDescentSearch(LINE, "acc", "max", points_to_evaluate=[{"lr": 0.1}], evaluated_rewards=[reward])
    with pytest.raises(ValueError, match="a number is required"):
        CoordinateDescentSearch(LINE, "acc", "max").add_evaluated_point({"lr": 0.1}, reward)


@pytest.mark.parametrize("use_result, value", [("last", 0.5), ("best", 0.9)])
def test_an_experiment_that_is_restored_keeps_what_was_reported_before(tmp_path, use_result, value):
    """Tune's own snapshot has only the last report of a trial."""
    before = Told(CoordinateDescentSearch(LINE, "acc", "max", use_result=use_result), tmp_path)
    for n, acc in ((1, [0.9]), (2, [0.5]), (3, [])):
        before.report(at(n, *acc, training_iteration=n))
    search = CoordinateDescentSearch(LINE, "acc", "max", use_result=use_result)
    row = Told(search, tmp_path, before).row([at(4)])
    agrees(row, search)
    assert row["val_score"] == value and results.read_curves(tmp_path, "s")["val_score"].tolist() == [0.9, 0.5]


def eight_epochs(config):
    for epoch in range(1, 9):
        tune.report(at(epoch, epoch / 8 - abs(math.log10(config["lr"]) + 2)))


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("full_length", [None, FULL], ids=["without", "with a full length"])
def test_trials_that_a_scheduler_ends_are_stopped_with_a_full_length_and_warned_of_without(
    ray_session, tmp_path, caplog, full_length
):
    search = CoordinateDescentSearch(full_length=full_length)
    callback, scheduler = search.callback(tmp_path / "r", "s"), tune.schedulers.ASHAScheduler(reduction_factor=2)
    space = {"lr": tune.loguniform(1e-4, 1.0)}
    tuner_of(eight_epochs, search, space, tmp_path / "tune", 12, callbacks=[callback], scheduler=scheduler).fit()
    rows = results.read(tmp_path / "r", "s")
    length = rows["scores"].map(lambda scores: scores["epoch"])
    assert length.nunique() > 1, "or there is nothing to tell apart"
    expected = (length < length.max()) & (full_length is not None)
    assert (rows["status"] == "stopped").tolist() == expected.tolist(), rows[["status", "scores"]]
    counted = {one.h["lr"]: one.stopped for one in search.search.trainings}
    assert {row.params["lr"]: row.status == "stopped" for row in rows.itertuples()} == counted
    said = [record.getMessage() for record in caplog.records if "both count as whole" in record.getMessage()]
    assert len(said) == (full_length is None)


def test_a_trial_that_fails_is_no_shorter_training(tmp_path, caplog):
    told = Told(search := CoordinateDescentSearch(LINE, "acc", "max"), tmp_path)
    search.suggest("u")
    search.on_trial_result("u", {"acc": 0.5, "training_iteration": 3})
    assert told.row([{"acc": 0.4, "training_iteration": 1}], error=True)["status"] == "failed"
    assert "both count as whole" not in caplog.text


@pytest.mark.parametrize("lengths", [(1.0,), (0.5, 1.0)])
def test_a_mistyped_length_is_named_at_the_first_report_unless_another_has_had_it(lengths):
    search = CoordinateDescentSearch(LINE, "acc", "max", full_length=("epochs", 8), lengths=lengths)
    report = search.required().report if search.pauses else search.on_trial_result
    search.suggest("a")
    said = r"full_length names 'epochs', and a result has no such number but \['acc', 'epoch', 'training_iteration'\]"
    with pytest.raises(ValueError, match=said):
        report("a", {"acc": 0.1, "epoch": 1, "training_iteration": 1, "pid": 12, "date": "today"})
    report("a", {"acc": 0.1, "epochs": 1})
    report("a", {"acc": 0.2, "training_iteration": 2})
