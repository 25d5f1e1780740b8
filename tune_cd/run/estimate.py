"""How long a study takes at most, and what its GPUs cost, before a node starts: `--dry-run`."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta

import pandas as pd

from tune_cd import results
from tune_cd.analysis.runs import runs_of
from tune_cd.run.resources import Resources
from tune_cd.run.searches import trainings_of
from tune_cd.run.study import Study

KIND = ("network", "image_size", "images_seen", "precision", "memory", "evaluations")
"""Fields of a set-up that its duration depends on most."""

PRICES = {"T4": 0.53, "L4": 0.80, "A10G": 1.01, "L40S": 1.86, "A100": 2.74, "V100": 3.06, "H100": 6.88, "H200": 7.91}
"""Type of GPU -> US dollars an hour, with its share of the smallest instance that has it."""
PRICED = "prices: AWS, us-east-1, on demand, June 2025; spot nodes cost less"


def estimate(study: Study, resources: Resources) -> Iterator[str]:
    """Lines with the images that are left, then time, GPU-hours and cost on each type of GPU that is measured or has a
    price.

    From the median duration of completed trainings in the results, of any study, with the same dataset, KIND and batch
    sizes, on the same type of GPU or on CPUs. Raises OSError if the results cannot be read.
    """
    runs = runs_of(results.read(study.results))
    left = max(0, round(trainings_of(study.searches) - float(runs["share"][runs["study"] == study.name].sum())))
    yield f"{left} trainings' worth is left at most, {left * study.setup.images_seen:,} images"
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
    whole = left * seconds / min(resources.processes * resources.pack, max(1, left))
    hours = whole * resources.processes * resources.gpus / 3600
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
