"""What a recorded step relies on, as far as it shows without a GPU (`test_on_a_gpu.py` has the rest)."""

from contextlib import contextmanager

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from trainings import CPU, KINDS, H

from trainables.training import cuda_graphs as graphs
from trainables.training.cuda_graphs import WARM_UP, Replayed
from trainables.training.loop import Training

WAITS = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "equal",
    "is_nonzero",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
}
FROM_THE_HOST = {"lift_fresh"}  # torch.tensor(...): a copy from pageable memory, which no recording allows


class Watched(TorchDispatchMode):
    """Notes operations that would make the host wait for a GPU, or copy to it."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.removeprefix("aten::")
        masked = name in ("index", "index_put_") and any(t is not None and t.dtype == torch.bool for t in args[1])
        if name in WAITS | FROM_THE_HOST or masked:
            self.found.append(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_never_waits_for_a_value(kind):
    setup, data = KINDS[kind]
    training = Training(setup, data, H, seed=0, device=CPU)
    training.depart()
    training.optimiser.step = lambda: None  # the fused kernels of the CPU read a scheduled rate; those of a GPU do not
    with Watched() as watched:
        for _ in range(max(4, setup.memory_start + 2 if setup.memory != "none" else 0)):
            training._step(with_memory=setup.memory != "none")
    assert watched.found == []


def test_what_is_watched_for_is_found():
    with Watched() as watched:
        x = torch.arange(3)
        x[x > 1], x.sum().item(), torch.tensor([1.0])
    assert {"index", "_local_scalar_dense", "lift_fresh"} <= set(watched.found)


def test_it_is_recorded_once_after_the_warm_up_and_every_call_is_one_step(monkeypatch):
    """With a stand-in for CUDA's graphs, whose recording runs nothing and whose replay runs what was recorded."""
    log, steps, recording = [], [], []

    class Graph:
        def register_generator_state(self, generator):
            log.append(("generator", generator))

        def replay(self):
            steps.append("replayed")

        def pool(self):
            return (0, 7)

    @contextmanager
    def graph(made, pool, stream, capture_error_mode):
        log.append(("record", pool, stream))
        recording.append(True)
        yield
        recording.pop()

    def step():
        if not recording:
            steps.append("run")
        return (torch.ones(1),)

    monkeypatch.setattr(graphs.torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(graphs.torch.cuda, "graph", graph)
    replayed = Replayed(stream="a stream", generator="a generator", pool=(0, 3))
    assert replayed.pool == (0, 3)
    outputs = [replayed(step) for _ in range(WARM_UP + 3)]
    assert steps == ["run"] * WARM_UP + ["replayed"] * 3
    assert log == [("generator", "a generator"), ("record", (0, 3), "a stream")]
    assert outputs[-1] is outputs[-2] and replayed.pool == (0, 7)
