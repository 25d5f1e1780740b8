"""Landmarks-clean: lists, photos fetched by their links from a server on this machine, what is missing."""

import logging
import warnings

import numpy as np
import pytest
from datafiles import encoded
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


def files(folder):
    """Everything below the folder but the locks and the photos' names."""
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and p.suffix not in (".lock", ".jpg"))


def test_download_and_load(tmp_path, server, folder):
    assert len(server.asked) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            dataset = load_dataset("landmarks", tmp_path / "data", image_size=8, task="dml", download=True)
    assert len(server.asked) == TOTAL and dataset.name == "landmarks-4" and dataset.test is None
    assert files(folder) == [*LISTS, "dead.txt"] and len(list((folder / "images").iterdir())) == TOTAL
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
    reasons = {url.removeprefix(server.url): reason for url, reason in read_dead(folder).items()}
    expected = {
        "/0/0.jpg": "404", "/0/1.jpg": "of no known format", "/1/0.jpg": "Truncated", "/1/1.jpg": "redirected to",
    }  # fmt: skip
    assert reasons.keys() == expected.keys()
    for url, reason in expected.items():
        assert reason in reasons[url]
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
    for file in LISTS:
        path = folder / file
        path.write_text(path.read_text().replace(server.url, "http://127.0.0.1:1"))
    with pytest.raises(
        ConnectionError, match=f"none of {TOTAL} images could be fetched; .*http://127.0.0.1:1/0/0.jpg: .*refused"
    ):
        check_source("landmarks", tmp_path / "data", download=True)
    assert read_dead(folder) == {} and not list((folder / "images").iterdir())


def delete(folder, server, *paths):
    """Remove the photos of these paths, and call them dead."""
    with (folder / "dead.txt").open("a") as file:
        for path in paths:
            (folder / landmarks.image_name(server.url + path)).unlink()
            file.write(f"{server.url}{path}\tHTTP 404\n")


def test_missing_photos_and_small_classes_are_left_out_and_counted(folder, server):
    landmarks.download(folder)
    delete(folder, server, *(f"/2/{k}.jpg" for k in range(4)), "/1/11.jpg", "/1/12.jpg")
    message = (
        rf"6 of {TOTAL} images are missing; 2 classes have fewer than 2 images and are left out: train 2, validation 1"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        dataset = load_dataset("landmarks", folder, image_size=8)
    assert len(caught) == 1
    assert dataset.name == "landmarks-3" and dataset.train.class_names == ("0", "1", "3")
    assert dataset.validation.class_names == ("0", "2", "3")
    np.testing.assert_array_equal(np.unique(dataset.train.images[:, 0, 4, 4] // 58), [0, 1, 3])


def test_photos_that_nobody_fetched_are_an_error_and_dead_links_are_not(folder, server):
    with pytest.raises(
        FileNotFoundError, match=f"{TOTAL} of {TOTAL} images are missing, {TOTAL} of them not known .*--download"
    ):
        check_source("landmarks", folder)
    for path in list(server.pages)[: TOTAL // 2 + 1]:
        del server.pages[path]
    with pytest.warns(UserWarning, match=f"{TOTAL // 2 + 1} of {TOTAL} images are missing"):
        assert check_source("landmarks", folder, download=True).name == "landmarks-1"


@pytest.mark.parametrize("file", LISTS)
def test_malformed_lines_and_empty_lists_are_named(folder, file):
    path = folder / file
    text = path.read_text()
    for line in (
        "http://host/a.jpg 3 1 2 3",
        "a.jpg 3 1 2 3 4",
        "ftp://host/a.jpg 3 1 2 3 4",
        "file:///etc/x 3 1 2 3 4",
    ):
        path.write_text(f"\n\n{text}{line}")
        number = len(path.read_text().splitlines())
        for ask in (lambda: check_source("landmarks", folder), lambda: landmarks.download(folder)):
            with pytest.raises(ValueError, match=f"{file}, line {number}: '{line}' is not `URL class"):
                ask()
    path.write_text("\n")
    with pytest.raises(FileNotFoundError, match="images are missing"):
        check_source("landmarks", folder)


def test_links_with_odd_characters(folder, server):
    path = folder / LISTS[0]
    urls = (f"{server.url}/Köln dom (1).jpg", f"{server.url}/a%20b.jpg", "http://[bad/c.jpg")
    path.write_text(path.read_text() + "".join(f"{url} 0 1 2 3 4\n" for url in urls), encoding="utf-8")
    server.pages["/K%C3%B6ln%20dom%20(1).jpg"] = Page(photo(0, 7))
    server.pages["/a%20b.jpg"] = Page(photo(0, 8))
    landmarks.download(folder)
    assert list(read_dead(folder)) == ["http://[bad/c.jpg"]
