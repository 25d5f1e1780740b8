"""A dataset as arrays (`Split`, `Dataset`), and before decoding as a plan (`Plan`, `SplitPlan`)."""

import os
import unicodedata
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

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

    classes: class -> its images, each in the form that the plan's renderer takes, in the order of the labels.
    images_per_class: the fewest images a class may have (2 where images of a class are paired). Raises ValueError
    naming the classes that have fewer.
    """

    classes: Mapping[str, Sequence[Any]]
    images_per_class: int

    def __post_init__(self) -> None:
        if short := [f"{name} ({len(self.classes[name])})" for name in self.too_small()]:
            least = self.images_per_class
            raise ValueError(f"classes need at least {least} images, but {len(short)} have fewer: {preview(short)}")

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.classes)

    @cached_property
    def items(self) -> tuple[Any, ...]:
        """All images, class by class."""
        return tuple(item for items in self.classes.values() for item in items)

    @cached_property
    def labels(self) -> tuple[int, ...]:
        """The label of each item."""
        return tuple(label for label, items in enumerate(self.classes.values()) for _ in items)

    def too_small(self, but: Container[Any] = ()) -> list[str]:
        """The classes that have too few images, not counting those of `but`."""
        left = {name: sum(item not in but for item in items) for name, items in self.classes.items()}
        return [name for name, count in left.items() if count < self.images_per_class]


@dataclass(frozen=True)
class Plan:
    """A dataset that was found, before decoding.

    name: for results.  channels: 1 or 3.  splits: "train", "validation" and perhaps "test"; images without classes are
    in one.  location: the data's place.  identity: a digest that changes with the data's content.
    renderer(image_size in px): a context that yields item -> uint8 [c, image_size, image_size], for many threads.
    content: number and size of a user's own images, and a digest of their names and sizes.
    left_out: the published data that are missing here, in words; every load warns of them.
    incomplete: whether a download could still add to what is here.
    """

    name: str
    channels: int
    splits: dict[str, SplitPlan]
    location: str
    identity: str
    renderer: Callable[[int], AbstractContextManager[Render]]
    content: str = ""
    left_out: str = ""
    incomplete: bool = False

    @property
    def training_classes(self) -> int:
        return len(self.splits["train"].class_names)

    def images(self, split: str) -> int:
        """The number of images of a split, 0 where the dataset has none of that name."""
        return len(self.splits[split].items) if split in self.splits else 0


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


def published_name(dataset: str, found: int, is_published: bool) -> str:
    """`dataset` for the complete published data, else `dataset-<classes found>`; of a benchmark its database counts."""
    return dataset if is_published else f"{dataset}-{found}"


def preview(names: Iterable[str], most: int = 5) -> str:
    """The first few names for a message."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def in_order(
    function: Callable[[Any], Any], items: Iterable[Any], threads: int | None = None, ahead: int | None = None
) -> Iterator[Any]:
    """Yield function(item) for every item, in the order of the items.

    threads: how many compute; one a processor unless given. Pillow and zlib release Python's lock.
    ahead: how many results may wait for an earlier one, which bounds the memory; 4 a thread unless given. Errors of the
    function are raised here; items that have not begun by then are dropped.
    """
    threads = threads or os.cpu_count() or 1
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future] = deque()
    try:
        for item in items:
            if len(waiting) >= (ahead or 4 * threads):
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, item))
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def decoded(render: Render, items: Iterable[Any]) -> Iterator[np.ndarray | UndecodableImage]:
    """Yield render(item) for every item as `in_order` does, or the reason why it does not decode."""

    def attempt(item: Any) -> np.ndarray | UndecodableImage:
        try:
            return render(item)
        except UndecodableImage as error:
            return error

    return in_order(attempt, items)
