"""Trainings as a Ray Tune trial. The one file of this package that needs Ray.

A trial trains one configuration, or several that come to it as a pack. Its process is used again for the next one
(`reuse_actors`): interpreter, imports, CUDA context, data, networks and recorded graphs stay, and only weights are new.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch
from ray import tune

from trainables import checkpoint
from trainables.data import DeviceData
from trainables.outcome import Evaluation, Outcome
from trainables.pack import Pack
from trainables.tasks import Setup

PACK = "pack"
"""The config key of a trial that trains several configurations: a list of what differs between them."""

FINISHED = "finished.json"

RecordOutcome = Callable[[dict, Outcome, dict], None]
"""(config, outcome, {"started_at", "device", "share"}) -> None: stores a finished training before the trial reports it."""


class TrainTrial(tune.Trainable):
    """One evaluation interval a step; reports the best validation score so far as `val_score`.

    config: Lambda_p, Lambda_e, batch_size, seed, and whatever the searcher adds; or `pack`, a list of such, in which case
    the report has a `pack` too, one report each by its place, and `val_score` is the best of all.
    Parameters (`tune.with_parameters`): setup_fields, the `Setup` as a dict; data_root; threads, how many CPU threads
    the training may use; record, called once with each outcome; download, whether a node fetches data it lacks;
    at_once, see `Pack`.
    """

    def setup(
        self, config: dict, setup_fields: dict, data_root: str | None, threads: int, record: RecordOutcome,
        download: bool = False, at_once: int | None = None,
    ) -> None:  # fmt: skip
        torch.set_num_threads(threads)
        setup, self._device = Setup(**setup_fields), torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._pack = Pack(setup, DeviceData.load(setup, data_root, self._device, download), self._device, at_once=at_once)
        self._record = record
        self._begin(config)

    def reset_config(self, new_config: dict) -> bool:
        self._begin(new_config)
        return True

    def step(self) -> dict:
        """Train up to the next evaluations and report them; test and record what is done, before it is reported so."""
        if self._error is not None:
            raise self._error
        for index, evaluation in self._pack.advance().items():
            training = self._pack.running[index]
            self._reports[index] = _report(training.best_score, evaluation)
            if training.done:
                try:
                    self._end(index)
                except Exception as error:  # of the others some are recorded: that is reported before the trial fails
                    self._error = self._error or error
        if PACK not in self.config and self._error is not None:
            raise self._error
        report = dict(self._reports[0]) if PACK not in self.config else self._packed()
        return report | {tune.result.DONE: self._pack.done and self._error is None}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        for index, training in self._pack.running.items():
            checkpoint.save(training, Path(checkpoint_dir) / f"training-{index}.pt")
        reports = {index: self._reports[index] for index in self._pack.finished}
        Path(checkpoint_dir, FINISHED).write_text(json.dumps(reports), encoding="utf-8")

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        for index, report in json.loads(Path(checkpoint_dir, FINISHED).read_text(encoding="utf-8")).items():
            self._pack.waiting.remove(int(index))
            self._pack.finished.add(int(index))
            self._reports[int(index)] = report
        for file in Path(checkpoint_dir).glob("training-*.pt"):
            checkpoint.load(self._pack.start(int(file.stem.removeprefix("training-"))), file)

    def cleanup(self) -> None:
        del self._pack

    def _begin(self, config: dict) -> None:
        self._started_at, self._error = datetime.now(UTC), None
        shared = {name: value for name, value in config.items() if name != PACK}
        self._members = [shared | member for member in config[PACK]] if PACK in config else [config]
        self._reports: dict[int, dict] = {}  # by place in the pack, of those that were evaluated
        self._pack.begin(self._members)

    def _end(self, index: int) -> None:
        share = 1 / self._pack.at_once
        outcome = self._pack.finish(index)
        self._record(self._members[index], outcome, {"started_at": self._started_at, "device": device_name(self._device), "share": share})
        self._reports[index] |= {"status": outcome.status, "test_score": outcome.test_score, tune.result.DONE: True}

    def _packed(self) -> dict:
        scores = [report["val_score"] for report in self._reports.values()]
        seen = sum(report["images_seen"] for report in self._reports.values())
        best = max((score for score in scores if score == score), default=float("nan"))
        return {"val_score": best, "images_seen": seen, PACK: {str(index): dict(report) for index, report in self._reports.items()}}


def _report(best_score: float, evaluation: Evaluation) -> dict:
    """What is told of one training after a look."""
    logged = {name: value for name, value in evaluation.scores.items() if name.startswith("train_")}
    return {"val_score": best_score, "images_seen": evaluation.images_seen, "status": "running", **logged}


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
