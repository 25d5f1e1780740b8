"""A user's own Tuner is interrupted, and the same script run again: its table is that of the script nobody interrupted,
and no training that ended ran twice. `pytest -m faults` runs all moments and signals; without `-m`, a short form."""

import math
import os
import signal
import time
from pathlib import Path

import pytest
import ray
from forked import Forked
from ray import tune

from tune_cd import CoordinateDescent, CoordinateDescentSearch, Space, results

pytestmark = [pytest.mark.ray, pytest.mark.slow]

START, TRIALS = {"lr": 0.1, "wd": 0.1}, 5


def bowl(config):
    return math.exp(-(((math.log2(config["lr"] / 1e-3)) / 6) ** 2 + (math.log2(config["wd"] / 1e-4) / 6) ** 2))


def course():
    core, asked = CoordinateDescent(Space(lr=(1e-6, 1.0), wd=(1e-8, 1.0)), start=START), []
    for _ in range(TRIALS):
        asked.append(core.ask())
        core.tell(asked[-1], bowl(asked[-1]))
    return asked


def write(folder, word, config):
    descriptor = os.open(Path(folder, "diary"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{word} {config['lr']!r} {config['wd']!r}\n".encode())
    os.close(descriptor)


def diary(folder, word):
    file = Path(folder, "diary")
    return (
        [line.split()[1:] for line in file.read_text().splitlines() if line.startswith(word)] if file.exists() else []
    )


def trainable(config):
    """The trial at place `hold` waits: before its first report, or after one that is better than every true score."""
    place = len(diary(config["folder"], "end"))
    write(config["folder"], "begin", config)
    if config["early"]:
        tune.report({"acc": 2.0, "epoch": 1})
    if Path(config["folder"], f"hold-{place}").exists():
        write(config["folder"], "held", config)
        time.sleep(600)
    write(config["folder"], "end", config)
    tune.report({"acc": bowl(config), "epoch": 2})


class AtTheEndOf(tune.Callback):
    """Sends the driver the signal in `<folder>/signal` as soon as the row of its third trial is stored."""

    def __init__(self, folder):
        self.folder = folder

    def on_trial_complete(self, iteration, trials, trial, **info):
        if (file := Path(self.folder, "signal")).exists() and len(diary(self.folder, "end")) == 3:
            until(lambda: len(table(self.folder)) == 3)
            number = int(file.read_text())
            file.unlink()
            os.kill(os.getpid(), number)


def script(argv):
    """What the user runs, and runs again."""
    address, folder, early, full_length = argv
    ray.init(address=address, log_to_driver=False)
    length = {"full_length": ("epoch", 2)} if full_length else {}
    search = CoordinateDescentSearch.from_results(
        f"{folder}/results", "own", resume=True, start=START, use_result="last", **length
    )
    tune.Tuner(
        trainable,
        param_space={
            "lr": tune.loguniform(1e-6, 1.0), "wd": tune.loguniform(1e-8, 1.0), "folder": folder, "early": bool(early),
        },
        tune_config=tune.TuneConfig(
            metric="acc", mode="max", num_samples=max(0, TRIALS - search.recalled), search_alg=search,
            reuse_actors=True, max_concurrent_trials=1,
        ),
        run_config=tune.RunConfig(
            storage_path=f"{folder}/tune", verbose=0,
            callbacks=[search.callback(f"{folder}/results", "own"), AtTheEndOf(folder)],
        ),
    ).fit()  # fmt: skip


def table(folder):
    return results.read(Path(folder, "results"), "own") if Path(folder, "results/trials").exists() else ()


def until(holds):
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.1)
    raise TimeoutError


SHORT = [("SIGINT", 0, "", ""), ("SIGINT", 2, "early", ""), ("SIGINT", None, "", "")]
LONG = [
    (number, place, early, length)
    for number in ("SIGINT", "SIGTERM", "SIGKILL") for place in (0, 2, None)
    for early, length in (("", ""), ("early", ""), ("early", "length"))
]  # fmt: skip


@pytest.mark.parametrize(
    "number, place, early, length",
    [*SHORT, *(pytest.param(*one, marks=pytest.mark.faults) for one in LONG if one not in SHORT)],
)
def test_the_same_script_again_goes_on_as_if_it_had_never_been_interrupted(
    cluster, tmp_path, number, place, early, length
):
    """place: of the trial that runs when the signal comes; None: the third has just ended."""
    environment = os.environ | {"TUNE_DISABLE_SIGINT_HANDLER": "0"}
    arguments = [cluster.address, str(tmp_path), early, length]

    def begin():
        return Forked("test_interrupted_tuner:script", arguments, tmp_path / "log", env=environment)

    number = getattr(signal, number)
    (tmp_path / "signal").write_text(str(int(number)))
    (tmp_path / f"hold-{place}").touch()
    driver = begin()
    try:
        if place is not None:
            until(lambda: diary(tmp_path, "held") or driver.poll() is not None)
            until(lambda: len(table(tmp_path)) == place)
            driver.send_signal(number)
        driver.wait(1500)
        (tmp_path / f"hold-{place}").unlink()
        (tmp_path / "signal").unlink(missing_ok=True)
        before = table(tmp_path)
        cut = early and place is not None and number == signal.SIGINT
        ended = 3 if place is None else place
        assert len(before) == ended + bool(cut), (tmp_path / "log").read_text()[-3000:]
        driver = begin()
        assert driver.wait(1500) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        driver.kill()
    rows = table(tmp_path)
    assert rows["params"].tolist() == course() and rows["trial_index"].tolist() == list(range(TRIALS))
    assert rows["val_score"].tolist() == [bowl(h) for h in course()] and set(rows["status"]) == {"completed"}
    assert len(diary(tmp_path, "end")) == TRIALS, "no training that ended ran twice"
    assert len(diary(tmp_path, "begin")) == TRIALS + (place is not None)
