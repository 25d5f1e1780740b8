"""A dataset as arrays (`Split`, `Dataset`), and before decoding as a plan (`Recipe`, `Plan`, `SplitPlan`)."""

import logging
import os
import re
import shutil
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from filelock import FileLock

T = TypeVar("T")

DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError)  # of reading files that are absent or not whole

log = logging.getLogger(__name__)

_URI = re.compile(r"(^|/)[A-Za-z][A-Za-z0-9+.-]+:/")  # a single letter would be a drive of Windows

# item -> uint8 [c, s, s]; raises UndecodableImage; is called from several threads at once
Render = Callable[[Any], np.ndarray]


class UndecodableImage(ValueError):
    """One image that cannot be read; a few of them are left out and reported, many are an error."""


@dataclass(frozen=True)
class Split:
    """One part of a dataset.

    images: uint8 [n, c, h, w], 0..255, usually a copy-on-write memory map: writing to it changes no file.
    labels: int64 [n], 0..n_classes-1, every class present; after damage in ssl, every class in training alone.
    class_names: the name of each label.
    """

    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]


@dataclass(frozen=True)
class Dataset:
    """The splits, and the name for results: the published name only for the published number of classes.

    test: None if the dataset has no test split and is tested on another dataset (landmarks).  left_out: the images that
    do not decode, in words, if there are any.
    """

    name: str
    train: Split
    validation: Split
    test: Split | None
    left_out: str = ""


@dataclass(frozen=True)
class SplitPlan:
    """The images of a split before decoding.

    items: n descriptions of an image, in the form that the recipe's renderer takes.  labels: n integers,
    0..n_classes-1.
    images_per_class: the fewest images a class may have (2 where images of a class are paired).
    Raises ValueError naming the classes that have fewer.
    """

    items: tuple[Any, ...]
    labels: tuple[int, ...]
    class_names: tuple[str, ...]
    images_per_class: int

    def __post_init__(self) -> None:
        assert len(self.items) == len(self.labels)
        count, least = Counter(self.labels), self.images_per_class
        short = [f"{name} ({count[label]})" for label, name in enumerate(self.class_names) if count[label] < least]
        if short:
            raise ValueError(f"classes need at least {least} images, but {len(short)} have fewer: {preview(short)}")

    @classmethod
    def of(cls, items_of_class: dict[str, Iterable[Any]], images_per_class: int) -> "SplitPlan":
        """The plan of {class name: its images}; labels follow the order of the dict."""
        pairs = [(item, label) for label, items in enumerate(items_of_class.values()) for item in items]
        items, labels = zip(*pairs, strict=True) if pairs else ((), ())
        return cls(items, labels, tuple(items_of_class), images_per_class)


@dataclass(frozen=True)
class Plan:
    """A dataset before decoding.

    name: for results.  channels: 1 or 3.  splits: "train", "validation" and perhaps "test"; images without classes are
    in one.  content: number and size of a user's own images, and a digest of their names and sizes.  location: the
    data's place.
    """

    name: str
    channels: int
    splits: dict[str, SplitPlan]
    content: str = ""
    location: str = ""

    @property
    def training_classes(self) -> int:
        return len(self.splits["train"].class_names)

    def images(self, split: str) -> int:
        """The number of images of a split, 0 where the dataset has none of that name."""
        return len(self.splits[split].items) if split in self.splits else 0

    @property
    def sizes(self) -> str:
        """The numbers of images, for messages."""
        classes = f" of {self.training_classes:,} classes" if self.training_classes > 1 else ", without classes"
        train, validation, test = (self.images(split) for split in ("train", "validation", "test"))
        return f"{train:,} training, {validation:,} validation, {test:,} test images{classes}"


@dataclass(frozen=True)
class Recipe:
    """How to make one dataset from data that was found; nothing is decoded yet.

    dataset: the name by which it is requested.  location: where the data is, for messages.
    identity: a digest that changes with the data's content.
    plan(): lists and checks the layout; ValueError where it is wrong.
    renderer(image_size in px): a context that yields item -> uint8 [c, image_size, image_size], for many threads.
    left_out: the published data that are missing here, in words; every load warns of them.
    incomplete: whether a download could still add to what is here.
    """

    dataset: str
    location: str
    identity: str
    plan: Callable[[], Plan]
    renderer: Callable[[int], AbstractContextManager[Render]]
    left_out: str = ""
    incomplete: bool = False


def local_path(place: str | os.PathLike, what: str) -> Path:
    """The absolute path of `place`, with ~ expanded.

    Raises ValueError for a URI, without repeating it, as it may hold a secret.
    """
    path = Path(os.path.expanduser(place)).absolute()
    if _URI.search(os.fspath(place)) and not path.exists():
        raise ValueError(f"{what} is a URI, which is not repeated here; a file or directory of this machine is needed")
    return path


def fixed_order(names: Iterable[str], purpose: str) -> list[str]:
    """The names in a shuffled order that depends only on the names and the purpose.

    Sorting by a hash instead of a seeded generator: numpy may change its streams between versions, and a name's place
    relative to the others stays when names are added. Unicode's forms of a name have one place.
    """

    def place(name: str) -> bytes:
        return blake2b(composed(f"{purpose}:{name}").encode(errors="surrogateescape"), digest_size=16).digest()

    return sorted(names, key=place)


def composed(name: str) -> str:
    """The name in Unicode's form NFC: macOS writes é as two characters, other systems as one."""
    return unicodedata.normalize("NFC", name)


def published_name(dataset: str, classes: int, is_published: bool) -> str:
    """`dataset` for the complete published data, else `dataset-<classes found>`."""
    return dataset if is_published else f"{dataset}-{classes}"


def preview(names: Iterable[str], most: int = 5) -> str:
    """The first few names for a message."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """Context of an empty directory to fill, which is then renamed to `folder`: that is either whole or absent. Raises
    OSError if the folder holds files by then: they are not replaced."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
    partial.mkdir(parents=True)
    try:
        yield partial
        os.rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def made_once(folder: Path, read: Callable[[Path], T], fill: Callable[[Path], None]) -> T:
    """The result of read(folder). Where the folder is absent or damaged (`DAMAGED`), `fill` fills it first, in only one
    of several processes."""
    with suppress(*DAMAGED):
        return read(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(folder.name + ".lock")):
        try:
            return read(folder)  # another process may have made it while we waited
        except DAMAGED as error:
            if folder.exists():
                log.warning("%s is damaged (%s), it is made again", folder, error)
        with made_whole(folder) as partial:
            fill(partial)
            shutil.rmtree(folder, ignore_errors=True)
        return read(folder)


def in_order(function: Callable[[Any], Any], items: Iterable[Any], threads: int, ahead: int) -> Iterator[Any]:
    """Yield function(item) for every item, computed by that many threads, in the order of the items.

    ahead: how many results may wait for an earlier one, which bounds the memory. Errors of the function are raised
    here; items that have not begun by then are dropped.
    """
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future] = deque()
    try:
        for item in items:
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, item))
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
