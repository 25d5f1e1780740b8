"""What a trial costs beside its training: from the end of one trial to the first step of the next in the same slot,
and how much of the time of eight workers is spent in trials.

    python tests/benchmarks/overhead.py

Prints medians in seconds over the trials of one worker, with a process used again for the next trial (`reuse_actors`,
as `tune_cd.run` has it) and with a new process each, alternating; and beside it what is done in that time: Tune's own
part with an empty trainable, and the new network. glyphs, the small set-up's network, 32 images seen a trial.

Then the share of eight workers' time in which a trial runs, of ASLEEP seconds each, from the moment all eight have
begun to that at which the last trial begins: the rest goes to reporting, searching and handing out. These trials sleep,
so that two cores hold eight of them.
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
WORKERS, ASLEEP = 8, 10.0  # of the busy share; seconds that each of its trials takes

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
        self.train_for_a_while()
        noted(self._notes, "end")
        return {"val_score": 0.5, "done": True}

    def train_for_a_while(self):
        pass


class Asleep(Empty):
    """A training that takes ASLEEP seconds and no core; the first ones wait until all workers have one."""

    def train_for_a_while(self):
        while Path(self._notes).read_text(encoding="utf-8").count("begin") < WORKERS:
            time.sleep(0.1)
        time.sleep(ASLEEP)


def run(trainable, trials: int, notes: Path, *, workers: int = 1, reuse: bool = True, **parameters) -> Noted:
    """A search of so many trials to its end, and what its steps noted."""
    notes.unlink(missing_ok=True)
    space = Space(Lambda_p=(1e-6, 17.0), Lambda_e=(1e-6, 17.0))
    searcher = CoordinateDescentSearch(space, "val_score", "max", start={"Lambda_p": 0.1, "Lambda_e": 0.1})
    checkpoints = tune.CheckpointConfig(checkpoint_at_end=False)
    with tempfile.TemporaryDirectory() as folder:
        tune.Tuner(
            tune.with_resources(tune.with_parameters(trainable, notes=str(notes), **parameters), {"cpu": 1}),
            param_space={"batch_size": 32, "seed": 0},
            tune_config=tune.TuneConfig(
                metric="val_score", mode="max", num_samples=trials, search_alg=searcher, max_concurrent_trials=workers,
                reuse_actors=reuse,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0, checkpoint_config=checkpoints),
        ).fit()  # fmt: skip
    lines = [line.split() for line in notes.read_text(encoding="utf-8").splitlines()]
    return sorted((float(at), what) for at, what in lines)


def gaps(times: Noted) -> list[float]:
    """Seconds between a trial's last step and the next one's first, one trial at a time."""
    return [begin - end for (end, _), (begin, what) in pairwise(times) if what == "begin"]


def busy_share(times: Noted, workers: int) -> float:
    """The share of the workers' time in which they have trials, while there are trials to hand out."""
    begun = [at for at, what in times if what == "begin"]
    first, last = begun[workers - 1], begun[-1]
    busy, live = 0.0, 0
    for (at, what), (then, _) in pairwise(times):
        live += 1 if what == "begin" else -1
        busy += live * (then - at) if first <= at < last else 0.0
    return busy / (workers * (last - first))


def main() -> None:
    logging.disable(logging.WARNING)
    ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    setup = asdict(replace(find_setup("glyphs", "small"), images_seen=32, evaluations=1))
    parameters = {"setup_fields": setup, "data_root": None, "threads": 1, "recorder": NotKept()}
    trainables = {"TrainTrial": (Timed, parameters), "empty trainable": (Empty, {})}
    cases = list(product(trainables, TRIALS))
    measured: dict[tuple[str, bool], list[float]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        for name, reuse in ROUNDS * cases:
            trainable, arguments = trainables[name]
            measured[name, reuse] += gaps(run(trainable, TRIALS[reuse], notes, reuse=reuse, **arguments))
        share = busy_share(run(Asleep, 4 * WORKERS, notes, workers=WORKERS), WORKERS)
    print("seconds from the end of a trial to the next one's first step")
    for (name, reuse), values in measured.items():
        case = f"{name}, {'process reused' if reuse else 'new process'}, {len(values)} times"
        print(f"{case:<44} median {statistics.median(values):6.3f}   {min(values):6.3f} .. {max(values):6.3f}")
    print(f"share of the time of {WORKERS} workers that is spent in trials of {ASLEEP:g} s: {share:.3f}")


if __name__ == "__main__":
    main()
