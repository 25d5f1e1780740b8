"""Cache of datasets: decoded once into arrays on disk, memory-mapped by every process of a machine.

<cache>/arrays/<dataset>-<size>px-<key>/ holds {train,validation[,test]}_{images,labels}.npy and meta.json, where
<cache> is $TUNE_CD_CACHE or ~/.cache/tune_cd. The key covers the dataset, FORMAT, the image size and the identity of
the source, so an entry never goes stale. File lengths are checked at every load, the pixels are not.

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
    SplitPlan,
    UndecodableImage,
    in_order,
    local_path,
    made_once,
    preview,
)

FORMAT = 3  # raise it when the same source would give other arrays
MAX_UNDECODABLE = 0.01  # of a dataset's images; more than a few stray files means damaged data
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
    dataset = made_once(folder, _read, lambda place: _decode(recipe, image_size, place))
    if dataset.left_out:
        warnings.warn(f"{recipe.location}: {dataset.left_out}", stacklevel=3)
    return dataset


def entry(recipe: Recipe, image_size: int) -> Path:
    """The folder of the arrays of this recipe and size."""
    key = json.dumps([recipe.dataset, FORMAT, image_size, recipe.identity])
    return (
        cache_root() / "arrays" / f"{recipe.dataset}-{image_size}px-{blake2b(key.encode(), digest_size=12).hexdigest()}"
    )


def _read(folder: Path) -> Dataset:
    """The arrays in the folder, memory-mapped. Raises one of `structure.DAMAGED` where they are absent or not whole."""
    meta = json.loads((folder / "meta.json").read_text())
    splits = {}
    for split, names in meta["class_names"].items():
        # Copy-on-write: torch.from_numpy takes writeable arrays as they are, and no write reaches the file.
        images, labels = (np.load(folder / f"{split}_{what}.npy", mmap_mode="c") for what in ("images", "labels"))
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images and {len(labels)} labels of {split}")
        splits[split] = Split(images, labels, tuple(names))
    return Dataset(meta["name"], splits["train"], splits["validation"], splits.get("test"), meta["left_out"])


def _decode(recipe: Recipe, image_size: int, folder: Path) -> None:
    """Fill the folder, without the images that do not decode and the classes that they leave too small. ValueError if
    over MAX_UNDECODABLE of all images do not decode, or less than two classes of a split are left."""
    plan = recipe.plan()
    total = sum(len(split.items) for split in plan.splits.values())
    log.info("decoding %d images of %s into %s, once", total, plan.name, folder.parent)
    decoded: dict[str, np.ndarray] = {}  # split -> bool [n]
    undecodable: dict[str, str] = {}  # item -> reason
    with recipe.renderer(image_size) as render:
        for split, chosen in plan.splits.items():
            shape = (len(chosen.items), plan.channels, image_size, image_size)
            decoded[split], failed = _decode_images(chosen.items, shape, render, folder / f"{split}_images.npy")
            undecodable |= failed
    listed = preview(f"{item} ({reason})" for item, reason in undecodable.items())
    if len(undecodable) > MAX_UNDECODABLE * total:
        raise ValueError(
            f"{recipe.location}: {len(undecodable)} of {total} images do not decode, at most 1 % may: {listed}"
        )
    small = {split: _too_small(chosen, decoded[split]) for split, chosen in plan.splits.items()}
    same = len({chosen.class_names for chosen in plan.splits.values()}) == 1  # a label means the same in all
    class_names, gone = {}, set()
    for split, chosen in plan.splits.items():
        absent = small["train" if same else split]  # in ssl a class that is trained on stays, tested or not
        left = len(chosen.class_names) - len(small[split] | absent)
        if left < min(2, len(chosen.class_names)):
            few = f"{split} is left with {left} classes of enough images, at least 2 are needed"
            raise ValueError(f"{recipe.location}: {few}; {listed}")
        class_names[split] = _keep(chosen, decoded[split], absent, folder / split)
        gone |= {chosen.class_names[label] for label in absent}
    said = f"{len(undecodable)} images do not decode and are left out: {preview(undecodable)}" if undecodable else ""
    said += f", and with them the classes that they leave too small: {preview(sorted(gone))}" if gone else ""
    (folder / "meta.json").write_text(json.dumps({"name": plan.name, "class_names": class_names, "left_out": said}))


def _too_small(chosen: SplitPlan, decoded: np.ndarray) -> set[int]:
    """The labels of a split of which too few images have decoded."""
    count = np.bincount(np.array(chosen.labels)[decoded], minlength=len(chosen.class_names))
    return {int(label) for label in np.flatnonzero(count < chosen.images_per_class)}


def _keep(chosen: SplitPlan, decoded: np.ndarray, small: set[int], place: Path) -> list[str]:
    """Keep of a split's images, in <place>_images.npy, those decoded and of no class in `small`; write their labels,
    numbered anew, to <place>_labels.npy. Returns the names of the classes."""
    images, labels = Path(f"{place}_images.npy"), np.array(chosen.labels, dtype=np.int64)
    kept = decoded & ~np.isin(labels, list(small))
    if not kept.all():  # rare, so copying costs less than decoding everything twice to learn the length
        shorter = images.with_suffix(".shorter.npy")
        np.save(shorter, np.load(images, mmap_mode="r")[kept])
        os.replace(shorter, images)
    left = [label for label in range(len(chosen.class_names)) if label not in small]
    np.save(f"{place}_labels.npy", np.searchsorted(left, labels[kept]))
    return [chosen.class_names[label] for label in left]


def _decode_images(
    items: tuple[Any, ...], shape: tuple[int, int, int, int], render: Render, path: Path
) -> tuple[np.ndarray, dict[str, str]]:
    """Decode the images (uint8, shape [n, c, s, s]) with one thread per processor and write them to the path.

    Threads suffice, as Pillow and zlib release Python's lock. Their number does not change the result.
    Returns whether each item decodes, bool [n], and {item: reason} of those that do not.
    """

    def attempt(item: Any) -> np.ndarray | UndecodableImage:
        try:
            return render(item)
        except UndecodableImage as error:
            return error

    images, threads = open_memmap(path, mode="w+", dtype=np.uint8, shape=shape), os.cpu_count() or 1
    decoded, undecodable = np.ones(shape[0], dtype=bool), {}
    for index, outcome in enumerate(in_order(attempt, items, threads, AHEAD * threads)):
        if isinstance(outcome, UndecodableImage):
            decoded[index], undecodable[str(items[index])] = False, str(outcome)
        else:
            images[index] = outcome
    images.flush()
    return decoded, undecodable
