"""`--log-to`: one run a training, whatever its pauses, read back from TensorBoard, MLflow and W&B."""

import json
from importlib.util import find_spec
from struct import unpack

import pytest
from made_studies import study

from tune_cd.run.__main__ import main
from tune_cd.run.tracking import LOGS, TrainingLog

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


def records_of(log):
    """The records of a LevelDB log that is shorter than a block: each behind its checksum, length and kind."""
    at = 7
    while at < len(log):
        (length,) = unpack("<H", log[at + 4 : at + 6])
        yield log[at + 7 : at + 7 + length]
        at += 7 + length


def test_wandb_shows_a_training_as_one_run(tmp_path, monkeypatch):
    """Offline: what would be sent."""
    wandb = pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    trained(study(tmp_path, "--study", "s", "--log-to", "wandb"), FIRST, LAST)
    wandb.teardown()  # as at the process's end
    (kept,) = tmp_path.glob("wandb/offline-run-*/run-cd-3.wandb")
    records = [Record.FromString(data) for data in records_of(kept.read_bytes())]
    scores = [{item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
              for record in records if record.WhichOneof("record_type") == "history"]  # fmt: skip
    assert [[one["_step"], one["val_score"]] for one in scores] == LOOKS and scores[-1]["test_score"] == 0.625
    (run,) = (record.run for record in records if record.WhichOneof("record_type") == "run")
    assert (run.project, run.run_id) == ("s", "cd-3")
    assert {item.key: json.loads(item.value_json) for item in run.config.update if item.key in H} == H


def test_an_error_of_the_tracker_ends_the_log_and_nothing_else(tmp_path, monkeypatch, capsys):
    def away(*arguments):
        raise RuntimeError("401: refused")

    made = study(tmp_path)
    monkeypatch.setitem(LOGS, made.call.log_to, away)
    trained(made, LAST, LAST)
    assert capsys.readouterr().out == "warning: --log-to: RuntimeError: 401: refused; nothing more is logged\n"


@pytest.mark.parametrize("kind", LOGS)
def test_a_missing_package_is_named_with_the_command_that_brings_it(tmp_path, kind, monkeypatch, capsys):
    there = find_spec
    monkeypatch.setattr("tune_cd.run.study.find_spec", lambda name: None if name == kind else there(name))
    assert main(["--log-to", kind, "--results", str(tmp_path / "results")]) == 2
    assert f"`pip install {kind}` brings it" in capsys.readouterr().err and not list(tmp_path.iterdir())
