"""Several configurations trained in one process, as many at a time as the device has room for.

A small training leaves most of a large GPU idle, so a process trains several side by side: each is a whole `Training`
of its own, with its own balance, seed, best weights and end, whose recorded steps run on a stream of its own. Nothing
is shared but the data, so each comes out as it would alone, one that diverges is not noticed by the others and costs
nothing from then on, and batch sizes may differ. Trainings that have ended are used again for the next configurations:
networks, buffers and recorded graphs stay where they are.

(The alternative, one network of stacked weights under `torch.func.vmap`, is measured beside this in
`tests/benchmarks/training.py`.)
"""

import logging
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from trainables.data import DeviceData
from trainables.graphs import WARM_UP
from trainables.outcome import Evaluation, Outcome
from trainables.tasks import Setup
from trainables.training import Training, advance

MOST = 64  # trainings at a time: beyond it even the smallest network keeps an H200's memory system busy
SHARE = 0.7  # of the free memory of a GPU that trainings may take; the rest is for evaluations and best weights

log = logging.getLogger(__name__)


class Pack:
    """Trains lists of configurations, {"Lambda_p", "Lambda_e", "batch_size", "seed", ...} each.

    `begin(configurations)`, then `advance()` and `finish(index)` until `done`; then the next list.
    at_once: how many at a time; None: as many as the GPU's free memory holds, up to MOST, and one on a CPU, where they
    would only take each other's time.
    """

    def __init__(self, setup: Setup, data: DeviceData, device: torch.device, *, at_once: int | None = None):
        self.setup, self.data, self.device = setup, data, device
        self._at_once = 1 if at_once is None and device.type != "cuda" else at_once
        self._spare: list[Training] = []
        self.running: dict[int, Training] = {}
        self.begin([])

    def begin(self, configurations: Sequence[Mapping[str, Any]]) -> None:
        """Leave what was being trained and start with these."""
        self._spare += self.running.values()
        self.configurations = list(configurations)
        self.waiting = deque(range(len(self.configurations)))
        self.running = {}
        self.finished: set[int] = set()

    @property
    def done(self) -> bool:
        return len(self.finished) == len(self.configurations)

    @property
    def at_once(self) -> int:
        """How many share the device now."""
        return max(1, min(len(self.configurations), self._at_once or 1))

    def advance(self) -> dict[int, Evaluation]:
        """Train each of those that run up to its next look; their evaluations by index. Those that are `done` want `finish`.

        Raises what torch raises where not even one training fits the memory.
        """
        try:
            self._fill()
            indices = [index for index, training in self.running.items() if not training.done]
            return dict(zip(indices, advance([self.running[index] for index in indices])))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self._retreat(error)
            return {}

    def finish(self, index: int) -> Outcome:
        """Test a training that is done, and make room for the next."""
        outcome = self.running[index].outcome()
        self._spare.append(self.running.pop(index))
        self.finished.add(index)
        return outcome

    def start(self, index: int) -> Training:
        """The training of a waiting configuration, ready to go: a spare one that fits it, or a new one."""
        configuration = self.configurations[index]
        h, seed = {name: configuration[name] for name in ("Lambda_p", "Lambda_e", "batch_size")}, configuration["seed"]
        if ":" in self.setup.network:
            self._spare = []  # what an unknown network keeps beside its weights is not known
        fitting = next((training for training in self._spare if training.batch_size == h["batch_size"]), None)
        if fitting is not None:
            self._spare.remove(fitting)
            training = fitting
            training.begin(h, seed=seed)
        else:
            del self._spare[max(0, (self._at_once or MOST) - len(self.running) - 1) :]  # they hold memory
            training = Training(self.setup, self.data, h, seed=seed, device=self.device)
        self.waiting.remove(index)
        self.running[index] = training
        return training

    def _fill(self) -> None:
        if self._at_once is None and self.waiting:
            self._at_once = self._measured(max(self.waiting, key=lambda index: self.configurations[index]["batch_size"]))
        while self.waiting and len(self.running) < self._at_once:
            self.start(self.waiting[0])

    def _measured(self, index: int) -> int:
        """How many trainings like this one the GPU has room for: it is started, warmed up and recorded to find out."""
        torch.cuda.empty_cache()
        before = torch.cuda.mem_get_info(self.device)[0]
        training = self.start(index)
        training.depart()
        for _ in range(min(WARM_UP + 1, training.target - 1)):  # at its target it is `advance` that looks
            training.step()
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()
        after = torch.cuda.mem_get_info(self.device)[0]
        room = 1 + int(SHARE * after / max(1, before - after))
        log.info("a training takes %.2f GB of the GPU, %.1f GB are free: %d at a time", (before - after) / 1e9, after / 1e9, min(MOST, room))
        return min(MOST, room)

    def _retreat(self, error: Exception) -> None:
        """Half as many at a time: those that ran start over, since nobody knows in which of them the memory gave out."""
        if len(self.running) <= 1:
            raise error
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # what still runs uses the memory that is given up now
        traceback.clear_frames(error.__traceback__)  # they hold trainings
        self._at_once = len(self.running) // 2
        log.warning("out of memory with %d trainings at a time; going on with %d", len(self.running), self._at_once)
        self.waiting.extendleft(sorted(self.running, reverse=True))
        self.running, self._spare = {}, []
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a GPU's memory gave out, for tensors or for what CUDA and its libraries need themselves."""
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in ("out of memory", "ALLOC_FAILED"))
