"""A resumed training ends as the uninterrupted one, to the bit, on the CPU; damaged and foreign files are refused."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from trainings import DATA, KINDS, SETUP, H, advance_one, begun, finished, outcome_of, told

from trainables.training import checkpoint


def tensors(training):
    """Of the network and of its memory."""
    memory = training.memory.buffers() if training.setup.memory != "none" else ()
    return [tensor.clone() for tensor in (*training.model.state_dict().values(), *memory)]


@cache
def uninterrupted(kind):
    """(iterations, tensors, outcome without times)."""
    whole = finished(*KINDS[kind])
    return whole.iteration, tensors(whole), told(outcome_of(whole))


@pytest.mark.parametrize("kind, cut", [*((kind, 1) for kind in KINDS), ("memory", 2)])
def test_resumed_equals_never_stopped(tmp_path, kind, cut):
    """Cut before a memory holds anything, and after."""
    setup, data = KINDS[kind]
    iterations, expected_tensors, expected = uninterrupted(kind)
    first = begun(setup, data)
    for _ in range(cut):
        advance_one(first)
    checkpoint.save(first, tmp_path / "training.pt")
    advance_one(first)  # what happens after the checkpoint does not matter
    second = begun(setup, data)
    torch.rand(3)
    checkpoint.load(second, tmp_path / "training.pt")
    assert second.iteration == iterations * cut // setup.evaluations and not second.done
    while not second.done:
        advance_one(second)
    assert all(torch.equal(a, b) for a, b in zip(tensors(second), expected_tensors, strict=True))
    assert told(outcome_of(second)) == expected


def test_the_state_of_another_training_is_refused(tmp_path):
    checkpoint.save(begun(), tmp_path / "training.pt")
    for other, said in (
        (begun(seed=1), "seed 0, not 1"),
        (begun(SETUP, DATA, H | {"Lambda_p": 0.4}), "Lambda_p 0.3, not 0.4"),
        (begun(replace(SETUP, margin=0.4)), "margin 0.5, not 0.4"),
    ):
        with pytest.raises(ValueError, match=f"another training: {said}$"):
            checkpoint.load(other, tmp_path / "training.pt")
