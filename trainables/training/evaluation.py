"""Scores of a network on a split: retrieval for deep metric learning, a linear probe for self-supervision."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from trainables.data.augmentation import centre, normalise
from trainables.metrics.linear_probe import linear_probe
from trainables.metrics.retrieval import retrieval_scores
from trainables.models.networks import Embedder
from trainables.training.setups import Setup

BATCH, BATCH_PIXELS = 512, 512 * 64 * 64  # images a forward pass, fewer of large ones
CPU_BATCH, CPU_BATCH_PIXELS = 64, 32 * 64 * 64  # their maps stay in a core's cache: 1.2 to 1.7 times as fast as 512
RECALL_AT = (2, 4, 8, 10, 100, 1000)  # as papers print it; those that a split is large enough for
COLLAPSED = 1e-6  # spread below which float32 no longer tells embeddings apart: cosines differ by a few roundings


class Diverged(Exception):
    """The network's output is not finite: there is nothing to score."""


@torch.no_grad()
def apply(function: Callable[[Tensor], Tensor], images: Tensor, device: torch.device, size: int) -> Tensor:
    """function over the centres, size x size px, of uint8 images [n, c, h, w] in batches, un-augmented.

    Returns [n, d] in float32 on the device.
    """
    most, pixels = (CPU_BATCH, CPU_BATCH_PIXELS) if device.type == "cpu" else (BATCH, BATCH_PIXELS)
    at_once = max(1, min(most, pixels // size**2))
    batches = (
        normalise(centre(batch, size).to(device)).contiguous(memory_format=torch.channels_last)
        for batch in images.split(at_once)
    )
    return torch.cat([function(batch).float() for batch in batches])


def evaluate(
    model: Embedder, setup: Setup, train: tuple[Tensor, Tensor], split: tuple[Tensor, Tensor], *, whole: bool = False
) -> dict[str, float]:
    """Scores of the model on a split, by the set-up's task; `setup.metric` names the one that counts.

    train, split: (images uint8 [n, c, h, w], labels int64 [n]); train is where the probe's classifier learns.
    whole: recall at RECALL_AT besides.
    "spread" among the scores is `spread`; below COLLAPSED the others are rounding errors.
    Raises Diverged where the model's output is not finite.
    """
    model.eval()
    (images, labels), device = split, next(model.parameters()).device
    if setup.task == "dml":
        embeddings = apply(model, images, device, setup.input_size)
        recall_at = [1] * (setup.metric == "recall_at_1") + [k for k in RECALL_AT if whole and k < len(images)]
        return {"spread": spread(embeddings)} | retrieval_scores(embeddings, labels, recall_at=recall_at)
    features = apply(model.features, images, device, setup.input_size)
    measured = {"spread": spread(features)}
    training_features = apply(model.features, train[0], device, setup.input_size)
    spread(training_features)  # raises where they are not finite
    accuracy = linear_probe(training_features, train[1], features, labels, epochs=setup.probe_epochs)
    return measured | {"probe_accuracy": accuracy}


def spread(embeddings: Tensor) -> float:
    """Mean squared distance of unit embeddings [n, d] from their mean, 0 (one point) to 1 (all over the sphere).

    Raises Diverged where they are not finite.
    """
    if not bool(torch.isfinite(embeddings).all()):
        raise Diverged("embeddings are not finite")
    return 1 - float(F.normalize(embeddings.double(), dim=1).mean(0).square().sum())
