"""Trainings that only sleep, on Ray nodes of which a test has several.

A study's diary gets a line of JSON for every one that begins, {"node", "gpus", "pid", "began"}, and for every one that
has slept, with "ended" as well, in seconds since 1970. While there is a file `hold` beside it, none wakes up.
"""

import json
import math
import os
import signal
import time
from pathlib import Path

import ray
from ray import tune

from tune_cd import CoordinateDescentSearch
from tune_cd.cluster import nodes

SPACE = {"lr": tune.loguniform(1e-6, 1.0), "wd": tune.loguniform(1e-8, 1.0)}


class Sleeper(tune.Trainable):
    def setup(self, config, diary, seconds):
        self.diary, self.seconds = diary, seconds
        self.node, self.gpus = ray.get_runtime_context().get_node_id(), os.environ.get("CUDA_VISIBLE_DEVICES")

    def reset_config(self, config):
        return True

    def step(self):
        began = time.time()
        self.write(began=began)
        time.sleep(self.seconds)
        while Path(self.diary).with_name("hold").exists():
            time.sleep(0.1)
        self.write(began=began, ended=time.time())
        lr, wd = (math.log(self.config[name] / best) / 6 for name, best in (("lr", 1e-3), ("wd", 1e-4)))
        return {"acc": math.exp(-(lr**2) - wd**2), "done": True}

    def write(self, **times):
        line = json.dumps({"node": self.node, "gpus": self.gpus, "pid": os.getpid(), **times})
        descriptor = os.open(self.diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{line}\n".encode())  # one write, so lines of several processes do not mix
        os.close(descriptor)


def sleep(folder: Path, study: str, *, workers: int, trials: int, seconds: float, **resources: float) -> None:
    """A search of so many trials to its end, on the Ray that is connected."""
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    trainable = tune.with_parameters(Sleeper, diary=str(folder / f"{study}.diary"), seconds=seconds)
    search = CoordinateDescentSearch(start={"lr": 0.1, "wd": 0.1}, workers=workers)
    usual = {"metric": "acc", "mode": "max", "num_samples": trials, "search_alg": search, "reuse_actors": True}
    tuner = tune.Tuner(
        tune.with_resources(trainable, resources),
        param_space=SPACE,
        tune_config=tune.TuneConfig(max_concurrent_trials=workers, **usual),
        run_config=tune.RunConfig(
            name=study,
            storage_path=str(folder / "tune"),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=3),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            callbacks=[search.callback(folder / "results", study)],
        ),
    )
    tuner.fit()


def begun(folder: Path, study: str) -> list[dict]:
    """All lines of the diary so far."""
    file = folder / f"{study}.diary"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def diary(folder: Path, study: str) -> list[dict]:
    """What has slept so far."""
    return [entry for entry in begun(folder, study) if "ended" in entry]


def look_from_here(question: dict, name: str, gpus: bool) -> dict:
    """`nodes.look` on a node whose $RESULTS_HERE, if it is set, is what the results' folder is there; with $DEAF it
    hangs, and its first $LOSES processes are lost, which are counted in $LOST_IN."""
    from tune_cd.results.store import Store

    if os.environ.get("DEAF"):
        time.sleep(3600)
    before = len(list(Path(os.environ.get("LOST_IN", "/none")).glob("lost-*")))
    if before < int(os.environ.get("LOSES", 0)):
        Path(os.environ["LOST_IN"], f"lost-{before}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    here = os.environ.get("RESULTS_HERE")
    return nodes.look(question, name, gpus, **({"store": lambda results: Store(Path(here))} if here else {}))
