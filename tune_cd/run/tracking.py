"""`--log-to`: every training is one run of TensorBoard, MLflow or W&B, h its hyper-parameters, images seen its step.

A training is logged when it pauses or ends, and continues its run, also in a later call. Ray's own loggers would make a
run of each Tune trial.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainables.trial import LOOKS
from tune_cd.run.portfolio import ORIGIN
from tune_cd.run.recorder import weights_in
from tune_cd.run.study import Study, tune_folder
from tune_cd.run.study_search import Listener

Log = Callable[[str, Mapping[str, float], Mapping[str, Any]], None]
"""Logs a training under a name: its h, and its last report, which has all its evaluations."""


def tensorboard(study: Study) -> Log:
    """Runs as folders of event files: among the results, or in --tune-dir where these are in a bucket."""
    from torch.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard.summary import hparams

    beside = Path(study.results, study.file("")) if isinstance(study.results, Path) else None
    folder = (beside or tune_folder(study.call.tune_dir) / study.name) / "tensorboard"

    def log(name: str, h: Mapping[str, float], told: Mapping[str, Any]) -> None:
        new = not (folder / name).exists()
        with SummaryWriter(folder / name, purge_step=None if new else 0) as writer:  # what it had is written again
            for summary in hparams(dict(h), {"val_score": 0.0}):  # `add_hparams` would make a run of its own
                writer.file_writer.add_summary(summary)
            for seen, value in told[LOOKS]:
                writer.add_scalar("val_score", value, seen)
            if told.get("test_score") is not None:
                writer.add_scalar("test_score", told["test_score"], told["images_seen"])

    return log


def mlflow(study: Study) -> Log:
    """Runs of the experiment with the study's name, at MLFLOW_TRACKING_URI, or where MLflow has them by default."""
    from mlflow import MlflowClient

    client, known = MlflowClient(), {"completed": "FINISHED", "stopped": "SCHEDULED"}
    found = client.get_experiment_by_name(study.name)
    experiment = found.experiment_id if found else client.create_experiment(study.name)

    def log(name: str, h: Mapping[str, float], told: Mapping[str, Any]) -> None:
        earlier = client.search_runs([experiment], f"attributes.run_name = '{name}'", max_results=1)
        run = (earlier or [client.create_run(experiment, run_name=name)])[0].info.run_id
        for parameter, value in {} if earlier else h.items():
            client.log_param(run, parameter, value)
        last = max((one.step for one in client.get_metric_history(run, "val_score")), default=-1)
        for seen, value in told[LOOKS]:
            if seen > last:
                client.log_metric(run, "val_score", value, step=seen)
        if told.get("test_score") is not None:
            client.log_metric(run, "test_score", told["test_score"], step=told["images_seen"])
        client.update_run(run, status=known.get(told.get("status"), "FAILED"))

    return log


def wandb(study: Study) -> Log:
    """Runs of the W&B project with the study's name. Each stays open, as its training may go on; W&B sends what is
    logged meanwhile, and ends all as the process does. WANDB_ENTITY, WANDB_MODE and the like are W&B's own."""
    from wandb import Run, Settings, init

    quiet, open_runs = Settings(silent=True, console="off"), dict[str, Run]()

    def log(name: str, h: Mapping[str, float], told: Mapping[str, Any]) -> None:
        if (run := open_runs.get(name)) is None:
            run = open_runs[name] = init(
                project=study.name, id=name, name=name, config=dict(h), resume="allow", reinit="create_new",
                settings=quiet,
            )  # fmt: skip
        scores = {seen: {"val_score": value} for seen, value in told[LOOKS] if seen >= run.step}
        if told.get("test_score") is not None:
            scores.setdefault(told["images_seen"], {})["test_score"] = told["test_score"]
        for seen, logged in scores.items():
            run.log(logged, step=seen)
        run.summary["status"] = told.get("status")

    return log


LOGS = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}


class TrainingLog(Listener):
    """Logs trainings that pause or end, under the table's trial_id. The first error is told, and ends the log."""

    def __init__(self, study: Study):
        self._study = study
        self._log: Log | None = None

    def ended(self, config: Mapping[str, Any], told: Mapping[str, Any], seconds: float) -> None:
        h = {key: config[key] for key in (*weights_in(config), "batch_size", "seed")}
        try:
            self._log = self._log or LOGS[self._study.call.log_to](self._study)
            self._log(config[ORIGIN]["trial_id"], h, told)
        except Exception as error:  # of any type, as it is foreign; the study goes on without it
            self._log = lambda *_: None
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"warning: --log-to: {said}; nothing more is logged", flush=True)
