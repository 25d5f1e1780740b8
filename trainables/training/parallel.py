"""Several configurations trained in one process, as many at a time as the device has room for.

A small training leaves most of a large GPU idle, so a process trains several side by side. Each is a `Training` with
its own balance, seed, best weights and end, and runs its recorded steps on its own stream. Only the data are shared.
Hence each has the result that it would have alone, batch sizes may differ, and a diverged training neither affects the
others nor costs anything from then on. Ended trainings are reused for the next configurations: networks, buffers and
recorded graphs stay where they are.

(The alternative, one network of stacked weights under `torch.func.vmap`, was slower: `tests/benchmarks/RESULTS.md`.)
"""

import logging
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from trainables.data.resident import DeviceData
from trainables.training.cuda_graphs import STREAMS
from trainables.training.errors import is_of_the_machine
from trainables.training.loop import Training
from trainables.training.outcome import Evaluation, Outcome
from trainables.training.setup import Setup
from trainables.training.side_by_side import advance, outcomes

MOST = STREAMS  # trainings at a time: further ones would share a stream, and wait for each other
SHARE = 0.7  # of the free memory of a GPU that trainings may take; the rest is for evaluations and best weights

log = logging.getLogger(__name__)


class Pack:
    """Trains lists of configurations, each the weights of the loss's terms, "batch_size", "seed" and more.

    `begin(configurations)`, then `advance()` and `finish(index)` until `done`; then the next list.
    at_once: how many at a time; None: as many as the GPU's free memory holds, up to MOST, and one on a CPU, where
    several would only slow each other down.
    begun: called with (index, training) before a training's first step, to load the state that it resumes from.
    """

    def __init__(
        self, setup: Setup, data: DeviceData, device: torch.device, *, at_once: int | None = None,
        begun: Callable[[int, Training], None] | None = None,
    ):  # fmt: skip
        self.setup, self.data, self.device, self._begun = setup, data, device, begun
        self._at_once = 1 if at_once is None and device.type != "cuda" else at_once
        self._spare: list[Training] = []
        self.running: dict[int, Training] = {}
        self.begin([])

    def begin(self, configurations: Sequence[Mapping[str, Any]]) -> None:
        """Drop the present configurations and start with these."""
        self._spare += self.running.values()
        self.configurations = list(configurations)
        self.waiting = deque(range(len(self.configurations)))
        self.running = {}
        self._tested: dict[int, Outcome] = {}
        self._starting = 0
        self._caution = MOST  # limit of trainings at a time after errors, in this list

    @property
    def done(self) -> bool:
        return not self.waiting and not self.running

    @property
    def at_once(self) -> int:
        """The number of trainings that share the device now."""
        return max(1, min(len(self.configurations), self._at_once or 1, self._caution))

    def advance(self) -> dict[int, Evaluation]:
        """Train each running training that is not paused up to its next evaluation; returns index -> evaluation. Call
        `finish` if `done`.

        If an error occurs while several run, half as many at a time start over, until the failing training runs alone.
        Then its error is raised, `culprit` names it, and the others run as many at a time as before. An error of the
        machine is raised at once.
        """
        try:
            self._fill()
            indices = [index for index, one in self.running.items() if not one.done and not one.paused]
            return dict(zip(indices, advance([self.running[index] for index in indices])))
        except (Exception, SystemExit) as error:
            if len(self.running) <= 1 or is_of_the_machine(error):
                self._caution = MOST  # it was the reason
                raise
            self._retreat(error)
            return {}

    @property
    def culprit(self) -> int:
        """The training that raised the error of `advance`: the only one that ran, or the one that was about to."""
        return next(iter(self.running), self._starting)

    def finish(self, index: int) -> Outcome:
        """Test a training that is done, and make room for the next. All that are done then are tested together; if that
        raises an error, each is tested alone, so that only the failing ones raise it."""
        if index not in self._tested:
            self._test(index)
        self.release(index)
        return self._tested.pop(index)

    def release(self, index: int) -> None:
        """Remove a running training that was saved to resume later, and reuse its buffers."""
        self._spare.append(self.running.pop(index))

    def _test(self, index: int) -> None:
        done = [other for other, training in self.running.items() if training.done and other not in self._tested]
        if len(done) > 1:
            try:
                self._tested |= zip(done, outcomes([self.running[other] for other in done]))
                return
            except (Exception, SystemExit) as error:
                if is_of_the_machine(error):
                    raise
                log.warning("%s: %s; of %d trainings one is tested alone", type(error).__name__, error, len(done))
                traceback.clear_frames(error.__traceback__)  # they hold features
        [self._tested[index]] = outcomes([self.running[index]])

    def drop(self, index: int) -> None:
        """Remove a configuration, running or waiting, without an outcome; its buffers are not reused."""
        if index in self.running:
            self.running.pop(index).wait()  # queued kernels use its memory; not kept for reuse, as its state is unknown
        if index in self.waiting:
            self.waiting.remove(index)

    def start(self, index: int) -> Training:
        """Start a waiting configuration on a spare training that fits it, or on a new one."""
        self._starting, configuration = index, self.configurations[index]
        batch_size, seed = configuration["batch_size"], configuration["seed"]
        if ":" in self.setup.network:
            self._spare = []  # a user's network may keep more state than its weights
        training = next((spare for spare in self._spare if spare.batch_size == batch_size), None)
        if training is not None:
            self._spare.remove(training)
            training.begin(configuration, seed=seed)
        else:
            del self._spare[max(0, (self._at_once or MOST) - len(self.running) - 1) :]  # they hold memory
            training = Training(self.setup, self.data, configuration, seed=seed, device=self.device)
        if self._begun is not None:
            self._begun(index, training)
        self.waiting.remove(index)
        self.running[index] = training
        return training

    def _fill(self) -> None:
        if self._at_once is None and self.waiting:
            self._at_once = self._measured(max(self.waiting, key=lambda one: self.configurations[one]["batch_size"]))
        while self.waiting and len(self.running) < min(self._at_once, self._caution):
            try:
                self.start(self.waiting[0])
            except (Exception, SystemExit) as error:
                if not self.running or is_of_the_machine(error):
                    raise
                self._go_on_with(len(self.running), error)  # there is no room for one more, or it will fail alone

    def _measured(self, index: int) -> int:
        """Measure how many trainings like this one fit the GPU, by one that runs and records every kind of step. It is
        kept as a spare."""
        self._starting, configuration = index, self.configurations[index]
        torch.cuda.empty_cache()
        before = torch.cuda.mem_get_info(self.device)[0]
        training = Training(self.setup, self.data, configuration, seed=configuration["seed"], device=self.device)
        training.rehearse()
        if training.recordable:  # the recordings hold its memory; else torch's cache does, for the next step
            torch.cuda.empty_cache()
        after = torch.cuda.mem_get_info(self.device)[0]
        self._spare.append(training)
        room = min(MOST, 1 + int(SHARE * after / max(1, before - after)))
        taken, free = (before - after) / 1e9, after / 1e9
        log.info("a training takes %.2f GB of the GPU, %.1f GB are free: %d at a time", taken, free, room)
        return room

    def _retreat(self, error: BaseException) -> None:
        """Halve the number at a time. All that ran start over, as any of them may have raised the error."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # running kernels use the memory that is freed now
        traceback.clear_frames(error.__traceback__)  # they hold trainings
        self._go_on_with(len(self.running) // 2, error)
        self.waiting.extendleft(sorted(self.running, reverse=True))
        self.running, self._spare, self._tested = {}, [], {}
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _go_on_with(self, number: int, error: BaseException) -> None:
        kind, running = type(error).__name__, len(self.running)
        log.warning("%s: %s; of %d trainings at a time %d go on", kind, error, running, number)
        self._caution = number
