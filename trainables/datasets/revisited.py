"""Revisited Oxford and Paris (Radenović et al., CVPR 2018): a database of photographs, queries, and ground truth.

Layout: <root>/<name>/gnd_<name>.pkl and <root>/<name>/jpg/<image>.jpg, name = roxford5k or rparis6k. Images keep their
aspect. They are decoded once, into one flat file of <cache>/benchmarks/ (about 12 GB for roxford5k at 1024 px).
"""

import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from trainables.datasets import data_roots
from trainables.datasets.cache import entry, made_once
from trainables.datasets.download import fetch
from trainables.datasets.ground_truth import GroundTruth, load_ground_truth
from trainables.datasets.source import Source, find_place, opened_image
from trainables.datasets.structure import UndecodableImage, in_order, preview, published_name

ORIGIN = "http://cmp.felk.cvut.cz/revisitop/data/datasets/{name}/gnd_{name}.pkl"
IMAGES = "https://www.robots.ox.ac.uk/~vgg/data/"

_WANTED = re.compile(r"/(gnd_[^/]+\.pkl|jpg/[^/]+\.jpg)$")


PUBLISHED = {"roxford5k": (4993, 70), "rparis6k": (6322, 70)}  # images in the database, queries
ARCHIVES = {
    "roxford5k": [f"{IMAGES}oxbuildings/oxbuild_images-v1.tgz"],
    "rparis6k": [f"{IMAGES}parisbuildings/paris_1-v1.tgz", f"{IMAGES}parisbuildings/paris_2-v1.tgz"],
}


@dataclass(frozen=True)
class Benchmark:
    """A database, and queries cropped to their boxes; relevant: the lists easy, hard and junk of every query.

    Images are uint8 [3, h, w] each, of different sizes, read-only parts of one memory map.
    """

    name: str
    database: list[np.ndarray]
    queries: list[np.ndarray]
    relevant: tuple[dict[str, np.ndarray], ...]


def load_benchmark(
    name: str, data_root: str | os.PathLike | None = None, *, image_size: int = 1024, download: bool = False
) -> Benchmark:
    """Load the benchmark with images of at most image_size px on the longer side; decoded once, then memory-mapped.

    name: one of ARCHIVES.  data_root: see `trainables.datasets.data_roots`.  download: fetch missing data.
    Raises FileNotFoundError if there is no data, ValueError for a wrong layout, damaged ground truth, and for any image
    that is missing or does not decode: the scores need all images.
    """
    found, source, truth = _find(name, data_root, download)
    folder = entry("benchmarks", name, image_size, source.identity())
    pixels, shapes = made_once(folder, _read, lambda place: _decode_all(place, source, truth, image_size))
    parts = np.split(pixels, np.cumsum(3 * shapes.prod(axis=1))[:-1])
    images = [part.reshape(3, *shape) for part, shape in zip(parts, shapes)]
    n = len(truth.database)
    return Benchmark(found, images[:n], images[n:], truth.relevant)


def check_benchmark(name: str, data_root: str | os.PathLike | None = None, *, download: bool = False) -> str:
    """The name for results, once the ground truth is checked and every image is present; decodes none. Raises as
    `load_benchmark`."""
    return _find(name, data_root, download)[0]


def download(name: str, root: Path) -> Path:
    """Fetch missing ground truth and images into <root>/<name>; returns that folder.

    No checksum of these files is published. So they are read to their ends, and every image that the ground truth names
    must be in the archives (ValueError otherwise). These are removed once the images are extracted.
    """
    folder = root / name
    truth = load_ground_truth(fetch(ORIGIN.format(name=name), folder / f"gnd_{name}.pkl", load_ground_truth))
    archives = [folder / url.rsplit("/", 1)[1] for url in ARCHIVES[name]]

    def fill(partial: Path) -> None:
        for url, archive in zip(ARCHIVES[name], archives):
            fetch(url, archive, lambda path: None)
        extract(archives, partial, {f"{image}.jpg" for image in truth.images})

    made_once(folder / "jpg", os.listdir, fill)
    for archive in archives:
        archive.unlink(missing_ok=True)
    return folder


def extract(archives: Sequence[Path], folder: Path, wanted: set[str]) -> None:
    """Extract the wanted files, by names without a path, of tar archives into the folder. Raises ValueError for a
    damaged archive, and for a wanted file that is in none."""
    for archive in archives:
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    name = PurePosixPath(member.name).name  # so that no path leads elsewhere
                    if member.isreg() and name in wanted:
                        with tar.extractfile(member) as source, (folder / name).open("wb") as target:
                            shutil.copyfileobj(source, target)
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise ValueError(f"{archive}: {error}; remove it and download it again") from error
    if missing := sorted(wanted - set(os.listdir(folder))):
        listed = ", ".join(map(str, archives))
        raise ValueError(f"{len(missing)} images are in no archive ({listed}): {preview(missing)}")


def _find(name: str, data_root: str | os.PathLike | None, fetch_it: bool) -> tuple[str, Source, GroundTruth]:
    """The name for results, the files, with all images, and the ground truth. Raises as `load_benchmark`."""
    roots, truth_file = data_roots(data_root, fetch_it), f"gnd_{name}.pkl"
    try:
        # Ground truth without a folder of images is a download that was cut off.
        folder = find_place(
            name, roots, folders=(name,), marks=(truth_file, "jpg"),
            layout=f"{name}/{truth_file} and {name}/jpg/<image>.jpg below the data root",
            origin=f"{ORIGIN.format(name=name)} and {', '.join(ARCHIVES[name])}",
        )  # fmt: skip
    except FileNotFoundError:
        if not fetch_it:
            raise
        folder = download(name, roots[0])
    source, truth = Source((folder,), _WANTED), load_ground_truth(folder / truth_file)
    images = truth.images
    if missing := [f"{image}.jpg" for image in images if _member(source, image) not in source.members]:
        raise ValueError(f"{folder / 'jpg'}: {len(missing)} of {len(images)} images are missing: {preview(missing)}")
    count = (len(truth.database), len(truth.queries))
    return published_name(name, count[0], count == PUBLISHED[name]), source, truth


def _member(source: Source, image: str) -> str:
    return f"{source.roots[0].name}/jpg/{image}.jpg"


def _read(entry: Path) -> tuple[np.ndarray, np.ndarray]:
    """(pixels, shapes) of a cache entry. Raises OSError or ValueError where it is absent or damaged."""
    shapes = np.load(entry / "shapes.npy")
    size = int(3 * shapes.prod(axis=1).sum())
    return np.memmap(entry / "pixels.bin", dtype=np.uint8, mode="r", shape=(size,)), shapes


def _decode_all(folder: Path, source: Source, truth: GroundTruth, image_size: int) -> None:
    """Fill the folder of a cache entry, the database's images before the queries'."""
    boxes = [*[None] * len(truth.database), *truth.boxes]
    with source.reader() as read, (folder / "pixels.bin").open("wb") as pixels:

        def decode(image: str, box: np.ndarray | None) -> np.ndarray:
            name = _member(source, image)
            try:
                return _decoded(read(name), box, image_size)
            except UndecodableImage as error:
                raise ValueError(f"{source.location}: {name}: {error}; every image is needed, restore it") from error

        images = in_order(lambda item: decode(*item), zip(truth.images, boxes))
        shapes = [pixels.write(image.tobytes()) and image.shape[1:] for image in images]
    np.save(folder / "shapes.npy", np.array(shapes, dtype=np.int64))


def _decoded(data: bytes, box: np.ndarray | None, image_size: int) -> np.ndarray:
    """uint8 [3, h, w]: cropped to the box (x0, y0, x1, y1 in px, rounded), the longer side shrunk to image_size px.

    Never enlarged; Lanczos, as the benchmark's authors shrink. Raises UndecodableImage.
    """
    with opened_image(data, ("JPEG",)) as opened:
        image = opened.convert("RGB")
        if box is not None:
            x0, y0, x1, y1 = (round(float(edge)) for edge in box)
            image = image.crop((max(x0, 0), max(y0, 0), min(x1, image.width), min(y1, image.height)))
        if not image.width or not image.height:
            raise ValueError(f"nothing of the image lies in the box {box}")
        if image_size < max(image.size):
            scale = image_size / max(image.size)
            size = tuple(max(1, round(side * scale)) for side in image.size)
            image = image.resize(size, Image.Resampling.LANCZOS)
        return np.asarray(image).transpose(2, 0, 1)
