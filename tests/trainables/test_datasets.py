"""Datasets: layouts, splits, the cache, what is refused. Small data in the original layouts; real data at the end."""

from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from datafiles import WNIDS, load_omniglot, omniglot_files, parts, splits, tiny_files, write_folder, write_zip

from trainables.datasets import (
    DATASETS,
    DOWNLOADS,
    cache,
    check_source,
    data_roots,
    glyphs,
    load_dataset,
    omniglot,
    tinyimagenet,
)

pytestmark = pytest.mark.usefixtures("own_cache")

PARTS = ("images_background", "images_evaluation")
LITTER = {"__MACOSX/images_background/Greek/character01/._0001_01.png": b"", "python/README.md": b""}
OMNIGLOT_LAYOUTS = {
    "folders": lambda root, files: write_folder(root, files),
    "torchvision": lambda root, files: write_folder(root / "omniglot-py", files),
    "clone": lambda root, files: write_folder(root / "omniglot" / "python", files),
    "one zip": lambda root, files: write_zip(root / "omniglot.zip", files),
    "zip with a prefix and litter": lambda root, files: write_zip(
        root / "omniglot.zip", {f"python/{name}": data for name, data in files.items()} | LITTER
    ),
    "two zips": lambda root, files: [write_zip(root / f"{part}.zip", parts(files, part)) for part in PARTS],
    "a folder and a zip": lambda root, files: (
        write_folder(root, parts(files, PARTS[0])), write_zip(root / f"{PARTS[1]}.zip", parts(files, PARTS[1]))
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", OMNIGLOT_LAYOUTS.values(), ids=OMNIGLOT_LAYOUTS)
def test_omniglot_is_the_same_in_every_layout(tmp_path, layout):
    layout(tmp_path / "data", omniglot_files())
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
    write_folder(tmp_path / "data", omniglot_files())
    assert check_source("omniglot", tmp_path / "data").name == "omniglot-10"
    monkeypatch.setattr(omniglot, "PUBLISHED_CLASSES", (7, 3))
    assert check_source("omniglot", tmp_path / "data").name == "omniglot"


@pytest.mark.parametrize("write", [write_folder, lambda root, files: write_zip(root / "tiny-imagenet-200.zip", files)])
def test_tinyimagenet_splits(tmp_path, write):
    write(tmp_path / "data", tiny_files())
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


def test_tinyimagenet_validation_part_does_not_change(tmp_path):
    """Pinned, as results depend on it: a fixed tenth by the images' names, wherever the data lies."""
    expected = [f"{WNIDS[0]}_{k}.JPEG" for k in (10, 6)] + [f"{WNIDS[1]}_{k}.JPEG" for k in (15, 5)]
    for prefix in ("", "x/"):
        path = write_zip(tmp_path / "a.zip", {f"{prefix}{name}": data for name, data in tiny_files().items()})
        chosen = tinyimagenet.plan([path]).splits["validation"].items
        assert [Path(item).name for item in chosen] == expected


def without(files, pattern):
    return {name: data for name, data in files.items() if pattern not in name}


def edited(files, ending, text):
    return {name: text.encode() if name.endswith(ending) else data for name, data in files.items()}


def copied(files):
    return files | {f"copy/{name}": data for name, data in files.items()}


OMNIGLOT, TINY = omniglot_files(), tiny_files()
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
]  # fmt: skip


@pytest.mark.parametrize("name, files, message", WRONG)
def test_wrong_layouts_are_refused(tmp_path, name, files, message):
    with pytest.raises(ValueError, match=message):
        check_source(name, write_zip(tmp_path / "data.zip", files))


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


def test_a_dataset_without_a_public_archive_has_no_download():
    with pytest.raises(ValueError, match="no public archive of dataset 'glyphs' to download, only of omniglot, sop"):
        check_source("glyphs", download=True)
    assert DOWNLOADS.keys() <= DATASETS.keys()


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


def test_data_roots(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    standard = tmp_path / ".cache/tune_cd"
    assert data_roots() == [standard]
    monkeypatch.setenv("TUNE_CD_DATA", "/shelf")
    assert data_roots() == [Path("/shelf"), standard]
    assert data_roots("~/mine") == [tmp_path / "mine"]
    monkeypatch.setenv("TUNE_CD_DATA", "")
    assert data_roots() == [standard]


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="'mnist' is not known.*glyphs, omniglot, sop"):
        load_dataset("mnist", image_size=28)


def test_check_source_decodes_nothing_and_writes_nothing(tmp_path):
    path = write_zip(tmp_path / "omniglot.zip", dict.fromkeys(omniglot_files(), b"not an image"))
    summary = check_source("omniglot", path)
    assert (summary.name, summary.training_classes, summary.location) == ("omniglot-10", 5, str(path))
    assert summary.images("train") == 20 and summary.channels == 1
    assert not cache.cache_root().exists()


def test_glyph_classes():
    plan = glyphs.plan([])
    names = [plan.splits[split].class_names for split in ("train", "validation", "test")]
    assert plan.name == "glyphs" and [len(split) for split in names] == [736, 184, 306]
    everything = {name for split in names for name in split}
    assert len(everything) == 1226, "the classes of the splits are disjoint"
    assert {"U+0041 LATIN CAPITAL LETTER A", "U+006F LATIN SMALL LETTER O", "U+0037 DIGIT SEVEN"} <= everything
    assert not {"U+0391 GREEK CAPITAL LETTER ALPHA", "U+0410 CYRILLIC CAPITAL LETTER A"} & everything
    for split in plan.splits.values():
        assert np.bincount(split.labels).tolist() == [12] * len(split.class_names)
    digest = blake2b("\n".join(names[0]).encode(), digest_size=8).hexdigest()
    assert digest == "fd4241ade3c0ffe3", "pinned, as results depend on it"


def test_glyphs_of_ssl_have_their_classes_in_every_split_and_no_image_twice():
    plan = glyphs.plan([], "ssl")
    assert plan.name == "glyphs-200"
    for split, faces in {"train": 8, "validation": 2, "test": 2}.items():
        assert np.bincount(plan.splits[split].labels).tolist() == [faces] * 200
        assert plan.splits[split].class_names == plan.splits["train"].class_names
        assert {face for _, face in plan.splits[split].items} == set(glyphs.FACES)
    assert len({item for split in plan.splits.values() for item in split.items}) == 12 * 200
    digest = blake2b(repr(sorted(plan.splits["train"].items)).encode(), digest_size=8).hexdigest()
    assert digest == "31c50f6ca309f045", "pinned, as results depend on it"
    assert load_dataset("glyphs", image_size=28, task="ssl").train.images.shape == (1600, 1, 28, 28)


@pytest.mark.parametrize("face", ["DejaVuSans.ttf", "DejaVuSerif-BoldItalic.ttf"])
@pytest.mark.parametrize("size", [16, 28, 64])
def test_glyphs_are_centred_and_whole(face, size):
    with glyphs.plan([], distortion=0.0).renderer(size) as render:
        images = {character: render((character, face)) for character in "oO1Ж\u1e9e"}
    for image in images.values():
        assert image.shape == (1, size, size) and image.dtype == np.uint8
        assert image.max() > 100 and np.median(image) == 0
        for axis in (0, 1):
            line = np.flatnonzero(image[0].any(axis=axis))
            assert abs(line[0] - (size - 1 - line[-1])) <= 2
    assert (images["O"] > 0).sum() > (images["o"] > 0).sum()


def test_all_glyphs():
    dataset, owners = load_dataset("glyphs", image_size=28), {}
    images = np.concatenate([split.images for split in splits(dataset)])
    assert images.shape == (12 * 1226, 1, 28, 28)
    assert images.max(axis=(1, 2, 3)).min() > 100, "every image has ink"
    names = np.concatenate([np.array(split.class_names)[split.labels] for split in splits(dataset)])
    for image, name in zip(images, names, strict=True):
        assert owners.setdefault(image.tobytes(), name) == name, "one image in two classes"
    assert check_source("glyphs", "/nowhere").training_classes == len(dataset.train.class_names)


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
    for split in splits(dataset):
        red, _, blue = split.images[split.labels == split.class_names.index("n01443537")].mean(axis=(0, 2, 3))
        assert red > blue + 30
