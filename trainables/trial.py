"""Trainings as a Ray Tune trial. Only this file of the package needs Ray.

A trial trains one configuration, or several that it gets as a pack. Its process is reused for the next trial
(`reuse_actors`): interpreter, imports, CUDA context, data, networks and recorded graphs stay, and only weights are new.

There are three kinds of failure. A failed training (an error in its network, too little memory for its batch, a
timeout) is an outcome like others: it is recorded and reported, and the process goes on. An error of the machine is
raised from `step`, or ends the process; Tune may then retry the trial (`max_failures`), which resumes from the recorded
rows and saved states. Unusable data fail every training: `setup` raises UnusableData, and the driver may stop.
"""

import logging
import os
import signal
import threading
import time
from datetime import UTC, datetime

import torch
from ray import tune

from trainables import trained
from trainables.data.resident import DeviceData
from trainables.training import checkpoint
from trainables.training.cuda_graphs import open_queues
from trainables.training.errors import described, is_of_the_machine, is_out_of_memory
from trainables.training.loop import Training
from trainables.training.member import ANEW, LOOKS, PACK, TROUBLES, UNKEPT, UNSAVED, UNSTORED, UNTIL, Member, Recorder
from trainables.training.outcome import Outcome, failure, pause
from trainables.training.parallel import Pack
from trainables.training.preemption_notice import noticed
from trainables.training.setup import Setup
from trainables.training.watchdog import OVERDUE, time_limit

__all__ = ["ANEW", "LOOKS", "PACK", "TROUBLES", "UNKEPT", "UNSAVED", "UNSTORED", "UNTIL", "TrainTrial", "UnusableData"]

CHECKPOINT_SECONDS = 300.0
CHECKPOINT_SHARE = 0.02  # of a process's time that saving may take
# seconds; the process is ended a tenth of the limit plus SLACK after the limit, so that a late training may reach its
# next evaluation and end there without harm to others
SLACK = 30.0

log = logging.getLogger(__name__)


class UnusableData(ValueError):
    """The study's data cannot be used; every trial of it would fail."""


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
        self, config: dict, setup_fields: dict, data_root: str | None, threads: int, recorder: Recorder,
        download: bool = False, gpus: float | None = None, at_once: int | None = None, limit: float | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> None:  # fmt: skip
        """Load the data and begin. Raises as `DeviceData.load`, but UnusableData in place of ValueError."""
        open_queues()
        torch.set_num_threads(threads)
        if threading.current_thread() is threading.main_thread():
            # Ray's handler raises SystemExit, as a network's own code may
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._recorder, self._limit, self._checkpoint_seconds = recorder, limit, checkpoint_seconds
        self._recording = threading.RLock()
        setup, device = Setup(**setup_fields), device_for(gpus)
        self._device_name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        try:
            data = DeviceData.load(setup, data_root, device, download)
        except ValueError as error:
            raise UnusableData(str(error)) from error
        self._left_out = data.left_out
        self._pack = Pack(setup, data, device, at_once=at_once, begun=self._resume)
        self._begin(config)

    def reset_config(self, new_config: dict) -> bool:
        self._begin(new_config)
        return True

    def _begin(self, config: dict) -> None:
        """Begin a trial's configurations, except those recorded already by an earlier process that was lost."""
        shared = {name: value for name, value in config.items() if name != PACK}
        configurations = [shared | own for own in config[PACK]] if PACK in config else [config]
        now = datetime.now(UTC)
        self._members = [Member(configuration, now, self._left_out) for configuration in configurations]
        self._pack.begin(configurations)
        for index, member in enumerate(self._members):
            try:
                report = self._recorder.recorded(member.config)
            except OSError as error:
                log.warning("whether %s is on record is not known: %s", member.config, error)
                continue
            if report is not None:
                self._pack.drop(index)
                member.report = report | {tune.result.DONE: True}

    def step(self) -> dict:
        """Train up to the next evaluations and report them. A training that ends is tested and recorded first."""
        with time_limit(self._seconds_left(), self._overdue):
            self._advance()
        report = self._packed() if PACK in self.config else self._members[0].told()
        return report | {tune.result.DONE: self._pack.done}

    def cleanup(self) -> None:
        del self._pack

    def _resume(self, index: int, training: Training) -> None:
        """Resume a training that begins from its latest undamaged state, if there is one; else note why not."""
        member = self._members[index]
        member.start(self._checkpoint_seconds)
        try:
            for name, state in self._recorder.saved(member.config):
                try:
                    checkpoint.loads(training, state, name)
                    log.warning("%s goes on at %d images", name, training.images_seen)
                    # at its pause already: its process was lost after it saved the state, before the row
                    training.paused = member.is_to_pause(training)
                    member.troubles.pop(ANEW, None)
                    return
                except ValueError as error:
                    log.warning("%s; the one before it is tried", error)
                    member.troubles.setdefault(ANEW, str(error))
                    training.begin(member.config, seed=member.config["seed"])
        except OSError as error:
            log.warning("%s begins again at image 0: %s", member.config, error)
            member.troubles.setdefault(ANEW, str(error))

    def _advance(self) -> None:
        """Train each member to its next evaluation; then it ends, pauses, has taken too long, or is saved."""
        try:
            evaluations = self._pack.advance()
        except (Exception, SystemExit) as error:
            self._failed(self._pack.culprit, error)
            return
        for index, training in sorted(self._pack.running.items()):
            if training.paused:
                self._pause(index)
        for index, evaluation in evaluations.items():
            member, training = self._members[index], self._pack.running[index]
            member.evaluated(training.best_score, evaluation)
            if training.done:
                self._end(index)
            elif member.is_to_pause(training):
                self._pause(index)
            elif self._limit is not None and time.monotonic() - member.began > self._limit:
                self._give_up(index, self._too_long(), "timeout")
            else:
                self._save(index)

    def _end(self, index: int) -> None:
        """Test a training that is done. Its network is kept before it is recorded: a recorded one is not repeated."""
        member, training = self._members[index], self._pack.running[index]
        try:
            outcome = self._pack.finish(index)
        except (Exception, SystemExit) as error:
            self._failed(index, error)
            return
        if outcome.status == "completed":
            try:
                self._recorder.keep(member.config, outcome.val_score, lambda: trained.dumps(training))
            except OSError as error:
                log.warning("the network of %s was not kept: %s", member.config, error)
                member.troubles[UNKEPT] = str(error)
        self._conclude(index, outcome)

    def _pause(self, index: int) -> None:
        training = self._pack.running[index]
        self._keep(index, training)
        self._pack.release(index)
        reason = self._members[index].troubles.get(UNSAVED)
        self._conclude(index, pause(training, reason and f"its state could not be saved: {reason}"))

    def _failed(self, index: int, error: BaseException) -> None:
        """Raise an error of the machine; else the training has failed."""
        if is_of_the_machine(error):
            raise error
        config = self._members[index].config
        log.error("the training %s failed", config, exc_info=error)
        kind = "out_of_memory" if is_out_of_memory(error) else "error"
        self._give_up(index, described(error, config, self._device_name), kind)

    def _give_up(self, index: int, said: str, kind: str) -> None:
        outcome = self._failure(index, said, kind)
        self._pack.drop(index)
        self._conclude(index, outcome)

    def _failure(self, index: int, said: str, kind: str) -> Outcome:
        training = self._pack.running.get(index)
        return failure(said, training.curve if training is not None else [], kind)

    def _conclude(self, index: int, outcome: Outcome) -> None:
        """Record an outcome, then set its report."""
        member = self._members[index]
        where = {"started_at": member.started_at, "device": self._device_name, "share": 1 / self._pack.at_once}
        with self._recording:
            unstored = self._recorder.record(member.config, outcome, where)
        member.ended(outcome, unstored)
        member.report[tune.result.DONE] = True

    def _save(self, index: int) -> None:
        """Save the state, rarely enough to cost little; at every evaluation once the machine will be taken away."""
        member, now = self._members[index], time.monotonic()
        if now < member.due and not noticed():
            return
        if self._keep(index, self._pack.running[index]) and self._checkpoint_seconds:  # else the next evaluation tries
            saved = time.monotonic()
            rest = (saved - now) * len(self._pack.running) / CHECKPOINT_SHARE
            member.due = saved + max(self._checkpoint_seconds, rest)

    def _keep(self, index: int, training: Training) -> bool:
        """Save the state; returns whether that worked."""
        member = self._members[index]
        member.troubles.pop(UNSAVED, None)
        try:
            self._recorder.save(member.config, training.images_seen, checkpoint.dumps(training))
        except OSError as error:
            log.warning("no state was saved: %s", error)
            member.troubles[UNSAVED] = str(error)
        return UNSAVED not in member.troubles

    def _seconds_left(self) -> float | None:
        if self._limit is None:
            return None
        now = time.monotonic()
        first = min((self._members[index].began for index in self._pack.running), default=now)
        return 1.1 * self._limit + SLACK - (now - first)

    def _overdue(self) -> None:
        """Record the trainings that are out of time as failed, or else the culprit, and end the process.

        Runs in the watchdog's thread when a call hangs. The other trainings may be retried elsewhere.
        """
        now = time.monotonic()
        late = [index for index in self._pack.running if now - self._members[index].began >= self._limit]
        with self._recording:  # held until the process ends, so that nothing else is recorded
            for index in late or [self._pack.culprit]:
                self._conclude(index, self._failure(index, self._too_long(), "timeout"))
            os._exit(OVERDUE)

    def _too_long(self) -> str:
        return f"timeout: not done after {self._limit:g} s"

    def _packed(self) -> dict:
        told = {str(index): member.told() for index, member in enumerate(self._members) if member.report is not None}
        scores = [report["val_score"] for report in told.values()]
        best = max((score for score in scores if score == score), default=float("nan"))
        return {"val_score": best, "images_seen": sum(one["images_seen"] for one in told.values()), PACK: told}
