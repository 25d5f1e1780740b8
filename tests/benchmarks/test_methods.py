"""The benchmark of search methods: its landscapes, its numbers by hand, and the log of runs on judges."""

import json

import harness
import methods
import numpy as np
import pytest

from tune_cd.landscapes import JUDGES
from tune_cd.search.methods import OPTIMISERS


def cells(text: str) -> list[list[str]]:
    """Of the Markdown tables in a text."""
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_a_part_prints_what_the_searches_reached_and_goes_on_from_a_file(tmp_path, monkeypatch, capsys):
    """AUC@5 and its paired difference."""
    names, kept = ("glyphs-margin", "box-8-bowl"), tmp_path / "kept.jsonl"
    monkeypatch.setitem(methods.PARTS, "two", names)
    how = ["two", "--methods", "random", "cd", "--searches", "2", "--trials", "5", "--start", "near:4"]
    how += ["--processes", "1", "--kept", str(kept)]
    methods.main(how)
    printed = capsys.readouterr().out
    table = {row[0]: row for row in cells(printed)[:3]}
    assert table.pop("AUC@5")[1:] == ["random", "cd"] and list(table) == list(names)
    less = {row[0]: row for row in cells(printed) if row[0] in names and row[2] == "-" and row[1] != "-"}
    for name in names:
        landscape, auc = harness.found(name), {}
        for at, method in enumerate(("random", "cd"), 1):
            each = {"trials": 5, "start": "near:4"}
            ran = [methods.replay(method, OPTIMISERS[method], landscape, seed, **each) for seed in range(2)]
            auc[method] = [np.mean([trial.reached for trial in one.trials]) for one in ran]
            assert float(table[name][at].split()[0]) == pytest.approx(np.mean(auc[method]), abs=6e-4)
        difference = np.mean(np.subtract(auc["random"], auc["cd"]))
        assert float(less[name][1].split()[0]) == pytest.approx(difference, abs=6e-4)
    lines = kept.read_text().splitlines(keepends=True)
    assert len(lines) == 8
    kept.write_text("".join(lines[:-1]) + lines[-1][:30])  # ended while it wrote
    monkeypatch.setattr(
        harness, "_over_processes", lambda measure, jobs, processes: [ran.append(jobs) or measure(*jobs)]
    )
    ran: list = []
    methods.main(how)
    assert capsys.readouterr().out == printed and len(ran) == len(ran[0]) == 1


@pytest.mark.parametrize("name", [*JUDGES, f"{JUDGES[0]}-b256", f"{JUDGES[-1]}-3d"])
def test_runs_on_judges_are_logged(tmp_path, name):
    for names in ([name], ["omniglot-242-margin"], [name]):
        harness.log_judges(names, ["methods.py", *names], tmp_path / "log")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(line["judges"], line["command"]) for line in lines] == [([name], ["methods.py", name])] * 2


@pytest.mark.parametrize("part", methods.PARTS)
def test_every_landscape_of_a_part_is_found(part):
    assert [harness.found(name).name for name in methods.PARTS[part]] == list(methods.PARTS[part])
