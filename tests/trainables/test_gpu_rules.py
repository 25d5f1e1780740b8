"""What can be known of the GPU paths without a card: which device, who owns which tensors, how many fit."""

import copy
from dataclasses import replace

import pytest
import torch
from trainings import KINDS, SETUP, advance_one, begun

from trainables.training.cuda_graphs import WARM_UP
from trainables.trial import device_for


@pytest.mark.parametrize(
    "gpus, there, device",
    [(0, True, "cpu"), (0.25, True, "cuda"), (1, True, "cuda"), (None, True, "cuda"), (None, False, "cpu"),
     (1, False, "cpu")],
)  # fmt: skip
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
    moments = [
        value.data_ptr()
        for training in (first, *others)
        for one in training.optimiser.state.values()
        for value in one.values()
    ]
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
