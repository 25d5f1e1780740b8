"""Trainings as a Ray Tune trial. Only this file of the package needs Ray.

A trial trains one configuration, or several that it gets as a pack. Its process is reused for the next trial
(`reuse_actors`): interpreter, imports, CUDA context, data, networks and recorded graphs stay, and only weights are new.

There are three kinds of failure. A failed training (an error in its network, too little memory for its batch, a
timeout) is an outcome like others: it is recorded and reported, and the process goes on. An error of the machine is
raised from `step`, or ends the process; Tune may then retry the trial (`max_failures`), which resumes from the recorded
rows and saved states. Unusable data fail every training: `setup` raises UnusableData, and the driver may stop.
"""

import json
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import torch
from ray import tune

from trainables import trained
from trainables.data.resident import DeviceData
from trainables.training import checkpoint
from trainables.training.cuda_graphs import open_queues
from trainables.training.errors import described, is_of_the_machine, is_out_of_memory
from trainables.training.loop import Training
from trainables.training.outcome import Evaluation, Outcome, failure
from trainables.training.parallel import Pack
from trainables.training.preemption_notice import noticed
from trainables.training.setup import Setup
from trainables.training.watchdog import OVERDUE, Watchdog

PACK = "pack"
"""Config key of a trial of several configurations: a list of the parameters in which they differ."""

UNTIL = "until"
"""Config key: the share of its full length at which a training pauses; without it, it is trained to its end."""

LOOKS = "looks"
"""Report key: the learning curve of a training that has ended or paused, [images seen, score] of each evaluation."""

UNSTORED = "unstored"
"""Report key: the row and curve that the recorder could not store; the reader of the report stores them."""

FINISHED = "finished.json"
CHECKPOINT_SECONDS = 300.0
CHECKPOINT_SHARE = 0.02  # of a process's time that saving may take
# seconds; the process is ended a tenth of the limit plus SLACK after the limit, so that a late training may reach its
# next evaluation and end there without harm to others
SLACK = 30.0
ROUNDING = 1e-9  # tolerance of a share

log = logging.getLogger(__name__)


class UnusableData(ValueError):
    """The study's data cannot be used; every trial of it would fail."""


class Recorder(Protocol):
    """Stores outcomes and states of trainings, known by their whole configuration. Called in the trial's process."""

    def recorded(self, config: dict) -> dict | None:
        """The report ({"val_score", "status", "looks", ...}) of a training that has already ended, or paused where it
        is to pause, in any process; else None. Raises OSError if the store does not answer."""

    def record(self, config: dict, outcome: Outcome, where: dict) -> dict | None:
        """Store an outcome before it is reported; where: {"started_at", "device", "share"}. Returns the row and curve
        if they could not be stored."""

    def saved(self, config: dict) -> Iterable[tuple[str, bytes]]:
        """(name, state) of each saved state of a training that broke off or paused, the latest first."""

    def save(self, config: dict, images_seen: int, state: bytes) -> None:
        """Store a state. Raises OSError if that fails."""

    def keep(self, config: dict, val_score: float, network: Callable[[], bytes]) -> None:
        """Keep the network of a completed training, unless there is a better one. Raises OSError if that fails.

        network: makes the `trainables.trained` file; called only if the network is kept.
        """


def device_for(gpus: float | None) -> torch.device:
    """The device of a process with `gpus` GPUs reserved. 0 is the CPU, since Ray does not hide a node's GPUs from a
    process that reserved none. None: a GPU if torch sees one."""
    return torch.device("cuda" if gpus != 0 and torch.cuda.is_available() else "cpu")


class TrainTrial(tune.Trainable):
    """One evaluation interval per step; reports the best validation score so far as `val_score`.

    config: the weights of the loss's terms, batch_size, seed, and further keys of the searcher. With `pack`, a list of
    such configurations, the report has a `pack` too, one report per index, and `val_score` is the best of all.
    With `until`, a share of the full length, a training pauses at the first evaluation from there on: its state is
    saved, and a trial that asks for more of it resumes from that state. Parameters (`tune.with_parameters`):
    setup_fields, the `Setup` as a dict; data_root; threads, CPU threads of the training; recorder; gpus, see
    `device_for`; download, whether a node fetches data it lacks; at_once, see `Pack`; limit, seconds after which a
    training counts as failed, even if it hangs; checkpoint_seconds, the least time between two saved states of one
    training, which are saved after evaluations (0: after each).
    """

    def setup(
        self,
        config: dict,
        setup_fields: dict,
        data_root: str | None,
        threads: int,
        recorder: Recorder,
        download: bool = False,
        gpus: float | None = None,
        at_once: int | None = None,
        limit: float | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> None:
        """Load the data and begin. Raises as `DeviceData.load`, but UnusableData in place of ValueError."""
        open_queues()
        torch.set_num_threads(threads)
        if threading.current_thread() is threading.main_thread():
            signal.signal(
                signal.SIGTERM, signal.SIG_DFL
            )  # Ray's handler raises SystemExit, as a network's own code may
        setup, self._device = Setup(**setup_fields), device_for(gpus)
        self._recorder, self._limit, self._checkpoint_seconds = recorder, limit, checkpoint_seconds
        self._recording = threading.Lock()
        try:
            data = DeviceData.load(setup, data_root, self._device, download)
        except ValueError as error:
            raise UnusableData(str(error)) from error
        self._pack = Pack(setup, data, self._device, at_once=at_once, begun=self._resume)
        self._begin(config)

    def reset_config(self, new_config: dict) -> bool:
        self._begin(new_config)
        return True

    def step(self) -> dict:
        """Train up to the next evaluations and report them. A training that ends is tested and recorded first."""
        with Watchdog(self._overdue).watching(self._seconds_left()):
            self._advance()
        report = self._packed() if PACK in self.config else dict(self._reports[0])
        return report | {tune.result.DONE: self._pack.done}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the trial for schedulers that pause trials. After a crash the recorder's states are used instead."""
        for index, training in self._pack.running.items():
            checkpoint.save(training, Path(checkpoint_dir) / f"training-{index}.pt")
        reports = {index: self._reports[index] for index in self._pack.finished}
        Path(checkpoint_dir, FINISHED).write_text(json.dumps(reports), encoding="utf-8")

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        for index, report in json.loads(Path(checkpoint_dir, FINISHED).read_text(encoding="utf-8")).items():
            self._pack.drop(int(index))
            self._reports[int(index)] = report
        for file in Path(checkpoint_dir).glob("training-*.pt"):
            index = int(file.stem.removeprefix("training-"))
            if index in self._pack.waiting:
                checkpoint.load(self._pack.start(index), file)

    def cleanup(self) -> None:
        del self._pack

    def _begin(self, config: dict) -> None:
        """Begin a trial's configurations, except those recorded already by an earlier process that was lost."""
        self._taken_on = datetime.now(UTC)
        shared = {name: value for name, value in config.items() if name != PACK}
        self._members = [shared | member for member in config[PACK]] if PACK in config else [config]
        self._reports: dict[int, dict] = {}  # index in the pack -> latest report
        self._begun: dict[int, float] = {}  # index -> start on the monotonic clock
        self._started_at: dict[int, datetime] = {}  # index -> the same as a date
        self._due: dict[int, float] = {}  # index -> when the next state is saved
        self._arrived: set[int] = set()  # indices whose saved state is already where they are to pause
        self._pack.begin(self._members)
        for index, member in enumerate(self._members):
            try:
                report = self._recorder.recorded(member)
            except OSError as error:
                log.warning("whether %s is on record is not known: %s", member, error)
                continue
            if report is not None:
                self._pack.drop(index)
                self._reports[index] = report | {tune.result.DONE: True}

    def _resume(self, index: int, training: Training) -> None:
        """Resume a training that begins from its latest undamaged state, if there is one."""
        self._begun[index], self._started_at[index] = time.monotonic(), datetime.now(UTC)
        self._due[index] = self._begun[index] + self._checkpoint_seconds
        for name, state in self._recorder.saved(self._members[index]):
            try:
                checkpoint.loads(training, state, name)
                log.warning("%s goes on at %d images", name, training.images_seen)
                if self._is_to_pause(index, training):  # its process was lost after it saved the state, before the row
                    self._arrived.add(index)
                return
            except ValueError as error:
                log.warning("%s; the one before it is tried", error)
                member = self._members[index]
                training.begin({name: member[name] for name in training.h}, seed=member["seed"])

    def _advance(self) -> None:
        try:
            looks = self._pack.advance(but=self._arrived)
        except (Exception, SystemExit) as error:
            if is_of_the_machine(error):
                raise
            self._failed(self._pack.culprit, error)
            return
        for index in sorted(self._arrived & self._pack.running.keys()):
            training = self._pack.running[index]
            seen = training.images_seen
            self._reports[index] = {"val_score": training.best_score, "images_seen": seen}
            self._pause(index)
        for index, evaluation in looks.items():
            training = self._pack.running[index]
            self._reports[index] = _report(training.best_score, evaluation)
            if training.done:
                self._end(index)
            elif self._is_to_pause(index, training):
                self._pause(index)
            elif self._limit is not None and time.monotonic() - self._begun[index] > self._limit:
                self._give_up(index, self._too_long(), "timeout")
            else:
                self._save(index)

    def _is_to_pause(self, index: int, training: Training) -> bool:
        """Whether the training has reached its `until`, or its end if it has none."""
        return training.share >= self._members[index].get(UNTIL, 1.0) - ROUNDING

    def _end(self, index: int) -> None:
        training, share = self._pack.running[index], 1 / self._pack.at_once
        try:
            outcome = self._pack.finish(index)
        except (Exception, SystemExit) as error:
            if is_of_the_machine(error):
                raise
            self._failed(index, error)
            return
        if outcome.status == "completed":
            self._keep_network(index, outcome.val_score, training)
        self._conclude(index, outcome, share)

    def _keep_network(self, index: int, val_score: float, training: Training) -> None:
        """Keep the network of a completed training. Call before recording it: a recorded training is not repeated."""
        try:
            self._recorder.keep(self._members[index], val_score, lambda: trained.dumps(training))
        except OSError as error:
            log.warning("the network of %s was not kept: %s", self._members[index], error)

    def _pause(self, index: int) -> None:
        training, share = self._pack.running[index], 1 / self._pack.at_once
        self._keep(index, training)
        self._pack.release(index)
        self._conclude(index, training.so_far(), share)

    def _failed(self, index: int, error: BaseException) -> None:
        log.error("the training %s failed", self._members[index], exc_info=error)
        kind = "out_of_memory" if is_out_of_memory(error) else "error"
        self._give_up(index, described(error, self._members[index], device_name(self._device)), kind)

    def _give_up(self, index: int, said: str, kind: str) -> None:
        training, share = self._pack.running.get(index), 1 / self._pack.at_once
        self._pack.drop(index)
        self._conclude(index, failure(said, training.curve if training is not None else (), kind), share)

    def _conclude(self, index: int, outcome: Outcome, share: float) -> None:
        """Record an outcome, then set its report."""
        with self._recording:
            unstored = self._recorder.record(self._members[index], outcome, self._where(index, share))
        report = self._reports.get(index, {"images_seen": outcome.images_seen}) | {
            "status": outcome.status,
            "test_score": outcome.test_score,
            LOOKS: [[look.images_seen, look.val_score] for look in outcome.curve],
        }
        if outcome.status == "failed":
            report |= {"val_score": math.nan, "error": outcome.error}
        self._reports[index] = report | {tune.result.DONE: True} | ({UNSTORED: unstored} if unstored else {})

    def _where(self, index: int, share: float) -> dict:
        started_at = self._started_at.get(index, self._taken_on)  # a training may fail before it starts
        return {"started_at": started_at, "device": device_name(self._device), "share": share}

    def _save(self, index: int) -> None:
        """Save the state, rarely enough to cost little; at every evaluation once the machine will be taken away."""
        began = time.monotonic()
        if began < self._due[index] and not noticed():
            return
        self._keep(index, self._pack.running[index])
        if self._checkpoint_seconds:
            took = time.monotonic() - began
            self._due[index] = (
                began + took + max(self._checkpoint_seconds, took * len(self._pack.running) / CHECKPOINT_SHARE)
            )

    def _keep(self, index: int, training: Training) -> None:
        try:
            self._recorder.save(self._members[index], training.images_seen, checkpoint.dumps(training))
        except OSError as error:
            log.warning("no state was saved: %s", error)

    def _seconds_left(self) -> float | None:
        if self._limit is None:
            return None
        running = [self._begun[index] for index in self._pack.running]
        return 1.1 * self._limit + SLACK - (time.monotonic() - min(running, default=time.monotonic()))

    def _overdue(self) -> None:
        """Record the trainings that are out of time as failed, or else the culprit, and end the process.

        Runs in the watchdog's thread when a call hangs. The other trainings may be retried elsewhere.
        """
        now, share = time.monotonic(), 1 / self._pack.at_once
        late = [index for index in self._pack.running if now - self._begun[index] >= self._limit] or [
            self._pack.culprit
        ]
        with self._recording:  # held until the process ends, so that nothing else is recorded
            for index in late:
                training = self._pack.running.get(index)
                outcome = failure(self._too_long(), training.curve if training is not None else (), "timeout")
                self._recorder.record(self._members[index], outcome, self._where(index, share))
            os._exit(OVERDUE)

    def _too_long(self) -> str:
        return f"timeout: not done after {self._limit:g} s"

    def _packed(self) -> dict:
        scores = [report["val_score"] for report in self._reports.values()]
        seen = sum(report["images_seen"] for report in self._reports.values())
        best = max((score for score in scores if score == score), default=float("nan"))
        return {
            "val_score": best,
            "images_seen": seen,
            PACK: {str(index): dict(report) for index, report in self._reports.items()},
        }


def _report(best_score: float, evaluation: Evaluation) -> dict:
    """The report of a running training after an evaluation."""
    logged = {name: value for name, value in evaluation.scores.items() if name.startswith("train_")}
    return {"val_score": best_score, "images_seen": evaluation.images_seen, "status": "running", **logged}


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
