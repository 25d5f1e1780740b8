"""A user's own trainable and Tuner, with everything that goes wrong there: no row is lost, and the search goes on."""

import math
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import ray
from bowl import PLANE, START, bowl
from contract import advance
from forked import Forked
from ray import tune
from tuners import tuner_of

from tune_cd import CoordinateDescent, CoordinateDescentSearch, results

pytestmark = [pytest.mark.ray, pytest.mark.slow]

PARAM_SPACE = {"lr": tune.loguniform(1e-6, 1.0), "wd": tune.loguniform(1e-8, 1.0), "epochs": 3}
TRIALS = 7


def course(trials):
    """The configurations of the search that is never interrupted."""
    return advance(CoordinateDescent(PLANE, start=START), trials, bowl)


def tuner(trainable, folder, searcher, name="run", num_samples=TRIALS, constants=None, others=(), **arguments):
    callbacks = [searcher.callback(folder / "results", "mine", **arguments), *others]
    space, one = PARAM_SPACE | (constants or {}), {"max_concurrent_trials": 1}
    return tuner_of(trainable, searcher, space, folder / "tune", num_samples, name=name, callbacks=callbacks, **one)


def search(**arguments):
    return CoordinateDescentSearch(start=START, **arguments)


def table(folder):
    return results.read(folder / "results", "mine")


BEHAVIOUR = ["fine", "nan", "inf", "text", "none", "array", "bool", "missing", "raises", "memory", "exits", "dies"]
POINTS = [{"lr": 10.0 ** -(n / 4), "wd": 0.1} for n in range(len(BEHAVIOUR) - 1)]
REPORTED = {"nan": math.nan, "inf": math.inf, "text": "0.5", "none": None, "array": np.array([1.0, 2.0]), "bool": True}


def every_trouble(config):
    behaviour = next((b for b, h in zip(BEHAVIOUR, POINTS) if h.items() <= config.items()), BEHAVIOUR[-1])
    if behaviour == "raises":
        raise RuntimeError("too\nhot")
    if behaviour == "memory":
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
    if behaviour == "exits":
        sys.exit(3)
    if behaviour == "dies":
        os._exit(1)
    tune.report({"loss": 1.0} if behaviour == "missing" else {"loss": 1.0, "acc": REPORTED.get(behaviour, 0.5)})


def test_whatever_a_trial_does_is_a_row_and_the_search_goes_on(ray_session, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")  # else Tune refuses a report without the metric
    fields = {"dataset": "toy", "seed": 3}
    troubled = search(points_to_evaluate=POINTS)
    grid = tuner(every_trouble, tmp_path, troubled, num_samples=len(BEHAVIOUR), fields=fields).fit()
    rows = table(tmp_path)
    assert len(grid) == len(rows) == len(BEHAVIOUR) and rows["trial_index"].tolist() == list(range(len(BEHAVIOUR)))
    status, error = (dict(zip(BEHAVIOUR, rows[name])) for name in ("status", "error"))
    assert status == dict.fromkeys(BEHAVIOUR, "failed") | {"fine": "completed", "nan": "diverged", "inf": "diverged"}
    assert error["raises"] == "RuntimeError: too hot" and error["missing"] == "it reported no acc"
    assert "acc = '0.5' (str)" in error["text"] and "exit code 3" in error["exits"]
    memory = f"out of memory: lr={POINTS[9]['lr']:g}, wd=0.1: RuntimeError: CUDA out of memory."
    begin = {"memory": memory, "exits": "lost: ", "dies": "lost: The actor died"}
    assert all(error[name].startswith(said) for name, said in begin.items())
    first = rows.iloc[0]
    assert (first["metric_name"], first["mode"], first["dataset"], first["seed"]) == ("acc", "max", "toy", 3)
    assert '"epochs": 3' in first["config"] and first["scores"] == {"acc": 0.5, "loss": 1.0}
    again = CoordinateDescentSearch.from_results(
        tmp_path / "results", "mine", resume=True, points_to_evaluate=POINTS, start=START
    )
    assert again.recalled == len(BEHAVIOUR) - 2, "the two that were lost are run again"


def fails_once(config):
    place = POINTS.index({name: config[name] for name in START})
    flag = Path(config["flags"], str(place))
    if place % 2 and not flag.exists():
        flag.touch()
        raise RuntimeError("the first time")
    tune.report({"acc": bowl(config)})


def test_failed_trials_that_tune_runs_again_are_their_next_attempts(ray_session, tmp_path):
    """Restarted trials: test_callback.py."""
    (tmp_path / "flags").mkdir()
    flags = {"flags": str(tmp_path / "flags")}
    tuner(fails_once, tmp_path, search(points_to_evaluate=POINTS[:4]), num_samples=4, constants=flags).fit()
    assert table(tmp_path)["status"].tolist() == ["completed", "failed"] * 2
    restored = {"param_space": PARAM_SPACE | flags, "resume_errored": True}
    tune.Tuner.restore(str(tmp_path / "tune/run"), fails_once, **restored).fit()
    rows = table(tmp_path)
    assert rows["status"].tolist() == ["completed"] * 4 and rows["trial_index"].tolist() == [0, 1, 2, 3]
    assert rows["attempt"].tolist() == [0, 1, 0, 1]


def takes_its_time(config):
    time.sleep(0.3)
    tune.report({"acc": bowl(config)})


class Kill(tune.Callback):
    """After four trials; not while Tune copies its snapshot, of whose own files there is but one."""

    ended = 0

    def on_trial_complete(self, iteration, trials, trial, **info):
        self.ended += 1
        if self.ended == 4 and "ARMED" in os.environ:  # Tuner.restore brings this callback back
            time.sleep(3)
            os.kill(os.getpid(), signal.SIGKILL)


def drive(argv):
    """The driver that is killed; argv: the Ray's address, its folder. The run has a name of its own: Tune stages all
    runs of a name that begin in the same second in one folder."""
    ray.init(address=argv[0], log_to_driver=False)
    tuner(takes_its_time, Path(argv[1]), search(), name="killed", others=[Kill()]).fit()


@pytest.fixture(scope="module")
def study_and_copy(cluster, tmp_path_factory):
    """(a study whose driver was killed when it had some rows, its copy). Tune takes a snapshot with every step."""
    folder = tmp_path_factory.mktemp("killed")
    environment = os.environ | {"TUNE_GLOBAL_CHECKPOINT_S": "0", "ARMED": "1"}
    driver = Forked("test_own_tuner:drive", [cluster.address, str(folder)], folder / "log", env=environment)
    try:
        assert driver.wait(300) == -signal.SIGKILL, (folder / "log").read_text()[-3000:]
    finally:
        driver.kill()
    return folder, shutil.copytree(folder, tmp_path_factory.mktemp("copy") / "killed")


@pytest.fixture
def killed(cluster, ray_session, study_and_copy):
    """The study as its driver left it, and its rows. What Tune keeps of a restored run in Ray's session is removed: it
    would go on from there."""
    folder, copy = study_and_copy
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    for restored in Path(cluster.head_node.get_session_dir_path()).glob("artifacts/*/killed"):
        shutil.rmtree(restored)
    rows = table(folder)
    assert len(rows) == 4
    return folder, rows


def test_a_killed_driver_and_tuner_restore(killed):
    """From the table instead: test_interrupted_tuner.py."""
    folder, kept = killed
    tune.Tuner.restore(str(folder / "tune/killed"), takes_its_time, param_space=PARAM_SPACE).fit()
    rows = table(folder)
    assert rows["params"].tolist() == course(TRIALS) and rows["trial_index"].tolist() == list(range(TRIALS))
    assert set(rows["status"]) == {"completed"} and set(rows["attempt"]) == {0} and rows["direction"].notna().all()
    assert rows["started_at"].tolist()[: len(kept)] == kept["started_at"].tolist(), "what was written stays"


@pytest.mark.parametrize("given", [{"param_space": PARAM_SPACE}, {}], ids=["with its space", "without"])
def test_with_a_damaged_state_nothing_is_trained_again(killed, caplog, given):
    folder, kept = killed
    [state] = folder.glob("tune/killed/searcher-state-*.pkl")
    state.write_bytes(state.read_bytes()[:100])
    with pytest.raises(Exception, match="cannot go on, but from_results.*searcher-state.* is not a saved"):
        tune.Tuner.restore(str(folder / "tune/killed"), takes_its_time, **given).fit()
    assert len(table(folder)) == len(kept)
