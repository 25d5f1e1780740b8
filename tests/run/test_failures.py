"""Rows of trainings whose trial failed in Tune."""

from types import SimpleNamespace

import pytest
from fake_trials import FakeTrial
from rows import evaluation, full, minimal

from tune_cd import results
from tune_cd.results.merging import merge
from tune_cd.run.failures import UNSTORED, FailuresCallback

TRACEBACK = """ray::TrainTrial.train() (pid=1, ip=10.0.0.1)
  File "/home/me/train.py", line 12, in f
RuntimeError: all of them"""


def run(callback, trials, failed=()):
    callback.setup()
    for trial in trials:
        callback.on_trial_start(0, trials, trial)
        callback.on_trial_result(0, trials, trial, trial.last_result)
        (callback.on_trial_error if trial in failed else callback.on_trial_complete)(0, trials, trial)
    callback.on_experiment_end(trials)


class TestFailures:
    """Packs whose trainings write their own rows."""

    def callback(self, tmp_path):
        fields = {"metric_name": "acc"}
        return FailuresCallback(tmp_path, "mine", fields=fields, identify=self.identify)

    def identify(self, config):
        origin = config["origin"]
        seed = config["seed"]
        return origin | {"search": "cd", "trial_id": f"cd-{origin['trial_index']}-seed{seed}", "seed": seed}

    def trial(self, tmp_path):
        """One process trained two; it failed when one was done."""
        origins = [{"trial_index": n, "attempt": 2 * n} for n in range(2)]
        pack = [{"lr": lr, "origin": origin, "seed": 3} for origin, lr in zip(origins, (0.1, 0.2))]
        trial = FakeTrial(1, {}, {"pack": {"0": {"acc": 0.7, "done": True}, "1": {"acc": 0.1}}, "done": False})
        trial.config = {"pack": pack}
        return trial.fail(tmp_path, TRACEBACK)

    def test_only_what_was_not_done_has_failed_and_that_is_the_machines_fault(self, tmp_path):
        trial = self.trial(tmp_path)
        for _ in range(2):
            run(self.callback(tmp_path), [trial], failed=[trial])
        run(self.callback(tmp_path), [trial])
        [row] = results.read(tmp_path, "mine").to_dict("records")
        assert (row["trial_id"], row["attempt"], row["seed"], row["params"]) == ("cd-1-seed3", 2, 3, {"lr": 0.2})
        assert (row["status"], row["failure_kind"], row["error"]) == (
            "failed", "lost", "lost: RuntimeError: all of them",
        )  # fmt: skip
        assert row["gpus"] == 0.25 and row["scores"] == {"acc": 0.1}

    @pytest.mark.parametrize("recorded, stored", [(0, 2), (1, 2), (2, 2), (3, 3)])
    def test_a_failure_that_the_training_has_recorded_itself_is_no_second_attempt(self, tmp_path, recorded, stored):
        row = minimal(study="mine", trial_id="cd-1-seed3", status="failed", error="timeout", attempt=recorded)
        results.write_trial(tmp_path, row)
        trial = self.trial(tmp_path)
        run(self.callback(tmp_path), [trial], failed=[trial])
        held = results.read_trial(tmp_path, "mine", "cd-1-seed3")
        assert (held["attempt"], held["error"] == "timeout") == (stored, recorded >= 2)

    def test_what_a_training_could_not_store_is_stored_once_with_its_curve(self, tmp_path):
        stored = {"row": full(study="mine"), "curve": [evaluation(images_seen=n) for n in (1, 2)]}
        result = {"acc": 0.5, "pack": {"0": {"acc": 0.5, "done": True, UNSTORED: stored}}}
        callback = self.callback(tmp_path)
        (tmp_path / "curves").touch()  # a folder is needed there: the store does not answer
        callback.setup()
        trial = SimpleNamespace(config={"pack": [{"lr": 0.1}, {"lr": 0.2}]}, trial_id="a")
        for _ in range(3):
            callback.on_trial_result(0, [], trial, result)
        with pytest.warns(UserWarning, match="1 result rows were not written .a.*; 1 wait in"):
            callback.on_experiment_end([])
        (tmp_path / "curves").unlink()
        merge(tmp_path)
        assert results.read_trial(tmp_path, "mine", "t0")["val_score"] == full()["val_score"]
        assert len(results.read_curves(tmp_path, "mine")) == 2
