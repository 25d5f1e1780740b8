"""Trials that are each a training over several processes, as over several GPUs, by Ray Train; paused and thawed."""

import sys
import tempfile
from pathlib import Path

import pytest
import torch
from s3 import free_port
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset
from tuners import tuner_of
from waiting import started

from tune_cd import LENGTHS, CoordinateDescentSearch, results

pytestmark = [pytest.mark.faults, pytest.mark.ray]
EPOCHS, PROCESSES, BUDGET = 8, 2, 1.25


@pytest.fixture
def cluster_of_four(workers):
    """Four CPUs with a dashboard, which Ray Train asks which of its trainings are still wanted."""
    import ray
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    asked = {"include_dashboard": True, "dashboard_port": free_port()}
    made = started(lambda: Cluster(initialize_head=True, head_node_args={"num_cpus": 4, **workers, **asked}))
    address = {"env_vars": {"RAY_ADDRESS": made.address}}  # other tests' Rays run on this machine
    ray.init(address=made.address, runtime_env=address, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()
    made.shutdown()
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def train_on_each(config):
    """One of the processes of a training: linear regression, its gradients averaged over all."""
    from ray import train
    from ray.train.torch import prepare_data_loader, prepare_model

    torch.manual_seed(0)
    model = prepare_model(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], weight_decay=config["decay"])
    begun = 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder, "state.pt"))
        begun = state["epoch"]
        model.module.load_state_dict(state["model"])
    x = torch.randn(512, 16)
    y = x.sum(1, keepdim=True) + 0.5 * torch.randn(512, 1)
    batches = prepare_data_loader(torch.utils.data.DataLoader(TensorDataset(x, y), batch_size=32))
    for epoch in range(begun, EPOCHS):
        for some_x, some_y in batches:
            loss = mse_loss(model(some_x), some_y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            score = -float(mse_loss(model.module(x), y))
        with tempfile.TemporaryDirectory() as folder:
            saved = None
            if train.get_context().get_world_rank() == 0:
                torch.save({"epoch": epoch + 1, "model": model.module.state_dict()}, Path(folder, "state.pt"))
                saved = train.Checkpoint.from_directory(folder)
            train.report({"epoch": epoch + 1, "score": score, "begun": begun}, checkpoint=saved)


def test_trainings_over_several_processes_pause_and_go_on_where_they_were(cluster_of_four, tmp_path, caplog):
    from ray import train, tune
    from ray.train.torch import TorchTrainer
    from ray.tune.integration.ray_train import TuneReportCallback

    def trainable(config):
        TorchTrainer(
            train_on_each,
            train_loop_config=config,
            scaling_config=train.ScalingConfig(num_workers=PROCESSES),  # use_gpu=True on GPUs
            run_config=train.RunConfig(
                name=tune.get_context().get_trial_id(),  # a run of this name goes on from its last checkpoint
                storage_path=str(tmp_path / "train"),
                callbacks=[TuneReportCallback()],
            ),
        ).fit()

    search = CoordinateDescentSearch(lengths=LENGTHS, full_length=("epoch", EPOCHS), budget=BUDGET)
    rows = search.callback(tmp_path / "results", "several")
    space = {"lr": tune.loguniform(1e-4, 0.1), "decay": tune.loguniform(1e-5, 1.0)}
    how = {"metric": "score", "max_concurrent_trials": 1, "reuse_actors": False, "callbacks": [rows]}
    found = tuner_of(trainable, search, space, tmp_path / "tune", **how).fit()
    assert not found.errors
    best = found.get_best_result()
    assert best.metrics["epoch"] == EPOCHS and best.metrics["begun"] > 0, "it went on from where it was"
    trials = results.read(tmp_path / "results", "several")
    assert trials["status"].tolist().count("completed") == 1 and set(trials["status"]) == {"completed", "stopped"}
    assert sum(result.metrics["epoch"] for result in found) <= BUDGET * EPOCHS
    assert not [record for record in caplog.records if "begins again" in record.getMessage()]
