"""ResultsCallback: rows for other people's trainables."""

import math
import pickle
import warnings

import pytest
from ray import tune

from tune_cd import CoordinateDescentSearch, ResultsCallback, Space, results


def objective(config):
    if config["lr"] > 0.3:
        raise RuntimeError("too hot")
    loss = (math.log10(config["lr"]) + 2) ** 2 if config["lr"] < 0.2 else math.nan
    tune.report({"loss": loss, "top5": 1 - loss})


@pytest.fixture
def fit(ray_session, tmp_path):
    def run(callback, num_samples=8):
        searcher = CoordinateDescentSearch(points_to_evaluate=[{"lr": 0.5}, {"lr": 0.25}, {"lr": 0.1}], annotate="origin")
        return tune.Tuner(
            objective, param_space={"lr": tune.loguniform(1e-4, 1.0), "epochs": 2},
            tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=num_samples, search_alg=searcher, reuse_actors=True),
            run_config=tune.RunConfig(name="run", storage_path=str(tmp_path / "tune"), verbose=0, callbacks=[callback]),
        ).fit()  # fmt: skip

    return run


@pytest.mark.ray
@pytest.mark.slow
def test_every_trial_of_a_users_tuner_becomes_a_row(fit, tmp_path):
    callback = ResultsCallback(tmp_path / "r", "mine", metric="loss", mode="min", fields={"dataset": "toy", "seed": 3}, annotate="origin")
    grid = fit(callback)
    table = results.read(tmp_path / "r", "mine")
    assert len(table) == len(grid) == 8 and table["trial_index"].tolist() == list(range(8))
    assert table["status"].tolist()[:3] == ["failed", "diverged", "completed"] and set(table["status"][3:]) == {"completed"}
    assert "too hot" in table["error"][0] and table["val_score"][:2].isna().all()
    assert set(table["metric_name"]) == {"-loss"} and table["val_score"].max() == pytest.approx(-grid.get_best_result(filter_nan_and_inf=True).metrics["loss"])
    row = table.iloc[5]
    assert row["params"].keys() == {"lr"} and row["Lambda_p"] is None or math.isnan(row["Lambda_p"])
    assert row["direction"] == "lr" and row["scores"].keys() == {"loss", "top5"} and row["dataset"] == "toy" and row["seed"] == 3
    assert '"epochs": 2' in row["config"] and "origin" not in row["config"] and row["ended_at"] >= row["started_at"]


@pytest.mark.ray
@pytest.mark.slow
def test_results_that_cannot_be_written_do_not_disturb_the_search(fit, tmp_path):
    (tmp_path / "file").touch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grid = fit(ResultsCallback(tmp_path / "file" / "r", "mine", metric="loss", mode="min"), num_samples=4)
    assert len(grid) == 4 and grid.num_errors >= 1
    assert any("4 of 4 result rows were not written" in str(warning.message) for warning in caught)


@pytest.mark.ray
@pytest.mark.slow
def test_trials_that_a_scheduler_stops_are_rows_of_their_own_kind_and_never_the_best(ray_session, tmp_path):
    """Their scores are high early and fall; only the complete ones count."""

    def overfits(config):
        for step in range(4):
            tune.report({"score": 10 - step - abs(math.log10(config["lr"]) + 2)})

    full_length = ("training_iteration", 4)
    searcher = CoordinateDescentSearch(start={"lr": 0.9}, full_length=full_length)
    callback = ResultsCallback(tmp_path / "r", "mine", metric="score", full_length=full_length)
    tune.Tuner(
        overfits, param_space={"lr": tune.loguniform(1e-4, 1.0)},
        tune_config=tune.TuneConfig(
            metric="score", mode="max", num_samples=8, search_alg=searcher,
            scheduler=tune.schedulers.AsyncHyperBandScheduler(max_t=4, grace_period=1, reduction_factor=2),
        ),
        run_config=tune.RunConfig(name="run", storage_path=str(tmp_path / "tune"), verbose=0, callbacks=[callback]),
    ).fit()  # fmt: skip
    table = results.read(tmp_path / "r", "mine")
    scores = table.groupby("status")["val_score"]
    assert set(table["status"]) == {"completed", "stopped"}, table[["params", "status", "val_score"]]
    assert scores.get_group("completed").max() < 7 < scores.get_group("stopped").max() + 3
    warm = CoordinateDescentSearch.from_results(tmp_path / "r", space=Space(lr=(1e-4, 1.0)), metric="score", mode="max")
    assert warm._search.best[1] == scores.get_group("completed").max()


def test_it_can_be_pickled_before_and_during_a_run(tmp_path):
    callback = ResultsCallback(tmp_path, "mine", metric="loss")
    callback.setup()
    again = pickle.loads(pickle.dumps(callback))
    assert vars(again)["_study"] == "mine" and vars(again)["_writer"] is None


@pytest.mark.parametrize("wrong", [{"mode": "most"}, {"record": "some"}])
def test_arguments_are_checked(tmp_path, wrong):
    with pytest.raises(ValueError):
        ResultsCallback(tmp_path, "mine", metric="loss", **wrong)
