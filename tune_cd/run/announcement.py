"""What a study is going to do, in the words of its first lines; sentences are broken before the 80th column."""

import sys
from collections.abc import Iterator

from trainables.losses import find_loss
from trainables.training.setup import without_effect
from tune_cd.run.curves import lengths_of
from tune_cd.run.resources import Resources
from tune_cd.run.screen import fold
from tune_cd.run.searches import Search
from tune_cd.run.starts import known
from tune_cd.run.study import Study
from tune_cd.search.space import Axis

TASKS = {"dml": "metric learning", "ssl": "self-supervised"}


def announce(study: Study, resources: Resources) -> None:
    """Print the study's training, searches and resources, and a warning for each field that has no effect."""
    # under SGD the start contains the learning rate
    fields = [text for text in study.config.assignments if not text.startswith("learning_rate=")]
    for warning in without_effect([search.setup for search in study.searches], fields):
        print(f"warning: {warning}", file=sys.stderr)
    print("\n".join(fold(line) for line in _announced(study, resources)), flush=True)


def _announced(study: Study, resources: Resources) -> Iterator[str]:
    config, setup, axes = study.config, study.setup, study.space.axes
    distance = f" ({setup.loss_distance})" if find_loss(setup.loss).pairwise else ""
    yield f"study {study.name}: results in {study.results}"
    yield f"training: {study.dataset}, {TASKS[setup.task]} ({setup.task}), {setup.loss} loss{distance}"
    yield f"set-up {config.setup}: {setup.network} at {setup.image_size} px, weights: {setup.weights}"
    yield f"a full training sees {setup.images_seen:,} images"
    yield f"searches: {' + '.join(map(_search, study.searches))}"
    if config.baseline and config.experiment == "balance" and setup.optimizer == "adam":
        yield "no baselines: under Adam the joint scale of the weights has no effect, and Adam's own rate is fixed"
    grows = f"; each range may grow by {axes[0].growth:g} octaves" if study.space.grows else ""
    yield f"searched: {', '.join(map(_axis, axes))}{grows}"
    if config.start == "known" and not known(config, setup):
        yield "start: the recipe in use, since no best is known"
    for row in known(config, setup):
        weights = ", ".join(f"{name}={value:g}" for name, value in row.weights.items())
        yield f"start: {weights}, the best known of {row}"
    if config.pauses and len(lengths := lengths_of(setup)) > 1:
        shares = ", ".join(f"{share:.0%}" for share in lengths[:-1])
        yield f"trainings pause at {shares} of their length and go on where that is worth most"
    packs = f", up to {resources.pack} in a process" if resources.pack > 1 else ""
    yield f"running: {resources.workers} at a time{packs}; a process has {resources.cpus} CPU, {resources.gpus:g} GPU"


def _search(search: Search) -> str:
    most = f"{'up to ' * search.line}{search.num_samples}"
    return f"{search.name} ({most} {'full ' * search.pauses}training{'s' * (search.num_samples != 1)})"


def _axis(axis: Axis) -> str:
    among = None if axis.values is None else ", ".join(f"{value:g}" for value in axis.values)
    return f"{axis.name} {f'from {axis.low:g} to {axis.high:g}' if among is None else f'among {among}'}"
