"""Sampling of batches: k images of each class, or k views of each image.

Items of one class are adjacent, y = (0, 0, 1, 1, ...) as in fig:pipeline. Drawing is a handful of operations on the
device, without a host synchronisation. Batches that a dataset cannot provide are refused before it is loaded.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

KEYED = 1024
"""Size of the largest class up to which the images of a class are drawn by a random key for each: what was measured so
far was. Beyond it keys take long: 52 ms a batch of 64 with a class of 30,000."""


def check_batch_size(batch_size: int, k: int, classes: int, unit: str = "training classes") -> None:
    """Raise ValueError for batches that no sampler here can draw, naming the numbers that do not fit.

    batch_size: items of a batch.  k: items of each class of it, 2 at least.  classes: number of classes to draw from,
    in ssl of images.  unit: what `classes` counts, for the message.
    """
    if batch_size % k:
        raise ValueError(f"batch_size {batch_size} is not a multiple of {k} per class")
    if batch_size < 2 * k:
        raise ValueError(
            f"batch_size {batch_size} with {k} per class holds {batch_size // k} classes; "
            "2 at least are needed for a negative pair"
        )
    if batch_size // k > classes:
        raise ValueError(
            f"batch_size {batch_size} with {k} per class needs {batch_size // k} {unit}; this dataset has {classes}: "
            f"--batch-size or --batch-sizes up to {k * classes}, or a larger k would fit"
        )


class KPerClass:
    """b/k different classes, k different images of each; every set of classes and of images equally likely.

    A class with fewer than k images (at least 2) gives all of them, and some of them again until there are k; all
    images of it are drawn about equally often.
    labels: [N] integers (tensor, array or list), the class of every image; any numbers, in any order.  device: where
    batches are drawn; the generator must live there too.  Raises ValueError as `check_batch_size`.
    """

    def __init__(self, labels: Tensor | Sequence[int], batch_size: int, k: int = 2, device: torch.device | str = "cpu"):
        labels = torch.as_tensor(labels).cpu()
        classes, members, sizes = labels.unique(return_inverse=True, return_counts=True)
        check_batch_size(batch_size, k, len(classes))
        self.batch_size = batch_size
        self.k = k
        self.classes = classes.long().to(device)  # [C]
        self.sizes = sizes.to(device)  # [C]
        self.starts = (sizes.cumsum(0) - sizes).to(device)  # [C], of each class in `images`
        self.images = members.argsort(stable=True).to(device)  # [N], class by class
        self.largest = int(sizes.max())
        self.repeats = torch.arange(k, device=device)

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A batch as (indices [b] of images, labels [b]), both int64 on the sampler's device."""
        drawn = _distinct(len(self.classes), self.batch_size // self.k, self.images.device, generator)  # [b/k]
        sizes = self.sizes[drawn, None]  # [b/k, 1]
        drawing = _by_keys if self.largest <= KEYED else _one_by_one
        order = drawing(sizes, self.k, self.largest, generator)  # [b/k, at most k]
        positions = order.gather(1, self.repeats % sizes.clamp(max=self.k))  # [b/k, k]
        images = self.images[self.starts[drawn, None] + positions]  # [b/k, k]
        return images.flatten(), self.classes[drawn].repeat_interleave(self.k)


class ViewsPerImage:
    """b/k different images, k views of each, for self-supervision; every set of images equally likely.

    batch_size: b, counting views.  k: views of each image; the index repeats, and augmentation makes the views differ.
    device: where batches are drawn; the generator must live there too.  Raises ValueError as `check_batch_size`.
    """

    def __init__(self, n_images: int, batch_size: int, k: int = 2, device: torch.device | str = "cpu"):
        check_batch_size(batch_size, k, n_images, unit="training images")
        self.n_images = n_images
        self.batch_size = batch_size
        self.k = k
        self.labels = torch.arange(batch_size // k, device=device).repeat_interleave(k)  # [b]

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A batch as (indices [b] of images, labels [b] = 0, 0, 1, 1, ...), both int64 on the sampler's device."""
        drawn = _distinct(self.n_images, self.batch_size // self.k, self.labels.device, generator)
        return drawn.repeat_interleave(self.k), self.labels.clone()


def _distinct(n: int, count: int, device: torch.device, generator: torch.Generator) -> Tensor:
    """`count` different numbers below n, in random order: the positions of the largest of n random keys.

    Equal keys (they have 24 random bits) still have different positions, so the numbers always differ.
    """
    return torch.rand(n, generator=generator, device=device).topk(count).indices


def _by_keys(sizes: Tensor, k: int, largest: int, generator: torch.Generator) -> Tensor:
    """Different positions in random order, [n, min(k, largest)]: those of the largest of `largest` random keys. In a
    row of size [n, 1] below k only the first `size` are positions."""
    keys = torch.rand(len(sizes), largest, generator=generator, device=sizes.device)
    absent = torch.arange(largest, device=sizes.device) >= sizes
    return keys.masked_fill_(absent, -1.0).topk(min(k, largest), dim=1).indices


def _one_by_one(sizes: Tensor, k: int, largest: int, generator: torch.Generator) -> Tensor:
    """As `_by_keys` [n, k], in O(k) random numbers a row: Floyd's algorithm (Bentley and Floyd, CACM 1987), shuffled.

    A row of at most k positions has them all by keys.
    """
    uniform = torch.rand(len(sizes), k, generator=generator, device=sizes.device, dtype=torch.float64)
    chosen = torch.empty(len(sizes), 0, dtype=torch.int64, device=sizes.device)
    for step in range(k):
        last = (sizes - k + step).clamp(min=0)  # [n, 1]
        position = (uniform[:, step, None] * (last + 1)).long().clamp(max=last)
        taken = (chosen == position).any(1, keepdim=True)
        chosen = torch.cat([chosen, torch.where(taken, last, position)], dim=1)
    shuffled = torch.rand(len(sizes), k, generator=generator, device=sizes.device).argsort(dim=1)
    few = _by_keys(sizes.clamp(max=k), k, k, generator)
    return torch.where(sizes <= k, few, chosen.gather(1, shuffled))
