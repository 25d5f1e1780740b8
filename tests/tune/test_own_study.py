"""What a study of a user's own Tuner has besides its rows: the space, learning curves, one file at the end."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest
from contract import exactly
from fake_trials import FakeTrial
from fake_tuner import FakeTuner
from ray import tune

from tune_cd import CoordinateDescentSearch, Space, results
from tune_cd.analysis import best_trial
from tune_cd.analysis.runs import runs_of
from tune_cd.results.redaction import as_json
from tune_cd.results.rows import searched_in
from tune_cd.tune.callback import curves
from tune_cd.tune.known import Earlier

SPACE = Space(lr=(1e-4, 1.0), width=[32, 64], opt=["adam", "2", 2, True, None])
KINDS = SPACE.categories[0].values[:4]
POINTS = [{"lr": 10.0 ** -(n + 1) * 2, "width": 64, "opt": value} for n, value in enumerate(KINDS)]
NAMED = {"space": SPACE, "metric": "acc", "mode": "min"}


def loss(h, epoch):
    return abs(math.log10(h["lr"]) + 2) + 1 / epoch + (h["opt"] is None)


def study(folder, **arguments):
    """The searcher of a run with these trials of four epochs; its rows are in the folder."""
    search = CoordinateDescentSearch(**NAMED, points_to_evaluate=POINTS, full_length=("epoch", 4), **arguments)
    tuner = FakeTuner(search, loss, mode="min", epochs=4, samples=4, folder=folder)
    tuner.told = {"f1": 0.5, "time_total_s": 2.0}
    tuner.rows()
    return search


def test_a_row_has_the_users_own_numbers_types_and_space(tmp_path):
    study(tmp_path)
    rows = results.read(tmp_path, "s")
    assert rows["params"].tolist() == [{"lr": h["lr"], "width": 64.0} for h in POINTS]
    assert [one["opt"] for one in rows["choices"]] == ["adam", '"2"', "2", "true"]
    assert [exactly(SPACE.check(searched_in(row))) for row in rows.to_dict("records")] == [exactly(h) for h in POINTS]
    assert set(zip(rows["metric_name"], rows["mode"], rows["status"])) == {("acc", "min", "completed")}
    assert rows["val_score"].tolist() == pytest.approx([loss(h, 4) for h in POINTS])
    assert searched_in(best_trial(rows)) == min(POINTS, key=lambda h: loss(h, 4))
    config = json.loads(rows["config"][0])
    assert Space.from_json(config["space"]) == SPACE and config["full_length"] == ["epoch", 4]
    assert "lengths" not in config


def test_the_users_own_constants_stay_in_the_row_beside_the_searchs_space(tmp_path):
    callback = CoordinateDescentSearch(**NAMED).callback(tmp_path, "s")
    trial = FakeTrial(1, POINTS[0], {"acc": 0.5}, depth=8, space="my own")
    callback.setup()
    callback.on_trial_result(0, [trial], trial, trial.last_result)
    callback.on_trial_complete(0, [trial], trial)
    config = json.loads(results.read(tmp_path, "s")["config"][0])
    assert (config["space (own)"], config["depth"]) == ("my own", 8) and Space.from_json(config["space"]) == SPACE


def test_every_report_is_on_the_curve_and_the_study_is_compacted(tmp_path):
    study(tmp_path)
    assert [len(list((tmp_path / kind / "s").iterdir())) for kind in ("trials", "curves")] == [1, 1]
    looks = results.read_curves(tmp_path, "s")
    assert len(looks) == 16
    for h, (_, curve) in zip(POINTS, looks.groupby("trial_id")):
        assert curve["images_seen"].tolist() == [1, 2, 3, 4] and curve["train_seconds"].tolist() == [2] * 4
        assert curve["val_score"].tolist() == pytest.approx([loss(h, epoch) for epoch in (1, 2, 3, 4)])
        assert curve["scores"].iloc[2] == {"f1": 0.5, "epoch": 3.0}


def test_the_search_goes_on_from_its_rows_with_exact_types(tmp_path):
    ran = study(tmp_path)
    again = CoordinateDescentSearch.from_results(tmp_path, "s", resume=True, full_length=("epoch", 4), **NAMED)
    assert [exactly(h) for h, _ in again.search.history] == [exactly(h) for h, _ in ran.search.history]
    assert [value for _, value in again.search.history] == pytest.approx([-loss(h, 4) for h in POINTS])
    assert again.best[1] == pytest.approx(min(loss(h, 4) for h in POINTS))
    known = CoordinateDescentSearch.from_results(tmp_path, **NAMED)
    assert [exactly(h) for h, _ in known.search.history] == [exactly(h) for h in POINTS]
    other = CoordinateDescentSearch()
    other.set_state(json.loads(json.dumps(again.get_state())))
    assert exactly(other.suggest("next")) == exactly(again.suggest("next"))


def test_a_search_that_goes_on_with_other_fixed_entries_warns(recwarn):
    """Secrets are not in the rows, and are not compared."""
    stored = [as_json({"lr": 0.1, "scale": scale, "net": {"depth": 4, "token": "one"}}) for scale in (5, 1)]
    earlier = Earlier(pd.DataFrame({"config": stored}), True, None)
    for scale, depth in ((1.0, 4), (1000, 8)):
        config = {"lr": tune.loguniform(1e-3, 1), "scale": scale, "new": 1, "data": ("__ref_ph", "1")}
        earlier.check_fixed(config | {"net": {"depth": depth, "token": "another"}})
    said = "scale was 1 and is 1000, net/depth was 4 and is 8: the scores of this search are of two set-ups"
    assert [str(one.message) for one in recwarn.list] == [said]
    replace(earlier, rows=earlier.rows.head(0)).check_fixed(config)  # nothing to compare with


def test_paused_trainings_have_runs_and_predicted_ends(tmp_path):
    pausing = {"full_length": ("epoch", 4), "lengths": (0.5, 1.0), "budget": 2}
    search = CoordinateDescentSearch(**NAMED, points_to_evaluate=POINTS, **pausing)
    FakeTuner(search, loss, mode="min", folder=tmp_path).run(8)
    rows = results.read(tmp_path, "s")
    assert set(rows["status"]) == {"stopped"} and json.loads(rows["config"][0])["lengths"] == [0.5, 1.0]
    runs = runs_of(rows)
    assert runs["share"].tolist() == [0.5] * 4 and runs["paused"].all()
    best, worst = (search.search.believed(pick(POINTS, key=lambda h: loss(h, 2))) for pick in (min, max))
    assert best[0] > worst[0] and best[1] > 0


def kept(reports, parts=1):
    """The curve of a training that reported these (training_iteration, value), so many times in an epoch."""
    made = curves.Curves()
    for at, value in reports:
        made.observe("t", {"acc": value, "training_iteration": at}, "acc", at / parts)
    return [(one["images_seen"], one["val_score"]) for one in made.rows("t", None)]


def test_what_began_again_replaces_what_it_had_reached():
    reports = [(1, 0.1), (2, 0.2), (3, 0.3), (2, 0.7), (3, 0.8), (4, None), (5, "no number")]
    assert kept(reports) == [(1, 0.1), (2, 0.7), (3, 0.8)]


def test_a_counter_of_parts_counts_as_reports_also_where_it_is_whole():
    half_epochs = [(at, at / 10) for at in range(1, 6)]
    assert kept(half_epochs, parts=2) == half_epochs and kept(half_epochs[1:2], parts=2) == [(1, 0.2)]


def test_a_long_curve_is_thinned_and_keeps_its_end(monkeypatch):
    monkeypatch.setattr(curves, "MOST", 10)
    for end in range(1, 38):
        curve = kept([(at, at / 100) for at in range(1, end + 1)])
        assert curve[-1] == (end, end / 100) and len(curve) <= 10
