"""What only a GPU can show: recorded steps, streams side by side, memory measured. Skipped without one."""

import gc
import math
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from trainings import DATA, KINDS, SETUP, SSL_DATA, SSL_SETUP, H, advance_one, blobs, configuration, trained

from trainables.data.resident import DeviceData
from trainables.metrics.linear_probe import linear_probe, linear_probes
from trainables.metrics.retrieval import retrieval_scores
from trainables.training.cuda_graphs import STREAMS, WARM_UP, open_queues
from trainables.training.evaluation import evaluate
from trainables.training.loop import Training
from trainables.training.parallel import Pack

open_queues()
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


def on_gpu(data):
    return DeviceData(
        data.name, *(tuple(part.to(GPU) for part in split) for split in (data.train, data.validation, data.test))
    )


@pytest.fixture(autouse=True)
def exact_products():
    """No TensorFloat32. (monkeypatch cannot undo what is set on these modules.)"""
    places = torch.backends.cudnn, torch.backends.cuda.matmul
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = False
    yield
    for place, allowed in zip(places, before, strict=True):
        place.allow_tf32 = allowed


def float32(kind, **changes):
    setup, data = KINDS[kind]
    return replace(setup, precision="float32", images_seen=320, evaluations=2, **changes), on_gpu(data)


@pytest.fixture
def recordings(monkeypatch):
    """Of each recording that is made, the memory pool of an earlier one that it shares, or None."""
    pools, record = [], torch.cuda.graph
    monkeypatch.setattr(
        torch.cuda, "graph", lambda graph, pool=None, **how: pools.append(pool) or record(graph, pool=pool, **how)
    )
    return pools


def stepped(setup, data, step):
    """A training after all its steps, and the labels [iterations, b] of its batches."""
    run, drawn = Training(replace(setup, step=step), data, H, seed=1, device=GPU), []
    run.depart()
    for _ in range(run.iterations):
        run.step()
        with torch.cuda.stream(run.stream):  # behind the step, and before the next one overwrites them
            drawn.append(run.labels.clone())
    run.wait()
    return run, torch.stack(drawn)


def assert_alike(one, other, rtol=1e-2, atol=2e-3):
    for a, b in zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True):
        assert torch.allclose(a.float(), b.float(), rtol=rtol, atol=atol)


def recorded_as_eager(setup, data, **tolerances):
    """Both after all their steps, with the same batches: (recorded, eager, the labels of the batches)."""
    (graph, drawn), (eager, others) = (stepped(setup, data, step) for step in ("graph", "eager"))
    assert torch.equal(drawn, others)
    assert_alike(graph, eager, **tolerances)
    return graph, eager, drawn


def alone(setup, data, *values):
    """What a training of this configuration comes to in a pack of its own."""
    return trained(Pack(setup, data, GPU, at_once=1), [configuration(*values)])[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_recorded_step_is_the_eager_one(kind):
    """The same batches and views, and weights that differ by rounding; through the memory's start and a schedule."""
    setup, data = float32(kind)
    graph, eager, drawn = recorded_as_eager(setup, data)
    assert graph.recordable and not eager.recordable and graph.iterations > WARM_UP + 1
    assert len(drawn.unique(dim=0)) > 1 or setup.task == "ssl", "views are numbered alike in every batch"


def test_two_recordings_share_their_memory(recordings):
    """The memory of embeddings starts after the step without it was recorded, and its own step is recorded as well."""
    setup, data = float32("memory")
    setup = replace(setup, images_seen=640, memory_start=WARM_UP + 4)
    graph, *_ = recorded_as_eager(setup, data)
    assert graph.iterations > setup.memory_start + WARM_UP + 1
    assert len(recordings) == 2 and recordings[0] is None and recordings[1] is not None


def test_bfloat16_is_recorded_too(recordings):
    """Other roundings than in float32, and the same as in plain steps, as far as eight bits tell."""
    setup, data = float32("margin")
    graph, *_ = recorded_as_eager(replace(setup, precision="bfloat16"), data, rtol=5e-2, atol=2e-2)
    (exact, _) = stepped(setup, data, "graph")
    assert len(recordings) == 2 and graph.terms.isfinite().all()
    assert any(not torch.equal(a, b) for a, b in zip(graph.model.parameters(), exact.model.parameters(), strict=True))


def test_images_on_the_host_train_as_images_on_the_gpu():
    setup, data = float32("margin")
    hosted = replace(data, train=(DATA.train[0], data.train[1]))
    (host, drawn), (device, others) = stepped(setup, hosted, "graph"), stepped(setup, data, "graph")
    assert not host.recordable and device.recordable and torch.equal(drawn, others)
    assert_alike(host, device)


def reads_a_value(channels, image_size):
    """A network that waits for the GPU, which no recording allows."""

    class Reading(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(channels * image_size**2, 8)

        def forward(self, images):
            return self.layer(images.flatten(1)) * (1.0 if float(images.sum()) > -math.inf else 0.0)

    return Reading()


def test_a_network_that_cannot_be_recorded_runs_plainly_and_says_so_once(caplog):
    """Its batches and the memory of the device are as if nothing had been tried."""
    setup, data = float32("margin")
    setup = replace(setup, network=f"{__name__}:reads_a_value", weights="none")
    asked, *_ = recorded_as_eager(setup, data)
    assert not asked.recordable and caplog.text.count("kernel by kernel") == 1
    torch.cuda.empty_cache()
    (recorded, _) = stepped(float32("margin")[0], data, "graph")
    assert recorded.recordable


@pytest.mark.parametrize("kind", KINDS)
def test_packed_equals_alone_to_rounding(kind):
    setup, data = float32(kind)
    settings = [(0.3, 2.0, 32, 0), (0.1, 0.1, 32, 0), (0.3, 2.0, 32, 1), (1.0, 4.0, 16, 0)]
    together = trained(Pack(setup, data, GPU, at_once=3), [configuration(*values) for values in settings])
    for index, values in enumerate(settings):
        one, term = alone(setup, data, *values), "train_positive_term"
        assert together[index].status == one.status == "completed"
        assert together[index].val_score == pytest.approx(one.val_score, abs=0.05)
        assert together[index].scores[term] == pytest.approx(one.scores[term], rel=0.05)


def test_a_recording_serves_the_next_training(recordings):
    setup, data = float32("margin")
    pack = Pack(setup, data, GPU, at_once=1)
    trained(pack, [configuration(0.3, 2.0, 32, 0)])
    again = trained(pack, [configuration(0.7, 0.5, 32, 4)])[0]
    assert len(recordings) == 1
    fresh, term = alone(setup, data, 0.7, 0.5, 32, 4), "train_entropy_term"
    assert again.val_score == pytest.approx(fresh.val_score, abs=0.05)
    assert again.scores[term] == pytest.approx(fresh.scores[term], rel=0.05)


def test_a_diverged_one_stops_and_the_others_do_not_notice():
    setup, data = float32("margin")
    settings = [(0.3, 2.0, 32, 0), (math.inf, 1.0, 32, 0), (0.5, 1.0, 32, 5)]
    outcomes = trained(Pack(setup, data, GPU, at_once=3), [configuration(*values) for values in settings])
    assert [outcomes[index].status for index in range(3)] == ["completed", "diverged", "completed"]


def test_as_many_as_the_memory_holds():
    pack = Pack(replace(SETUP, images_seen=320), on_gpu(DATA), GPU)
    outcomes = trained(pack, [configuration(0.1, 1.0, 32, seed) for seed in range(8)])
    assert pack.at_once > 1 and len(outcomes) == 8


@pytest.mark.parametrize("kind, kept", [("Adam", False), ("margin", True)])
def test_saved_and_resumed_goes_on_with_the_same_batches(kind, kept, recordings):
    """Bare SGD has no tensors of its own, so a recorded step is kept, and goes on in what was loaded."""
    setup, data = float32(kind)
    whole = Training(setup, data, H, seed=0, device=GPU)
    advance_one(whole)
    other = Training(setup, data, H, seed=0, device=GPU)
    if kept:
        other.rehearse()
    before = len(recordings)
    other.load_state(whole.state())
    assert advance_one(whole).val_score == pytest.approx(advance_one(other).val_score, abs=0.05)
    assert torch.equal(whole.labels, other.labels) and (not kept or len(recordings) == before == 2)


def test_more_trainings_than_streams():
    """They share streams, and come out as the others."""
    setup, data = float32("margin")
    number = STREAMS + 8
    settings = [configuration(0.3, 2.0, 32, seed) for seed in range(number)]
    together = trained(Pack(setup, data, GPU, at_once=number), settings)
    assert len(together) == number and all(outcome.status == "completed" for outcome in together.values())
    for seed in (0, STREAMS, number - 1):
        assert together[seed].val_score == pytest.approx(alone(setup, data, 0.3, 2.0, 32, seed).val_score, abs=0.05)


def test_a_rehearsed_training_has_its_recordings_and_begins_as_a_new_one(recordings):
    setup, data = float32("memory")
    run = Training(replace(setup, images_seen=640), data, H, seed=1, device=GPU)
    run.rehearse()
    assert len(recordings) == 2
    found = advance_one(run).val_score
    assert len(recordings) == 2
    new = Training(replace(setup, images_seen=640), data, H, seed=1, device=GPU)
    assert found == pytest.approx(advance_one(new).val_score, abs=0.05) and torch.equal(run.labels, new.labels)


# Memory


LARGE = DeviceData("blobs", blobs(256, 1), blobs(8, 2), blobs(8, 3))


@contextmanager
def room_for(size):
    """torch may take so many bytes more than it holds."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(GPU).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + size) / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def memory_of_one(setup, data, batch_size):
    """Bytes that a recorded training holds."""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    training = Training(setup, data, H | {"batch_size": batch_size}, seed=0, device=GPU)
    training.rehearse()
    torch.cuda.empty_cache()
    held = torch.cuda.memory_reserved() - before
    del training
    return held


def test_a_pack_that_runs_out_of_memory_goes_on_with_fewer(caplog):
    setup, data = replace(SETUP, images_seen=4096, evaluations=2), on_gpu(LARGE)
    held = memory_of_one(setup, data, 512)
    pack = Pack(setup, data, GPU, at_once=8)
    with room_for(4 * held):
        outcomes = trained(pack, [configuration(0.1, 1.0, 512, seed) for seed in range(8)])
    assert [outcomes[seed].status for seed in range(8)] == ["completed"] * 8
    assert pack.at_once < 8 and "go on" in caplog.text


def test_the_memory_of_a_dropped_training_may_be_used_at_once():
    """Its queued steps do not write into what another one is built in."""
    setup, data = float32("margin")
    setup = replace(setup, images_seen=3200)
    pack = Pack(setup, data, GPU, at_once=2)
    pack.begin([configuration(0.3, 2.0, 32, seed) for seed in range(3)])
    dropped = pack.start(0)
    dropped.depart()
    for _ in range(200):
        dropped.step()
    del dropped
    pack.drop(0)
    outcomes = trained(pack)
    for seed in (1, 2):
        assert outcomes[seed].val_score == pytest.approx(alone(setup, data, 0.3, 2.0, 32, seed).val_score, abs=0.05)


# Scores


@pytest.mark.parametrize("setup, data", [(SETUP, DATA), (SSL_SETUP, SSL_DATA)], ids=["dml", "ssl"])
def test_networks_scored_together_have_the_scores_of_each_alone(setup, data):
    data = on_gpu(data)
    models = [Training(setup, data, H, seed=seed, device=GPU).model for seed in range(3)]
    for together, model in zip(evaluate(models, setup, data.train, data.validation), models, strict=True):
        [one] = evaluate([model], setup, data.train, data.validation)
        assert together == pytest.approx(one, abs=0.05)


def noisy(classes, per_class, seed):
    """Features [n, 16] around the classes' own directions, and labels [n], on the GPU."""
    generator, labels = torch.Generator().manual_seed(seed), torch.arange(classes).repeat_interleave(per_class)
    features = 2 * torch.eye(16)[labels] + torch.randn(len(labels), 16, generator=generator)
    return features.to(GPU), labels.to(GPU)


def test_probes_trained_together_are_those_trained_alone():
    """To rounding: cuBLAS may sum the batched products in another order."""
    (x, y), (x_test, y_test) = noisy(8, 40, 1), noisy(8, 50, 2)
    scales = torch.tensor([1.0, 0.5, 2.0], device=GPU)[:, None, None]
    together = linear_probes(scales * x, y, scales * x_test, y_test, epochs=20, learning_rate=0.05).tolist()
    each = [linear_probe(one * x, y, one * x_test, y_test, epochs=20, learning_rate=0.05) for one in scales[:, 0]]
    assert together == pytest.approx(each, abs=0.02) and min(each) > 0.5


def test_the_gpu_gives_the_scores_of_the_cpu():
    embeddings, labels = noisy(8, 7, 3)
    assert retrieval_scores(embeddings, labels) == pytest.approx(retrieval_scores(embeddings.cpu(), labels.cpu()))
