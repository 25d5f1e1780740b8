"""Estimates how long a study will take, from trainings of the same kind in the results."""

import json
from datetime import timedelta

import pandas as pd

from tune_cd import results
from tune_cd.analysis.runs import runs_of
from tune_cd.run.resources import Resources
from tune_cd.run.searches import trainings_of
from tune_cd.run.study import Study

KIND = ("network", "image_size", "images_seen", "precision", "memory", "evaluations")
"""Fields of a set-up that its duration depends on most."""


def estimate(study: Study, resources: Resources) -> str | None:
    """A sentence with the most time and GPU-hours that the study takes; None without a similar training.

    From the median duration of completed trainings in the results, of any study, with the same dataset, KIND and batch
    sizes, on a GPU or on none. Raises OSError if the results cannot be read.
    """
    table = results.read(study.results)
    runs = runs_of(table)
    own = runs[runs["study"] == study.name]
    left = max(0, round(trainings_of(study.config, study.searches) - float(own["share"].sum())))
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
        f"{left} trainings' worth is left at most: about {_short(whole)} and {gpus:.2g} GPU-hours, "
        f"as {len(seconds)} trainings of this kind took {seconds.median():.0f} s each"
    )


def _seconds(runs: pd.DataFrame) -> pd.Series:
    """Seconds that each completed training took, in all its runs."""
    busy = (runs["ended_at"] - runs["started_at"]).dt.total_seconds()
    trial = [runs["study"], runs["trial_id"]]
    completed = (runs["status"] == "completed").groupby(trial).any()
    return busy.groupby(trial).sum(min_count=1)[completed].dropna()


def _short(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))) if pd.notna(seconds) else "an unknown time"
