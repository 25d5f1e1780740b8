"""What a study of a user's own Tuner has besides its rows: the space, learning curves, one file at the end."""

import json
import math

import pytest
from contract import exactly
from fake_trials import FakeTrial

from tune_cd import CoordinateDescentSearch, Space, results
from tune_cd.analysis import best_trial
from tune_cd.analysis.runs import runs_of
from tune_cd.results.rows import searched_in
from tune_cd.tune.callback import curves

SPACE = Space(lr=(1e-4, 1.0), opt=["adam", "2", 2, True, None])
POINTS = [{"lr": 10.0 ** -(n + 1) * 2, "opt": value} for n, value in enumerate(SPACE.categories[0].values[:4])]
FULL = ("epoch", 4)


def loss(h, epoch):
    return abs(math.log10(h["lr"]) + 2) + 1 / epoch + (h["opt"] is None)


def study(tmp_path, epochs=4, trials=4, **arguments):
    """The searcher of a run with these trials, which report every epoch; its rows are in tmp_path."""
    search = CoordinateDescentSearch(SPACE, "loss", "min", points_to_evaluate=POINTS, full_length=FULL, **arguments)
    callback = search.callback(tmp_path, "mine")
    callback.setup()
    for n in range(trials):
        h = search.suggest(f"t{n}")
        trial = FakeTrial(n + 1, h, trial_id=f"t{n}", width=8, space="my own")
        callback.on_trial_start(0, [trial], trial)
        for epoch in range(1, epochs + 1):
            trial.last_result = {
                "loss": loss(h, epoch), "acc": epoch / 10, "epoch": epoch, "training_iteration": epoch,
                "time_total_s": 2.0 * epoch, "done": epoch == epochs, "trial_id": f"t{n}",
            }  # fmt: skip
            if search.pauses:
                search.trials.report(f"t{n}", trial.last_result)
            callback.on_trial_result(0, [trial], trial, trial.last_result)
        if search.pauses:
            trial.status = "PAUSED"
            callback.on_step_end(0, [trial])
        else:
            search.on_trial_complete(f"t{n}", trial.last_result)
            callback.on_trial_complete(0, [trial], trial)
    callback.on_experiment_end([])
    return search


def test_a_row_has_the_users_own_numbers_types_and_space(tmp_path):
    study(tmp_path)
    rows = results.read(tmp_path, "mine")
    assert rows["params"].tolist() == [{"lr": h["lr"]} for h in POINTS]
    assert [one["opt"] for one in rows["choices"]] == ["adam", '"2"', "2", "true"]
    assert [exactly(searched_in(row)) for row in rows.to_dict("records")] == [exactly(h) for h in POINTS]
    assert set(zip(rows["metric_name"], rows["mode"], rows["status"])) == {("loss", "min", "completed")}
    assert rows["val_score"].tolist() == pytest.approx([loss(h, 4) for h in POINTS])
    assert searched_in(best_trial(rows)) == min(POINTS, key=lambda h: loss(h, 4))
    config = json.loads(rows["config"][0])
    assert Space.from_json(config["space"]) == SPACE and config["full_length"] == ["epoch", 4]
    assert config["space (own)"] == "my own" and config["width"] == 8 and "lengths" not in config


def test_every_report_is_on_the_curve_and_the_study_is_compacted(tmp_path):
    study(tmp_path)
    assert [len(list((tmp_path / kind / "mine").iterdir())) for kind in ("trials", "curves")] == [1, 1]
    looks = results.read_curves(tmp_path, "mine")
    assert len(looks) == 16
    for h, (_, curve) in zip(POINTS, looks.groupby("trial_id")):
        assert curve["images_seen"].tolist() == [1, 2, 3, 4] and curve["train_seconds"].tolist() == [2, 4, 6, 8]
        assert curve["val_score"].tolist() == pytest.approx([loss(h, epoch) for epoch in (1, 2, 3, 4)])
        assert curve["scores"].iloc[2] == {"acc": 0.3, "epoch": 3.0}


def test_the_search_goes_on_from_its_rows_with_exact_types(tmp_path):
    ran = study(tmp_path)
    again = CoordinateDescentSearch.from_results(
        tmp_path, "mine", resume=True, space=SPACE, metric="loss", mode="min", full_length=FULL
    )
    assert [exactly(h) for h, _ in again.search.history] == [exactly(h) for h, _ in ran.search.history]
    assert [value for _, value in again.search.history] == pytest.approx([-loss(h, 4) for h in POINTS])
    assert again.best[1] == pytest.approx(min(loss(h, 4) for h in POINTS))
    known = CoordinateDescentSearch.from_results(tmp_path, space=SPACE, metric="loss", mode="min")
    assert [exactly(h) for h, _ in known.search.history] == [exactly(h) for h in POINTS]
    state = json.loads(json.dumps(again.get_state()))
    other = CoordinateDescentSearch()
    other.set_state(state)
    assert exactly(other.suggest("next")) == exactly(again.suggest("next"))


def test_known_points_have_their_exact_values():
    points = [{"lr": 0.1, "opt": value} for value in SPACE.categories[0].values]
    search = CoordinateDescentSearch(
        SPACE, "loss", "min", points_to_evaluate=points, evaluated_rewards=[3.0, 1.0, 2.0, 4.0, 5.0]
    )
    assert exactly(search.best[0]) == exactly({"lr": 0.1, "opt": "2"}) and search.best[1] == 1.0
    assert len(search.search.history) == 5


def test_paused_trainings_of_an_own_tuner_have_runs_and_predicted_ends(tmp_path):
    ran = study(tmp_path, epochs=2, lengths=(0.5, 1.0))
    rows = results.read(tmp_path, "mine")
    assert set(rows["status"]) == {"stopped"} and json.loads(rows["config"][0])["lengths"] == [0.5, 1.0]
    runs = runs_of(rows)
    assert runs["share"].tolist() == [0.5] * 4 and runs["paused"].all()
    best, worst = (ran.search.believed(pick(POINTS, key=lambda h: loss(h, 2))) for pick in (min, max))
    assert best[0] > worst[0] and best[1] > 0


def test_what_began_again_replaces_what_it_had_reached():
    kept = curves.Curves("acc", None)
    for at, value in [(1, 0.1), (2, 0.2), (3, 0.3), (2, 0.7), (3, 0.8)]:
        kept.observe("t", {"acc": value, "training_iteration": at})
    kept.observe("t", {"other": 1.0, "training_iteration": 4})
    kept.observe("t", {"acc": "no number", "training_iteration": 5})
    assert [(one["images_seen"], one["val_score"]) for one in kept.rows("t", 3)] == [(1, 0.1), (2, 0.7), (3, 0.8)]
    assert kept.rows("t", 3)[0]["seed"] == 3 and kept.rows("unknown", None) == []


def test_a_counter_of_parts_counts_as_reports():
    kept = curves.Curves("acc", "epoch")
    for at in (1, 2, 3):
        kept.observe("t", {"acc": 0.5, "epoch": at / 4, "training_iteration": at})
    assert [one["images_seen"] for one in kept.rows("t", None)] == [1, 2, 3]


def test_a_long_curve_is_thinned_and_keeps_its_end(monkeypatch):
    monkeypatch.setattr(curves, "MOST", 10)
    kept = curves.Curves("acc", None)
    for at in range(1, 38):
        kept.observe("t", {"acc": at / 100, "training_iteration": at})
        assert kept.points["t"][-1]["images_seen"] == at and len(kept.points["t"]) <= 10


def test_looks_outlast_a_restored_experiment(tmp_path):
    def callback():
        made = CoordinateDescentSearch(SPACE, "acc", "max").callback(tmp_path, "mine")
        made.setup()
        return made

    first, trial = callback(), FakeTrial(1, {"lr": 0.1})
    first.on_trial_result(0, [trial], trial, {"acc": 0.1, "training_iteration": 1})
    second = callback()
    second.set_state(json.loads(json.dumps(first.get_state())))
    trial.last_result = {"acc": 0.2, "training_iteration": 2, "done": True}
    second.on_trial_start(0, [trial], trial)
    second.on_trial_result(0, [trial], trial, trial.last_result)
    second.on_trial_complete(0, [trial], trial)
    second.on_experiment_end([])
    assert results.read_curves(tmp_path, "mine")["val_score"].tolist() == [0.1, 0.2]


@pytest.mark.parametrize("lengths", [(1.0,), (0.5, 1.0)])
def test_a_mistyped_length_is_named_at_the_first_report(lengths):
    search = CoordinateDescentSearch(SPACE, "acc", "max", full_length=("epochs", 8), lengths=lengths)
    search.suggest("a")
    report = search.trials.report if search.pauses else search.on_trial_result
    said = r"full_length names 'epochs', and a result has no such number but \['acc', 'epoch', 'training_iteration'\]"
    with pytest.raises(ValueError, match=said):
        report("a", {"acc": 0.1, "epoch": 1, "training_iteration": 1, "pid": 12, "date": "today"})
