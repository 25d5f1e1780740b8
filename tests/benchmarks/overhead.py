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

import itertools

import ray
from ray import tune

from trainables.training.setups import find_setup
from trainables.trial import TrainTrial
from tune_cd import CoordinateDescentSearch, Space

TRIALS = {True: 12, False: 4}  # with and without reuse
ROUNDS = 2


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


def gaps(trainable, reuse: bool, notes: Path, **parameters) -> list[float]:
    """Seconds between a trial's last step and the next one's first, of one run, one trial at a time."""
    notes.unlink(missing_ok=True)
    searcher = CoordinateDescentSearch(
        Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0)),
        "val_score",
        "max",
        start={"Lambda_p": 0.1, "Lambda_e": 0.1},
    )
    with tempfile.TemporaryDirectory() as folder:
        tune.Tuner(
            tune.with_resources(tune.with_parameters(trainable, notes=str(notes), **parameters), {"cpu": 1}),
            param_space={"batch_size": 32, "seed": 0},
            tune_config=tune.TuneConfig(
                metric="val_score",
                mode="max",
                num_samples=TRIALS[reuse],
                search_alg=searcher,
                max_concurrent_trials=1,
                reuse_actors=reuse,
            ),
            run_config=tune.RunConfig(
                storage_path=folder, verbose=0, checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False)
            ),
        ).fit()
    lines = [line.split() for line in notes.read_text(encoding="utf-8").splitlines()]
    times = [(float(at), what) for at, what in lines]
    return [begin - end for (end, _), (begin, what) in itertools.pairwise(times) if what == "begin"]


def main() -> None:
    logging.disable(logging.WARNING)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    setup = replace(find_setup("glyphs", "small"), images_seen=32, evaluations=1)
    parameters = {
        "setup_fields": asdict(setup),
        "data_root": None,
        "threads": 1,
        "record": lambda config, outcome, where: None,
    }
    cases = {
        "TrainTrial, process reused": (Timed, True, parameters),
        "TrainTrial, new process": (Timed, False, parameters),
        "empty trainable, process reused": (Empty, True, {}),
        "empty trainable, new process": (Empty, False, {}),
    }
    measured: dict[str, list[float]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for name, (trainable, reuse, arguments) in cases.items():
                measured[name] += gaps(trainable, reuse, Path(folder) / "notes", **arguments)
    print(
        f"seconds from the end of a trial to the next one's first step, {ROUNDS} x {TRIALS[True]} (reused) or "
        f"{TRIALS[False]} (new) trials"
    )
    for name, values in measured.items():
        print(f"{name:<34} median {statistics.median(values):6.3f}   {min(values):6.3f} .. {max(values):6.3f}")


if __name__ == "__main__":
    main()
