"""A stored replay: one file a study, which grows and is never rewritten."""

import json

import pytest

from tune_cd import results
from tune_cd.landscapes import replay as command
from tune_cd.results.__main__ import main as results_main

SMALL = "--methods random cd-paper --landscapes sop omniglot --trials 4 --processes 1"


def replayed(folder, *more: str) -> int:
    return command.main([*SMALL.split(), "--results", str(folder), *more])


def files(folder) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))


def test_a_study_is_one_file_that_the_results_room_reads(tmp_path, capsys):
    assert replayed(tmp_path, "--trajectories", "3") == 0
    assert [name.split("/")[1] for name in files(tmp_path)] == ["replay-omniglot", "replay-sop"], (
        "24 trials each, one file"
    )
    assert results.read(tmp_path).groupby("study").size().tolist() == [24, 24]
    capsys.readouterr()
    assert results_main(["list", str(tmp_path)]) == 0 and "replay-sop" in capsys.readouterr().out


def test_the_same_again_changes_nothing_and_other_seeds_and_methods_join(tmp_path):
    assert replayed(tmp_path, "--trajectories", "2") == 0
    before, table = files(tmp_path), results.read(tmp_path)
    assert replayed(tmp_path, "--trajectories", "2") == 0
    assert files(tmp_path) == before
    assert replayed(tmp_path, "--trajectories", "3") == 0
    assert replayed(tmp_path, "--methods", "cd", "--trajectories", "1") == 0
    grown = results.read(tmp_path)
    assert len(files(tmp_path)) == 2 and len(grown) == 2 * (2 * 3 + 1) * 4
    kept = grown.merge(table[["study", "trial_id"]])
    assert kept[["study", "trial_id", "val_score"]].equals(table[["study", "trial_id", "val_score"]])


def test_a_trajectory_that_is_stored_otherwise_is_refused_before_anything_is_replayed(tmp_path, capsys, monkeypatch):
    assert replayed(tmp_path, "--trajectories", "2") == 0
    before, table = files(tmp_path), results.read(tmp_path)

    def never(*arguments, **how):
        raise AssertionError("replayed all the same")

    monkeypatch.setattr(command, "replay_all", never)
    capsys.readouterr()
    for change, said in (
        ("--trials 5", "'trials': 4"),
        ("--start conventional", "'start': 'blind'"),
        ("--failures 0.1", "'failures': 0.0"),
    ):
        assert replayed(tmp_path, "--trajectories", "1", *change.split()) == 2
        error = capsys.readouterr().err
        assert said in error and "another folder is required" in error
    assert files(tmp_path) == before and results.read(tmp_path).equals(table)


def test_rows_keep_what_they_were_replayed_with(tmp_path):
    assert replayed(tmp_path, "--trajectories", "1", "--workers", "2", "--durations", "fourfold") == 0
    config = json.loads(results.read(tmp_path)["config"].iloc[0])
    how = {"trials": 4, "workers": 2, "start": "blind", "durations": "fourfold", "noise": 0.0, "failures": 0.0}
    assert how.items() <= config.items()


@pytest.mark.parametrize("options", [["--ablation"], ["--table", "ablation"]])
def test_the_ablation_is_stored_too(tmp_path, options):
    asked = ["--landscapes", "sop", "--trials", "3", "--trajectories", "2", "--processes", "1"]
    assert command.main([*options, *asked, "--results", str(tmp_path)]) == 0
    table = results.read(tmp_path)
    assert len(files(tmp_path)) == 1 and {"A_O (3,3)", "A_I (3,3)", "A_O (3,3) rev"} <= set(table["search"])
    assert table["trial_id"].is_unique
