"""Revisited Oxford and Paris (Radenović et al., CVPR 2018): a database of photographs, queries, and ground truth.

Layout: <root>/<name>/gnd_<name>.pkl and <root>/<name>/jpg/<image>.jpg, name = roxford5k or rparis6k. Images keep their
aspect. They are decoded once, into one flat file of <cache>/benchmarks/ (about 12 GB for roxford5k at 1024 px).
"""

import json
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from pathlib import Path

import numpy as np
from filelock import FileLock
from PIL import Image

from trainables.datasets.cache import cache_root
from trainables.datasets.download import fetch
from trainables.datasets.ground_truth import GroundTruth, load_ground_truth
from trainables.datasets.remote import content
from trainables.datasets.source import MAX_PIXELS, missing_data
from trainables.datasets.structure import made_once, preview, published_name
from trainables.datasets.untar import check_complete, extract

FORMAT = 1  # raise it when the same files would give other arrays
DECODED_AT_ONCE = 64  # images in memory while the cache is made

ORIGIN = "http://cmp.felk.cvut.cz/revisitop/data/datasets/{name}/gnd_{name}.pkl"
IMAGES = "https://www.robots.ox.ac.uk/~vgg/data/"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Published:
    """The published benchmark: images in the database, queries, and the archives of its images."""

    images: int
    queries: int
    archives: tuple[str, ...]


BENCHMARKS = {
    "roxford5k": Published(4993, 70, (f"{IMAGES}oxbuildings/oxbuild_images-v1.tgz",)),
    "rparis6k": Published(
        6322, 70, (f"{IMAGES}parisbuildings/paris_1-v1.tgz", f"{IMAGES}parisbuildings/paris_2-v1.tgz")
    ),
}


class Images(Sequence):
    """Images of different sizes, one after the other in a memory map: uint8 [3, h, w] each, read-only."""

    def __init__(self, pixels: np.ndarray, offsets: np.ndarray, shapes: np.ndarray):
        """pixels: uint8, flat.  offsets: int64 [n], each image's first byte.  shapes: int64 [n, 2], heights, widths."""
        self._pixels, self._offsets, self.shapes = pixels, offsets, shapes

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, index: int) -> np.ndarray:
        index = range(len(self))[index]  # IndexError and negative numbers as for a list
        height, width = map(int, self.shapes[index])
        start = int(self._offsets[index])
        return self._pixels[start : start + 3 * height * width].reshape(3, height, width)


@dataclass(frozen=True)
class Benchmark:
    """A database, and queries cropped to their boxes; relevant: the lists easy, hard and junk of every query."""

    name: str
    database: Images
    queries: Images
    relevant: tuple[dict[str, np.ndarray], ...]


def load_benchmark(
    name: str, data_root: str | os.PathLike | None = None, *, image_size: int = 1024, download: bool = False
) -> Benchmark:
    """Load the benchmark with images of at most image_size px on the longer side; decoded once, then memory-mapped.

    name: one of BENCHMARKS.  data_root: see `trainables.datasets.data_roots`.  download: fetch missing data.
    Raises FileNotFoundError if there is no data, ValueError for an unknown name, a wrong layout, damaged ground truth,
    and for any image that is missing or does not decode: the scores need all images.
    """
    if isinstance(image_size, bool) or not isinstance(image_size, int) or image_size < 8:
        raise ValueError(f"image_size={image_size!r}: whole pixels, at least 8")
    folder, truth = _find(name, data_root, download)
    files = _files(folder, truth)
    entry = cache_root() / "benchmarks" / f"{name}-{image_size}px-{_identity(folder, name, files, image_size)}"
    pixels, offsets, shapes = made_once(
        entry, lambda: _read(entry), lambda place: _decode_all(place, files, truth, image_size)
    )
    n = len(truth.database)
    database, queries = (Images(pixels, offsets[part], shapes[part]) for part in (slice(n), slice(n, None)))
    return Benchmark(_published(name, truth), database, queries, truth.relevant)


def check_benchmark(name: str, data_root: str | os.PathLike | None = None, *, download: bool = False) -> str:
    """The name for results, once the ground truth is checked and every image is present; decodes none. Raises as
    `load_benchmark`."""
    folder, truth = _find(name, data_root, download)
    _files(folder, truth)
    return _published(name, truth)


def download(name: str, root: str | os.PathLike) -> Path:
    """Fetch missing ground truth and images into <root>/<name>; returns that folder.

    No checksum of these files is published. So they are read to their ends before they take their names, every image
    that the ground truth names must be in the archives (ValueError otherwise), and other members are not kept. The
    archives are removed once the images are extracted.
    """
    published = _known(name)
    folder = Path(root) / name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".download.lock"):
        truth_file = folder / f"gnd_{name}.pkl"
        if not truth_file.exists():
            fetch(ORIGIN.format(name=name), truth_file, verify=load_ground_truth)
        truth = load_ground_truth(truth_file)
        if not (folder / "jpg").exists():
            archives = [folder / url.rsplit("/", 1)[1] for url in published.archives]
            for url, archive in zip(published.archives, archives, strict=True):
                if not archive.exists():
                    fetch(url, archive, verify=check_complete)
            extract(archives, folder / "jpg", {f"{image}.jpg" for image in (*truth.database, *truth.queries)})
            for archive in archives:
                archive.unlink()
    return folder


def _known(name: str) -> Published:
    if name not in BENCHMARKS:
        raise ValueError(f"benchmark {name!r} is not known, these are: {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]


def _published(name: str, truth: GroundTruth) -> str:
    published, count = BENCHMARKS[name], len(truth.database)
    return published_name(name, count, (count, len(truth.queries)) == (published.images, published.queries))


def _find(name: str, data_root: str | os.PathLike | None, fetch_it: bool) -> tuple[Path, GroundTruth]:
    """The benchmark's folder and its ground truth."""
    from trainables.datasets import data_roots  # here because that package may import this module

    published = _known(name)
    roots = data_roots(data_root, fetch_it)
    truth_file = f"gnd_{name}.pkl"
    places = [place for root in roots for place in (root / name, root)]
    # Ground truth without a folder of images is a download that was cut off.
    found = next((place for place in places if (place / truth_file).is_file() and (place / "jpg").is_dir()), None)
    if found is None and fetch_it:
        found = download(name, roots[0])
    if found is None:
        layout = f"{name}/{truth_file} and {name}/jpg/<image>.jpg below the data root"
        origin = f"{ORIGIN.format(name=name)} and {', '.join(published.archives)}; or ask for the download"
        raise missing_data(name, [place / part for place in places for part in (truth_file, "jpg")], layout, origin)
    return found, load_ground_truth(found / truth_file)


def _files(folder: Path, truth: GroundTruth) -> list[Path]:
    """The images' files, first the database's, then the queries'. Raises ValueError naming the missing ones."""
    files = [folder / "jpg" / f"{image}.jpg" for image in (*truth.database, *truth.queries)]
    if missing := [file.name for file in files if not file.is_file()]:
        raise ValueError(f"{folder / 'jpg'}: {len(missing)} of {len(files)} images are missing: {preview(missing)}")
    return files


def _identity(folder: Path, name: str, files: list[Path], image_size: int) -> str:
    """Digest of the ground truth, the image size, and the images' names, sizes and times of change. For data from a URI
    their SHA-256 replaces these three."""
    digest = blake2b((folder / f"gnd_{name}.pkl").read_bytes(), digest_size=12)
    status = content(folder) or [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    digest.update(json.dumps([FORMAT, name, image_size, status]).encode())
    return digest.hexdigest()


def _read(entry: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(pixels, offsets, shapes) of a cache entry; None where it is absent or damaged."""
    if not entry.exists():
        return None
    try:
        shapes = np.load(entry / "shapes.npy")
        if shapes.dtype != np.int64 or shapes.ndim != 2 or shapes.shape[1] != 2:
            raise ValueError(f"shapes.npy is {shapes.dtype} {shapes.shape}")
        ends = np.cumsum(3 * shapes.prod(axis=1))
        pixels = np.memmap(entry / "pixels.bin", dtype=np.uint8, mode="r")
        if len(pixels) != ends[-1]:
            raise ValueError(f"pixels.bin has {len(pixels):,} bytes, {ends[-1]:,} are expected")
    except (OSError, ValueError, EOFError, IndexError) as error:
        log.warning("%s is damaged (%s), it is made again", entry, error)
        return None
    return pixels, np.concatenate([[0], ends[:-1]]), shapes


def _decode_all(folder: Path, files: list[Path], truth: GroundTruth, image_size: int) -> None:
    """Fill the folder of a cache entry."""
    boxes = [None] * len(truth.database) + list(truth.boxes)
    log.info("decoding %d images into %s, once", len(files), folder.parent)
    shapes = []
    with ThreadPoolExecutor(os.cpu_count()) as pool, (folder / "pixels.bin").open("wb") as pixels:
        for start in range(0, len(files), DECODED_AT_ONCE):
            some = slice(start, start + DECODED_AT_ONCE)
            for image in pool.map(_decode, files[some], boxes[some], repeat(image_size)):
                pixels.write(image.tobytes())
                shapes.append(image.shape[1:])
    np.save(folder / "shapes.npy", np.array(shapes, dtype=np.int64))


def _decode(file: Path, box: np.ndarray | None, image_size: int) -> np.ndarray:
    """uint8 [3, h, w]: cropped to the box (x0, y0, x1, y1 in px, rounded), the longer side shrunk to image_size px.

    Never enlarged; Lanczos, as the benchmark's authors shrink. Raises ValueError naming a file that does not decode.
    """
    try:
        with Image.open(file, formats=("JPEG",)) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise ValueError(f"{opened.width} x {opened.height} pixels, at most {MAX_PIXELS:,} are decoded")
            image = opened.convert("RGB")
        if box is not None:
            x0, y0, x1, y1 = (round(float(edge)) for edge in box)
            image = image.crop((max(x0, 0), max(y0, 0), min(x1, image.width), min(y1, image.height)))
        if not image.width or not image.height:
            raise ValueError(f"nothing of the image lies in the box {box}")
    except (OSError, SyntaxError, EOFError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{file}: {error}; every image is needed, restore it") from error
    scale = image_size / max(image.size)
    if scale < 1:
        size = tuple(max(1, round(side * scale)) for side in image.size)
        image = image.resize(size, Image.Resampling.LANCZOS)
    return np.asarray(image).transpose(2, 0, 1)
