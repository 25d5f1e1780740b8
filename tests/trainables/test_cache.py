"""The cache of decoded arrays: what it follows, what it repairs, and images that do not decode."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from datafiles import encoded, load_omniglot, omniglot_files, splits, write_folder, write_zip
from warned import no_warnings

from trainables.datasets import cache, folder, omniglot, source

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def archive(tmp_path):
    return write_zip(tmp_path / "omniglot.zip", omniglot_files())


def entry_of(archive):
    """The folder of its arrays."""
    plan = omniglot.plan([archive])
    return cache.entry("arrays", plan.name, 28, plan.identity)


@pytest.fixture
def decoded(monkeypatch):
    """The names of the images decoded so far."""
    names = []
    decode = source.decode_image
    monkeypatch.setattr(source, "decode_image", lambda *args: names.append(1) or decode(*args))
    return names


def test_what_is_decoded_once_is_mapped_by_simultaneous_and_by_later_loads(archive, decoded):
    with ThreadPoolExecutor(4) as threads:
        first, *_ = threads.map(load_omniglot, [archive] * 4)
    second = load_omniglot(archive)
    assert len(decoded) == 40
    for a, b in zip(splits(first), splits(second), strict=True):
        assert isinstance(b.images, np.memmap) and isinstance(b.labels, np.memmap)
        assert np.array_equal(a.images, b.images) and np.array_equal(a.labels, b.labels)
        assert b.labels.dtype == np.int64 and a.class_names == b.class_names


def test_a_write_does_not_reach_the_file_and_torch_takes_the_arrays_as_they_are(archive):
    split = load_omniglot(archive).train
    expected = split.images.copy(), split.labels.copy()
    with no_warnings():  # torch warns of arrays that are not writeable
        images, labels = torch.from_numpy(split.images), torch.from_numpy(split.labels)
    assert images.data_ptr() == split.images.ctypes.data, "nothing is copied"
    images += 1
    labels += 1
    assert (split.images != expected[0]).all()
    again = load_omniglot(archive).train
    assert np.array_equal(again.images, expected[0]) and np.array_equal(again.labels, expected[1])


def test_the_cache_follows_content_and_size_not_the_path(archive, decoded, tmp_path):
    load_omniglot(archive)
    load_omniglot(shutil.copy(archive, tmp_path / "elsewhere.zip"))
    assert len(decoded) == 40
    assert load_omniglot(archive, image_size=14).train.images.shape[2:] == (14, 14)
    assert len(decoded) == 80
    write_zip(archive, omniglot_files(images=5))
    assert len(load_omniglot(archive).train.images) == 25 and len(decoded) == 130
    files = write_folder(tmp_path / "data", omniglot_files())
    before = load_omniglot(files).train.images[0].copy()
    white = encoded(np.full((105, 105), 255, dtype=np.uint8), "PNG")
    (files / "images_background/Greek/character01/0001_01.png").write_bytes(white)
    assert before.any() and not load_omniglot(files).train.images[0].any()


DAMAGES = {
    "truncated": lambda entry: os.truncate(entry / "test_images.npy", (entry / "test_images.npy").stat().st_size - 1),
    "no meta": lambda entry: (entry / "meta.json").unlink(),
    "labels of another split": lambda entry: shutil.copy(entry / "train_labels.npy", entry / "test_labels.npy"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_made_again(archive, decoded, damage):
    expected = load_omniglot(archive).test.images.copy()
    damage(entry_of(archive))
    for _ in range(2):
        np.testing.assert_array_equal(load_omniglot(archive).test.images, expected)
        assert len(decoded) == 80


def test_what_a_killed_process_left_is_removed_and_a_failure_leaves_nothing(archive, monkeypatch):
    entry = entry_of(archive)
    write_folder(entry.with_name(entry.name + ".partial"), {"test_images.npy": b"half"})
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(source, "decode_image", lambda *args: 1 / 0)
        load_omniglot(archive)
    assert [path.suffix for path in entry.parent.iterdir()] == [".lock"]
    load_omniglot(archive)
    assert entry.is_dir() and not entry.with_name(entry.name + ".partial").exists()


def test_a_cache_that_cannot_be_written_or_is_too_small_is_told_before_decoding(
    archive, decoded, tmp_path, monkeypatch
):
    """A page of a memory map beyond the disk would end the process by a signal."""
    with (
        monkeypatch.context() as patch,
        pytest.raises(OSError, match=r"needs 31,360 bytes in .*, 31,359 are free; TUNE"),
    ):
        patch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10**6, 10**6, 31_359))
        load_omniglot(archive)
    load_omniglot(archive)
    (tmp_path / "file").touch()
    monkeypatch.setenv("TUNE_CD_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(OSError, match="file/cache/arrays cannot be written; TUNE_CD_CACHE names another folder"):
        load_omniglot(archive)
    assert len(decoded) == 40


BAD = "images_background/Greek/character02/0002_05.png"


def many_files():
    """120 images, so that one of them is less than 1 %."""
    return omniglot_files(images=12)


@pytest.mark.parametrize("write", [write_folder, write_zip])
@pytest.mark.parametrize("bad", [b"", b"not an image", many_files()[BAD][:60], bytes(20_000)],
                         ids=["empty", "text", "truncated", "large"])  # fmt: skip
def test_one_bad_image_is_left_out_and_named_at_every_load(tmp_path, monkeypatch, bad, write):
    monkeypatch.setattr(source, "MAX_MEMBER_BYTES", 10_000)
    place = write(tmp_path / "omniglot.zip", many_files() | {BAD: bad})
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"1 images do not decode and are left out: .*{BAD}"):
            dataset = load_omniglot(place)
        assert np.bincount(dataset.train.labels).tolist() == [12, 11, 12, 12, 12]
        assert len(dataset.train.images) == 59 and len(dataset.test.images) == 36
    ink = dataset.train.images.mean(axis=(1, 2, 3))
    assert (np.diff(ink)[:-1] >= 0).all(), "the images after the gap have moved up"


def test_more_than_one_percent_of_bad_images_is_an_error(tmp_path):
    path = write_zip(tmp_path / "omniglot.zip", many_files() | {BAD: b"?", BAD.replace("_05", "_07"): b"?"})
    with pytest.raises(ValueError, match=r"2 of 120 images do not decode, at most 1 % may: .*0002_05\.png \("):
        load_omniglot(path)


def test_a_class_that_damage_leaves_too_small_is_left_out_and_named(tmp_path):
    """120 images and a class of two; the order of classes is that of their names."""
    one, other = (f"images_background/Greek/character04/0004_{n:02d}.png" for n in range(2))
    files = many_files() | dict.fromkeys((one, other), encoded(np.zeros((105, 105), np.uint8), "PNG"))
    whole = load_omniglot(write_zip(tmp_path / "whole" / "omniglot.zip", files))
    damaged = write_zip(tmp_path / "omniglot.zip", files | {other: b"?"})
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"left out: {other}, and with them the classes .* Greek/character04$"):
            found = load_omniglot(damaged)
    gone = whole.train.class_names.index("Greek/character04")
    kept, labels = whole.train.labels != gone, whole.train.labels
    assert found.train.class_names == tuple(name for name in whole.train.class_names if name != "Greek/character04")
    assert np.array_equal(found.train.images, whole.train.images[kept])
    assert np.array_equal(found.train.labels, (labels - (labels > gone))[kept])
    for rest, before in ((found.validation, whole.validation), (found.test, whole.test)):
        assert np.array_equal(rest.images, before.images) and np.array_equal(rest.labels, before.labels)


@pytest.mark.parametrize("lost, kept, tested", [("test/class 1/0.png", [0, 1, 2], [0, 2]),
                                                ("train/class 0/0.png", [1, 2], [0, 1])])  # fmt: skip
def test_in_ssl_a_class_stays_while_training_has_it(tmp_path, lost, kept, tested):
    """A label means the same in all splits: the probe learns it in one and is scored in another."""
    image = [encoded(np.full((8, 8, 3), 50 * n, np.uint8), "PNG") for n in range(3)]
    counts = {"train": (1, 60, 60), "val": (4, 4, 4), "test": (1, 1, 1)}
    names = ((split, n, i) for split, count in counts.items() for n in range(3) for i in range(count[n]))
    files = {f"{split}/class {n}/{i}.png": image[n] for split, n, i in names}
    root = write_folder(tmp_path / "own", files | {lost: b"?"})
    with pytest.warns(UserWarning, match=f"own/{lost}{'' if 0 in kept else ', and with them .* class 0'}$"):
        dataset = cache.load(folder.plan([root], "ssl"), 8)
    for split in splits(dataset):
        assert split.class_names == tuple(f"class {n}" for n in kept)
        assert np.array_equal(split.images.mean(axis=(1, 2, 3)), 50 * np.array(kept)[split.labels])
    assert np.unique(dataset.test.labels).tolist() == tested
