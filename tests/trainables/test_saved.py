"""What a training leaves. Its state: resumed, it ends as the uninterrupted one, to the bit on the CPU. Its network:
what it gives is what was tested. Damaged and other files are refused."""

import io
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image
from trainings import DATA, KINDS, SETUP, SIZE, SSL_DATA, H, advance_one, begun, finished, outcome_of, told

from trainables import trained
from trainables.models import networks
from trainables.models.weights import Standardise
from trainables.retrieval import retrieval_scores
from trainables.training import checkpoint, evaluation
from trainables.training.setups import find_setup


def tensors(training):
    """Of the network and of its memory."""
    memory = training.memory.buffers() if training.setup.memory != "none" else ()
    return [tensor.clone() for tensor in (*training.model.state_dict().values(), *memory)]


@cache
def uninterrupted(kind):
    """(iterations, tensors, outcome without times)."""
    whole = finished(*KINDS[kind])
    return whole.iteration, tensors(whole), told(outcome_of(whole))


QUICK = ("margin", "memory", "self-supervised")


@pytest.mark.parametrize("kind, cut", [
    *(pytest.param(kind, 1, marks=[pytest.mark.slow] * (kind not in QUICK)) for kind in KINDS), ("memory", 2),
])  # fmt: skip
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
    for other in ({"network": {}}, [1], torch.zeros(2)):
        torch.save(other, tmp_path / "other.pt")
        with pytest.raises(ValueError, match="other.pt: it is not the state of a training$"):
            checkpoint.load(begun(), tmp_path / "other.pt")


def test_the_state_of_a_training_whose_folder_has_moved_is_taken(tmp_path):
    checkpoint.save(begun(SETUP, replace(DATA, name="folder-my-photos-3fa9")), tmp_path / "training.pt")
    checkpoint.load(begun(SETUP, replace(DATA, name="folder-moved-3fa9")), tmp_path / "training.pt")
    with pytest.raises(ValueError, match="data 'folder-my-photos-3fa9', not 'folder-my-photos-3fa8'"):
        checkpoint.load(begun(SETUP, replace(DATA, name="folder-my-photos-3fa8")), tmp_path / "training.pt")


NETWORKS = KINDS | {
    "of a library": (replace(SETUP, network="torchvision:resnet18"), DATA),
    "pooled": (replace(SETUP, network="resnet18_gem", embedding=16), DATA),
}


@cache
def file_of(kind):
    """(set-up, outcome, file) of a training of this kind."""
    setup = replace(NETWORKS[kind][0], images_seen=128, evaluations=2)
    training = finished(setup, NETWORKS[kind][1])
    return setup, outcome_of(training), trained.dumps(training)


def loaded(data):
    return trained.load(io.BytesIO(data))


@pytest.mark.parametrize("kind", NETWORKS)
def test_what_is_loaded_scores_as_what_was_tested(kind):
    (setup, outcome, file), data = file_of(kind), NETWORKS[kind][1]
    network = loaded(file)
    assert (network.setup, network.data) == (setup, "blobs")
    assert (network.val_score, network.images_seen) == (outcome.val_score, outcome.best_at)
    [scores] = evaluation.evaluate([network.embedder], setup, data.train, data.test)
    assert scores[setup.metric] == outcome.test_score
    if setup.task == "dml":
        images, labels = data.test
        assert retrieval_scores(network(images), labels)["r_map"] == pytest.approx(outcome.scores["test_r_map"])


def test_images_are_taken_as_bytes_or_in_0_to_1_and_of_the_size_of_training():
    network = loaded(file_of("self-supervised")[2])
    images = SSL_DATA.test[0][:5]
    expected = network(images)
    assert expected.shape == (5, 64) and torch.allclose(expected.norm(dim=1), torch.ones(5))
    assert torch.allclose(network(images / 255), expected, atol=1e-6)
    assert network.features(images).shape == (5, 512) and not network.training
    for wrong in (images[0], images[:, :1]):
        with pytest.raises(ValueError, match=r"images \[.*\]: \[n, 3, height, width\] is required"):
            network(wrong)
    for wrong in (images.float(), images.int(), images / 64 - 2):
        with pytest.raises(
            ValueError, match=r"images torch.* beyond \[0, 1\]: uint8, or float in \[0, 1\], is required"
        ):
            network(wrong)
    assert torch.allclose(torch.compile(network, backend="eager")(images / 255), expected, atol=1e-6)
    for larger in (-8, 4):
        with pytest.raises(ValueError, match=rf"{SIZE} x {SIZE + larger} pixels: .* to {SIZE} x {SIZE}: .*photo\("):
            network(torch.nn.functional.pad(images, (larger, 0)))


@pytest.mark.parametrize("kind", ["self-supervised", "pooled"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_network_of_another_precision_takes_the_same_images(kind, dtype):
    network, images = loaded(file_of(kind)[2]), NETWORKS[kind][1].test[0][:5]
    expected, network = network(images), network.to(dtype)
    for given in (images, images / 255, (images / 255).to(dtype)):
        assert torch.nn.functional.cosine_similarity(network(given), expected.to(dtype)).min() > 0.98


def test_a_photo_is_decoded_as_in_training(tmp_path):
    network, photo = loaded(file_of("self-supervised")[2]), tmp_path / "photo.png"
    pixels = np.random.default_rng(0).integers(0, 256, (SIZE, 2 * SIZE, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(photo)
    middle = torch.from_numpy(pixels[:, SIZE // 2 : SIZE // 2 + SIZE].copy()).permute(2, 0, 1)
    assert torch.equal(network.photo(photo), middle) and torch.equal(network.photo(photo.read_bytes()), middle)
    with pytest.raises(ValueError, match="trained on blobs, images of 1 channel; photographs have 3"):
        loaded(file_of("margin")[2]).photo(photo)
    photo.write_text("no image")
    with pytest.raises(ValueError, match=r"photo\.png: "):
        network.photo(photo)


def test_a_file_also_serves_as_the_weights_of_another_training(tmp_path):
    (tmp_path / "n.pt").write_bytes(file_of("margin")[2])
    setup = replace(SETUP, weights=str(tmp_path / "n.pt"))
    training = begun(setup, seed=5)
    there = loaded(file_of("margin")[2]).embedder.state_dict()
    assert all(torch.equal(tensor, there[name]) for name, tensor in training.model.state_dict().items())


@pytest.mark.slow
def test_pretrained_weights_are_not_asked_for_again(monkeypatch):
    """Their standardised input stays in the network."""
    setup = replace(find_setup("sop", "paper"), images_seen=64, image_size=SIZE, crop_size=0, network="resnet18_gem")
    setup = replace(setup, embedding=16, weights="imagenet", test="split", evaluations=1)
    plain = networks.build_network("resnet18_gem", channels=3, image_size=SIZE, projection=False, seed=4)
    form = {f"standardise.{name}": tensor for name, tensor in Standardise().state_dict().items()}
    with monkeypatch.context() as patch:
        patch.setattr(networks, "read_weights", lambda *_: plain.state_dict() | form)
        training = finished(setup, SSL_DATA, {"Lambda_p": 0.01, "Lambda_e": 0.01, "batch_size": 8})
    images = SSL_DATA.test[0][:4]
    expected = training.model.eval()(evaluation.normalise(images))
    assert torch.allclose(loaded(trained.dumps(training))(images), expected, atol=1e-6)
    assert "standardise.mean" in training.best


def test_a_network_of_ones_own_is_called_only_where_it_is_named():
    own = "own_networks:Plain"
    file = trained.dumps(finished(replace(SETUP, network=own, images_seen=64, evaluations=1)))
    with pytest.raises(ValueError, match=f"its network is '{own}', .* \\(--own-network {own}\\)$"):
        loaded(file)
    assert trained.load(io.BytesIO(file), network=own)(DATA.test[0][:3]).shape == (3, 8)
    with pytest.raises(ValueError, match=f"its network is 'small_conv', asked for was network='{own}'"):
        trained.load(io.BytesIO(file_of("margin")[2]), network=own)


@pytest.fixture
def written(tmp_path):
    """Writes what a file holds, by default that of a network."""

    def write(content=None, **changed):
        saved = torch.load(io.BytesIO(file_of("margin")[2]), weights_only=True) if content is None else content
        torch.save(saved | changed if isinstance(saved, dict) else saved, tmp_path / "file.pt")
        return tmp_path / "file.pt"

    return write


def test_a_loss_of_ones_own_is_neither_imported_nor_needed(written):
    setup = asdict(file_of("margin")[0]) | {"loss": "no_such_module:spread_out"}
    network = trained.load(written(setup=setup))
    assert asdict(network.setup) == setup and network(DATA.test[0][:3]).shape[0] == 3


def test_other_files_are_refused(tmp_path, written):
    (tmp_path / "text.pt").write_text("nothing")
    with pytest.raises(ValueError, match=r"text\.pt is not a trained network: torch\.load"):
        trained.load(tmp_path / "text.pt")
    content = torch.load(written(), weights_only=True)
    for other in ({}, content["network"], content | {"format": 2}):
        with pytest.raises(ValueError, match=r"file\.pt is not a trained network of format 1"):
            trained.load(written(other))
    del content["channels"]
    for other in (content, content | {"channels": 1, "setup": asdict(SETUP) | {"new_field": 1}}):
        with pytest.raises(ValueError, match=r"file\.pt: saved by another release"):
            trained.load(written(other))
    with pytest.raises(ValueError, match="are another network's"):
        trained.load(written(channels=3))
    with pytest.raises(FileNotFoundError):
        trained.load(tmp_path / "absent.pt")
