"""Every dataset of the paper through the command that trains one configuration, in its exact layout and in small."""

import json
import re

import pytest
from benchmark_files import image_files, write_truth
from datafiles import omniglot_files, photo, photos, sop_files, tiny_files, write_folder

from trainables import train
from trainables.datasets.landmarks import image_name

pytestmark = pytest.mark.usefixtures("own_cache")

CLASSES = 12


def landmarks(root):
    """Lists and photos of Landmarks-clean, beside a revisited Oxford of twelve images and three queries."""
    for file, numbers in (("train", range(4)), ("val", range(4, 6))):
        urls = {f"http://photos/{n}/{k}.jpg": (n, k) for n in range(CLASSES) for k in numbers}
        write_folder(root / "landmarks", {image_name(url): photo(*which) for url, which in urls.items()})
        lines = "".join(f"{url} {label} 0 9 0 9\n" for url, (label, _) in urls.items())
        (root / "landmarks" / f"annotation_clean_{file}.txt").write_text(lines)
    write_folder(root / "roxford5k" / "jpg", {f"{name}.jpg": data for name, data in image_files().items()})
    write_truth(root / "roxford5k" / "gnd_roxford5k.pkl")
    return root


DATASETS = {
    "omniglot": (lambda root: write_folder(root, omniglot_files()), "--batch-size 8", "omniglot-10",
                 {"test_r_map", "test_recall_at_2"}),
    "sop": (lambda root: write_folder(root, sop_files(10, 2, 4, photo)), "--batch-size 8 --loss infonce", "sop-12",
            {"test_r_map", "test_map_at_r", "test_precision_at_1", "test_recall_at_4"}),
    "landmarks": (landmarks, "--batch-size 16", "landmarks-12",
                  {f"test_roxford5k-12_{level}_map" for level in ("easy", "medium", "hard")}),
    "tinyimagenet": (lambda root: write_folder(root, tiny_files()), "--batch-size 16", "tinyimagenet-2",
                     {"test_probe_accuracy"}),
    "folder": (photos, "--batch-size 8", "folder-mine-[0-9a-f]{4}", {"test_r_map", "val_r_map"}),
    "folder, own loss": (photos, "--batch-size 12 --loss own_losses:three_parts --Lambda_pull 0.1 --Lambda_push 0.5",
                         "folder-mine-[0-9a-f]{4}", {"test_r_map", "term_pull"}),
    "folder, ssl": (photos, "--batch-size 16 --task ssl --loss margin", "folder-mine-[0-9a-f]{4}",
                    {"test_probe_accuracy"}),
}  # fmt: skip
SHORT = ["--device", "cpu", "--set", "images_seen=160", "evaluations=2", "probe_epochs=2", "probe_steps=0"]


@pytest.mark.parametrize("which", DATASETS)
def test_a_training_ends_in_its_scores(tmp_path, capsys, which):
    make, options, name, scores = DATASETS[which]
    root = make(tmp_path / "data")
    status = train.main(["--dataset", which.split(",")[0], "--data-root", str(root), *options.split(), *SHORT])
    said = capsys.readouterr()
    assert status == 0, said.err
    outcome = json.loads(said.out[said.out.index("{\n") :])
    assert re.match(f"{name}: ", said.out) and outcome["status"] == "completed"
    assert scores <= set(outcome["scores"]) and 0 <= outcome["test_score"] <= 1
    assert outcome["test_score"] in {value for key, value in outcome["scores"].items() if key.startswith("test_")}
