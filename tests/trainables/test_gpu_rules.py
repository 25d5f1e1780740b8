"""What can be known of the GPU paths without a card: which device, which errors, who owns which tensors."""

import copy
import logging
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from trainings import CPU, DATA, SETUP, H

from trainables.training.cuda_graphs import WARM_UP, Replayed
from trainables.training.errors import is_of_recording, is_of_the_machine, is_out_of_memory
from trainables.training.loop import Training
from trainables.trial import device_for


@pytest.mark.parametrize(
    "gpus, there, device",
    [
        (0, True, "cpu"),
        (0.0, True, "cpu"),
        (0.25, True, "cuda"),
        (1, True, "cuda"),
        (None, True, "cuda"),
        (0, False, "cpu"),
        (None, False, "cpu"),
        (1, False, "cpu"),
    ],
)
def test_a_process_that_asked_for_no_gpu_trains_on_none(monkeypatch, gpus, there, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert device_for(gpus).type == device


def test_two_trainings_from_one_state_share_no_tensor():
    adam = replace(SETUP, optimizer="adam", learning_rate=1e-3)
    first = Training(adam, DATA, H, seed=1, device=CPU)
    first.advance()
    state = first.state()
    kept = copy.deepcopy(state)
    others = [Training(adam, DATA, H, seed=1, device=CPU) for _ in range(2)]
    for other in others:
        other.load_state(state)
    moments = [
        {value.data_ptr() for one in training.optimiser.state.values() for value in one.values()}
        for training in (first, *others)
    ]
    assert not moments[0] & moments[1] and not moments[1] & moments[2] and not moments[0] & moments[2]
    others[0].advance()
    assert all(
        torch.equal(value, kept["optimiser"]["state"][index][name])
        for index, one in state["optimiser"]["state"].items()
        for name, value in one.items()
    )


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory. Tried to allocate 2 GiB",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "GET was unable to find an engine to execute this computation",
        "Unable to find an engine to execute this computation",
    ],
)
def test_no_memory_has_many_names(text):
    error = RuntimeError(text)
    assert is_out_of_memory(error) and not is_of_the_machine(error)


def test_a_step_that_cannot_be_recorded_is_not_the_machines_fault():
    error = RuntimeError("CUDA error: operation not permitted when stream is capturing")
    assert is_of_recording(error) and not is_of_the_machine(error)
    assert is_of_the_machine(RuntimeError("CUDA error: an illegal memory access was encountered"))


class Graph:
    """Of torch.cuda.CUDAGraph what a recording calls."""

    replays = 0

    def register_generator_state(self, generator):
        pass

    def replay(self):
        type(self).replays += 1


def recording(monkeypatch, fails):
    modes = []

    @contextmanager
    def graph(recorded, pool, stream, capture_error_mode):
        modes.append(capture_error_mode)
        yield
        if fails:
            raise RuntimeError(fails)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    return modes


def test_a_step_that_cannot_be_recorded_runs_plainly_and_says_so_once(monkeypatch, caplog):
    modes = recording(monkeypatch, "CUDA error: operation not permitted when stream is capturing")
    steps = []
    replayed = Replayed(None, torch.Generator())
    with caplog.at_level(logging.WARNING):
        for _ in range(WARM_UP + 4):
            replayed(lambda: steps.append(1) or (torch.ones(1),))
    assert len(modes) == 1 and len(caplog.records) == 1 and "kernel by kernel" in caplog.text
    assert len(steps) == WARM_UP + 4 + 1, "every call one step, and the one that was to be recorded"


def test_another_error_of_the_recording_goes_through(monkeypatch):
    recording(monkeypatch, "CUDA error: an illegal memory access was encountered")
    replayed = Replayed(None, torch.Generator())
    for _ in range(WARM_UP):
        replayed(lambda: (torch.ones(1),))
    with pytest.raises(RuntimeError, match="illegal memory"):
        replayed(lambda: (torch.ones(1),))


def test_what_can_be_recorded_is_recorded_for_this_thread_alone_and_replayed(monkeypatch):
    modes, steps = recording(monkeypatch, None), []
    monkeypatch.setattr(Graph, "replays", 0)
    replayed = Replayed(None, torch.Generator())
    for _ in range(WARM_UP + 4):
        replayed(lambda: steps.append(1) or (torch.ones(1),))
    assert modes == ["thread_local"] and len(steps) == WARM_UP + 1 and Graph.replays == 4
