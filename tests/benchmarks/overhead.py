"""What a trial costs beside its training: from the end of one trial to the first step of the next in the same slot.

    python tests/benchmarks/overhead.py

Prints medians in seconds over the trials of one worker, with a process used again for the next trial (`reuse_actors`,
as `tune_cd.run` has it) and with a new process each, alternating; and beside it what is done in that time: Tune's own
part with an empty trainable, and the new network. glyphs, the small set-up's network, 32 images seen a trial.
"""

import logging
import os
import statistics
import tempfile
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path

# ruff: noqa: E402, the environment is read when these are imported
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
warnings.simplefilter("ignore")

from itertools import pairwise, product

import ray
from ray import tune

from trainables.training.setups import find_setup
from trainables.trial import TrainTrial
from tune_cd import CoordinateDescentSearch, Space

TRIALS = {True: 12, False: 4}  # with and without reuse
ROUNDS = 2

Noted = list[tuple[float, str]]  # when a step began or ended, in order


def noted(file: str, what: str) -> None:
    with open(file, "a", encoding="utf-8") as stream:
        stream.write(f"{time.time()} {what}\n")


class Timed(TrainTrial):
    """TrainTrial that notes when a step begins and ends."""

    def setup(self, config, notes, **parameters):
        self._notes = notes
        super().setup(config, **parameters)

    def step(self):
        noted(self._notes, "begin")
        report = super().step()
        noted(self._notes, "end")
        return report


class NotKept:
    """A `trainables.trial.Recorder` that keeps nothing."""

    def nothing(self, *arguments):
        return None

    recorded = record = save = keep = nothing

    def saved(self, config):
        return []


class Empty(tune.Trainable):
    """Nothing but what Tune does."""

    def setup(self, config, notes):
        self._notes = notes

    def reset_config(self, new_config):
        return True

    def step(self):
        noted(self._notes, "begin")
        noted(self._notes, "end")
        return {"val_score": 0.5, "done": True}


def run(trainable, trials: int, notes: Path, reuse: bool, **parameters) -> Noted:
    """A search of so many trials, one at a time, to its end, and what its steps noted."""
    notes.unlink(missing_ok=True)
    space = Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0))
    searcher = CoordinateDescentSearch(space, "val_score", "max", start={"Lambda_p": 0.1, "Lambda_e": 0.1})
    checkpoints = tune.CheckpointConfig(checkpoint_at_end=False)
    with tempfile.TemporaryDirectory() as folder:
        tune.Tuner(
            tune.with_resources(tune.with_parameters(trainable, notes=str(notes), **parameters), {"cpu": 1}),
            param_space={"batch_size": 32, "seed": 0},
            tune_config=tune.TuneConfig(
                metric="val_score", mode="max", num_samples=trials, search_alg=searcher, max_concurrent_trials=1,
                reuse_actors=reuse,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0, checkpoint_config=checkpoints),
        ).fit()  # fmt: skip
    lines = [line.split() for line in notes.read_text(encoding="utf-8").splitlines()]
    return sorted((float(at), what) for at, what in lines)


def gaps(times: Noted) -> list[float]:
    """Seconds between a trial's last step and the next one's first."""
    return [begin - end for (end, _), (begin, what) in pairwise(times) if what == "begin"]


def main() -> None:
    logging.disable(logging.WARNING)
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    setup = asdict(replace(find_setup("glyphs", "small"), images_seen=32, evaluations=1))
    parameters = {"setup_fields": setup, "data_root": None, "threads": 1, "recorder": NotKept()}
    trainables = {"TrainTrial": (Timed, parameters), "empty trainable": (Empty, {})}
    cases = list(product(trainables, TRIALS))
    measured: dict[tuple[str, bool], list[float]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        for name, reuse in ROUNDS * cases:
            trainable, arguments = trainables[name]
            measured[name, reuse] += gaps(run(trainable, TRIALS[reuse], notes, reuse, **arguments))
    print("seconds from the end of a trial to the next one's first step")
    for (name, reuse), values in measured.items():
        case = f"{name}, {'process reused' if reuse else 'new process'}, {len(values)} times"
        print(f"{case:<44} median {statistics.median(values):6.3f}   {min(values):6.3f} .. {max(values):6.3f}")


if __name__ == "__main__":
    main()
