"""Checks of a training before it starts: data, batch, network and weights, memory, benchmark, and the user's own."""

from collections.abc import Iterable

from trainables.data.sampling import check_batch_size
from trainables.datasets import SourceSummary, check_source
from trainables.datasets.revisited import check_benchmark
from trainables.losses.memory import check_memory
from trainables.models.networks import check_network
from trainables.training.rehearsal import rehearse
from trainables.training.setup import Setup


def check_training(
    setup: Setup, batch_sizes: Iterable[int], data_root: str | None, download: bool = False
) -> SourceSummary:
    """Check the set-up against its data for each batch size; no image is decoded, nothing is trained. A user's own
    network or loss takes one step on random images.

    download: fetch data that are absent, where a public archive exists.
    Raises ValueError or OSError naming what is wrong and what is allowed.
    """
    source, batch_sizes = check_source(setup.dataset, data_root, task=setup.task, download=download), list(batch_sizes)
    for batch_size in batch_sizes:
        if setup.task == "ssl":
            check_batch_size(batch_size, setup.k, source.training_images, unit="training images")
        else:
            check_batch_size(batch_size, setup.k, source.training_classes)
        if setup.images_seen < batch_size:
            raise ValueError(f"images_seen = {setup.images_seen}: less than one batch of {batch_size}")
        if setup.memory != "none":
            check_memory(setup.memory, setup.memory_size, batch_size, setup.k)
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
    check_network(
        setup.network, setup.weights, channels=source.channels, image_size=setup.input_size, embedding=setup.embedding,
        projection=setup.task == "ssl", projector=setup.projector_widths,
    )  # fmt: skip
    rehearse(setup, batch_sizes, source.channels)
    return source
