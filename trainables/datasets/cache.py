"""Cache of datasets: decoded once into arrays on disk, memory-mapped by every process of a machine.

<cache>/arrays/<dataset>-<size>px-<key>/ holds {train,validation[,test]}_{images,labels}.npy and meta.json, where
<cache> is $TUNE_CD_CACHE or ~/.cache/tune_cd. The key covers the dataset, FORMAT, the image size and the identity of
the source, so an entry never goes stale. Shapes, types and file lengths are checked at every load, the pixels are not.

The cache belongs on a local disk of each machine, as arrays are mapped from it. On a shared file system only its locks
keep the processes of two machines apart, and some file systems have none.
"""

import json
import logging
import os
import warnings
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from trainables.datasets.structure import (
    Dataset,
    Recipe,
    Render,
    Split,
    UndecodableImage,
    in_order,
    local_path,
    made_once,
    preview,
)

FORMAT = 2  # raise it when the same source would give other arrays
MAX_UNDECODABLE = 0.01  # of a dataset's images; more than a few stray files means damaged data
SPLITS = ("train", "validation", "test")  # of which "test" may be absent
AHEAD = 4  # decoded images per thread that may wait for an earlier one, at most 3 MB each at 1024 px

log = logging.getLogger(__name__)


def cache_root() -> Path:
    """$TUNE_CD_CACHE, or ~/.cache/tune_cd. Raises ValueError for a URI."""
    return local_path(os.environ.get("TUNE_CD_CACHE") or "~/.cache/tune_cd", "TUNE_CD_CACHE")


def load(recipe: Recipe, image_size: int) -> Dataset:
    """Load the dataset at image_size px; decode it first if it is not in the cache.

    Warns of images that were left out because they do not decode; raises ValueError if these are more than 1 %.
    """
    folder = entry(recipe, image_size)
    dataset = made_once(folder, lambda: _read(folder, image_size), lambda place: _decode(recipe, image_size, place))
    left_out = json.loads((folder / "meta.json").read_text())["undecodable"]
    if left_out:
        warnings.warn(
            f"{recipe.location}: {len(left_out)} images do not decode and are left out: {preview(left_out)}",
            stacklevel=3,
        )
    return dataset


def entry(recipe: Recipe, image_size: int) -> Path:
    """The folder of the arrays of this recipe and size."""
    key = json.dumps([recipe.dataset, FORMAT, image_size, recipe.identity])
    return (
        cache_root() / "arrays" / f"{recipe.dataset}-{image_size}px-{blake2b(key.encode(), digest_size=12).hexdigest()}"
    )


def _read(folder: Path, image_size: int) -> Dataset | None:
    """The arrays in the folder, memory-mapped; None where they are absent, incomplete or damaged."""
    if not folder.exists():
        return None
    try:
        meta = json.loads((folder / "meta.json").read_text())
        splits = {
            split: _read_split(folder, split, meta, image_size) for split in SPLITS if split in meta["class_names"]
        }
        return Dataset(meta["name"], splits["train"], splits["validation"], splits.get("test"))
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        log.warning("%s is damaged (%s), it is made again", folder, error)
        return None


def _read_split(folder: Path, split: str, meta: dict, image_size: int) -> Split:
    names = tuple(meta["class_names"][split])
    # Copy-on-write: torch.from_numpy takes writeable arrays as they are, and no write reaches the file.
    images = np.load(folder / f"{split}_images.npy", mmap_mode="c")
    labels = np.load(folder / f"{split}_labels.npy", mmap_mode="c")
    if images.dtype != np.uint8 or images.shape != (len(labels), meta["channels"], image_size, image_size):
        raise ValueError(f"{split}_images.npy is {images.dtype} {images.shape}")
    if labels.dtype != np.int64 or labels.ndim != 1 or not np.array_equal(np.unique(labels), np.arange(len(names))):
        raise ValueError(f"{split}_labels.npy does not hold the labels of {len(names)} classes")
    return Split(images, labels, names)


def _decode(recipe: Recipe, image_size: int, folder: Path) -> None:
    """Fill the folder. ValueError if over MAX_UNDECODABLE of all images, or too many of one class, do not decode."""
    plan = recipe.plan()
    total = sum(len(split.items) for split in plan.splits.values())
    log.info("decoding %d images of %s into %s, once", total, plan.name, folder.parent)
    decoded: dict[str, list[int]] = {}  # split -> indices of its items that decode
    undecodable: dict[str, str] = {}  # item -> reason
    with recipe.renderer(image_size) as render:
        for split, chosen in plan.splits.items():
            shape = (len(chosen.items), plan.channels, image_size, image_size)
            decoded[split], failed = _decode_images(chosen.items, shape, render, folder / f"{split}_images.npy")
            undecodable |= failed
    if len(undecodable) > MAX_UNDECODABLE * total:
        listed = preview(f"{item} ({reason})" for item, reason in undecodable.items())
        raise ValueError(
            f"{recipe.location}: {len(undecodable)} of {total} images do not decode, at most 1 % may: {listed}"
        )
    for split, rows in decoded.items():
        labels = plan.splits[split].keep(rows).labels
        np.save(folder / f"{split}_labels.npy", np.array(labels, dtype=np.int64))
    class_names = {split: chosen.class_names for split, chosen in plan.splits.items()}
    meta = {"name": plan.name, "channels": plan.channels, "class_names": class_names, "undecodable": list(undecodable)}
    (folder / "meta.json").write_text(json.dumps(meta))


def _decode_images(
    items: tuple[Any, ...], shape: tuple[int, int, int, int], render: Render, path: Path
) -> tuple[list[int], dict[str, str]]:
    """Decode the images (uint8, shape [n, c, s, s]) with one thread per processor and write them to the path.

    Threads suffice, as Pillow and zlib release Python's lock. Their number does not change the result.
    Returns the indices of the items that decode, whose images are in the file, and {item: reason} for the others.
    """
    images = open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    good: list[int] = []
    undecodable: dict[str, str] = {}
    threads = os.cpu_count() or 1
    outcomes = in_order(lambda item: _attempt(render, item), items, threads, AHEAD * threads)
    for index, (item, outcome) in enumerate(zip(items, outcomes, strict=True)):
        if isinstance(outcome, UndecodableImage):
            undecodable[str(item)] = str(outcome)
        else:
            images[len(good)] = outcome
            good.append(index)
    images.flush()
    if undecodable:  # rare, so copying costs less than decoding everything twice to learn the length
        shorter = path.with_suffix(".shorter.npy")
        np.save(shorter, images[: len(good)])
        os.replace(shorter, path)
    return good, undecodable


def _attempt(render: Render, item: Any) -> np.ndarray | UndecodableImage:
    try:
        return render(item)
    except UndecodableImage as error:
        return error
