"""The cache of decoded arrays: what it follows, what it repairs, and images that do not decode."""

import os
import shutil
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from datafiles import encoded, load_omniglot, omniglot_files, splits, write_folder, write_zip

from trainables.datasets import cache, folder, omniglot, source

pytestmark = pytest.mark.usefixtures("own_cache")


# --- the cache


@pytest.fixture
def archive(tmp_path):
    return write_zip(tmp_path / "omniglot.zip", omniglot_files())


@pytest.fixture
def decoded(monkeypatch):
    """The names of the images decoded so far."""
    names = []
    decode = source.decode_image
    monkeypatch.setattr(omniglot, "decode_image", lambda *args: names.append(1) or decode(*args))
    return names


def test_a_second_load_maps_the_arrays_of_the_first(archive, decoded):
    first, second = load_omniglot(archive), load_omniglot(archive)
    assert len(decoded) == 40
    for a, b in zip(splits(first), splits(second), strict=True):
        assert isinstance(b.images, np.memmap) and isinstance(b.labels, np.memmap)
        np.testing.assert_array_equal(a.images, b.images)
        np.testing.assert_array_equal(a.labels, b.labels)
        assert b.labels.dtype == np.int64 and a.class_names == b.class_names


def test_a_write_does_not_reach_the_file_and_torch_takes_the_arrays_as_they_are(archive):
    torch = pytest.importorskip("torch")
    split = load_omniglot(archive).train
    expected = split.images.copy(), split.labels.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of arrays that are not writeable
        images, labels = torch.from_numpy(split.images), torch.from_numpy(split.labels)
    assert images.data_ptr() == split.images.ctypes.data, "nothing is copied"
    images += 1
    labels += 1
    assert (split.images != expected[0]).all()
    again = load_omniglot(archive).train
    np.testing.assert_array_equal(again.images, expected[0])
    np.testing.assert_array_equal(again.labels, expected[1])


def test_the_cache_follows_content_and_size_not_the_path(archive, decoded, tmp_path):
    load_omniglot(archive)
    load_omniglot(shutil.copy(archive, tmp_path / "elsewhere.zip"))
    assert len(decoded) == 40
    assert load_omniglot(archive, image_size=14).train.images.shape[2:] == (14, 14)
    assert len(decoded) == 80
    write_zip(archive, omniglot_files(images=5))
    assert len(load_omniglot(archive).train.images) == 25
    assert len(decoded) == 130


def test_the_cache_of_a_directory_follows_changed_files(tmp_path, decoded):
    folder = write_folder(tmp_path / "data", omniglot_files())
    before = load_omniglot(folder).train.images[0].copy()
    path = folder / "images_background/Greek/character01/0001_01.png"
    path.write_bytes(encoded(np.full((105, 105), 255, dtype=np.uint8), "PNG"))
    after = load_omniglot(folder).train.images[0]
    assert before.any() and not after.any()


def cut_off(path, left):
    os.truncate(path, left(path.stat().st_size))


DAMAGES = {
    "truncated": lambda entry: cut_off(entry / "test_images.npy", lambda size: size - 1),
    "no meta": lambda entry: (entry / "meta.json").unlink(),
    "labels of another split": lambda entry: shutil.copy(entry / "train_labels.npy", entry / "test_labels.npy"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_made_again(archive, decoded, damage):
    expected = load_omniglot(archive).test.images.copy()
    DAMAGES[damage](cache.entry(omniglot.recipe([archive]), 28))
    for _ in range(2):
        np.testing.assert_array_equal(load_omniglot(archive).test.images, expected)
        assert len(decoded) == 80


def test_what_a_killed_process_left_is_removed_and_a_failure_leaves_nothing(archive, monkeypatch):
    entry = cache.entry(omniglot.recipe([archive]), 28)
    write_folder(entry.with_name(entry.name + ".partial"), {"test_images.npy": b"half"})
    monkeypatch.setattr(omniglot, "decode_image", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        load_omniglot(archive)
    assert [path.suffix for path in entry.parent.iterdir()] == [".lock"]
    monkeypatch.undo()
    monkeypatch.setenv("TUNE_CD_CACHE", str(entry.parent.parent))
    load_omniglot(archive)
    assert entry.is_dir() and not entry.with_name(entry.name + ".partial").exists()


def test_simultaneous_loads_decode_once(archive, decoded):
    recipe = omniglot.recipe([archive])
    plans = []
    counting = replace(recipe, plan=lambda: plans.append(1) or recipe.plan())
    loaded = []
    threads = [threading.Thread(target=lambda: loaded.append(cache.load(counting, 28))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loaded) == 4 and len(plans) == 1 and len(decoded) == 40


# --- bad files


def many_files():
    """120 images, so that one of them is less than 1 %."""
    return omniglot_files(images=12)


@pytest.mark.parametrize("bad", [b"", b"not an image", None], ids=["empty", "text", "truncated"])
def test_one_bad_image_is_left_out_and_named_at_every_load(tmp_path, bad):
    files = many_files()
    name = "images_background/Greek/character02/0002_05.png"
    files[name] = files[name][:60] if bad is None else bad
    path = write_zip(tmp_path / "omniglot.zip", files)
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"1 images do not decode and are left out: {name}"):
            dataset = load_omniglot(path)
        assert np.bincount(dataset.train.labels).tolist() == [12, 11, 12, 12, 12]
        assert len(dataset.train.images) == 59 and len(dataset.test.images) == 36
    ink = dataset.train.images.mean(axis=(1, 2, 3))
    assert (np.diff(ink)[:-1] >= 0).all(), "the images after the gap have moved up"


def test_more_than_one_percent_of_bad_images_is_an_error(tmp_path, monkeypatch):
    files = many_files()
    for k in (5, 7):
        files[f"images_background/Greek/character02/0002_{k:02d}.png"] = b"?"
    path = write_zip(tmp_path / "omniglot.zip", files)
    with pytest.raises(ValueError, match=r"2 of 120 images do not decode, at most 1 % may: .*0002_05\.png \("):
        load_omniglot(path)
    monkeypatch.setattr(source, "MAX_PIXELS", 100 * 100)
    with pytest.raises(ValueError, match="120 of 120 images do not decode.*105 x 105 pixels"):
        load_omniglot(path)


def small_class(images=2):
    """120 images and a class of a few; the order of classes is that of their names."""
    few = {f"images_background/Greek/character04/0004_{n:02d}.png": encoded(np.zeros((105, 105), np.uint8), "PNG")
           for n in range(images)}  # fmt: skip
    return many_files() | few


def test_a_class_that_damage_leaves_too_small_is_left_out_and_named(tmp_path):
    files = small_class()
    bad = "images_background/Greek/character04/0004_01.png"
    whole = load_omniglot(write_zip(tmp_path / "whole" / "omniglot.zip", files))
    damaged = write_zip(tmp_path / "omniglot.zip", files | {bad: b"?"})
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"left out: {bad}, and with them the classes .* Greek/character04$"):
            found = load_omniglot(damaged)
    there = {name: found.train.images[found.train.labels == n] for n, name in enumerate(found.train.class_names)}
    assert len(whole.train.class_names) == len(there) + 1 and "Greek/character04" not in there
    for n, name in enumerate(whole.train.class_names):
        if name in there:
            assert np.array_equal(there[name], whole.train.images[whole.train.labels == n])
    for kept, before in ((found.validation, whole.validation), (found.test, whole.test)):
        assert np.array_equal(kept.images, before.images) and np.array_equal(kept.labels, before.labels)


def test_in_ssl_a_class_that_one_split_lost_is_left_out_of_all(tmp_path):
    """A label means the same in all splits: the probe learns it in one and is scored in another."""
    files = {f"class {n}/{i}.png": encoded(np.full((8, 8, 3), 50 * n, np.uint8), "PNG")
             for n in range(3) for i in range(40)}  # fmt: skip
    made = folder.recipe([write_folder(tmp_path / "whole", files)], "ssl").plan()
    [lost] = [item for item, label in zip(made.splits["test"].items, made.splits["test"].labels) if label == 1][:1]
    one = {name: data for name, data in files.items() if not name.startswith("class 1/") or f"whole/{name}" == lost
           or f"whole/{name}" not in made.splits["test"].items}  # fmt: skip
    root = write_folder(tmp_path / "own", {})
    for split, chosen in made.splits.items():
        write_folder(root / split, {name: data for name, data in one.items() if f"whole/{name}" in chosen.items})
    (root / "test" / lost.removeprefix("whole/")).write_bytes(b"?")
    with pytest.warns(UserWarning, match=f"test/{lost.removeprefix('whole/')}, and with them .* class 1$"):
        dataset = cache.load(folder.recipe([root], "ssl"), 8)
    for split in splits(dataset):
        assert split.class_names == ("class 0", "class 2")
        colours = split.images.mean(axis=(1, 2, 3))
        assert np.array_equal(colours, 100 * split.labels)


def test_a_file_above_the_limit_counts_as_a_bad_image(tmp_path, monkeypatch):
    bad = "images_background/Greek/character02/0002_05.png"
    files = many_files() | {bad: bytes(20_000)}
    monkeypatch.setattr(source, "MAX_MEMBER_BYTES", 10_000)
    write_folder(tmp_path / "folder", files)
    for place in (tmp_path / "folder", write_zip(tmp_path / "omniglot.zip", files)):
        with pytest.warns(UserWarning, match=f"1 images do not decode and are left out: {bad}"):
            assert len(load_omniglot(place).train.images) == 59
    monkeypatch.setattr(source, "MAX_MEMBER_BYTES", 50)
    with pytest.raises(ValueError, match="120 of 120 images do not decode.* bytes, at most 50 are read"):
        load_omniglot(write_zip(tmp_path / "other.zip", many_files()))
