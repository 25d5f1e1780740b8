"""Stanford Online Products: layouts, splits, what is refused. Small data in the original layout."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from datafiles import SOP_HEADER as HEADER
from datafiles import sop_files, splits, write_folder, write_zip
from webserver import Page, serve

from trainables.datasets import check_source, load_dataset, sop

TOP = "Stanford_Online_Products"
pytestmark = pytest.mark.usefixtures("own_cache")


LITTER = dict.fromkeys([f"__MACOSX/{TOP}/._Ebay_train.txt", f"{TOP}/chair_final/._a.JPG"], b"")
LAYOUTS = {
    "folder": lambda root: write_folder(root, sop_files()),
    "the folder itself": lambda root: write_folder(root, sop_files()) / TOP,
    "zip": lambda root: write_zip(root / f"{TOP}.zip", sop_files()).parent,
    "the zip itself, with litter": lambda root: write_zip(root / "other.zip", sop_files() | LITTER),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_sop_is_the_same_in_every_layout(tmp_path, layout):
    dataset = load_dataset("sop", layout(tmp_path / "data"), image_size=8)
    assert dataset.name == "sop-23" and dataset.test.class_names == ("21", "22", "23")
    assert [len(split.class_names) for split in splits(dataset)] == [18, 2, 3]
    for split in splits(dataset):
        assert split.images.shape == (2 * len(split.class_names), 3, 8, 8)
        np.testing.assert_array_equal(split.labels, np.repeat(np.arange(len(split.class_names)), 2))
        expected = 5 * np.array(split.class_names, dtype=int)[split.labels, None, None]
        assert (split.images[:, 0] == expected).all()
        assert split.images[:, 2, :, 1:-1].max() == 0, "the middle square is kept"


def test_validation_classes_do_not_change_and_are_nobody_elses(tmp_path):
    """Pinned, as results depend on them: a tenth by the class numbers, wherever the data lies."""
    plan = sop.plan([write_zip(tmp_path / "s.zip", sop_files())])
    names = {split: set(chosen.class_names) for split, chosen in plan.splits.items()}
    assert names["validation"] == {"3", "13"}
    assert names["train"] | names["validation"] == {str(k) for k in range(1, 21)}
    assert sum(map(len, names.values())) == 23


def without(pattern):
    return {name: data for name, data in sop_files().items() if pattern not in name}


def listed(text: bytes, file="Ebay_test.txt"):
    return {name: text if name.endswith(file) else data for name, data in sop_files().items()}


WRONG = [
    (without("/1002_"), r"2 of the 46 images of the lists are not there: .*bicycle_final/1002_0\.JPG, "),
    (without("_final/"), "46 of the 46 images .* and 41 more"),
    (without("Ebay_test"), "not one of each .*found: .*Ebay_train.*Expected: Ebay_train.txt, Ebay_test.txt"),
    (sop_files() | {f"copy/{name}": data for name, data in sop_files().items()}, "not one of each"),
    (listed(b""), "Ebay_test.txt: 'image_id class_id"),
    (listed(b"1 2 3 a.JPG\n"), r"Ebay_test.txt: .*, not \['1', '2', '3', 'a.JPG'\]"),
    (listed(HEADER), "Ebay_test.txt: 'image_id class_id"),
    (listed(HEADER + b"\n1 2 bicycle_final/1002_0.JPG\n"), r"Ebay_test.txt: .*, not \['1', '2', 'bicycle_final"),
    (listed(HEADER + b"1 x 3 bicycle_final/1002_0.JPG\n"), r"Ebay_test.txt: .*, not \['1', 'x', '3', 'bic"),
    (listed(HEADER + b"1 2 1 bicycle_final/1002_0.JPG\n"), "classes both in Ebay_train.txt and in Ebay_test.txt: 2"),
    (sop_files(images=1), r"at least 2 images, but 18 have fewer: \d+ \(1\)"),
]


@pytest.mark.parametrize("files, message", WRONG)
def test_sop_refuses_wrong_layouts(tmp_path, files, message):
    with pytest.raises(ValueError, match=message):
        check_source("sop", write_zip(tmp_path / "s.zip", files))
    assert [p.name for p in tmp_path.iterdir()] == ["s.zip"]


def test_download(tmp_path, monkeypatch):
    """The published checksum guards the file; with the one of what is served, the archive is used in place."""
    data = write_zip(tmp_path / "made.zip", sop_files()).read_bytes()
    with serve() as server:
        server.pages["/s.zip"] = Page(data)
        monkeypatch.setattr(sop, "URL", f"{server.url}/s.zip")
        with pytest.raises(ValueError, match=f"expected {sop.SHA256}"):
            check_source("sop", tmp_path / "data", download=True)
        assert [p.suffix for p in (tmp_path / "data").iterdir()] == [".lock"]
        monkeypatch.setattr(sop, "SHA256", hashlib.sha256(data).hexdigest())
        for _ in range(2):
            summary = check_source("sop", tmp_path / "data", download=True)
        assert summary.location == str(Path(tmp_path / "data/Stanford_Online_Products.zip"))
        assert len(server.asked) == 2
