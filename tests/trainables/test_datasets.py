"""Datasets: layouts, splits, what is refused, downloads. Small data in the original layouts; real data at the end."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from datafiles import SOP_HEADER as HEADER
from datafiles import (
    WNIDS,
    load_omniglot,
    omniglot_files,
    parts,
    sop_files,
    splits,
    tiny_files,
    write_folder,
    write_zip,
)
from webserver import Page, serve

from trainables.datasets import DATASETS, DOWNLOADS, cache, check_source, data_roots, load_dataset, omniglot, sop

pytestmark = pytest.mark.usefixtures("own_cache")

OMNIGLOT, TINY, SOP = omniglot_files(), tiny_files(), sop_files()
PARTS, TOP = ("images_background", "images_evaluation"), "Stanford_Online_Products"
LITTER = {"__MACOSX/images_background/Greek/character01/._0001_01.png": b"", "python/README.md": b""}
SOP_LITTER = dict.fromkeys([f"__MACOSX/{TOP}/._Ebay_train.txt", f"{TOP}/chair_final/._a.JPG"], b"")


def within(folder, files):
    return {f"{folder}/{name}": data for name, data in files.items()}


OMNIGLOT_LAYOUTS = {
    "folders": lambda root: write_folder(root, OMNIGLOT),
    "torchvision": lambda root: write_folder(root / "omniglot-py", OMNIGLOT),
    "clone": lambda root: write_folder(root / "omniglot" / "python", OMNIGLOT),
    "one zip": lambda root: write_zip(root / "omniglot.zip", OMNIGLOT),
    "zip with litter": lambda root: write_zip(root / "omniglot.zip", within("python", OMNIGLOT) | LITTER),
    "two zips": lambda root: [write_zip(root / f"{part}.zip", parts(OMNIGLOT, part)) for part in PARTS],
    "a folder and a zip": lambda root: (
        write_folder(root, parts(OMNIGLOT, PARTS[0])), write_zip(root / f"{PARTS[1]}.zip", parts(OMNIGLOT, PARTS[1]))
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", OMNIGLOT_LAYOUTS.values(), ids=OMNIGLOT_LAYOUTS)
def test_omniglot_is_the_same_in_every_layout(tmp_path, layout):
    layout(tmp_path / "data")
    dataset = load_omniglot(tmp_path / "data")
    assert dataset.name == "omniglot-10"
    names = [*(f"Greek/character{k:02d}" for k in (1, 2, 3)), "Latin/character01", "Latin/character02"]
    assert dataset.train.class_names == tuple(names)
    assert dataset.validation.class_names == ("Balinese/character01", "Balinese/character02")
    assert dataset.test.class_names == tuple(f"Tengwar/character{k:02d}" for k in (1, 2, 3))
    for split in splits(dataset):
        assert split.images.shape == (len(split.labels), 1, 28, 28) and split.images.dtype == np.uint8
        np.testing.assert_array_equal(split.labels, np.repeat(np.arange(len(split.class_names)), 4))
    # the n-th of the 40 images has n of 105 rows in ink
    ink = np.concatenate([dataset.validation.images, dataset.train.images, dataset.test.images]).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(ink * 105 / 255, np.arange(1, 41), atol=0.6)


def test_the_published_name_needs_the_published_number_of_classes(tmp_path, monkeypatch):
    write_folder(tmp_path / "data", OMNIGLOT)
    assert check_source("omniglot", tmp_path / "data").name == "omniglot-10"
    monkeypatch.setattr(omniglot, "PUBLISHED_CLASSES", (7, 3))
    assert check_source("omniglot", tmp_path / "data").name == "omniglot"


@pytest.mark.parametrize("write", [write_folder, lambda root, files: write_zip(root / "tiny-imagenet-200.zip", files)])
def test_tinyimagenet_splits(tmp_path, write):
    write(tmp_path / "data", TINY)
    dataset = load_dataset("tinyimagenet", tmp_path / "data", image_size=64)
    assert dataset.name == "tinyimagenet-2"
    assert [split.images.shape for split in splits(dataset)] == [(36, 3, 64, 64), (4, 3, 64, 64), (4, 3, 64, 64)]
    for split in splits(dataset):
        assert split.class_names == WNIDS
        np.testing.assert_array_equal(split.labels, split.images[:, 0].mean(axis=(1, 2)) < 150)
    # training and validation: every image of the train folder once, greyscale ones with three equal channels
    both = np.concatenate([dataset.train.images, dataset.validation.images]).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(np.sort(both), [50 + k for k in range(20)] + [200 + k for k in range(20)], atol=0.5)
    np.testing.assert_allclose(dataset.test.images.mean(axis=(0, 2, 3)), [125, 100, 30], atol=2)


SOP_LAYOUTS = {
    "folder": lambda root: write_folder(root, SOP),
    "the folder itself": lambda root: write_folder(root, SOP) / TOP,
    "zip": lambda root: write_zip(root / f"{TOP}.zip", SOP).parent,
    "the zip itself, with litter": lambda root: write_zip(root / "other.zip", SOP | SOP_LITTER),
}


@pytest.mark.parametrize("layout", SOP_LAYOUTS.values(), ids=SOP_LAYOUTS)
def test_sop_is_the_same_in_every_layout(tmp_path, layout):
    dataset = load_dataset("sop", layout(tmp_path / "data"), image_size=8)
    assert dataset.name == "sop-23" and dataset.test.class_names == ("21", "22", "23")
    assert [len(split.class_names) for split in splits(dataset)] == [18, 2, 3]
    assert sorted(int(name) for split in splits(dataset) for name in split.class_names) == list(range(1, 24))
    for split in splits(dataset):
        assert split.images.shape == (2 * len(split.class_names), 3, 8, 8)
        np.testing.assert_array_equal(split.labels, np.repeat(np.arange(len(split.class_names)), 2))
        expected = 5 * np.array(split.class_names, dtype=int)[split.labels, None, None]
        assert (split.images[:, 0] == expected).all()
        assert split.images[:, 2, :, 1:-1].max() == 0, "the middle square is kept"


@pytest.mark.parametrize("folder", ["", "x"])
@pytest.mark.parametrize("name, files, expected", [
    ("sop", SOP, [f"{1000 + label}_{k}.JPG" for label in (3, 13) for k in (0, 1)]),
    ("tinyimagenet", TINY, [f"{WNIDS[label]}_{k}.JPEG" for label, k in ((0, 10), (0, 6), (1, 15), (1, 5))]),
])  # fmt: skip
def test_the_validation_part_does_not_change(tmp_path, name, files, expected, folder):
    """Pinned, as results depend on it: a fixed tenth of classes or images by their names, wherever the data lies."""
    plan = check_source(name, write_zip(tmp_path / "a.zip", within(folder, files) if folder else files))
    assert [Path(item).name for item in plan.splits["validation"].items] == expected


def without(files, pattern):
    return {name: data for name, data in files.items() if pattern not in name}


def edited(files, ending, text):
    return {name: text.encode() if name.endswith(ending) else data for name, data in files.items()}


def listed(text, file="Ebay_test.txt"):
    return edited(SOP, file, text)


def copied(files):
    return files | within("copy", files)


HEAD = HEADER.decode()
WRONG = [
    ("omniglot", omniglot_files(background={"Balinese": 2}), "no training alphabet"),
    ("omniglot", omniglot_files(background={"Greek": 2}), "no validation alphabet.*Balinese"),
    ("omniglot", omniglot_files(evaluation={}), "no evaluation alphabet"),
    ("omniglot", omniglot_files(images=1), r"at least 2 images, but 5 have fewer: Greek/character01 \(1\)"),
    ("omniglot", {"something/else.png": b""}, "images_background/<Alphabet>/characterNN"),
    ("omniglot", copied(OMNIGLOT), "several copies"),
    ("tinyimagenet", without(TINY, "wnids.txt"), r"wnids\.txt, train/<wnid>/images"),
    ("tinyimagenet", without(TINY, "val_annotations"), r"val/val_annotations\.txt"),
    ("tinyimagenet", without(TINY, f"train/{WNIDS[1]}"), "in one only: n02132136"),
    ("tinyimagenet", edited(TINY, "wnids.txt", WNIDS[0]), "in one only: n02132136"),
    ("tinyimagenet", edited(TINY, "val_annotations.txt", "val_0.JPEG\tn99\t0"), "'val_0.JPEG.*n99.*second column"),
    ("tinyimagenet", edited(TINY, "val_annotations.txt", "val_0.JPEG\tn01443537\n"),
     "val_annotations.txt: .*val_1.JPEG"),
    ("tinyimagenet", without(TINY, "val/images/val_3"), "val_annotations.txt: .*val_3.JPEG"),
    ("tinyimagenet", tiny_files(train=1), r"n01443537 \(0\)"),
    ("tinyimagenet", copied(TINY), "not one of each"),
    # a common script sorts the validation images into folders; read as it is, val/images would look empty
    ("tinyimagenet", {name.replace("val/images/", "val/n01443537/"): data for name, data in TINY.items()},
     r"val_annotations\.txt"),
    ("sop", without(SOP, "/1002_"),
     r"2 of the 46 images of the lists are not there: .*bicycle_final/1002_0\.JPG, "),
    ("sop", without(SOP, "_final/"), "46 of the 46 images .* and 41 more"),
    ("sop", without(SOP, "Ebay_test"),
     "not one of each .*found: .*Ebay_train.*Expected: Ebay_train.txt, Ebay_test.txt"),
    ("sop", copied(SOP), "not one of each"),
    ("sop", listed(""), "Ebay_test.txt: 'image_id class_id"),
    ("sop", listed("1 2 3 a.JPG\n"), r"Ebay_test.txt: .*, not \['1', '2', '3', 'a.JPG'\]"),
    ("sop", listed(HEAD), "Ebay_test.txt: 'image_id class_id"),
    ("sop", listed(f"{HEAD}\n1 2 bicycle_final/1002_0.JPG\n"), r"Ebay_test.txt: .*, not \['1', '2', 'bicycle_final"),
    ("sop", listed(f"{HEAD}1 x 3 bicycle_final/1002_0.JPG\n"), r"Ebay_test.txt: .*, not \['1', 'x', '3', 'bic"),
    ("sop", listed(f"{HEAD}1 2 1 bicycle_final/1002_0.JPG\n"), "classes both in Ebay_train.txt and in .*: 2"),
    ("sop", sop_files(images=1), r"at least 2 images, but 18 have fewer: \d+ \(1\)"),
]  # fmt: skip


@pytest.mark.parametrize("name, files, message", WRONG)
def test_wrong_layouts_are_refused(tmp_path, name, files, message):
    with pytest.raises(ValueError, match=message):
        check_source(name, write_zip(tmp_path / "data.zip", files))
    assert [path.name for path in tmp_path.iterdir()] == ["data.zip"]


# --- bad archives, missing data, bad arguments


def test_a_truncated_archive_is_refused(tmp_path):
    archive = write_zip(tmp_path / "omniglot.zip", OMNIGLOT)
    data = archive.read_bytes()
    for size in (0, 10, 1000, -30):
        archive.write_bytes(data[:size])
        for ask in (lambda: check_source("omniglot", archive), lambda: load_omniglot(archive)):
            with pytest.raises(ValueError, match="not a complete zip archive"):
                ask()


@pytest.mark.parametrize("name, origin", [
    ("omniglot", "github.com/brendenlake/omniglot"), ("tinyimagenet", "cs231n.stanford.edu"),
    ("sop", "github.com/rksltnl/Deep-Metric-Learning-CVPR16"), ("landmarks", "download.europe.naverlabs.com"),
])  # fmt: skip
def test_missing_data_says_what_was_tried_and_where_to_get_it(tmp_path, monkeypatch, name, origin):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TUNE_CD_DATA", str(tmp_path / "shelf"))
    with pytest.raises(FileNotFoundError) as error:
        check_source(name)
    tried = (str(tmp_path / "shelf"), str(tmp_path / "home/.cache/tune_cd"))
    for expected in (*tried, "--data-root or $TUNE_CD_DATA", "Expected: ", origin, "or add --download"):
        assert expected in str(error.value)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        check_source(name, tmp_path / "nowhere")


def test_data_roots(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    standard = tmp_path / ".cache/tune_cd"
    assert data_roots() == [standard]
    monkeypatch.setenv("TUNE_CD_DATA", "/shelf")
    assert data_roots() == [Path("/shelf"), standard]
    assert data_roots("~/mine") == [tmp_path / "mine"]
    monkeypatch.setenv("TUNE_CD_DATA", "")
    assert data_roots() == [standard]


def test_names_that_are_unknown_or_have_no_public_archive_are_refused():
    with pytest.raises(ValueError, match="'mnist' is not known.*glyphs, omniglot, sop"):
        load_dataset("mnist", image_size=28)
    with pytest.raises(ValueError, match="no public archive of dataset 'glyphs' to download, only of omniglot, sop"):
        check_source("glyphs", download=True)
    assert DOWNLOADS.keys() <= DATASETS.keys()


def test_check_source_decodes_nothing_and_writes_nothing(tmp_path):
    path = write_zip(tmp_path / "omniglot.zip", dict.fromkeys(OMNIGLOT, b"not an image"))
    summary = check_source("omniglot", path)
    assert (summary.name, summary.training_classes, summary.location) == ("omniglot-10", 5, str(path))
    assert summary.images("train") == 20 and summary.channels == 1
    assert not cache.cache_root().exists()


# --- download


def test_data_is_downloaded_where_it_is_missing_and_only_there(tmp_path, monkeypatch):
    """Into the first of the roots."""
    fetched = []
    download = lambda root: fetched.append(root) or write_zip(root / "omniglot.zip", OMNIGLOT)  # noqa: E731
    monkeypatch.setitem(DOWNLOADS, "omniglot", download)
    for _ in range(2):
        assert check_source("omniglot", tmp_path / "new", download=True).name == "omniglot-10"
    monkeypatch.setenv("TUNE_CD_DATA", str(tmp_path / "shelf"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert len(load_dataset("omniglot", image_size=28, download=True).train.images) == 20
    assert fetched == [tmp_path / "new", tmp_path / "shelf"]


def test_omniglot_fetches_the_part_that_is_missing_beside_the_other(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(omniglot, "fetch", lambda url, path, check: asked.append(path))
    omniglot.download(tmp_path / "new")
    assert asked == [tmp_path / f"new/omniglot/{part}.zip" for part in PARTS]
    write_folder(tmp_path / "half" / "omniglot-py", parts(OMNIGLOT, PARTS[0]))
    omniglot.download(tmp_path / "half")
    assert asked[2:] == [tmp_path / "half" / "omniglot-py" / f"{PARTS[1]}.zip"]


def test_omniglot_checksums_are_those_of_torchvision():
    torchvision = pytest.importorskip("torchvision")
    assert torchvision.datasets.Omniglot.zips_md5 == omniglot.MD5
    assert torchvision.datasets.Omniglot.download_url_prefix + "/" == omniglot.URL


def test_sops_archive_is_guarded_by_its_checksum(tmp_path, monkeypatch):
    """The published one; with that of what is served, the archive is used in place."""
    data, place = write_zip(tmp_path / "made.zip", SOP).read_bytes(), tmp_path / "data"
    with serve() as server:
        server.pages["/s.zip"] = Page(data)
        monkeypatch.setattr(sop, "URL", f"{server.url}/s.zip")
        with pytest.raises(ValueError, match=f"expected {sop.SHA256}"):
            check_source("sop", place, download=True)
        assert [path.suffix for path in place.iterdir()] == [".lock"]
        monkeypatch.setattr(sop, "SHA256", hashlib.sha256(data).hexdigest())
        assert {check_source("sop", place, download=True).location for _ in range(2)} == {str(place / f"{TOP}.zip")}
        assert len(server.asked) == 2


def test_real_omniglot(test_data):
    dataset = load_dataset("omniglot", test_data, image_size=28)
    assert dataset.name == "omniglot-242" and check_source("omniglot", test_data).training_classes == 131
    assert [len(split.class_names) for split in splits(dataset)] == [131, 24, 87]
    for split in splits(dataset):
        assert np.bincount(split.labels).tolist() == [20] * len(split.class_names)
        assert 10 < split.images.mean() < 30, "ink is bright, paper black"


@pytest.mark.slow
def test_real_tinyimagenet(test_data):
    dataset = load_dataset("tinyimagenet", test_data, image_size=64)
    assert dataset.name == "tinyimagenet-20" and check_source("tinyimagenet", test_data).training_classes == 20
    for split, count in zip(splits(dataset), (450, 50, 50), strict=True):
        assert split.images.shape[1:] == (3, 64, 64) and np.bincount(split.labels).tolist() == [count] * 20
        # goldfish: red above blue, in every split alike; labels and images belong together
        red, _, blue = split.images[split.labels == split.class_names.index("n01443537")].mean(axis=(0, 2, 3))
        assert red > blue + 30
