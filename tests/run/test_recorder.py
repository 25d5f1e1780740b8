"""What trainings leave and find again: rows, attempts, saved states."""

import json
import pickle
from dataclasses import replace

import pandas as pd
import pytest
from fake_trials import FakeTrial
from made_studies import study
from warned import silent

from trainables.training.outcome import Evaluation, Outcome, failure
from tune_cd import results
from tune_cd.results.attempts import to_retry
from tune_cd.run.failures import DriverRows
from tune_cd.run.recorder import Recorder
from tune_cd.run.resources import Resources
from tune_cd.run.summary import summarise

CONFIG = {
    "Lambda_p": 0.5, "Lambda_e": 2.0, "batch_size": 64, "seed": 3,
    "origin": {"search": "cd", "trial_index": 4, "trial_id": "cd-00004", "direction": "balance", "line_position": 0.5,
               "attempt": 0},
}  # fmt: skip
WHERE = {"started_at": pd.Timestamp("2026-01-01", tz="UTC").to_pydatetime(), "device": "cpu", "share": 0.5}
CURVE = [Evaluation(320, 0.7, 0.7), Evaluation(640, 1.5, 0.6)]
DONE = Outcome("completed", 0.7, 0.6, {"val_r_map": 0.7}, 640, 320, 1.5, CURVE, positive_term=1.0, entropy_term=2.0)
PAUSED = Outcome("stopped", 0.7, None, {"val_r_map": 0.7}, 320, 320, 0.7, [Evaluation(320, 0.7, 0.7)])


def run(attempt, config=CONFIG):
    """The same training, run again."""
    return config | {"origin": config["origin"] | {"attempt": attempt}}


@pytest.fixture
def made(tmp_path):
    mine = study(tmp_path, "--study", "mine")

    return lambda: Recorder(mine, mine.setup, Resources(1, 1.0, 2, 2))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


def test_an_outcome_is_a_row_and_a_curve_and_a_second_one_changes_nothing(made, folder, caplog):
    recorder = pickle.loads(pickle.dumps(made()))
    assert recorder.recorded(CONFIG) is None
    assert recorder.record(CONFIG, DONE, WHERE) is None
    row = silent(results.read, folder).iloc[0]
    stored = {"trial_id": "cd-00004", "attempt": 0, "status": "completed", "val_score": 0.7, "gpus": 0.5, "seed": 3}
    assert {name: row[name] for name in stored} == stored
    config = json.loads(row["config"])
    assert "origin" not in config and config["margin"] == 0.5
    assert config["digest"]["margin"] == 0.5 and "temperature" not in config["digest"], "as it has no effect"
    assert results.read_curves(folder)["images_seen"].tolist() == [320, 640]
    told = {"val_score": 0.7, "test_score": 0.6, "images_seen": 640, "status": "completed"}
    assert recorder.recorded(CONFIG) == told | {"looks": [[320, 0.7], [640, 0.6]]}
    assert made().record(CONFIG, Outcome(**{**vars(DONE), "val_score": 0.1}), WHERE) is None
    assert silent(results.read, folder)["val_score"].tolist() == [0.7] and "what is there stands" in caplog.text


def test_the_name_of_another_training_is_not_taken_for_this_one(made):
    """As when a driver that was thought to be dead has gone on."""
    made().record(CONFIG, DONE, WHERE)
    for other in ({"Lambda_p": 0.25}, {"seed": 4}):
        with pytest.raises(ValueError, match="cd-00004 of study mine is on record with .* another driver"):
            made().recorded(CONFIG | other)


@pytest.mark.parametrize("kind", ["lost", "error", "out_of_memory", "timeout"])
def test_a_failure_is_final_in_its_attempt_and_only_a_lost_training_is_to_be_run_again(made, folder, kind):
    recorder = made()
    recorder.record(CONFIG, failure("lost: it only says so", kind=kind), WHERE)
    rows = silent(results.read, folder)
    assert rows["failure_kind"].tolist() == [kind] and to_retry(rows).tolist() == [kind == "lost"]
    assert recorder.recorded(CONFIG)["status"] == "failed" and recorder.recorded(run(1)) is None
    recorder.record(run(1), DONE, WHERE)
    rows = silent(results.read, folder)
    assert rows[["attempt", "status"]].to_numpy().tolist() == [[1, "completed"]]
    assert recorder.recorded(run(1))["val_score"] == 0.7
    assert results.read_curves(folder)["attempt"].tolist() == [1, 1]


def test_what_the_store_refuses_comes_back_and_can_be_written_later(made, folder):
    (folder / "trials").write_text("a file where a folder should be")
    told = made().record(CONFIG, DONE, WHERE)
    assert told["row"]["trial_id"] == "cd-00004" and len(told["curve"]) == 2
    (folder / "trials").unlink()
    results.write_trial(str(folder), **told)
    results.write_trial(str(folder), **told)
    assert silent(results.read, folder)["val_score"].tolist() == [0.7] and len(results.read_curves(folder)) == 2


def test_a_paused_training_goes_on_in_its_own_row(made, folder):
    """Its state stays; once it has ended, one row has the history of all its runs."""
    recorder = made()
    recorder.save(CONFIG, 320, b"state")
    recorder.record(CONFIG, PAUSED, WHERE)
    row = silent(results.read, folder).iloc[0]
    assert (row["status"], row["val_score"], row["images_seen"]) == ("stopped", 0.7, 320) and pd.isna(row["test_score"])
    assert recorder.recorded(CONFIG)["looks"] == [[320, 0.7]], "the same run is not trained again"
    assert recorder.recorded(run(1)) is None and next(iter(recorder.saved(run(1))))[1] == b"state"
    recorder.record(run(1), DONE, WHERE)
    rows, curves = silent(results.read, folder), results.read_curves(folder)
    assert rows[["trial_id", "attempt", "status"]].to_numpy().tolist() == [["cd-00004", 1, "completed"]]
    assert curves[["attempt", "images_seen"]].to_numpy().tolist() == [[1, 320], [1, 640]] and states(folder) == []


def test_a_training_lost_after_a_pause_keeps_its_runs_and_its_set_up(made, folder):
    """Its process died, so the driver writes the row; the parameters are those that are searched."""
    recorder = made()
    recorder.record(CONFIG | {"until": 0.125}, PAUSED, WHERE)
    paused = json.loads(silent(results.read, folder)["config"][0])
    assert not {"until", "origin"} & paused.keys(), "they are no part of its set-up"
    DriverRows(folder, recorder).on_trial_error(0, [], FakeTrial(1, {"pack": [run(1) | {"until": 0.5}]}))
    row = silent(results.read, folder).iloc[0]
    assert (row["status"], row["failure_kind"], row["attempt"]) == ("failed", "lost", 1)
    assert row["params"].keys() == {"Lambda_p", "Lambda_e"}
    kept = json.loads(row["config"])
    assert kept["margin"] == 0.5 and [(one["images_seen"], one["val_score"]) for one in kept["runs"]] == [(320, 0.7)]
    recorder.record(run(2), DONE, WHERE)
    row = silent(results.read, folder).iloc[0]
    assert json.loads(row["config"]) == paused | {"runs": kept["runs"]} and row["status"] == "completed"


# Saved states


def states(folder) -> list[str]:
    return sorted(path.name for path in folder.glob("studies/mine/checkpoints/*"))


def test_the_two_latest_states_are_kept_until_the_end(made, folder):
    recorder = made()
    for seen in (64, 128, 1024, 10240):
        recorder.save(CONFIG, seen, f"state {seen}".encode())
    assert [state for _, state in recorder.saved(CONFIG)] == [b"state 10240", b"state 1024"]
    assert len(states(folder)) == 2
    other = CONFIG | {
        "origin": CONFIG["origin"] | {"search": "separate", "trial_index": 0, "trial_id": "separate-00000"}
    }
    assert len(list(recorder.saved(other))) == 2, "it is the same training, whoever asked for it"
    for differs in ({"seed": 4}, {"Lambda_p": 0.25}, {"batch_size": 32}):
        assert not list(recorder.saved(CONFIG | differs))
    recorder.record(CONFIG | {"seed": 4}, DONE, WHERE)
    assert len(states(folder)) == 2
    recorder.record(other, failure("ValueError: no"), WHERE)
    assert len(states(folder)) == 2, "it may be tried again"
    recorder.record(CONFIG | {"origin": CONFIG["origin"] | {"trial_index": 9, "trial_id": "cd-00009"}}, DONE, WHERE)
    assert states(folder) == []


def test_a_damaged_state_is_passed_over(made, folder, caplog):
    recorder = made()
    recorder.save(CONFIG, 64, b"good")
    recorder.save(CONFIG, 128, b"to be damaged")
    latest = folder / "studies/mine/checkpoints" / states(folder)[-1]
    latest.write_bytes(b"to be Damaged")
    kept = recorder.saved(CONFIG)
    assert next(kept)[1] == b"good" and f"{latest} is damaged" in caplog.text
    with pytest.raises(OSError, match=f"{latest} is damaged"):
        next(kept)


def test_a_run_that_finds_no_state_of_an_earlier_run_is_told_so(made):
    assert list(made().saved(CONFIG)) == [], "a first run expects none"
    with pytest.raises(OSError, match="no state of its earlier run is saved"):
        next(made().saved(run(1)))


def test_the_summary_names_the_best_network_that_was_kept(made, tmp_path):
    """Its store may have had no room for the best training's, as a warning has said."""
    mine, recorder = study(tmp_path, "--study", "mine"), made()
    recorder.record(CONFIG, DONE, WHERE)
    assert "network: " not in summarise(mine)
    recorder.keep(CONFIG, DONE.val_score, lambda: b"network")
    assert f"network: {tmp_path}/results/studies/mine/networks/cd~0.700000000~cd-00004.pt" in summarise(mine)
    seeds = replace(mine, config=replace(mine.config, replicates=2))  # of which the best mean may be another's
    assert summarise(seeds).endswith(".pt\n  of the best single training, which has Lambda_p=0.5, Lambda_e=2")
