"""What can be known of the GPU paths without a card: which device, which errors, who owns which tensors."""

import copy
import logging
import os
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from trainings import CPU, DATA, KINDS, SETUP, H, advance_one, alone, configuration, told, trained

from trainables.training import parallel
from trainables.training.cuda_graphs import QUEUES, STREAMS, WARM_UP, Replayed, open_queues
from trainables.training.errors import is_of_recording, is_of_the_machine, is_out_of_memory
from trainables.training.loop import CHECK_LEAD, DIVERGENCE_CHECK, Training
from trainables.training.parallel import MOST, SHARE, Pack
from trainables.training.side_by_side import check
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
    advance_one(first)
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
    advance_one(others[0])
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


def test_the_steps_own_error_counts_not_that_of_ending_its_recording(monkeypatch):
    """No memory during the recording is no memory, though ending it then fails as well."""

    @contextmanager
    def graph(recorded, pool, stream, capture_error_mode):
        try:
            yield
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    replayed, calls = Replayed(None, torch.Generator()), []

    def step():
        calls.append(1)
        if len(calls) > WARM_UP:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return (torch.ones(1),)

    for _ in range(WARM_UP):
        replayed(step)
    with pytest.raises(torch.OutOfMemoryError):
        replayed(step)
    assert not replayed.plain


def test_what_can_be_recorded_is_recorded_for_this_thread_alone_and_replayed(monkeypatch):
    modes, steps = recording(monkeypatch, None), []
    monkeypatch.setattr(Graph, "replays", 0)
    replayed = Replayed(None, torch.Generator())
    for _ in range(WARM_UP + 4):
        replayed(lambda: steps.append(1) or (torch.ones(1),))
    assert modes == ["thread_local"] and len(steps) == WARM_UP + 1 and Graph.replays == 4


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


def test_a_check_looks_at_a_loss_of_a_few_iterations_ago_and_at_each_trainings_own():
    """What the steps since then compute is not waited for."""
    runs = [
        Training(replace(SETUP, images_seen=3200, evaluations=1), DATA, H, seed=seed, device=CPU) for seed in (0, 1)
    ]
    for run in runs:
        run.depart()
        for _ in range(DIVERGENCE_CHECK - CHECK_LEAD):
            run.step()
    runs[0].weights.fill_(float("inf"))
    for _ in range(CHECK_LEAD):
        for run in runs:
            run.step()
    assert not runs[0].terms.isfinite().all() and runs[1].terms.isfinite().all()
    check(runs)
    assert not runs[0].diverged
    for _ in range(DIVERGENCE_CHECK):
        for run in runs:
            run.step()
    check(runs)
    assert runs[0].diverged and not runs[1].diverged


@pytest.mark.parametrize("kind", KINDS)
def test_a_rehearsed_training_is_as_a_new_one(kind):
    """To the bit, though it took steps with and without the memory."""
    setup, data = KINDS[kind]
    rehearsed, taken = Training(setup, data, H, seed=0, device=CPU), []
    take = rehearsed._take
    rehearsed._take = lambda with_memory: (taken.append(with_memory), take(with_memory))
    rehearsed.rehearse()
    kinds = [False, True] if setup.memory != "none" else [False]
    assert taken == [with_memory for with_memory in kinds for _ in range(WARM_UP + 1)]
    new = Training(setup, data, H, seed=0, device=CPU)
    assert advance_one(rehearsed).scores == advance_one(new).scores


@pytest.mark.parametrize("recordable", [True, False])
def test_a_pack_is_as_large_as_the_memory_that_a_rehearsal_took_allows(monkeypatch, recordable):
    """On a card whose torch keeps 2 units of what an unrecorded step used, until they are asked back."""
    held = {"trainings": 0, "kept": 0}

    def rehearse(self):
        held.update(trainings=held["trainings"] + 3, kept=2)

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100 - held["trainings"] - held["kept"], 100))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: held.update(kept=0))
    monkeypatch.setattr(Training, "rehearse", rehearse)
    monkeypatch.setattr(Training, "recordable", recordable)
    pack = Pack(SETUP, DATA, CPU)
    pack.begin([configuration(0.3, 2.0, b, 0) for b in (16, 32)])
    pack._at_once = None
    took = 3 if recordable else 5
    assert pack._measured(1) == min(MOST, 1 + int(SHARE * (100 - took) / took))
    [spare] = pack._spare
    assert spare.batch_size == 32 and pack.start(1) is spare


def test_the_memory_of_a_dropped_training_is_given_back_after_its_kernels(monkeypatch):
    events = []
    monkeypatch.setattr(Training, "wait", lambda self: events.append((self.seed, len(pack.running))))
    pack = Pack(SETUP, DATA, CPU, at_once=2)
    pack.begin([configuration(0.3, 2.0, 32, seed) for seed in range(3)])
    pack.start(0), pack.start(1)
    pack.drop(1), pack.drop(2)
    assert events == [(1, 1)]


def test_all_that_are_done_are_tested_together_and_alone_where_that_fails(monkeypatch, caplog):
    settings = [(0.3, 2.0, 32, seed) for seed in range(3)]
    together, sizes = parallel.outcomes, []
    monkeypatch.setattr(parallel, "outcomes", lambda runs: sizes.append(len(runs)) or together(runs))
    outcomes = trained(Pack(SETUP, DATA, CPU, at_once=3), [configuration(*values) for values in settings])
    assert sizes == [3]
    for index, values in enumerate(settings):
        assert told(outcomes[index]) == alone(SETUP, DATA, *values)
    monkeypatch.setattr(parallel, "outcomes", lambda runs: together(runs) if len(runs) == 1 else [][1])
    again = trained(Pack(SETUP, DATA, CPU, at_once=3), [configuration(*values) for values in settings])
    assert caplog.text.count("tested one by one") == 1
    assert all(told(again[index]) == told(outcomes[index]) for index in range(3))
