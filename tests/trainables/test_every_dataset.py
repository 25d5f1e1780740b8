"""Every dataset of the paper through the command that trains one configuration, in its exact layout and in small."""

import json
import pickle
import re

import pytest
from datafiles import omniglot_files, photo, photos, tiny_files, write_folder, write_zip

from trainables import train
from trainables.datasets.landmarks import _file_name

pytestmark = pytest.mark.usefixtures("own_cache")

CLASSES = 12


def sop(root):
    """10 training classes of which one is held out, 2 test classes."""
    files = {"train": "", "test": ""}
    images = {}
    for label in range(CLASSES):
        for number in range(4):
            name = f"chair_final/{label}_{number}.JPG"
            images[name] = photo(label, number)
            files["train" if label < 10 else "test"] += f"{len(images)} {label + 1} 1 {name}\n"
    images |= {
        f"Ebay_{split}.txt": b"image_id class_id super_class_id path\n" + lines.encode()
        for split, lines in files.items()
    }
    return write_zip(
        root / "Stanford_Online_Products.zip",
        {f"Stanford_Online_Products/{name}": data for name, data in images.items()},
    ).parent


def landmarks(root):
    """Lists and photos of Landmarks-clean, beside a revisited Oxford of nine images and three queries."""
    for file, numbers in (("train", range(4)), ("val", range(4, 6))):
        urls = {
            f"http://photos/{label}/{number}.jpg": (label, number) for label in range(CLASSES) for number in numbers
        }
        write_folder(root / "landmarks", {f"images/{_file_name(url)}": photo(*which) for url, which in urls.items()})
        (root / "landmarks" / f"annotation_clean_{file}.txt").write_text(
            "".join(f"{url} {label} 0 9 0 9\n" for url, (label, _) in urls.items())
        )
    names = [f"all_souls_{i:06d}" for i in range(9)]
    queries = ["query_0", "query_1", "query_2"]
    truth = [
        {"bbx": [0.0, 0.0, 40.0, 40.0], "easy": [3 * q], "hard": [3 * q + 1], "junk": [3 * q + 2]} for q in range(3)
    ]
    images = {name: photo(i // 3, 10 + i) for i, name in enumerate(names)} | {
        name: photo(i, 30) for i, name in enumerate(queries)
    }
    write_folder(root / "roxford5k" / "jpg", {f"{name}.jpg": data for name, data in images.items()})
    (root / "roxford5k" / "gnd_roxford5k.pkl").write_bytes(
        pickle.dumps({"imlist": names, "qimlist": queries, "gnd": truth})
    )
    return root


DATASETS = {
    "omniglot": (lambda root: write_folder(root, omniglot_files()), "--batch-size 8", "omniglot-10",
                 {"test_r_map", "test_recall_at_2"}),
    "sop": (sop, "--batch-size 8 --loss infonce", "sop-12",
            {"test_r_map", "test_map_at_r", "test_precision_at_1", "test_recall_at_4"}),
    "landmarks": (landmarks, "--batch-size 16", "landmarks-12",
                  {f"test_roxford5k-9_{level}_map" for level in ("easy", "medium", "hard")}),
    "tinyimagenet": (lambda root: write_folder(root, tiny_files()), "--batch-size 16", "tinyimagenet-2",
                     {"test_probe_accuracy"}),
    "folder": (photos, "--batch-size 8", "folder-mine-[0-9a-f]{4}", {"test_r_map", "val_r_map"}),
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
