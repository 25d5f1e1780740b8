"""`--log-to`: every training is one run of TensorBoard or MLflow, h its hyper-parameters, images seen its step.

A training that pauses continues its run, also in a later call. Ray's own loggers would make a run of each Tune trial.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ray.tune import Callback

from trainables.trial import LOOKS
from tune_cd.run.recorder import weights_in
from tune_cd.run.study import Study, tune_folder
from tune_cd.tune.packs import members_of


class TensorBoard:
    """Runs as folders of event files: among the results, or in --tune-dir where these are in a bucket."""

    def __init__(self, study: Study):
        beside = Path(study.results, study.file("")) if isinstance(study.results, Path) else None
        self._folder = (beside or tune_folder(study.call.tune_dir) / study.name) / "tensorboard"

    def begin(self, name: str, h: Mapping[str, float], step: int) -> tuple[Any, int]:
        """Begin or continue a run; returns it, and its last step that stays of an earlier call."""
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        new = not (self._folder / name).exists()
        writer = SummaryWriter(self._folder / name, purge_step=None if new else step)
        for summary in hparams(dict(h), {"val_score": 0.0}) * new:  # `add_hparams` would make a run of its own
            writer.file_writer.add_summary(summary)
        return writer, step - 1

    def log(self, run: Any, metric: str, value: float, step: int) -> None:
        run.add_scalar(metric, value, step)
        run.flush()

    def end(self, run: Any, status: str) -> None:
        run.close()


class MLflow:
    """Runs of the experiment with the study's name, at MLFLOW_TRACKING_URI, or where MLflow has them by default."""

    def __init__(self, study: Study):
        from mlflow import MlflowClient

        self._client = MlflowClient()
        found = self._client.get_experiment_by_name(study.name)
        self._experiment = found.experiment_id if found else self._client.create_experiment(study.name)

    def begin(self, name: str, h: Mapping[str, float], step: int) -> tuple[Any, int]:
        found = self._client.search_runs([self._experiment], f"attributes.run_name = '{name}'", max_results=1)
        run = (found or [self._client.create_run(self._experiment, run_name=name)])[0].info.run_id
        self._client.update_run(run, status="RUNNING")
        for parameter, value in {} if found else h.items():
            self._client.log_param(run, parameter, value)
        return run, max((one.step for one in self._client.get_metric_history(run, "val_score")), default=-1)

    def log(self, run: Any, metric: str, value: float, step: int) -> None:
        self._client.log_metric(run, metric, value, step=step)

    def end(self, run: Any, status: str) -> None:
        known = {"completed": "FINISHED", "stopped": "SCHEDULED", "interrupted": "KILLED"}
        self._client.update_run(run, status=known.get(status, "FAILED"))


class TrainingLog(Callback):
    """Logs the evaluations that trainings report, then their test scores. The first error is told, and ends the log.

    identify: the table's trial_id of a configuration is the name of its run.
    """

    def __init__(self, study: Study, identify: Callable[[Mapping[str, Any]], dict]):
        self._study, self._identify = study, identify
        self._tracker: TensorBoard | MLflow | None = None
        self._open: dict[str, list] = {}  # name -> the tracker's run, the last step logged
        self._ended: set[tuple[str, str]] = set()  # (Tune's trial, name)

    def __getstate__(self) -> dict:
        """Empty: Tune pickles a copy with a Tuner, and never reads it."""
        return {}

    def setup(self, **info) -> None:
        with self._told():
            self._tracker = (MLflow if self._study.call.log_to == "mlflow" else TensorBoard)(self._study)

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        for config, told in members_of(trial.config, result):
            name = self._identify(config)["trial_id"]
            with self._told():
                if (trial.trial_id, name) not in self._ended and (told.get(LOOKS) or told.get("done")):
                    self._log(name, config, told)
                    self._ended |= {(trial.trial_id, name)} if told.get("done") else set()

    def on_trial_error(self, iteration, trials, trial, **info) -> None:
        for config, _ in members_of(trial.config, None):
            self._end(self._identify(config)["trial_id"], "failed")

    def on_experiment_end(self, trials, **info) -> None:
        for name in list(self._open):
            self._end(name, "interrupted")

    def _log(self, name: str, config: Mapping[str, Any], told: Mapping[str, Any]) -> None:
        if self._tracker is None:
            return
        looks = told.get(LOOKS) or []
        if name not in self._open:
            h = {key: config[key] for key in (*weights_in(config), "batch_size", "seed")}
            self._open[name] = [*self._tracker.begin(name, h, looks[0][0] if looks else 0)]
        run, last = self._open[name]
        for seen, value in looks:
            if seen > last:
                self._tracker.log(run, "val_score", value, seen)
                self._open[name][1] = seen
        if told.get("done"):
            if told.get("test_score") is not None:
                self._tracker.log(run, "test_score", told["test_score"], told["images_seen"])
            self._end(name, told.get("status", "failed"))

    def _end(self, name: str, status: str) -> None:
        if name in self._open:
            with self._told():
                self._tracker.end(self._open.pop(name)[0], status)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tells an error of the tracker, of any type, as it is foreign; the study goes on without it."""
        try:
            yield
        except Exception as error:
            self._tracker, self._open = None, {}
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"warning: --log-to: {said}; nothing more is logged", flush=True)
