"""Cache of datasets: decoded once into arrays on disk, memory-mapped by every process of a machine.

<cache>/arrays/<name>-<size>px-<key>/ holds {train,validation[,test]}_{images,labels}.npy and meta.json, where
<cache> is $TUNE_CD_CACHE or ~/.cache/tune_cd. The key covers the dataset, FORMAT, the image size and the identity of
the source, so an entry never goes stale. File lengths are checked at every load, the pixels are not.

The cache belongs on a local disk of each machine, as arrays are mapped from it. On a shared file system only its locks
keep the processes of two machines apart, and some file systems have none.
"""

import errno
import json
import logging
import os
import shutil
import warnings
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from filelock import FileLock
from numpy.lib.format import open_memmap

from trainables.datasets.structure import Dataset, Plan, Split, SplitPlan, UndecodableImage, decoded, preview
from trainables.datasets.uri import local_path

FORMAT = 3  # raise it when the same source would give other arrays
MAX_UNDECODABLE = 0.01  # of a dataset's images; more than a few stray files means damaged data

DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError)  # of reading files that are absent or not whole

T = TypeVar("T")

log = logging.getLogger(__name__)


def cache_root() -> Path:
    """$TUNE_CD_CACHE, or ~/.cache/tune_cd. Raises ValueError for a URI."""
    return local_path(os.environ.get("TUNE_CD_CACHE") or "~/.cache/tune_cd", "TUNE_CD_CACHE")


def load(plan: Plan, image_size: int) -> Dataset:
    """Load the dataset at image_size px; decode it first if it is not in the cache.

    Warns of images that were left out because they do not decode; raises ValueError if these are more than 1 %.
    """
    folder = check_room(plan, image_size)
    dataset = made_once(folder, _read, lambda place: _decode(plan, image_size, place))
    if dataset.left_out:
        warnings.warn(f"{plan.location}: {dataset.left_out}", stacklevel=3)
    return dataset


def entry(kind: str, name: str, image_size: int, identity: str) -> Path:
    """The folder of what is decoded from this source at this size."""
    key = blake2b(json.dumps([name, FORMAT, image_size, identity]).encode(), digest_size=12).hexdigest()
    return cache_root() / kind / f"{name}-{image_size}px-{key}"


def check_room(plan: Plan, image_size: int) -> Path:
    """The folder of the dataset's arrays. Raises OSError unless it is there, or can be written and fits the disk: pages
    of a memory map that do not fit would end the process by SIGBUS."""
    folder = entry("arrays", plan.name, image_size, plan.identity)
    if not os.path.exists(folder):
        needed = sum(len(split.items) for split in plan.splits.values()) * plan.channels * image_size**2
        if needed > (free := shutil.disk_usage(writable(folder.parent)).free):
            said = f"{plan.name} needs {needed:,} bytes in {folder.parent}, {free:,} are free; TUNE_CD_CACHE moves it"
            raise OSError(errno.ENOSPC, said)
    return folder


def writable(folder: Path) -> Path:
    """The folder of the cache, or the one in which it is to be made. Raises OSError if that cannot be written."""
    place = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if not os.access(place, os.W_OK | os.X_OK):
        said = f"{folder} cannot be written; TUNE_CD_CACHE names another folder for the cache"
        raise PermissionError(errno.EACCES, said)
    return place


def made_once(folder: Path, read: Callable[[Path], T], fill: Callable[[Path], None]) -> T:
    """The result of read(folder). Where the folder is absent or damaged (`DAMAGED`), `fill` fills it first, in only one
    of several processes. It is whole or absent: `fill` gets another place, which takes its name once it is filled."""
    with suppress(*DAMAGED):
        return read(folder)
    writable(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(folder.name + ".partial")
    with FileLock(folder.with_name(folder.name + ".lock")):
        try:
            return read(folder)  # another process may have made it while we waited
        except DAMAGED as error:
            if folder.exists():
                log.warning("%s is damaged (%s), it is made again", folder, error)
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
        partial.mkdir()
        try:
            fill(partial)
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return read(folder)


def check_damage(undecodable: Mapping[Any, str], total: int, location: str) -> None:
    """Raise ValueError if {image: why it does not decode} has more than MAX_UNDECODABLE of so many images."""
    if len(undecodable) > MAX_UNDECODABLE * total:
        listed = preview(f"{item} ({reason})" for item, reason in undecodable.items())
        raise ValueError(f"{location}: {len(undecodable)} of {total} images do not decode, at most 1 % may: {listed}")


def _read(folder: Path) -> Dataset:
    """The arrays in the folder, memory-mapped. Raises one of `DAMAGED` where they are absent or not whole."""
    meta = json.loads((folder / "meta.json").read_text())
    splits = {}
    for split, names in meta["class_names"].items():
        # Copy-on-write: torch.from_numpy takes writeable arrays as they are, and no write reaches the file.
        images, labels = (np.load(folder / f"{split}_{what}.npy", mmap_mode="c") for what in ("images", "labels"))
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images and {len(labels)} labels of {split}")
        splits[split] = Split(images, labels, tuple(names))
    return Dataset(meta["name"], splits["train"], splits["validation"], splits.get("test"), meta["left_out"])


def _decode(plan: Plan, image_size: int, folder: Path) -> None:
    """Fill the folder, without the images that do not decode and the classes that they leave too small. ValueError if
    over MAX_UNDECODABLE of all images do not decode, or less than two classes of a split are left."""
    total = sum(len(split.items) for split in plan.splits.values())
    log.info("decoding %d images of %s into %s, once", total, plan.name, folder.parent)
    undecodable: dict[Any, str] = {}  # item -> reason
    with plan.renderer(image_size) as render:
        for split, chosen in plan.splits.items():
            shape = (len(chosen.items), plan.channels, image_size, image_size)
            images = open_memmap(folder / f"{split}_images.npy", mode="w+", dtype=np.uint8, shape=shape)
            for index, outcome in enumerate(decoded(render, chosen.items)):
                if isinstance(outcome, UndecodableImage):
                    undecodable[chosen.items[index]] = str(outcome)
                else:
                    images[index] = outcome
            images.flush()
    check_damage(undecodable, total, plan.location)
    same = len({chosen.class_names for chosen in plan.splits.values()}) == 1  # a label means the same in all
    class_names, gone = {}, set()
    for split, chosen in plan.splits.items():
        small = chosen.too_small(undecodable)
        # in ssl a class that is trained on stays, tested or not
        absent = plan.splits["train"].too_small(undecodable) if same else small
        left = len(chosen.classes.keys() - {*small, *absent})
        if left < min(2, len(chosen.classes)):
            few = f"{split} is left with {left} classes of enough images, at least 2 are needed"
            raise ValueError(f"{plan.location}: {few}; these do not decode: {preview(map(str, undecodable))}")
        class_names[split] = [name for name in chosen.classes if name not in absent]
        _keep(chosen, undecodable, class_names[split], folder / split)
        gone.update(absent)
    said = f"{len(undecodable)} images do not decode and are left out: " if undecodable else ""
    said += preview(map(str, undecodable))
    said += f", and with them the classes that they leave too small: {preview(sorted(gone))}" if gone else ""
    (folder / "meta.json").write_text(json.dumps({"name": plan.name, "class_names": class_names, "left_out": said}))


def _keep(chosen: SplitPlan, undecodable: Container[Any], class_names: list[str], place: Path) -> None:
    """Keep of a split's images, in <place>_images.npy, those decoded and of these classes; write their labels to
    <place>_labels.npy."""
    label_of = {name: label for label, name in enumerate(class_names)}
    labels = np.array([
        -1 if item in undecodable else label_of.get(name, -1)
        for name, items in chosen.classes.items() for item in items
    ])  # fmt: skip
    if (labels < 0).any():  # rare, so copying costs less than decoding everything twice to learn the length
        images = np.load(f"{place}_images.npy", mmap_mode="r")
        np.save(f"{place}_shorter.npy", images[labels >= 0])
        os.replace(f"{place}_shorter.npy", f"{place}_images.npy")
    np.save(f"{place}_labels.npy", labels[labels >= 0])
