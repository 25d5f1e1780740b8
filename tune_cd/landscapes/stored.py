"""Replays in a results folder: a study and a file per landscape, the method as `search`.

Other methods and seeds can be added to a study. Stored rows are never replaced: an equal trajectory changes nothing,
and one that was replayed differently (other trials, workers, start, durations or failures, another release) is refused.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tune_cd import results
from tune_cd.landscapes.landscape import Landscape
from tune_cd.landscapes.simulation import Trajectory, Trial
from tune_cd.results.rows import DIGEST, SIMULATED_END, split
from tune_cd.results.writing import write_many


def check_stored(
    folder: str | Path, methods: Iterable[str], landscapes: Sequence[Landscape], seeds: Sequence[int], how: Mapping
) -> None:
    """Raise ValueError where a stored trajectory was replayed differently; call it before hours are spent.

    how: trials, workers and start. Raises OSError where the folder cannot be written to.
    """
    results.check_writable(folder)
    for landscape in landscapes:
        trials = results.read(folder, study_of(landscape), missing=True)
        again = trials[trials["search"].isin(list(methods)) & trials["search_seed"].isin(list(seeds))]
        for row in again.drop_duplicates(["search", "search_seed"]).itertuples():
            said, now = json.loads(row.config), _config(landscape, how)
            differing = {name: said.get(name) for name in now if said.get(name) != now[name]}
            if differing:
                held = f"{row.search} of seed {row.search_seed} in study {row.study} with {differing}"
                asked = {name: now[name] for name in differing}
                raise ValueError(f"{folder} has {held}, which never changes; now {asked}: another folder is required")


def store(
    folder: str | Path, trajectories: Sequence[Trajectory], landscapes: Sequence[Landscape], how: Mapping
) -> None:
    """Write every trial as a row of the results table. Errors: as `results.write_trial`."""
    for landscape in landscapes:
        own = [one for one in trajectories if one.landscape == landscape.name]
        write_many(folder, [_row(one, trial, landscape, how) for one in own for trial in one.trials])
        results.compact(folder, study_of(landscape))


def study_of(landscape: Landscape) -> str:
    """Name of a landscape's study."""
    return f"replay-{landscape.name}"


def _config(landscape: Landscape, how: Mapping) -> dict:
    return {
        "landscape": landscape.name, "noise": landscape.noise, "durations": landscape.durations,
        "failures": landscape.failures, **how,
    }  # fmt: skip


def _row(trajectory: Trajectory, trial: Trial, landscape: Landscape, how: Mapping) -> dict:
    clock = {"started": trial.started, SIMULATED_END: trial.ended}
    config = _config(landscape, how) | {DIGEST: _config(landscape, {})} | clock
    params, choices = split(trial.h, landscape.space)
    scores = (trial.value, trial.test, trial.reached)
    val, test, reached = (None if score is None else landscape.sign * score for score in scores)
    search = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in trajectory.method)
    return {
        "study": study_of(landscape), "dataset": landscape.name, "search": trajectory.method,
        "search_seed": trajectory.seed, "trial_id": f"{search}-{trajectory.seed:05d}-{trial.index:04d}",
        "trial_index": trial.index, "attempt": 0, "direction": trial.direction, "line_position": trial.line_position,
        "params": params, "choices": choices or None, "status": trial.status, "metric_name": "M(h)",
        "mode": "min" if landscape.sign < 0 else None, "val_score": val, "test_score": test,
        "scores": {"reached": reached},
        **{name: trial.h.get(name) for name in ("Lambda_p", "Lambda_e", "batch_size")},
        "config": json.dumps(config), "software": json.dumps({"numpy": np.__version__}),
    }  # fmt: skip
