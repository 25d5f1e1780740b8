"""What a study is going to do, in the words of its first lines, and how long it will take."""

import json
import sys
from collections.abc import Iterator
from datetime import timedelta

import pandas as pd

from trainables.losses import find_loss
from trainables.training.setup import without_effect
from tune_cd import results
from tune_cd.analysis.runs import runs_of
from tune_cd.balance import AVERAGES, PUBLISHED
from tune_cd.results.schema import CONFIRM
from tune_cd.run.curves import lengths_of
from tune_cd.run.resources import Resources
from tune_cd.run.screen import fold
from tune_cd.run.searches import Search, known, trainings_of
from tune_cd.run.study import Study
from tune_cd.search.space import Space

TASKS = {"dml": "metric learning", "ssl": "self-supervised"}
KIND = ("network", "image_size", "images_seen", "precision", "memory", "evaluations")
"""Fields of a set-up that its duration depends on most."""


def announce(study: Study, resources: Resources) -> None:
    """Print the study's training, searches and resources, and a warning for each field that has no effect."""
    # under SGD the start contains the learning rate
    fields = [text for text in study.config.assignments if not text.startswith("learning_rate=")]
    for warning in without_effect([search.setup for search in study.searches], fields):
        print(f"warning: {warning}", file=sys.stderr)
    print("\n".join(fold(line) for line in _announced(study, resources)), flush=True)


def estimate(study: Study, resources: Resources) -> str | None:
    """A sentence with the most time and GPU-hours that the study takes; None without a similar training.

    From the median duration of completed trainings in the results, of any study, with the same dataset, KIND and batch
    sizes, on a GPU or on none. Raises OSError if the results cannot be read.
    """
    table = results.read(study.results)
    runs = runs_of(table)
    own = runs[runs["study"] == study.name]
    left = max(0, round(trainings_of(study.searches) - float(own["share"].sum())))
    kind, sizes = {name: getattr(study.setup, name) for name in KIND}, study.config.trained_batch_sizes
    configs = runs["config"].map(json.loads)
    alike = configs.map(lambda config: config.get("batch_size") in sizes and kind.items() <= config.items())
    alike = alike.astype(bool) & (runs["dataset"] == study.dataset)
    alike &= (runs["device"] == "cpu") == (resources.gpus == 0)
    seconds = _seconds(runs[alike])
    if seconds.empty:
        return None
    whole = left * float(seconds.median()) / min(resources.processes * resources.pack, max(1, left))
    gpus = whole * resources.processes * resources.gpus / 3600
    return (
        f"{left} trainings' worth is left at most: about {timedelta(seconds=round(whole))} and {gpus:.2g} GPU-hours, "
        f"as {len(seconds)} trainings of this kind took {seconds.median():.0f} s each"
    )


def _seconds(runs: pd.DataFrame) -> pd.Series:
    """Of each completed training, in all its runs."""
    busy = (runs["ended_at"] - runs["started_at"]).dt.total_seconds()
    trial = [runs["study"], runs["trial_id"]]
    completed = (runs["status"] == "completed").groupby(trial).any()
    return busy.groupby(trial).sum(min_count=1)[completed].dropna()


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
    if config.start == "known":
        yield _start(study)
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


def _start(study: Study) -> str:
    """What `--start known` took, and from where."""
    kind = f"{study.setup.loss}, {study.setup.task}, {study.setup.network}"
    if not (found := known(study.config, study.setup)):
        return f"start: the recipe in use; no best is known for {kind}"
    bests = [f"{', '.join(f'{name}={value:g}' for name, value in row.weights.items())} of {row}" for row in found]
    return f"start: the best known for {kind}: {'; '.join(bests)}"


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
