"""Sampling of batches: k images of each class, or k views of each image.

Items of one class are adjacent, y = (0, 0, 1, 1, ...) as in fig:pipeline. Drawing is a handful of operations on the
device, without a host synchronisation. Batches that a dataset cannot provide are refused before it is loaded.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def check_batch_size(batch_size: int, k: int, classes: int, unit: str = "training classes") -> None:
    """Refuse batches that no sampler here can draw.

    Args:
        batch_size: items of a batch, b.
        k: items of each class of the batch; two at least, or no positive pair exists.
        classes: number of classes to draw from (for self-supervision: images).
        unit: what `classes` counts, for the message.

    Raises:
        ValueError: naming the numbers that do not fit.
    """
    if k < 2:
        raise ValueError(f"{k} per class; 2 at least are needed for a positive pair")
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
            f"--batch-size {k * classes} or less, or a larger k would fit"
        )


class KPerClass:
    """b/k different classes, k different images of each; every set of classes and of images equally likely.

    A class with fewer than k images (at least 2) gives all of them, and some of them again until there are k; all
    images of it are drawn about equally often.

    Args:
        labels: [N] integers (tensor, array or list), the class of every image; any numbers, in any order.
        batch_size: b, a multiple of k.
        k: images of each class.
        device: where batches are drawn; the generator must live there too.

    Raises:
        ValueError: as `check_batch_size`, for a class of one image, or labels of another shape or kind.
    """

    def __init__(self, labels: Tensor | Sequence[int], batch_size: int, k: int = 2, device: torch.device | str = "cpu"):
        labels = torch.as_tensor(labels).cpu()
        if labels.ndim != 1 or labels.is_floating_point() or labels.is_complex():
            raise ValueError(
                f"labels are {labels.dtype} of shape {tuple(labels.shape)}; integers of shape [N] are expected"
            )
        classes, members, sizes = labels.unique(return_inverse=True, return_counts=True)
        check_batch_size(batch_size, k, len(classes))
        small = sizes < 2
        if small.any():
            raise ValueError(
                f"{int(small.sum())} of {len(classes)} classes have fewer than 2 images; the first is class "
                f"{int(classes[small][0])} with {int(sizes[small][0])}"
            )
        self.batch_size = batch_size
        self.k = k
        self.classes = classes.long().to(device)  # [C]
        self.sizes = sizes.to(device)  # [C]
        self.table = _class_table(members, sizes).to(device)  # [C, n_max]
        self.repeats = torch.arange(k, device=device)

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A batch as (indices [b] of images, labels [b]), both int64 on the sampler's device."""
        drawn = _distinct(len(self.classes), self.batch_size // self.k, self.table.device, generator)  # [b/k]
        table = self.table[drawn]  # [b/k, n_max]
        keys = torch.rand(table.shape, generator=generator, device=table.device)
        absent = torch.arange(table.shape[1], device=table.device) >= self.sizes[drawn, None]
        order = keys.masked_fill_(absent, -1.0).topk(min(self.k, table.shape[1]), dim=1).indices
        columns = order.gather(1, self.repeats % self.sizes[drawn, None].clamp(max=self.k))  # [b/k, k]
        return table.gather(1, columns).flatten(), self.classes[drawn].repeat_interleave(self.k)


class ViewsPerImage:
    """b/k different images, k views of each, for self-supervision; every set of images equally likely.

    Args:
        n_images: number of images to draw from.
        batch_size: b, counting views; a multiple of k.
        k: views of each image. The index repeats; making the views differ is the augmentation's part.
        device: where batches are drawn; the generator must live there too.

    Raises:
        ValueError: as `check_batch_size`.
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


def _class_table(members: Tensor, sizes: Tensor) -> Tensor:
    """Images of every class, [C, n_max], short rows filled up with 0; members [N] are class numbers, sizes [C]."""
    order = members.argsort(stable=True)
    starts = sizes.cumsum(0) - sizes
    rows = members[order]
    table = torch.zeros(len(sizes), int(sizes.max()), dtype=torch.int64)
    table[rows, torch.arange(len(order)) - starts[rows]] = order
    return table
