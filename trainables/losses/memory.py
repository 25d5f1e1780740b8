"""Cross-batch memory: a batch's anchors also meet the embeddings of earlier batches (sec:xbm; Wang et al., CVPR 2020).

Each iteration enqueues its batch first, so that the memory holds it, and adds the memory's two terms, times the factors
of `memory_weights`, to the batch's (`training.assembly.remember_and_compare`).

Everything is tensor arithmetic of fixed shapes that never waits for the device, like the losses. Forward and backward
of b = 64, d = 128 and 55,000 remembered embeddings, the published size, take one core 0.06 s (margin) or 0.08 s
(InfoNCE), 0.025 s of which are the two matrix products. Masks by torch.where and counts by count_nonzero save no time.
"""

import torch
from torch import Tensor, nn

from trainables.losses.terms import infonce_of, margin_of, products


class CrossBatchMemory(nn.Module):
    """The last `size` embeddings and labels that were enqueued, first in, first out.

    Its whole state is its buffers, which change in place: embeddings [size, d] float32, of which row n % size has the
    n-th item ever enqueued (from 0), labels [size] int64, and enqueued, the number of items ever enqueued. Slots from
    there on are unfilled: zero, so finite."""

    def __init__(self, size: int, dimensions: int):
        """size: remembered embeddings; dimensions: d of an embedding."""
        super().__init__()
        self.register_buffer("embeddings", torch.zeros(size, dimensions))
        self.register_buffer("labels", torch.zeros(size, dtype=torch.int64))
        self.register_buffer("enqueued", torch.zeros((), dtype=torch.int64))

    @property
    def size(self) -> int:
        return self.labels.shape[-1]

    def forget(self) -> None:
        """Empty the memory in place."""
        for buffer in self.buffers():
            buffer.zero_()

    @torch.no_grad()
    def enqueue(self, z: Tensor, labels: Tensor) -> Tensor:
        """Remember a batch, z [b, d] floating point and labels [b] integers, in place of the oldest items.

        The batch is not larger than the memory. Returns slots [b] int64, the rows where its items now are."""
        slots = (self.enqueued + torch.arange(len(labels), device=labels.device)) % self.size  # [b]
        self.embeddings[slots] = z.to(self.embeddings.dtype)
        self.labels[slots] = labels.to(self.labels.dtype)
        self.enqueued += len(labels)
        return slots

    def pairs(self, labels: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Masks [b, size] of the positive and of the negative pairs of a batch's items with the remembered items.

        labels: [b] integers.  slots: from `enqueue`. Unfilled slots, and an item with its own copy, are in neither."""
        filled = torch.arange(self.size, device=labels.device) < self.enqueued  # [size]
        same = labels[:, None] == self.labels  # [b, size]
        positives = (same & filled).scatter(1, slots[:, None], False)
        return positives, ~same & filled


def memory_terms(
    z: Tensor, labels: Tensor, slots: Tensor, memory: CrossBatchMemory, *, loss: str, distance: str,
    margin: float = 0.5, temperature: float = 0.1, q: int = 1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Positive and entropy term between a batch's anchors and the memory, which takes no gradient.

    Both are averages, as in `margin_terms` and `infonce_terms`, over the pairs of `CrossBatchMemory.pairs`; K_ij of
    InfoNCE is j and every remembered item of another label than i's.
    z: [b, d] floating point, rows L2-normalised by the caller; half precision is computed in float32.  labels: [b]
    integers.  slots: from `enqueue`; enqueue the next batch only after the backward pass, which needs these embeddings.
    loss: "margin" (with margin, q) or "infonce" (with temperature).  distance: that inside the batch.
    Returns (positive, entropy, |P_mem|, |E_mem|), scalars. A batch with both kinds of pairs finds both in the memory,
    since that holds the batch."""
    similarities = products(z, memory.embeddings)  # [b, size]
    positives, negatives = memory.pairs(labels, slots)  # [b, size] each
    if loss == "margin":
        terms = margin_of(similarities, positives, negatives, margin, distance, q)
    else:
        terms = infonce_of(similarities, positives, negatives, temperature, distance)
    return *terms, positives.sum(), negatives.sum()


def memory_weights(
    mode: str, positive_pairs: Tensor, negative_pairs: Tensor, batch_size: int, k: int
) -> tuple[Tensor, Tensor]:
    """Factors by which the memory's two terms are weighted relative to the batch's Lambda_p and Lambda_e (sec:xbm).

    "fixed" (S2, S3): 1 and 1, the same balance for memory and batch.
    "variable" (S1): as published. That loss sums, for each anchor, 1 - s over its positives and s over its negatives
    with s > 0.5, and averages over the anchors. Its slope is that of our averages (margin 0.5, cosine, q = 1) times
    the pairs per anchor: (k - 1, b - k) in the batch, (|P_mem| / b, |E_mem| / b) in the memory. The batch's, times the
    learning rate, are (Lambda_p, Lambda_e); the factors are the memory's divided by the batch's. They grow at
    different rates as the memory fills, so the balance drifts.

    positive_pairs, negative_pairs: scalars from `memory_terms`.  batch_size, k: b items, k of each class; 2 <= k < b.
    Returns scalar tensors on their device."""
    factor_p = positive_pairs / (batch_size * (k - 1))
    factor_e = negative_pairs / (batch_size * (batch_size - k))
    if mode == "fixed":
        return torch.ones_like(factor_p), torch.ones_like(factor_e)
    return factor_p, factor_e
