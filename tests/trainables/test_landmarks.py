"""Landmarks-clean: lists, photos fetched by their links from a server on this machine, what is missing."""

import logging

import numpy as np
import pytest
from datafiles import encoded
from warned import no_warnings
from webserver import Page, serve

from trainables.datasets import check_source, landmarks, load_dataset
from trainables.datasets.landmarks import read_dead

LISTS = ["annotation_clean_train.txt", "annotation_clean_val.txt"]
CLASSES, TRAINING, VALIDATION = 4, 5, 3  # classes, images of each

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def server():
    with serve() as server:
        yield server


def photo(label: int, k: int) -> bytes:
    return encoded(np.full((10, 14, 3), (60 * label, 10 * k, 0), dtype=np.uint8), "PNG" if k else "JPEG")


@pytest.fixture
def folder(tmp_path, server):
    """The lists, all of whose photos the server has; red tells the class, in which photo 0 is a JPEG."""
    folder = tmp_path / "data" / "landmarks"
    folder.mkdir(parents=True)
    for file, first, count in zip(LISTS, (0, 10), (TRAINING, VALIDATION)):
        lines = []
        for label in range(CLASSES):
            for k in range(first, first + count):
                server.pages[f"/{label}/{k}.jpg"] = Page(photo(label, k), kind="image/jpeg")
                lines.append(f"{server.url}/{label}/{k}.jpg {label} 1 9 2.5 8")
        (folder / file).write_text("\n".join(lines) + "\n")
    return folder


TOTAL = CLASSES * (TRAINING + VALIDATION)


def test_download_and_load(tmp_path, server, folder):
    with no_warnings():
        for _ in range(2):
            dataset = load_dataset("landmarks", tmp_path / "data", image_size=8, task="dml", download=True)
    assert len(server.asked) == TOTAL and dataset.name == "landmarks-4" and dataset.test is None
    left = sorted(p.name for p in folder.rglob("*") if p.is_file() and p.suffix not in (".lock", ".jpg"))
    assert left == [*LISTS, "dead.txt"] and len(list((folder / "images").iterdir())) == TOTAL
    for split, count in ((dataset.train, TRAINING), (dataset.validation, VALIDATION)):
        assert split.images.shape == (CLASSES * count, 3, 8, 8) and split.class_names == ("0", "1", "2", "3")
        np.testing.assert_array_equal(split.labels, np.repeat(np.arange(CLASSES), count))
        np.testing.assert_allclose(split.images[:, 0].mean(axis=(1, 2)), 60 * split.labels, atol=2)


def test_dead_links_are_listed_and_not_asked_again(folder, server, caplog):
    caplog.set_level(logging.INFO)
    del server.pages["/0/0.jpg"]
    server.pages["/0/1.jpg"] = Page(b"<html>moved</html>", kind="text/html")
    server.pages["/1/0.jpg"] = Page(photo(1, 0)[:200])
    server.pages["/1/1.jpg"] = Page(to="/photo_unavailable.png")
    server.pages["/photo_unavailable.png"] = Page(photo(1, 1))
    landmarks.download(folder)
    expected = {
        "/0/0.jpg": "404", "/0/1.jpg": "of no known format", "/1/0.jpg": "Truncated", "/1/1.jpg": "redirected to",
    }  # fmt: skip
    dead = read_dead(folder)
    assert len(dead) == 4 and all(reason in dead[server.url + path] for path, reason in expected.items())
    assert f"{folder}/dead.txt lists 4 dead links; 0 more gave no answer" in caplog.text
    asked = len(server.asked)
    landmarks.download(folder)
    assert len(server.asked) == asked
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"4 of {TOTAL} images are missing") as caught:
            dataset = load_dataset("landmarks", folder, image_size=8, download=True)
        assert len(caught) == 1 and np.bincount(dataset.train.labels).tolist() == [3, 3, 5, 5]
    (folder / "dead.txt").unlink()
    server.pages["/0/0.jpg"] = Page(photo(0, 0))
    landmarks.download(folder)
    assert len(read_dead(folder)) == 3


def test_offline_is_an_error_and_no_link_counts_as_dead(tmp_path, folder, server):
    for path in (folder / file for file in LISTS):
        path.write_text(path.read_text().replace(server.url, "http://127.0.0.1:1"))
    said = f"none of {TOTAL} images could be fetched; .*http://127.0.0.1:1/0/0.jpg: .*refused"
    with pytest.raises(ConnectionError, match=said):
        check_source("landmarks", tmp_path / "data", download=True)
    assert read_dead(folder) == {} and not list((folder / "images").iterdir())


def test_missing_photos_and_small_classes_are_left_out_and_counted(folder, server):
    for path in (*(f"/2/{k}.jpg" for k in range(4)), "/1/11.jpg", "/1/12.jpg"):
        del server.pages[path]
    landmarks.download(folder)
    said = f"6 of {TOTAL} images are missing; 2 classes .* fewer than 2 images .* left out: train 2, validation 1"
    with pytest.warns(UserWarning, match=said) as caught:
        dataset = load_dataset("landmarks", folder, image_size=8)
    assert len(caught) == 1
    assert dataset.name == "landmarks-3" and dataset.train.class_names == ("0", "1", "3")
    assert dataset.validation.class_names == ("0", "2", "3")
    np.testing.assert_array_equal(np.unique(dataset.train.images[:, 0, 4, 4] // 58), [0, 1, 3])


def test_photos_that_nobody_fetched_are_an_error_and_dead_links_are_not(folder, server):
    said = f"{TOTAL} of {TOTAL} images are missing, {TOTAL} of them not known .*--download"
    with pytest.raises(FileNotFoundError, match=said):
        check_source("landmarks", folder)
    for path in list(server.pages)[: TOTAL // 2 + 1]:
        del server.pages[path]
    with pytest.warns(UserWarning, match=f"{TOTAL // 2 + 1} of {TOTAL} images are missing"):
        assert check_source("landmarks", folder, download=True).name == "landmarks-1"


@pytest.mark.parametrize("file", LISTS)
@pytest.mark.parametrize("line", ["http://host/a.jpg 3 1 2 3", "a.jpg 3 1 2 3 4", "file:///etc/x 3 1 2 3 4"])
def test_malformed_lines_are_named(folder, file, line):
    path = folder / file
    number = 3 + len(path.read_text().splitlines())
    path.write_text(f"\n\n{path.read_text()}{line}")
    for ask in (lambda: check_source("landmarks", folder), lambda: landmarks.download(folder)):
        with pytest.raises(ValueError, match=f"{file}, line {number}: '{line}' is not `URL class"):
            ask()


def test_links_with_odd_characters(folder, server):
    path = folder / LISTS[0]
    urls = (f"{server.url}/Köln dom (1).jpg", f"{server.url}/a%20b.jpg", "http://[bad/c.jpg")
    path.write_text(path.read_text() + "".join(f"{url} 0 1 2 3 4\n" for url in urls), encoding="utf-8")
    server.pages["/K%C3%B6ln%20dom%20(1).jpg"] = Page(photo(0, 7))
    server.pages["/a%20b.jpg"] = Page(photo(0, 8))
    landmarks.download(folder)
    assert list(read_dead(folder)) == ["http://[bad/c.jpg"]
