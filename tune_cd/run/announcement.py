"""What a study is going to do, in the words of its first lines."""

import sys
from collections.abc import Iterator

from trainables.losses import find_loss
from trainables.training.setup import without_effect
from tune_cd.balance import AVERAGES, PUBLISHED
from tune_cd.results.schema import CONFIRM
from tune_cd.run.curves import lengths_of
from tune_cd.run.resources import Resources
from tune_cd.run.screen import fold
from tune_cd.run.searches import Search
from tune_cd.run.study import Study
from tune_cd.search.space import Space

TASKS = {"dml": "metric learning", "ssl": "self-supervised"}


def announce(study: Study, resources: Resources) -> None:
    """Print the study's training, searches and resources, and a warning for each field that has no effect."""
    # under SGD the start contains the learning rate
    fields = [text for text in study.config.assignments if not text.startswith("learning_rate=")]
    for warning in without_effect([search.setup for search in study.searches], fields):
        print(f"warning: {warning}", file=sys.stderr)
    print("\n".join(fold(line) for line in _announced(study, resources)), flush=True)


def _announced(study: Study, resources: Resources) -> Iterator[str]:
    config, setup = study.config, study.setup
    distance = f" ({setup.loss_distance})" if find_loss(setup.loss).pairwise else ""
    weights = "from scratch" if setup.weights == "none" else f"from weights {setup.weights}"
    yield f"study {study.name}: results in {study.results}"
    yield f"training: {study.dataset}, {TASKS[setup.task]} ({setup.task}), {setup.loss} loss{distance}"
    yield f"set-up {config.setup}: {setup.network} at {setup.image_size} px, {weights}"
    seeds = f"; {resources.replicates} seeds of every setting" if resources.replicates > 1 else ""
    yield f"a full training sees {setup.images_seen:,} images{seeds}"
    chosen = [search for search in study.searches if search.name == CONFIRM]
    yield f"searches: {' + '.join(_search(search) for search in study.searches if search not in chosen)}"
    if lines := [search.name for search in study.searches if search.line and search.name in (*AVERAGES, PUBLISHED)]:
        yield f"{' and '.join(lines)}: baselines, which tune the learning rate alone"
    yield f"searched: {_space(study.space)}"
    if config.baseline and config.experiment == "balance" and setup.optimizer == "adam":
        yield "no baselines: under Adam the joint scale of the weights has no effect, and Adam's own rate is fixed"
    if config.pauses and len(lengths := lengths_of(setup)) > 1:
        shares = ", ".join(f"{share:.0%}" for share in lengths[:-1])
        yield f"trainings pause at {shares} of their length and go on where that is worth most"
    if study.call.budget:
        yield f"ends after {study.call.budget}, with what leads trained whole"
    for search in chosen:
        yield f"then the best setting of each search with {len(search.seeds)} fresh seeds"
    yield f"running: {_running(resources)}"


def _search(search: Search) -> str:
    most = f"{'up to ' * search.line}{search.num_samples}"
    return f"{search.name} ({most} {'full ' * search.pauses}training{'s' * (search.num_samples != 1)})"


def _space(space: Space) -> str:
    """The axes, those of one range together."""
    ranges: dict[str, list[str]] = {}
    for axis in space.axes:
        grows = f", which may grow by {axis.growth:g} octaves" if axis.growth else ""
        text = f"from {axis.low:g} to {axis.high:g}{grows}"
        if axis.values is not None:
            text = f"among {', '.join(f'{value:g}' for value in axis.values)}"
        ranges.setdefault(text, []).append(axis.name)
    return "; ".join(f"{' and '.join(names)} {text}" for text, names in ranges.items())


def _running(resources: Resources) -> str:
    at_once = f"{resources.workers if resources.workers > 1 else 'one'} at a time"
    packs = f", up to {resources.pack} in a process" if resources.pack > 1 else ""
    gpus = f", {resources.gpus:g} GPU" if resources.gpus else ", no GPU"
    return f"{at_once}{packs}; a process has {resources.cpus} CPU{gpus}"
