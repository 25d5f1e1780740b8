"""Self-supervision without classes: its scores, what selects, and the commands for few classes and few images."""

import re
from dataclasses import replace

import pytest
from datafiles import photo, write_folder
from trainings import SSL_DATA, SSL_SETUP, finished

from trainables import train
from trainables.data.resident import DeviceData
from trainables.training.checks import check_training
from trainables.training.evaluation import evaluate
from trainables.training.setup import UNLABELLED
from trainables.training.setups import find_setup

pytestmark = pytest.mark.usefixtures("own_cache")


def test_data_without_classes_have_no_probe_and_data_with_classes_keep_it():
    without = DeviceData("blobs", *((images, 0 * labels) for images, labels in (SSL_DATA.train, SSL_DATA.validation)))
    setup = replace(SSL_SETUP, selected_by="rankme")
    model = finished(SSL_SETUP, SSL_DATA).model
    [scores] = evaluate([model], setup, without.train, without.validation)
    assert set(scores) == {"spread", *UNLABELLED}
    [labelled] = evaluate([model], setup, SSL_DATA.train, SSL_DATA.validation)
    assert labelled == scores | {name: labelled[name] for name in ("probe_accuracy", "knn_accuracy")}
    assert not set(UNLABELLED) & set(evaluate([model], SSL_SETUP, SSL_DATA.train, SSL_DATA.validation)[0])


FLAT = [f"{number}.jpg" for number in range(50)]


def of_classes(classes):
    return [f"{label}/{number}.jpg" for label in range(classes) for number in range(10)]


def made(root, names):
    return str(write_folder(root / "photos", {name: photo(3, number) for number, name in enumerate(names)}))


def small(task=None, **fields):
    return replace(find_setup("folder", "small", task), **fields)


def test_a_flat_folder_is_trained_and_selected_by_the_retrieval_of_views(tmp_path, capsys, caplog):
    caplog.set_level("INFO", "trainables")
    place = made(tmp_path, FLAT)
    options = f"--dataset folder --task ssl --data-root {place} --device cpu --set images_seen=256".split()
    assert train.main(options) == 0
    said = capsys.readouterr().out
    assert "40 training, 5 validation, 5 test images, without classes\n  256 images are 6.4 epochs" in caplog.text
    assert "validation view_retrieval" in said and "probe" not in said.partition("\n{")[2]
    assert train.main([*options, "--set", "selected_by=probe_accuracy"]) == 2
    said = capsys.readouterr().err
    assert "selected_by = 'probe_accuracy': the images have no classes; view_retrieval or rankme needs none" in said


@pytest.mark.parametrize("names, said", [
    (FLAT, "for task ssl without classes the images alone$"), (of_classes(6), "--task ssl needs none"),
    (of_classes(3), "--task ssl needs none"),
], ids=["flat", "six classes", "three classes"])  # fmt: skip
def test_for_too_few_classes_the_message_has_an_option_that_works(tmp_path, names, said):
    place = made(tmp_path, names)
    with pytest.raises(ValueError, match=said):
        check_training(small(), [64], place)
    setup, _ = check_training(small("ssl"), [16], place)
    assert setup.metric == ("view_retrieval" if names is FLAT else "probe_accuracy")


def test_few_images_are_told_with_the_error_of_a_score(tmp_path, caplog):
    caplog.set_level("INFO", "trainables")
    check_training(small("ssl"), [64], made(tmp_path, of_classes(6)))
    assert "48 training, 6 validation, 6 test images of 6 classes\n  32,000 images are 666.7 epochs" in caplog.text
    assert re.search("; of 6 .* error of 0.20", caplog.text)
