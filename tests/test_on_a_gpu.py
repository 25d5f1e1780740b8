"""What only a GPU can show: recorded steps, streams side by side, memory measured. Skipped without one."""

import math
from dataclasses import replace

import pytest
import torch
from trainings import DATA, KINDS, SETUP, H, configuration, trained

from trainables.data.resident import DeviceData
from trainables.training.cuda_graphs import WARM_UP
from trainables.training.loop import Training
from trainables.training.parallel import MOST, Pack

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


def on_gpu(data):
    return DeviceData(
        data.name, *(tuple(part.to(GPU) for part in split) for split in (data.train, data.validation, data.test))
    )


@pytest.fixture(autouse=True)
def exact_products(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


def float32(kind, **changes):
    setup, data = KINDS[kind]
    return replace(setup, precision="float32", images_seen=320, evaluations=2, **changes), on_gpu(data)


@pytest.mark.parametrize("kind", KINDS)
def test_the_recorded_step_is_the_eager_one(kind):
    """The same batches and views, and weights that differ by rounding; through the memory's start and a schedule."""
    setup, data = float32(kind)
    runs = {}
    for step in ("graph", "eager"):
        run = runs[step] = Training(replace(setup, step=step), data, H, seed=1, device=GPU)
        run.depart()
        drawn = []
        for _ in range(run.iterations):
            run.step()
            run.stream.synchronize()
            drawn.append(run.labels.clone())
        run.drawn = torch.stack(drawn)
    graph, eager = runs["graph"], runs["eager"]
    assert graph.recordable and not eager.recordable and graph.iterations > WARM_UP + 1
    assert torch.equal(graph.drawn, eager.drawn) and len(graph.drawn.unique(dim=0)) > 1
    for one, other in zip(graph.model.state_dict().values(), eager.model.state_dict().values(), strict=True):
        assert torch.allclose(one.float(), other.float(), rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_equals_alone_to_rounding(kind):
    setup, data = float32(kind)
    settings = [(0.3, 2.0, 32, 0), (0.1, 0.1, 32, 0), (0.3, 2.0, 32, 1), (1.0, 4.0, 16, 0)]
    together = trained(Pack(setup, data, GPU, at_once=3), [configuration(*values) for values in settings])
    for index, values in enumerate(settings):
        alone = trained(Pack(setup, data, GPU, at_once=1), [configuration(*values)])[0]
        assert together[index].status == alone.status == "completed"
        assert together[index].val_score == pytest.approx(alone.val_score, abs=0.05)
        assert together[index].scores["train_positive_term"] == pytest.approx(
            alone.scores["train_positive_term"], rel=0.05
        )


def test_a_recording_serves_the_next_training(monkeypatch):
    setup, data = float32("margin")
    pack = Pack(setup, data, GPU, at_once=1)
    trained(pack, [configuration(0.3, 2.0, 32, 0)])
    recording = pack._spare[0]._replayed[False]._graph
    again = trained(pack, [configuration(0.7, 0.5, 32, 4)])[0]
    assert pack._spare[0]._replayed[False]._graph is recording
    fresh = trained(Pack(setup, data, GPU, at_once=1), [configuration(0.7, 0.5, 32, 4)])[0]
    assert again.val_score == pytest.approx(fresh.val_score, abs=0.05) and again.scores[
        "train_entropy_term"
    ] == pytest.approx(fresh.scores["train_entropy_term"], rel=0.05)


def test_a_diverged_one_stops_and_the_others_do_not_notice():
    setup, data = float32("margin")
    settings = [(0.3, 2.0, 32, 0), (math.inf, 1.0, 32, 0), (0.5, 1.0, 32, 5)]
    outcomes = trained(Pack(setup, data, GPU, at_once=3), [configuration(*values) for values in settings])
    assert [outcomes[index].status for index in range(3)] == ["completed", "diverged", "completed"]


def test_as_many_as_the_memory_holds():
    pack = Pack(replace(SETUP, images_seen=320), on_gpu(DATA), GPU)
    outcomes = trained(pack, [configuration(0.1, 1.0, 32, seed) for seed in range(8)])
    assert 1 < pack._at_once <= MOST and len(outcomes) == 8


def test_saved_and_resumed_goes_on_with_the_same_batches():
    setup, data = float32("Adam")
    whole = Training(setup, data, H, seed=0, device=GPU)
    whole.advance()
    other = Training(setup, data, H, seed=0, device=GPU)
    other.load_state(whole.state())
    assert whole.advance().val_score == pytest.approx(other.advance().val_score, abs=0.05) and torch.equal(
        whole.labels, other.labels
    )
