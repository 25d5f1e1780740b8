"""`--log-to`: one run a training, whatever its pauses, read back from TensorBoard and MLflow."""

from importlib.util import find_spec

import pytest
from made_studies import study

from tune_cd.run.__main__ import main
from tune_cd.run.tracking import TrainingLog

H = {"Lambda_p": 0.5, "Lambda_e": 2.0, "batch_size": 64, "seed": 3}


def trained(made, *reports):
    """Tell a new log the reports of a training that has paused or ended."""
    log = TrainingLog(made)
    for report in reports:
        log.ended(H | {"origin": {"trial_id": "cd-3"}}, report, 1.0)


LOOKS = [[320, 0.25], [640, 0.5], [960, 0.75], [1280, 1.0]]
FIRST = {"looks": LOOKS[:2], "status": "stopped"}
LAST = {"looks": LOOKS, "status": "completed", "test_score": 0.625, "images_seen": 1280}


def test_tensorboard_shows_a_training_as_one_run(tmp_path):
    """It pauses, and a second call goes on with it."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    made = study(tmp_path, "--study", "s", "--log-to", "tensorboard")
    trained(made, FIRST)
    trained(made, LAST)
    (folder,) = (tmp_path / "results/studies/s/tensorboard").iterdir()
    read = accumulator.EventAccumulator(str(folder)).Reload()
    assert [[event.step, event.value] for event in read.Scalars("val_score")] == LOOKS
    assert [(event.step, event.value) for event in read.Scalars("test_score")] == [(1280, 0.625)]
    (data,) = (read.PluginTagToContent("hparams")["_hparams_/session_start_info"],)
    assert folder.name == "cd-3" and all(name.encode() in data for name in H)


def test_mlflow_shows_a_training_as_one_run(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    made, client = study(tmp_path, "--study", "s", "--log-to", "mlflow"), mlflow.MlflowClient()
    states = []
    for report in (FIRST, LAST):
        trained(made, report)
        (run,) = client.search_runs([client.get_experiment_by_name("s").experiment_id])
        states.append(run.info.status)
    assert states == ["SCHEDULED", "FINISHED"] and run.info.run_name == "cd-3"
    assert run.data.params == {name: str(value) for name, value in H.items()}
    assert run.data.metrics["test_score"] == 0.625
    steps = [one.step for one in client.get_metric_history(run.info.run_id, "val_score")]
    assert steps == [seen for seen, _ in LOOKS]


def test_an_error_of_the_tracker_ends_the_log_and_nothing_else(tmp_path, monkeypatch, capsys):
    def away(*arguments):
        raise RuntimeError("401: refused")

    made = study(tmp_path)
    monkeypatch.setattr("tune_cd.run.tracking.tensorboard", away)
    trained(made, LAST, LAST)
    assert capsys.readouterr().out == "warning: --log-to: RuntimeError: 401: refused; nothing more is logged\n"


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_a_missing_package_is_named_with_the_command_that_brings_it(tmp_path, kind, monkeypatch, capsys):
    there = find_spec
    monkeypatch.setattr("tune_cd.run.study.find_spec", lambda name: None if name == kind else there(name))
    assert main(["--log-to", kind, "--results", str(tmp_path / "results")]) == 2
    assert f"`pip install {kind}` brings it" in capsys.readouterr().err and not list(tmp_path.iterdir())
