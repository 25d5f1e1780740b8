"""Checks before a training: a user's own network and loss that fail in a training are refused, and what passes trains;
few classes and few images are told."""

import re
from dataclasses import replace

import pytest
import torch
from datafiles import photo, write_folder
from trainings import DATA, SETUP, SSL_DATA, SSL_SETUP, finished, outcome_of

from trainables import train, trained
from trainables.training.checks import check_training
from trainables.training.rehearsal import rehearse
from trainables.training.setups import find_setup

pytestmark = pytest.mark.usefixtures("own_cache")

SETUPS = {task: replace(find_setup("glyphs", "small", task), images_seen=640) for task in ("dml", "ssl")}


@pytest.mark.parametrize("name, message", [
    ("without_parameters", "does not require grad|without a gradient"),
    ("frozen", "does not require grad|without a gradient"),
    ("Detached", "does not require grad|without a gradient"),
    ("TwoInTraining", r"a training step .* to be mapped to \[4, features\] with a gradient, raised .*tuple"),
    ("Squeezed", r"an evaluation of random images, to be mapped to \[1, features\] .* raised IndexError"),
    ("EvenBatches", "an evaluation of random images, .* raised AssertionError: even batches only$"),
    ("NotFinite", r"the terms are \[nan, nan\]"),
    ("Exits", "a training step .* raised SystemExit: 0"),
    ("Growing", "a saved training, resumed, raised .*size mismatch for trunk.seen"),
])  # fmt: skip
def test_a_network_that_fails_in_training_is_refused_before(name, message):
    for setup in SETUPS.values():
        with pytest.raises(ValueError, match=f"^network 'own_networks:{name}'.*{message}"):
            check_training(replace(setup, network=f"own_networks:{name}"), [64], None)


@pytest.mark.parametrize("network", ["own_networks:Plain", "own_networks:Viewing"])
@pytest.mark.parametrize("setup, data", [(SETUP, DATA), (SSL_SETUP, SSL_DATA)], ids=["dml", "ssl"])
def test_a_network_that_passes_trains_and_may_view_its_maps(tmp_path, setup, data, network):
    setup = replace(setup, network=network, images_seen=128)
    rehearse(setup, 32, data.train[0].shape[1])
    run = finished(setup, data)
    assert outcome_of(run).status == "completed"
    (tmp_path / "n.pt").write_bytes(trained.dumps(run))
    first, second = (trained.load(tmp_path / "n.pt", network)(data.test[0]).detach() for _ in range(2))
    assert torch.equal(first, second) and first.isfinite().all()


KINDS = {
    "memory": {"memory": "fixed", "k": 4},
    "Adam and a plateau": {"optimizer": "adam", "schedule": "plateau"},
    "crops": {"augmentation": "crop", "crop_size": 16},
    "bfloat16": {"precision": "bfloat16"},
    "own loss": {"loss": "own_losses:three_parts"},
}


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_the_step_is_that_of_the_set_up(fields):
    rehearse(replace(SETUPS["dml"], network="own_networks:Viewing", **fields), 64, 1)
    with pytest.raises(ValueError, match="a training step .* raised .*tuple"):
        rehearse(replace(SETUPS["dml"], network="own_networks:TwoInTraining", **fields), 64, 1)


def test_a_network_that_takes_one_size_is_refused_where_photos_of_any_size_are_tested():
    setup = replace(SETUPS["dml"], network="own_networks:Plain")
    rehearse(setup, 64, 3)
    with pytest.raises(ValueError, match="a photo of 56 x 42 px at three scales, as test = 'roxford5k' has, raised"):
        rehearse(replace(setup, test="roxford5k"), 64, 3)


def test_nothing_built_in_is_tried_and_the_global_generator_is_left_alone(monkeypatch):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    rehearse(replace(SETUPS["dml"], network="own_networks:Plain", loss="own_losses:drawing"), 64, 1)
    assert torch.equal(torch.get_rng_state(), before)
    monkeypatch.setattr(torch.Tensor, "backward", lambda *_, **__: pytest.fail("a step was taken"))
    rehearse(SETUPS["dml"], 64, 1)


FLAT = [f"{number}.jpg" for number in range(50)]


def of_classes(classes):
    return [f"{label}/{number}.jpg" for label in range(classes) for number in range(10)]


def made(root, names):
    return str(write_folder(root / "photos", {name: photo(3, number) for number, name in enumerate(names)}))


@pytest.mark.parametrize("names, said", [
    (FLAT, "for task ssl without classes the images alone$"), (of_classes(6), "--task ssl needs none"),
    (of_classes(3), "--task ssl needs none"),
], ids=["flat", "six classes", "three classes"])  # fmt: skip
def test_for_too_few_classes_the_message_has_an_option_that_works(tmp_path, names, said):
    place = made(tmp_path, names)
    with pytest.raises(ValueError, match=said):
        check_training(find_setup("folder", "small"), [64], place)
    setup, _ = check_training(find_setup("folder", "small", "ssl"), [16], place)
    assert setup.metric == ("view_retrieval" if names is FLAT else "probe_accuracy")


def test_a_split_of_one_image_is_refused(tmp_path):
    """Its embedding coincides with itself, so that every training would be called diverged."""
    flat = [f"{number}.jpg" for number in range(16)]
    check_training(find_setup("folder", "small", "ssl"), [4], made(tmp_path / "enough", flat))
    for count, splits in ((10, "validation and test"), (15, "validation")):
        place = made(tmp_path / str(count), flat[:count])
        with pytest.raises(ValueError, match=f"photos: 1 image for {splits}, at least 2 are needed for a score"):
            check_training(find_setup("folder", "small", "ssl"), [4], place)


def test_few_images_are_told_with_the_error_of_a_score(tmp_path, caplog):
    caplog.set_level("INFO", "trainables")
    check_training(find_setup("folder", "small", "ssl"), [64], made(tmp_path, of_classes(6)))
    said = (
        "48 training, 6 validation, 6 test images of 6 classes (0, 1, 2 and 3 more)\n  32,000 images are 666.7 epochs"
    )
    assert said in caplog.text
    assert re.search("; of 6 .* error of 0.20", caplog.text)


def test_classes_with_less_than_k_images_are_told(tmp_path, caplog):
    caplog.set_level("INFO", "trainables")
    place = made(tmp_path, of_classes(12))
    for k, said in ((4, False), (16, True)):
        caplog.clear()
        check_training(replace(find_setup("folder", "small"), k=k), [2 * k], place)
        assert ("; 7 of 7 classes have less than k = 16 images" in caplog.text) == said


def test_a_flat_folder_is_trained_and_selected_by_the_retrieval_of_views(tmp_path, capsys, caplog):
    caplog.set_level("INFO", "trainables")
    place = made(tmp_path, FLAT)
    options = f"--dataset folder --task ssl --data-root {place} --device cpu --set images_seen=256".split()
    assert train.main(options) == 0
    said = capsys.readouterr()
    assert "40 training, 5 validation, 5 test images, without classes\n  256 images are 6.4 epochs" in caplog.text
    assert "validation view_retrieval" in said.err and "probe" not in said.out
    assert train.main([*options, "--set", "selected_by=probe_accuracy"]) == 2
    said = capsys.readouterr().err
    assert "selected_by = 'probe_accuracy': the images have no classes; view_retrieval or rankme needs none" in said
