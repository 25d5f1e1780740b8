"""A training step as one CUDA graph.

At b = 64 a step is 150 to 300 small kernels, and launching them one by one costs more than running them. The step must
not wait for the device, and its data must stay at fixed addresses: weights, buffers, the Lambdas and the learning rate
are tensors that outlive it. A graph advances the generator with every replay. Then one recording serves all iterations,
and all trainings of equal batch size that use the same tensors in turn.
"""

import logging
import os
from collections.abc import Callable

import torch
from torch import Tensor

from trainables.training.errors import is_of_recording

STREAMS = 32
"""The number of streams that torch hands out in turn, and the most hardware queues that CUDA has for them. More than 8
queues must be requested before CUDA starts."""

WARM_UP = 3  # steps run one by one before the recording: cuDNN chooses its algorithms, the optimiser is set up

QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"

log = logging.getLogger(__name__)

Step = Callable[[], tuple[Tensor, ...]]


def open_queues() -> None:
    """Give each of STREAMS a hardware queue of its own, else kernels of trainings side by side wait for each other.

    Call it before CUDA starts in this process; later it only logs a warning. If the environment already sets
    CUDA_DEVICE_MAX_CONNECTIONS, that value stays.
    """
    if QUEUES in os.environ:
        return
    os.environ[QUEUES] = str(STREAMS)
    if torch.cuda.is_initialized():
        log.warning("CUDA has started before %s was set: trainings side by side share 8 queues", QUEUES)


class Replayed:
    """A step that is recorded at call number WARM_UP + 1 and replayed from then on; every call is one real step.

    stream: must be the current one in every call, from the first on.  generator: the one the step draws from.
    pool: the memory pool of an earlier recording, reused because the two never run at the same time.
    A step that cannot be recorded, as in a user's network that reads a value on the host, runs eagerly instead, and one
    warning is logged. The next call overwrites the tensors that a call returned. (The step is not stored here: its
    owner stores this object, and a cycle of the two would hold the GPU's memory until Python's collector runs.)
    """

    def __init__(self, stream: torch.cuda.Stream, generator: torch.Generator, pool: tuple[int, int] | None = None):
        self._stream, self._generator, self._pool = stream, generator, pool
        self._graph: torch.cuda.CUDAGraph | None = None
        self._outputs: tuple[Tensor, ...] = ()
        self._calls = 0
        self.plain = False  # whether the step has turned out not to be recordable

    def __call__(self, step: Step) -> tuple[Tensor, ...]:
        if self._graph is None:
            self._calls += 1
            if self._calls <= WARM_UP or self.plain or not self._record(step):
                return step()
        self._graph.replay()
        return self._outputs

    @property
    def pool(self) -> tuple[int, int] | None:
        """The recording's memory pool, for `pool` of another recording."""
        return self._graph.pool() if self._graph is not None else self._pool

    def _record(self, step: Step) -> bool:
        """Record the step; returns whether that worked. Recording runs nothing: weights and generator do not change."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                self._outputs = step()
        except RuntimeError as error:
            first = error.__context__ or error  # the step's own error, before the recording failed to end
            if not is_of_recording(first):
                raise first from None
            self.plain = True
            fresh = torch.Generator(self._generator.device)  # a recording that broke off leaves its own in that mode
            fresh.set_state(self._generator.get_state())
            self._generator.graphsafe_set_state(fresh)
            log.warning("the step cannot be recorded as a CUDA graph, and runs kernel by kernel: %s", first)
            return False
        self._graph = graph
        return True
