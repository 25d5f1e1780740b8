"""A stored replay: one file a study, which grows and is never rewritten."""

import pytest
from rows import full
from s3 import place, proxy, server  # noqa: F401

from tune_cd import results
from tune_cd.landscapes import replay as command
from tune_cd.landscapes.find import find

SMALL = "--methods random cd-paper --landscapes sop omniglot --trials 4 --processes 1"


def replayed(folder, *more: str) -> int:
    return command.main([*SMALL.split(), "--results", str(folder), *more])


def files(folder) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))


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


def test_a_category_is_a_choice(tmp_path):
    assert replayed(tmp_path, "--landscapes", "kinds-digits", "--trajectories", "1") == 0
    table = results.read(tmp_path)
    assert len(table) == 8 and {*table["choices"].map(lambda chosen: tuple(sorted(chosen)))} == {
        ("activation", "solver")
    }
    assert all(sorted(params) == ["decay", "rate"] for params in table["params"])


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
        ("--workers 2", "'workers': 1"),
        ("--durations fourfold", "'durations': 'equal'"),
    ):
        assert replayed(tmp_path, "--trajectories", "1", *change.split()) == 2
        error = capsys.readouterr().err
        assert said in error and "another folder is required" in error
    assert files(tmp_path) == before and results.read(tmp_path).equals(table)


@pytest.mark.parametrize("options", [["--ablation"], ["--table", "ablation"]])
def test_the_ablation_is_stored_too(tmp_path, options):
    asked = ["--landscapes", "sop", "--trials", "3", "--trajectories", "2", "--processes", "1"]
    assert command.main([*options, *asked, "--results", str(tmp_path)]) == 0
    table = results.read(tmp_path)
    assert len(files(tmp_path)) == 1 and {"A_O (3,3)", "A_I (3,3)", "A_O (3,3) rev"} <= set(table["search"])
    assert table["trial_id"].is_unique


def write_losses(where):
    for n, lr in enumerate((0.01, 0.1, 1.0)):
        score = {"val_score": 1.0 + n, "test_score": None, "metric_name": "loss", "mode": "min"}
        measured = full(study="mine", search="grid", trial_id=f"t{n}", trial_index=n, params={"lr": lr}, **score)
        own = {"choices": None, "Lambda_p": None, "Lambda_e": None, "batch_size": None}
        results.write_trial(where, measured | own)


def test_a_grid_of_a_loss_is_replayed_with_its_own_scores(tmp_path, capsys):
    write_losses(tmp_path / "own")
    short = ["--landscapes", str(tmp_path / "own" / "mine"), "--trials", "10", "--trajectories", "2"]
    assert replayed(tmp_path / "replays", *short) == 0
    printed = capsys.readouterr().out
    assert "| random   | 1." in printed and "| cd-paper | 1." in printed
    rows = results.read(tmp_path / "replays")
    assert {*rows["mode"]} == {"min"} and rows["val_score"].between(1, 3).all()
    assert all(1 <= scores["reached"] <= 3 for scores in rows["scores"])


def test_a_study_in_a_bucket_is_a_landscape(place, capsys):
    write_losses(place)
    found = find(place.replace("?", "/mine?"))
    assert found.name == "mine" and found.optimum == {"lr": pytest.approx(0.01)}
    with pytest.raises(ValueError, match="there is no study 'other'"):
        find(place.replace("?", "/other?"))
