"""Packs and replicates in real Tune runs: rows, failures, the driver's death."""

import subprocess
import time
from pathlib import Path

import pytest
from ray import tune

from test_end_to_end import COMMAND, TINY, _wait_for, run
from tune_cd import CoordinateDescentSearch, PackedSearch, ResultsCallback, results
from tune_cd.packed import PACK

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def trained_once(folder: Path, study: str):
    table = results.read(folder, study)
    assert not table.duplicated(["Lambda_p", "Lambda_e", "batch_size", "seed"]).any(), "nothing is trained twice"
    return table


def test_a_grid_in_packs_with_batch_sizes_mixed(tmp_path):
    argv = ["--search", "grid", "--grid-step", "65536", "--tune-batch-size", "--batch-sizes", "32,64", "--no-baseline"]
    said = run(tmp_path, *argv, "--study", "packed", "--pack", "5", "--workers", "8").stdout
    packed = trained_once(tmp_path, "packed")
    assert len(packed) == 8 and "8 at a time, up to 5 in a process" in said and len(list((tmp_path / "studies/packed/tune").glob("*/grid/grid-*-to-*"))) == 2
    run(tmp_path, *argv, "--study", "single", "--cpus-per-trial", "1")
    single = results.read(tmp_path, "single")
    told = ["trial_id", "params", "batch_size", "val_score", "test_score", "status"]
    assert packed[told].to_dict() == single[told].to_dict(), "packed or not is the same on a CPU"


def test_the_driver_dies_in_the_middle_of_replicates_and_none_is_trained_twice(tmp_path):
    argv = ["--study", "cut", "--num-samples", "3", "--replicates", "2", "--no-baseline"]
    process = subprocess.Popen([*COMMAND, "--results", str(tmp_path), "--address", "local", *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    _wait_for(lambda: len(list(tmp_path.glob("trials/cut/*.parquet"))) >= 3)
    process.kill()
    process.wait(timeout=60)
    time.sleep(1)
    kept = results.read(tmp_path, "cut")
    said = run(tmp_path, *argv, "--resume").stdout
    table = trained_once(tmp_path, "cut")
    assert len(table) == 6 and (table.groupby("trial_index")["seed"].apply(sorted).map(tuple) == (0, 1)).all()
    again = table.set_index("trial_id").loc[kept["trial_id"]].reset_index()
    assert again["started_at"].tolist() == kept["started_at"].tolist(), "rows of the first run stand"
    assert "means over 2 seeds; 6 trials" in said and " ±0.0" in said
    run(tmp_path / "whole", *argv)
    told = ["trial_id", "params", "seed", "val_score"]
    assert results.read(tmp_path / "whole", "cut")[told].to_dict() == table[told].to_dict(), "the course it would have taken"


class TwoOfThree(tune.Trainable):
    """Trains a pack of quadratics; one member ends early, then the trial fails."""

    def setup(self, config):
        self.config = config

    def step(self):
        if self.training_iteration == 1:
            raise RuntimeError("the machine is gone")
        told = {str(place): {"acc": -((member["lr"] - 0.1) ** 2)} for place, member in enumerate(self.config[PACK])}
        told["1"]["done"] = True
        return {PACK: told, "acc": max(member["acc"] for member in told.values())}


def test_a_users_pack_that_fails_has_a_row_each(ray_session, tmp_path):
    points = [{"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}]
    inner = CoordinateDescentSearch(metric="acc", mode="max", points_to_evaluate=points, workers=3)
    inner.set_search_properties("acc", "max", {"lr": tune.loguniform(1e-4, 1.0)})
    tune.Tuner(
        TwoOfThree, param_space={"epochs": 2},
        tune_config=tune.TuneConfig(metric="acc", mode="max", num_samples=1, search_alg=PackedSearch(inner, 3, metric="acc", mode="max")),
        run_config=tune.RunConfig(name="run", storage_path=str(tmp_path / "tune"), verbose=0, callbacks=[ResultsCallback(tmp_path / "r", "mine", metric="acc")]),
    ).fit()  # fmt: skip
    table = results.read(tmp_path / "r", "mine")
    assert table["params"].tolist() == points and table["trial_id"].is_unique
    assert set(table["status"]) == {"failed"} and "the machine is gone" in table["error"][0]
    assert '"epochs": 2' in table["config"][0]


def test_what_a_pack_recorded_before_it_failed_stands(tmp_path):
    """The disk is full for one row of three: the others have theirs, the search knows them, and goes on."""
    code = (
        "import sys\nfrom ray import cloudpickle\nimport tune_cd.run.trials as t\ncloudpickle.register_pickle_by_value(t)\n"
        "write = t.Recorder.__call__\n"
        "def full(self, config, outcome, where):\n"
        "    if config['origin']['trial_index'] == 1: raise OSError(28, 'No space left on device')\n"
        "    return write(self, config, outcome, where)\n"
        "t.Recorder.__call__ = full\n"
        "from tune_cd.run.__main__ import main\n"
        f"sys.exit(main({[*TINY, '--study', 'full', '--search', 'random', '--num-samples', '6', '--pack', '3', '--workers', '3', '--no-baseline', '--address', 'local', '--results', str(tmp_path)]!r}))\n"
    )
    finished = subprocess.run([COMMAND[0], "-c", code], capture_output=True, text=True, timeout=200)
    table = results.read(tmp_path, "full").set_index("trial_index")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert table["status"].tolist() == ["completed", "failed", "failed", "completed", "completed", "completed"], finished.stdout
    assert "No space left on device" in table["error"][1] and table["val_score"][0] > 0
