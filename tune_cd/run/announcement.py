"""What a study is going to do, in the words of its first lines, and with --dry-run how long it takes at most, and what
its GPUs cost. Sentences are broken before the 80th column."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta

import pandas as pd

from trainables.losses import find_loss
from trainables.training.setup import without_effect
from tune_cd import results
from tune_cd.analysis.runs import runs_of
from tune_cd.run.curves import lengths_of
from tune_cd.run.resources import Resources
from tune_cd.run.screen import fold
from tune_cd.run.searches import Search
from tune_cd.run.starts import known
from tune_cd.run.study import Study
from tune_cd.search.space import Axis

TASKS = {"dml": "metric learning", "ssl": "self-supervised"}
KIND = ("network", "image_size", "images_seen", "precision", "memory", "evaluations")
"""Fields of a set-up that its duration depends on most."""

PRICES = {"T4": 0.53, "L4": 0.80, "A10G": 1.01, "L40S": 1.86, "A100": 2.74, "V100": 3.06, "H100": 6.88, "H200": 7.91}
"""Type of GPU -> US dollars an hour, with its share of the smallest instance that has it."""
PRICED = "prices: AWS, us-east-1, on demand, June 2025; spot nodes cost less"


def announce(study: Study, resources: Resources) -> None:
    """Print the study's training, searches and resources, and a warning for each field that has no effect."""
    # under SGD the start contains the learning rate
    fields = [text for text in study.config.assignments if not text.startswith("learning_rate=")]
    for warning in without_effect([search.setup for search in study.searches], fields, resources.gpus > 0):
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
        said = f"the joint scale of the weights has no effect, and its own rate stays {setup.learning_rate:g}"
        yield f"no baselines: under Adam {said}"
    own = config.search == "cd" or study.searches[0].line
    grows = f"; {'each range' if own else 'for the averages each'} may grow by {axes[0].growth:g} octaves"
    grows *= study.space.grows and (own or any(search.line for search in study.searches))
    yield f"searched: {', '.join(map(_axis, axes))}{grows}"
    for row in (bests := known(config, setup)[: len(study.searches[0].starts)]):
        yield f"start: {_weights(row.weights)}, the best known of {row}"
    if config.experiment == "balance" and not bests:
        why = ", since no best is known" if config.start == "known" else ""
        yield from (f"start: {_weights(start)}{why}" for start in study.searches[0].starts)
    if config.start == "blind" and config.search != "grid":
        yield "start: a random point"
    if config.pauses and len(lengths := lengths_of(setup)) > 1:
        shares = ", ".join(f"{share:.0%}" for share in lengths[:-1])
        yield f"trainings pause at {shares} of their length and go on where that is worth most"
    packs = f", up to {resources.pack} in a process" if resources.pack > 1 else ""
    packs += f"; {resources.room} processes fit the cluster" * (resources.room < resources.processes)
    yield f"running: {resources.workers} at a time{packs}; a process has {resources.cpus} CPU, {resources.gpus:g} GPU"


def _search(search: Search) -> str:
    most = f"{'up to ' * search.line}{search.num_samples}"
    each = f", each with {len(search.seeds)} seeds" * (len(search.seeds) > 1)
    return f"{search.name} ({most} {'full ' * search.pauses}training{'s' * (search.num_samples != 1)}{each})"


def _weights(h: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:.4g}" for name, value in h.items())


def _axis(axis: Axis) -> str:
    among = None if axis.values is None else ", ".join(f"{value:g}" for value in axis.values)
    return f"{axis.name} {f'from {axis.low:g} to {axis.high:g}' if among is None else f'among {among}'}"


def estimate(study: Study, resources: Resources) -> Iterator[str]:
    """Lines with the images that are left, then time, GPU-hours and cost on each type of GPU that is measured or has a
    price.

    From the median duration of completed trainings in the results, of any study, with the same dataset, KIND and batch
    sizes, on the same type of GPU or on CPUs. Raises OSError if the results cannot be read.
    """
    runs = runs_of(results.read(study.results, missing=True))
    most = sum(search.num_samples * len(search.seeds) for search in study.searches)  # in full trainings' worth
    left = max(0, round(most - float(runs["share"][runs["study"] == study.name].sum())))
    ends = f"; --budget {study.call.budget} may end it, but for what leads and --confirm" * bool(study.call.budget)
    yield f"{left} trainings' worth is left at most, {left * study.setup.images_seen:,} images{ends}"
    measured = _measured(study, runs)
    if not resources.gpus:
        yield f"on CPUs: {_took(left, measured.get('cpu'), resources)}"
        return
    for gpu in sorted({*PRICES, *measured} - {"cpu"}):
        yield f"on {gpu}: {_took(left, measured.get(gpu), resources, PRICES.get(gpu))}"
    yield PRICED


def gpu_of(device: str) -> str:
    """The type of a GPU in PRICES, from its name as torch has it; the name itself of others."""
    return next((gpu for gpu in PRICES if re.search(rf"\b{gpu}\b", device)), device)


def _took(left: int, seconds: float | None, resources: Resources, price: float | None = None) -> str:
    """Time, GPU-hours and cost if a training takes so many seconds, and an hour has this price; None: not known."""
    if seconds is None:
        said = "speed unknown, since no training of this kind is in the results"
        return said + (f"; ${price:.2f} an hour" if price else "")
    whole = left * seconds / min(resources.together * resources.pack, max(1, left))
    hours = whole * resources.together * resources.gpus / 3600
    cost = f", ${hours * price:,.2f}" if price else ""
    gpus = f" and {hours:.2g} GPU-hours{cost}" if resources.gpus else ""
    return f"about {timedelta(seconds=round(whole))}{gpus}; a training of this kind took {seconds:.0f} s"


def _measured(study: Study, runs: pd.DataFrame) -> dict[str, float]:
    """Type of device -> median seconds of a completed training, in all its runs, that lasts as long as this study's."""
    kind, sizes = {name: getattr(study.setup, name) for name in KIND}, study.config.trained_batch_sizes
    configs = runs["config"].map(json.loads)
    same = configs.map(lambda config: config.get("batch_size") in sizes and kind.items() <= config.items())
    alike = runs[same.astype(bool) & (runs["dataset"] == study.dataset)]
    busy = (alike["ended_at"] - alike["started_at"]).dt.total_seconds()
    trials = alike.assign(busy=busy, done=alike["status"] == "completed").groupby(["study", "trial_id"])
    each = trials.agg({"busy": "sum", "done": "any", "device": "last"})
    return each[each["done"].astype(bool)].groupby(each["device"].map(gpu_of))["busy"].median().to_dict()
