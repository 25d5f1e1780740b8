"""A training as a Ray Tune trial. The one file of this package that needs Ray.

A trial's process is used again for the next one (`reuse_actors`): the data stay on the device, the interpreter and
its imports stay loaded, and only the network is made anew.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import torch
from ray import tune

from trainables import checkpoint
from trainables.data import DeviceData
from trainables.tasks import Setup
from trainables.training import Outcome, Training

CHECKPOINT = "training.pt"

RecordOutcome = Callable[[dict, Outcome, dict], None]
"""(config, outcome, {"started_at", "device"}) -> None: stores a finished trial before it reports done."""


class TrainTrial(tune.Trainable):
    """One evaluation interval a step; reports the best validation score so far as `val_score`.

    config: Lambda_p, Lambda_e, batch_size, seed, and whatever the searcher adds.
    Parameters (`tune.with_parameters`): setup_fields, the `Setup` as a dict; data_root; threads, how many CPU threads
    the training may use; record, called once with the outcome; download, whether a node fetches data it lacks.
    """

    def setup(self, config: dict, setup_fields: dict, data_root: str | None, threads: int, record: RecordOutcome, download: bool = False) -> None:
        torch.set_num_threads(threads)
        self._task, self._record = Setup(**setup_fields), record
        self._source = (data_root, download)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._begin(config)

    def reset_config(self, new_config: dict) -> bool:
        self._begin(new_config)
        return True

    def step(self) -> dict:
        """Train up to the next evaluation and report it; at the end, test, record the outcome and report done."""
        evaluation = self._training.advance()
        report = {
            "val_score": self._training.best_score,
            "images_seen": evaluation.images_seen,
            "status": "running",
            **{name: value for name, value in evaluation.scores.items() if name.startswith("train_")},
        }
        if self._training.done:
            outcome = self._training.outcome()
            self._record(self._config, outcome, {"started_at": self._started_at, "device": device_name(self._device)})
            report |= {"status": outcome.status, "test_score": outcome.test_score, tune.result.DONE: True}
        return report

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        checkpoint.save(self._training, Path(checkpoint_dir) / CHECKPOINT)

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        checkpoint.load(self._training, Path(checkpoint_dir) / CHECKPOINT)

    def cleanup(self) -> None:
        del self._training

    def _begin(self, config: dict) -> None:
        self._config, self._started_at = config, datetime.now(UTC)
        data = _resident_data(self._task, *self._source, self._device)
        self._training = Training(self._task, data, config, seed=config["seed"], device=self._device)


@lru_cache(maxsize=2)
def _resident_data(setup: Setup, data_root: str | None, download: bool, device: torch.device) -> DeviceData:
    """The process's copy of a dataset, kept from trial to trial."""
    return DeviceData.load(setup, data_root, device, download)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
