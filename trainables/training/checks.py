"""Checks of a training before it starts: data, batch, network and weights, memory, benchmark, and the user's own."""

import logging
from collections.abc import Collection
from contextlib import suppress

from trainables.data.sampling import check_batch_size
from trainables.datasets import SourceSummary, check_source
from trainables.datasets.revisited import check_benchmark
from trainables.training.assembly import network_of
from trainables.training.rehearsal import rehearse
from trainables.training.setup import UNLABELLED, Setup, for_classes

FEW = 100  # images of a split: a score of .5 has a standard error of .05

AGREEMENT = {
    "view_retrieval": "0.7 and 0.9 on glyphs, 0.4 and 0.8 on Tiny-ImageNet",
    "rankme": "0.9 and 0.6 on glyphs, -0.2 and 0.7 on Tiny-ImageNet",
}
"""Score without labels -> what was measured of it, see `tests/benchmarks/RESULTS.md`."""

log = logging.getLogger(__name__)


def check_training(
    setup: Setup, batch_sizes: Collection[int], data_root: str | None, download: bool = False
) -> tuple[Setup, SourceSummary]:
    """Check the set-up against its data for each batch size; no image is decoded, nothing is trained. A user's own
    network or loss takes one step on random images. Returns the set-up, which for images without classes has a score
    that needs none, and what was found.

    download: fetch data that are absent, where a public archive exists.
    Raises ValueError or OSError naming what is wrong and what is allowed.
    """
    try:
        source = _found(setup.dataset, setup.task, setup.k, batch_sizes, data_root, download)
    except ValueError as error:
        if instead := _instead(setup, batch_sizes, data_root):
            raise ValueError(f"{error}. These images can be trained on with {instead}") from error
        raise
    setup = for_classes(setup, source.training_classes)
    for batch_size in batch_sizes:
        if setup.images_seen < batch_size:
            raise ValueError(f"images_seen = {setup.images_seen}: less than one batch of {batch_size}")
        if setup.memory != "none":
            if setup.memory_size < batch_size:
                raise ValueError(f"a memory of size {setup.memory_size} does not hold a batch of {batch_size}")
            iterations = setup.images_seen // batch_size
            if setup.memory_start >= iterations:
                raise ValueError(
                    f"memory_start = {setup.memory_start}: {setup.images_seen} images at batch_size {batch_size} are "
                    f"only {iterations} iterations"
                )
    if setup.test != "split":
        check_benchmark(setup.test, data_root, download=download)
        if source.channels != 3:
            raise ValueError(f"test = {setup.test!r} has colour images; {setup.dataset} has {source.channels} channel")
    elif not source.test_images:
        raise ValueError(
            f"test = 'split': {setup.dataset} has no test split; one of the benchmarks roxford5k and rparis6k is needed"
        )
    model = network_of(setup, source.channels, seed=0, weights=setup.weights, normalised=True)  # downloads the weights
    if not any(part.requires_grad for part in (model.trunk if setup.task == "ssl" else model).parameters()):
        raise ValueError(f"network {setup.network!r}: it has no parameter that requires a gradient, one is needed")
    rehearse(setup, batch_sizes, source.channels)
    log.info("%s", _noted(setup, source))
    return setup, source


def _noted(setup: Setup, source: SourceSummary) -> str:
    """The numbers of images, and what they mean for the scores."""
    epochs = setup.images_seen / source.training_images
    said = f"{source.name}: {source.sizes}; {setup.images_seen:,} images are {epochs:,.1f} epochs"
    if (few := source.validation_images) < FEW:
        said += f"; of {few} images a score of 0.5 has a standard error of {0.5 / few**0.5:.2f}"
    if setup.metric in UNLABELLED:
        said += f"; {setup.metric} selects, whose rank correlation with the probe was {AGREEMENT[setup.metric]}"
    return said


def _found(
    dataset: str, task: str, k: int, batch_sizes: Collection[int], data_root: str | None, download: bool
) -> SourceSummary:
    """The data, which have enough classes (or in ssl images) for each batch size; else ValueError."""
    source = check_source(dataset, data_root, task=task, download=download)
    for batch_size in batch_sizes:
        if task == "ssl":
            check_batch_size(batch_size, k, source.training_images, unit="training images")
        else:
            check_batch_size(batch_size, k, source.training_classes)
    return source


def _instead(setup: Setup, batch_sizes: Collection[int], data_root: str | None) -> str | None:
    """Options with which a folder of too few classes can be trained on; None where it is not that."""
    asked = max(batch_sizes)
    for batch_size in (asked, *(b for b in (64, 32, 16, 8) if b < asked)):
        if (setup.dataset, setup.task) == ("folder", "dml"):
            with suppress(ValueError, OSError):
                _found("folder", "ssl", 2, [batch_size], data_root, download=False)
                return "--task ssl" + (f" --batch-size {batch_size}" if batch_size < asked else "")
    return None
