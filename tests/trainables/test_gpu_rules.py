"""What can be known of the GPU paths without a card (`test_on_a_gpu.py` has the rest): which device, who owns which
tensors, a rehearsal, and what a recorded step relies on."""

import copy
import os
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from trainings import KINDS, SETUP, SSL_DATA, SSL_SETUP, H, advance_one, begun

from trainables.losses import LOSSES
from trainables.training.cuda_graphs import QUEUES, STREAMS, WARM_UP, open_queues
from trainables.training.errors import is_of_recording, is_of_the_machine, is_out_of_memory
from trainables.trial import device_for


@pytest.mark.parametrize("gpus, there, device", [
    (0, True, "cpu"), (0.25, True, "cuda"), (1, True, "cuda"), (None, True, "cuda"), (None, False, "cpu"),
    (1, False, "cpu"),
])  # fmt: skip
def test_a_process_that_asked_for_no_gpu_trains_on_none(monkeypatch, gpus, there, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert device_for(gpus).type == device


def test_two_trainings_from_one_state_share_no_tensor():
    adam = replace(SETUP, optimizer="adam", learning_rate=1e-3)
    first, *others = (begun(adam, seed=1) for _ in range(3))
    advance_one(first)
    state = first.state()
    kept = copy.deepcopy(state["optimiser"]["state"])
    for other in others:
        other.load_state(state)
    states = [one for training in (first, *others) for one in training.optimiser.state.values()]
    moments = [value.data_ptr() for one in states for value in one.values()]
    assert len(set(moments)) == len(moments) > 0
    advance_one(others[0])
    for index, one in state["optimiser"]["state"].items():
        assert all(torch.equal(value, kept[index][name]) for name, value in one.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_rehearsed_training_is_as_a_new_one(kind):
    """To the bit, though it took steps with and without the memory."""
    setup, data = KINDS[kind]
    rehearsed, steps = begun(setup, data), []
    hook = rehearsed.model.register_forward_hook(lambda *_: steps.append(1))
    rehearsed.rehearse()
    hook.remove()
    assert len(steps) == (WARM_UP + 1) * (1 if setup.memory == "none" else 2)
    new = begun(setup, data)
    assert advance_one(rehearsed).scores == advance_one(new).scores


EVERY = {kind: (setup, data, H) for kind, (setup, data) in KINDS.items()}
EVERY |= {
    f"memory, {distance}": (replace(KINDS["memory"][0], loss="infonce", distance=distance), KINDS["memory"][1], H)
    for distance in ("cosine", "euclidean")
}
EVERY |= {
    name: (replace(SSL_SETUP, loss=name), SSL_DATA, dict.fromkeys(loss.weights, 0.01) | {"batch_size": 32})
    for name, loss in LOSSES.items()
    if not loss.pairwise
}
WAITS = (
    "_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "unique_dim",
    "unique_consecutive",
)  # fmt: skip
FROM_THE_HOST = "lift_fresh"  # torch.tensor(...): a copy from pageable memory, which no recording allows


class Watched(TorchDispatchMode):
    """Notes operations that would make the host wait for a GPU, or copy to it."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name().removeprefix("aten::").partition(".")[0]
        masked = name in ("index", "index_put_") and any(t is not None and t.dtype == torch.bool for t in args[1])
        if name in WAITS or name == FROM_THE_HOST or masked:
            self.found.append(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", EVERY)
def test_a_step_never_waits_for_a_value(kind):
    """Neither sampling, views, network, nor any loss, with the memory or without."""
    setup, data, h = EVERY[kind]
    training = begun(setup, data, h)
    training.depart()
    training.optimiser.step = lambda: None  # the fused kernels of the CPU read a scheduled rate; those of a GPU do not
    with Watched() as watched:
        for _ in range(max(4, setup.memory_start + 2 if setup.memory != "none" else 0)):
            training.step()
    assert watched.found == []


def test_what_is_watched_for_is_found():
    with Watched() as watched:
        x = torch.arange(3)
        x[x > 1], x.sum().item(), torch.tensor([1.0])
    assert {"index", "_local_scalar_dense", "lift_fresh"} <= set(watched.found)


@pytest.mark.parametrize("text, kind", [
    ("CUDA out of memory. Tried to allocate 2 GiB", is_out_of_memory),
    ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", is_out_of_memory),
    ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", is_out_of_memory),
    ("GET was unable to find an engine to execute this computation", is_out_of_memory),
    ("Unable to find an engine to execute this computation", is_out_of_memory),
    ("CUDA error: operation not permitted when stream is capturing", is_of_recording),
    ("CUDA error: an illegal memory access was encountered", is_of_the_machine),
])  # fmt: skip
def test_errors_are_told_by_their_words(text, kind):
    kinds = (is_out_of_memory, is_of_recording, is_of_the_machine)
    assert [told for told in kinds if told(RuntimeError(text))] == [kind]


def test_a_hardware_queue_for_each_stream_is_asked_for_before_cuda_starts(monkeypatch, caplog):
    monkeypatch.delenv(QUEUES, raising=False)
    open_queues()
    assert os.environ[QUEUES] == str(STREAMS) and caplog.text == ""
    monkeypatch.setenv(QUEUES, "4")
    open_queues()
    assert os.environ[QUEUES] == "4", "what the user sets stays"
    monkeypatch.delenv(QUEUES)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    open_queues()
    assert "CUDA has started before" in caplog.text
