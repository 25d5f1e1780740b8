"""`python -m tune_cd.results`: what it prints, finds wrong and removes."""

import math
import os
import re
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from rows import evaluation, full, minimal

from tune_cd import CoordinateDescentSearch, results
from tune_cd.report.__main__ import main as report
from tune_cd.results.__main__ import main
from tune_cd.results.merging import keep
from tune_cd.results.study_files import tune_prefix


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two studies; of the first, t1 is best, t2 failed, and t3 was stopped with the highest score of all."""
    root = tmp_path / "results"
    for n, score in enumerate((0.5, 0.75)):
        results.write_trial(root, full(trial_id=f"t{n}", trial_index=n, val_score=score, test_score=score - 0.25))
        results.write_curve(root, "demo", f"t{n}", [evaluation(images_seen=images) for images in (0, 64)])
    results.write_trial(root, minimal(trial_id="t2", trial_index=2, error="RuntimeError: broken\n  badly"))
    results.write_trial(root, full(trial_id="t3", trial_index=3, status="stopped", val_score=0.9, test_score=math.nan))
    results.write_trial(root, minimal(study="other", params={"Lambda_p": 0.5, "width": math.pi}))
    return root


def said(capsys, *arguments, status: int = 0) -> list[str]:
    """The lines printed by a command that ends so; they come from stdout, or from stderr for status 2."""
    assert main([str(argument) for argument in arguments]) == status
    output = capsys.readouterr()
    return (output.err if status == 2 else output.out).splitlines()


def test_list_names_studies_with_their_best_trial(folder, capsys):
    heading, demo, other = said(capsys, "list", folder)
    assert heading.split()[:6] == ["study", "trials", *results.STATUSES]
    assert " ".join(demo.split()) == "demo 4 2 0 1 1 0.75 0.5 r_map 2026-05-04 12:00:00+00:00 2026-05-04 12:00:13+00:00"
    assert other.split() == ["other", "1", "0", "0", "1", "0", "-", "-", "-", "-", "-"]


def test_list_compares_no_scores_of_two_metrics(tmp_path, capsys):
    for n, (metric, mode) in enumerate((("accuracy", "max"), ("loss", "min"))):
        results.write_trial(tmp_path, full(trial_id=f"t{n}", trial_index=n, metric_name=metric, mode=mode))
    assert said(capsys, "list", tmp_path)[1].split()[:9] == ["demo", "2", "2", "0", "0", "0", "-", "-", "-"]


def test_show_sorts_the_scores_of_each_metric_by_themselves(tmp_path, capsys):
    scores = [("loss", "min", 0.3), ("accuracy", "max", 0.2), ("loss", "min", 0.1), ("accuracy", "max", 0.9)]
    for n, (metric, mode, score) in enumerate(scores):
        scored = {"metric_name": metric, "mode": mode, "val_score": score}
        results.write_trial(tmp_path, full(trial_id=f"t{n}", trial_index=n, **scored))
    heading, *trials = said(capsys, "show", tmp_path, "demo")
    assert heading.split()[:4] == ["trial_id", "status", "metric_name", "val_score"]
    assert [line.split()[0] for line in trials] == ["t3", "t1", "t2", "t0"]


def test_show_puts_the_best_completed_trial_first_and_failures_last(folder, capsys):
    heading, *trials = said(capsys, "show", folder, "demo")
    names = ["Lambda_p", "Lambda_e", "optimizer", "nesterov"]
    assert heading.split() == ["trial_id", "status", "val_score", "test_score", "train_seconds", *names, "error"]
    assert [line.split()[0] for line in trials] == ["t1", "t0", "t3", "t2"]
    assert " ".join(trials[3].split()) == "t2 failed - - - 0.5 - - - RuntimeError: broken badly"
    assert trials[0].split()[5:9] == ["0.5", "0.25", "adam", "true"]


@pytest.mark.parametrize("config, end", [
    ('{"images_seen": 25600}', "stopped at 25 % 0.9"), ('{"full_length": ["epoch", 8]}', "stopped at 15 % 0.9"),
    ("{}", "stopped 0.9"),
])  # fmt: skip
def test_show_tells_how_far_a_trial_was_trained_that_stopped(tmp_path, capsys, config, end):
    results.write_trial(tmp_path, full(status="stopped", val_score=0.9, config=config, scores={"epoch": 1.2}))
    [_, line] = said(capsys, "show", tmp_path, "demo")
    assert " ".join(line.split()).startswith(f"t0 {end}")


def test_show_of_a_trial_has_every_field_that_is_set(folder, capsys):
    text = "\n".join(said(capsys, "show", folder, "demo", "t1"))
    for name in results.TRIALS.names:
        assert (f"\n{name}:" in f"\n{text}") == (name != "failure_kind")
    assert "best_at: 3200" in text and "'precision_at_1': 0.9" in text and '"lr": 1' in text
    failed = said(capsys, "show", folder, "demo", "t2")
    assert "error: RuntimeError: broken" in failed and not any(line.startswith("hostname") for line in failed)


BAD = {
    "show R dem": "no study 'dem'",
    "show R demo t9": "study demo has no trial 't9'",
    "show R ../demo": "name '../demo' is not allowed",
    "list R/none": "there is no results folder",
    "list R/trials": "there are no trials below R/trials: RESULTS is the folder that holds trials/",
    "list R/..": "there are no trials below R/..: RESULTS is the folder that holds trials/",
    "show R begun": "there are no trials of begun in R",
    "compact ftp://x": "ftp:// are not allowed",
    "compact R dem": "there is no study 'dem'",
    "compact R/none": "there is no results folder",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_is_one_line_and_status_2(folder, capsys, arguments):
    results.publish(folder / "studies/begun/study.json", b"{}")
    (line,) = said(capsys, *re.sub(r"\bR\b", str(folder), arguments).split(), status=2)
    assert line.startswith("error: ") and re.sub(r"\bR\b(?=/|$)", str(folder), BAD[arguments]) in line


def test_compact_leaves_a_file_a_study_and_moves_rows_that_wait(folder, capsys):
    keep(folder, lambda place: results.write_trial(place, full(trial_id="t4", trial_index=4)))
    said(capsys, "compact", folder, "demo")
    assert [len(list((folder / "trials" / study).iterdir())) for study in ("demo", "other")] == [1, 1]
    assert len(results.read(folder, "demo")) == 5 and len(list((folder / "curves/demo").iterdir())) == 1


def test_a_file_that_cannot_be_used_is_named_by_every_command(folder, capsys):
    """And a study with it does not go on before it is moved."""
    damaged, moved = folder / "trials/demo/t0.parquet", folder / "trials/other/t7.parquet"
    (folder / "trials/demo/t1.parquet").rename(moved)
    damaged.write_bytes(damaged.read_bytes()[:-30])
    stated = {damaged: "cannot be read", moved: "holds study 'demo'"}

    def named(said, places, word):
        lines = [line for line in said.splitlines() if ".parquet" in line]
        for place in places:
            assert len([line for line in lines if str(place) in line and stated[place] in line and word in line]) == 1
        assert len(lines) == len(places)

    for arguments, places in ((["list", folder], stated), (["show", folder, "demo"], (damaged,))):
        assert main([str(argument) for argument in arguments]) == 0
        output = capsys.readouterr()
        named(output.err, places, "warning: ")
        assert "t0 " not in output.out
    assert main(["compact", str(folder)]) == 1
    named(capsys.readouterr().err, stated, "left as it is")
    page = folder / "report.html"
    assert report([str(folder), "-o", str(page)]) == 0
    assert all(path.name in page.read_text() for path in stated)
    named(capsys.readouterr().err, stated, "left out")
    with pytest.raises(ValueError, match=r"'demo' cannot go on: .*t0.parquet.*move it out"):
        CoordinateDescentSearch.from_results(folder, "demo", resume=True, metric="r_map", mode="max")
    damaged.unlink()
    CoordinateDescentSearch.from_results(folder, "demo", resume=True, metric="r_map", mode="max")


@pytest.fixture
def leftovers(folder, tmp_path, monkeypatch):
    """A function that lists what there is of a study `demo` that was cut off, beside another one of the same name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    tunes = tmp_path / "tmp" / "tune_cd-me"
    for results_of, study in ((folder, "demo"), (folder, "demo-2"), (tmp_path / "elsewhere", "demo")):
        own = tunes / (tune_prefix(results_of, study) + "a1b2_c3d")
        own.mkdir(parents=True)
        (own / "state.json").write_bytes(bytes(3_000_000))
    for name in ("checkpoints/a.pt", "networks/cd~0.5~t0.pt", "study.json", "report.html", "driver.json"):
        results.publish(folder / "studies/demo" / name, bytes(2_000_000))
    results.publish(folder / "studies/demo-2/checkpoints/a.pt", b"of another study")
    os.utime(folder / "studies/demo/driver.json", (0, 0))
    return lambda: {path for path in tmp_path.rglob("*") if path.is_file()}


def gone(folder, before, after):
    assert before >= after
    return sorted(path.name for path in before - after)


def test_clean_lists_and_asks_and_removes_no_more_than_it_listed(folder, leftovers, capsys, monkeypatch):
    before = leftovers()
    for answer in ("n", "", "ja"):
        monkeypatch.setattr("builtins.input", lambda question, answer=answer: answer)
        *listed, answer = said(capsys, "clean", folder, "demo", status=1)
        assert len(listed) == 2 and answer == "nothing is removed"
        assert "demo/checkpoints/a.pt" in listed[0] and tune_prefix(folder, "demo") in listed[1]
        assert leftovers() == before
    for nobody in (EOFError, RuntimeError):
        monkeypatch.setattr("builtins.input", Mock(side_effect=nobody))
        [error] = said(capsys, "clean", folder, "demo", status=2)
        assert error.startswith("error: nobody answers here: nothing is removed; --yes")
        assert leftovers() == before
    monkeypatch.setattr("builtins.input", lambda question: "y")
    assert main(["clean", str(folder), "demo"]) == 0
    assert gone(folder, before, leftovers()) == ["a.pt", "state.json"]
    assert main(["clean", str(folder), "demo"]) == 0 and "nothing to remove" in capsys.readouterr().out


def test_clean_takes_yes_for_an_answer_and_a_folder_of_the_run(folder, leftovers, tmp_path):
    before = leftovers()
    assert main(["clean", str(folder), "demo", "--yes", "--tune-dir", str(tmp_path / "tmp")]) == 0
    assert gone(folder, before, leftovers()) == ["a.pt"]


def test_clean_refuses_while_a_driver_is_at_work_and_a_study_that_is_not_there(folder, leftovers, capsys, monkeypatch):
    lock, before = folder / "studies/demo/driver.json", leftovers()

    def comes(question):
        os.utime(lock)
        return "y"

    monkeypatch.setattr("builtins.input", comes)
    (line,) = said(capsys, "clean", folder, "demo", status=2)
    assert line == "error: a driver has begun to work on study demo; nothing is removed"
    (line,) = said(capsys, "clean", folder, "demo", "--yes", status=2)
    assert line == "error: study demo has a driver at work, which may need its files; end it first"
    (line,) = said(capsys, "clean", folder, "dem", "--yes", status=2)
    assert line.startswith(f"error: there is no study 'dem' in {folder}; there are ") and "demo" in line
    assert leftovers() == before
