"""A training step as one CUDA graph: at b = 64 a step is 150 to 300 small kernels, and launching them one by one costs
more than running them.

The step must wait for nothing and keep what it needs at fixed addresses: weights, buffers, the two Lambdas and the
learning rate are tensors that outlive it, and a graph moves the generator on with every replay. Then one recording
serves all iterations, and all trainings of equal batch size that take turns in the same tensors.
"""

import logging
import os
from collections.abc import Callable

import torch
from torch import Tensor

from trainables.training.errors import is_of_recording

STREAMS = 32
"""torch hands out so many streams, in turn, and CUDA has at most so many hardware queues for them; but for 8 it must be
asked before it starts."""

WARM_UP = 3  # steps run one by one before the recording: cuDNN chooses its algorithms, the optimiser is set up

QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"

log = logging.getLogger(__name__)

Step = Callable[[], tuple[Tensor, ...]]


def open_queues() -> None:
    """Give each of STREAMS a hardware queue of its own, or kernels of trainings side by side wait for each other.

    To be called before CUDA starts in this process, which says so where it is too late. An environment that sets
    CUDA_DEVICE_MAX_CONNECTIONS itself is left alone.
    """
    if QUEUES in os.environ:
        return
    os.environ[QUEUES] = str(STREAMS)
    if torch.cuda.is_initialized():
        log.warning("CUDA has started before %s was set: trainings side by side share 8 queues", QUEUES)


class Replayed:
    """A step that is recorded at call number WARM_UP + 1 and replayed from then on; every call is one real step.

    stream: current when this is called, from the first step on.  generator: the one the step draws from.
    pool: of an earlier recording whose memory may be used again, because the two never run at the same time.
    A step that cannot be recorded, as in a user's network that reads a value on the host, runs plainly instead, which
    is said once. What a call returns is overwritten by the next one. (The step is not kept: its owner keeps this, and a
    circle of the two would hold the GPU's memory until Python's collector comes by.)
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
        """The recording's memory, for `pool` of another one."""
        return self._graph.pool() if self._graph is not None else self._pool

    def _record(self, step: Step) -> bool:
        """Whether the step could be recorded. Recording runs nothing: neither weights nor generator change."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                self._outputs = step()
        except RuntimeError as error:
            first = error.__context__ or error  # what the step raised, before the recording could not be ended well
            if not is_of_recording(first):
                raise first from None
            self.plain = True
            self._reset_generator()
            log.warning("the step cannot be recorded as a CUDA graph, and runs kernel by kernel: %s", first)
            return False
        self._graph = graph
        return True

    def _reset_generator(self) -> None:
        """A recording that broke off leaves the generator as in a recording: it gets the same state anew."""
        if self._generator.device.type == "cuda":
            fresh = torch.Generator(self._generator.device)
            fresh.set_state(self._generator.get_state())
            self._generator.graphsafe_set_state(fresh)
