"""Scores of a network on a split: retrieval for metric learning, linear probe and nearest neighbours for ssl."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from trainables.data.augmentation import centre, normalise
from trainables.data.resident import DeviceData
from trainables.losses import find_loss
from trainables.metrics.linear_probe import linear_probes
from trainables.metrics.nearest_neighbours import knn_accuracies
from trainables.metrics.retrieval import Retrieval
from trainables.metrics.revisited import evaluate_benchmark
from trainables.metrics.unlabelled import rankme, view_retrieval
from trainables.models.networks import Embedder
from trainables.training.assembly import view_of
from trainables.training.setup import UNLABELLED, Setup

BATCH, BATCH_PIXELS = 512, 512 * 64 * 64  # images per forward pass, fewer if they are large
CPU_BATCH, CPU_BATCH_PIXELS = 128, 32 * 64 * 64  # activations stay in a core's cache: faster than 64, and than 512
RECALL_AT = (2, 4, 8, 10, 100, 1000)  # as papers print it; only k below the number of images
PROBED_BYTES = 4 * 2**30  # of training features whose probes are fitted as one stack
VIEWED = 4096  # images of a split whose views are compared, evenly spaced
VIEW_BATCH = 64  # another number would draw other views
COLLAPSED = 1e-6  # spread below which float32 no longer tells embeddings apart: cosines differ by a few roundings


@torch.no_grad()
def apply(function: Callable[[Tensor], Tensor], images: Tensor, device: torch.device, size: int) -> Tensor:
    """Apply a function in batches to the centres, size x size px, of uint8 images [n, c, h, w], without augmentation.

    Returns [n, d] in float32 on the device.
    """
    most, pixels = (CPU_BATCH, CPU_BATCH_PIXELS) if device.type == "cpu" else (BATCH, BATCH_PIXELS)
    at_once = max(1, min(most, pixels // size**2))
    batches = (normalise(centre(batch, size).to(device)) for batch in images.split(at_once))
    return torch.cat([function(batch).float() for batch in batches])


def evaluate(
    models: Sequence[Embedder], setup: Setup, train: tuple[Tensor, Tensor], split: tuple[Tensor, Tensor], *,
    whole: bool = False,
) -> list[dict[str, float]]:  # fmt: skip
    """Score each model on a split, by the set-up's task; `setup.metric` names the score that selects weights.

    All models are enqueued on the device before the host waits for the first.
    train, split: (images uint8 [n, c, h, w], labels int64 [n]); the linear probe is trained on `train`.
    whole: whether to add recall at RECALL_AT.
    The scores include "spread" (see `spread`); where it is below COLLAPSED the others are rounding errors.
    A model whose output is not finite has the scores {}.
    """
    if not models:
        return []
    for model in models:
        model.eval()
    if setup.task == "dml":
        names, rows = _retrieved(models, setup, split, whole)
    else:
        names, rows = _probed(models, setup, train, split)
    return [dict(zip(names, row)) if all(map(math.isfinite, row)) else {} for row in rows.tolist()]


def evaluate_test(models: Sequence[Embedder], setup: Setup, data: DeviceData) -> list[dict[str, float]]:
    """Score each model on the test split, or on the benchmark named by `setup.test`; {} as in `evaluate`."""
    if setup.test == "split":
        return evaluate(models, setup, data.train, data.test, whole=True)
    for model in models:
        model.eval()
    normalised = find_loss(setup.loss).normalised
    embeds = [model if normalised else (lambda x, model=model: F.normalize(model(x), dim=1)) for model in models]
    return [evaluate_benchmark(embed, data.benchmark, device=data.train[1].device) for embed in embeds]


def _retrieved(
    models: Sequence[Embedder], setup: Setup, split: tuple[Tensor, Tensor], whole: bool
) -> tuple[list[str], Tensor]:
    """Names of the retrieval scores, and the scores [models, names] on the models' device."""
    images, labels = split
    recall_at = [1] * (setup.metric == "recall_at_1") + [k for k in RECALL_AT if whole and k < len(images)]
    retrieval = Retrieval(labels, len(images), labels.device, recall_at=recall_at)
    rows = []
    for model in models:
        embeddings = apply(model, images, labels.device, setup.input_size)
        rows.append(torch.cat([spread(embeddings)[None], retrieval.scores(embeddings)]))
    return ["spread", *retrieval.names], torch.stack(rows)


def _probed(
    models: Sequence[Embedder], setup: Setup, train: tuple[Tensor, Tensor], split: tuple[Tensor, Tensor]
) -> tuple[list[str], Tensor]:
    """Names of the scores in ssl, and the scores [models, names] on the models' device.

    As many probes are fitted at once as PROBED_BYTES hold. Without classes there is none.
    """
    labelled, scores, device, size = bool(train[1].any()), [], train[1].device, setup.input_size

    def features_of(several: Sequence[Embedder], images: Tensor) -> Tensor:  # [models, n, d]
        return torch.stack([apply(model.features, images, device, size) for model in several])

    at_once = max(1, PROBED_BYTES // (4 * len(train[0]) * features_of(models[:1], split[0][:1]).shape[2]))
    for first in range(0, len(models), at_once):
        group = models[first : first + at_once]
        scored = features_of(group, split[0])
        found = {"spread": torch.stack([spread(features) for features in scored])}
        if labelled:
            learned = features_of(group, train[0])
            found["spread"] = found["spread"].where(learned.flatten(1).isfinite().all(1), torch.nan)
            found["probe_accuracy"] = linear_probes(
                learned, train[1], scored, split[1], epochs=setup.probe_epochs, steps=setup.probe_steps,
                learning_rate=setup.probe_rate, standardised=setup.probe_features == "standardised",
            )  # fmt: skip
            found["knn_accuracy"] = knn_accuracies(learned, train[1], scored, split[1])
        if not labelled or setup.metric in UNLABELLED:
            without_labels = torch.stack([_without_labels(model, setup, split[0], device) for model in group])
            found |= zip(UNLABELLED, without_labels.unbind(1))
        scores.append(torch.stack(list(found.values()), dim=1))
    return list(found), torch.cat(scores)


def _without_labels(model: Embedder, setup: Setup, images: Tensor, device: torch.device) -> Tensor:
    """The scores UNLABELLED of at most VIEWED images: the retrieval of views, the same for all models, by features, and
    RankMe of embeddings, as in its paper. The other way round agreed less with the probe on most planes."""
    images = images[:: -(-len(images) // VIEWED)]
    embeddings = apply(model, images, device, setup.input_size)
    generator = torch.Generator(device).manual_seed(0)
    one, other = (
        torch.cat([model.features(view_of(batch.to(device), setup, generator)) for batch in images.split(VIEW_BATCH)])
        for _ in range(2)
    )
    return torch.stack([view_retrieval(one, other), rankme(embeddings)])


def spread(embeddings: Tensor) -> Tensor:
    """Mean squared distance of unit embeddings [n, d] from their mean, 0 (one point) to 1 (all over the sphere); NaN
    where they are not finite. A float64 scalar on their device."""
    return 1 - F.normalize(embeddings.double(), dim=1).mean(0).square().sum()
