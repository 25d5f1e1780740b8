"""Checks of a training before it starts: data, batch, network and weights, memory, benchmark, and the user's own."""

import logging
from collections.abc import Collection

from trainables.data.sampling import check_batch_size
from trainables.datasets import Plan, check_source
from trainables.datasets.revisited import check_benchmark
from trainables.datasets.structure import preview
from trainables.training.assembly import build_model
from trainables.training.rehearsal import rehearse
from trainables.training.setup import Setup, for_classes

FEW = 100  # images of a split: a score of .5 has a standard error of .05

log = logging.getLogger(__name__)


def check_training(
    setup: Setup, batch_sizes: Collection[int], data_root: str | None, download: bool = False
) -> tuple[Setup, Plan]:
    """Check the set-up against its data for each batch size; no image is decoded, nothing is trained. A user's own
    network takes one step on random images. Returns the set-up, which for images without classes has a score
    that needs none, and what was found.

    download: fetch data that are absent, where a public archive exists.
    Raises ValueError or OSError naming what is wrong and what is allowed.
    """
    source = check_source(setup.dataset, data_root, task=setup.task, download=download)
    unit, there = "training classes", source.training_classes
    if setup.task == "ssl":
        unit, there = "training images", source.images("train")
    elif setup.dataset == "folder":
        unit += " (--task ssl needs none)"
    setup = for_classes(setup, source.training_classes)
    for batch_size in batch_sizes:
        check_batch_size(batch_size, setup.k, there, unit)
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
    elif not source.images("test"):
        raise ValueError(
            f"test = 'split': {setup.dataset} has no test split; one of the benchmarks roxford5k and rparis6k is needed"
        )
    if alone := [split for split in source.splits if source.images(split) == 1]:
        raise ValueError(f"{source.location}: 1 image for {' and '.join(alone)}, at least 2 are needed for a score")
    build_model(setup, source.channels, seed=0)  # downloads the weights
    rehearse(setup, min(batch_sizes), source.channels)
    log.info("%s", _noted(setup, source))
    return setup, source


def _noted(setup: Setup, source: Plan) -> str:
    """The numbers of images, and what they mean for the scores."""
    train, few, test = (source.images(split) for split in ("train", "validation", "test"))
    epochs, classes = setup.images_seen / train, source.splits["train"].classes
    of = f" of {len(classes):,} classes ({preview(classes, 3)})" if len(classes) > 1 else ", without classes"
    said = f"{source.name}: {train:,} training, {few:,} validation, {test:,} test images{of}\n"
    said += f"  {setup.images_seen:,} images are {epochs:,.1f} epochs"
    if few < FEW:
        said += f"; of {few} images a score of 0.5 has a standard error of {0.5 / few**0.5:.2f}"
    if setup.task == "dml" and (small := sum(len(images) < setup.k for images in classes.values())):
        said += (
            f"; {small:,} of {len(classes):,} classes have less than k = {setup.k} images, so that batches repeat some"
        )
    return said
