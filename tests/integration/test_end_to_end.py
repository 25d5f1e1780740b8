"""The main job for real, on a cluster of a head and a node: trials, table, picture; more of a study; other searches and
experiments.

What may happen to it is in test_faults.py.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
from operator import itemgetter
from pathlib import Path

import pandas as pd
import pytest
import torch
from drivers import COMMAND, LIMIT, run, whole  # noqa: F401

from trainables import trained
from tune_cd import results
from tune_cd.analysis.memory_table import MEMORY_MODES, MEMORY_TABLE, SUFFIX, memory_modes
from tune_cd.analysis.runs import runs_of

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def asked(folder: Path, study: str, search: str = "cd") -> list[tuple]:
    """(index, direction, Lambda_p, Lambda_e, score) of a search's rows."""
    rows = results.read(folder, study).query("search == @search")
    told = ["trial_index", "direction", "Lambda_p", "Lambda_e", "val_score"]
    return list(rows[told].itertuples(index=False, name=None))


@pytest.fixture(scope="module")
def uninterrupted(run, tmp_path_factory):
    """A whole small study: (results folder, what was printed)."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(folder, "--study", "whole", "--num-samples", "4", "--baseline-trials", "4", drawn=True)


def test_the_main_job_ends_in_a_table_a_picture_a_report_and_a_comparison(uninterrupted):
    folder, said = uninterrupted
    table = results.read(folder)
    counts = table.groupby("search").size().to_dict()
    assert counts["cd"] > 4 and all(4 < counts[average] <= 25 for average in ("separate", "global"))
    assert set(table["status"]) == {"completed", "stopped"} and set(table["dataset"]) == {"glyphs"}
    runs = runs_of(table)
    worth = runs.groupby("search")["share"].sum()
    assert 3 < worth["cd"] <= 5 and max(worth["separate"], worth["global"]) <= 5
    assert set(runs[runs["paused"]]["search"]) == {"cd", "separate", "global"}
    plain = pd.read_parquet(folder / "trials")
    assert len(plain) == len(table) and set(plain.columns) == set(results.TRIALS.names)
    assert not table.duplicated(["Lambda_p", "Lambda_e", "batch_size", "seed"]).any(), "nothing is trained twice"
    lines = re.findall(r"^(cd|separate|global) +\d+% ", said, re.MULTILINE)
    assert len(lines) == len(runs) > len(table), "one line a run"
    plainly = " ".join(said.split())  # sentences are broken into lines
    for search in ("cd", "separate", "global"):
        assert re.search(rf"{search}: [\d.]+ of 4 full trainings' worth; [a-z]", plainly)
    assert f"{len(table)} trainings: " in said and max(map(len, said.split("table:")[0].splitlines())) <= 80
    best = table.loc[table[(table["search"] == "cd") & (table["status"] == "completed")]["val_score"].idxmax()]
    found = [f"{best[name]:.4g}" for name in ("Lambda_p", "Lambda_e")] + ["64"]
    found += [f"{best[name]:.4f}" for name in ("val_score", "test_score")]
    assert re.search(rf"best balance found +{' +'.join(found)}", said)
    assert "best with separate average" in said and "best with global average" in said
    network = trained.load(re.search(r"^network: (.+)$", said, re.MULTILINE)[1])
    assert (network.h["Lambda_p"], network.h["Lambda_e"]) == (best["Lambda_p"], best["Lambda_e"])
    assert network.val_score == best["val_score"] and network(torch.zeros(2, 1, 28, 28)).shape == (2, 512)
    kept = sorted(path.name.split("~")[0] for path in (folder / "studies/whole/networks").iterdir())
    assert kept == ["cd", "global", "separate"], "the best of each search"
    picture = Path(re.search(r"^picture: (.+)$", said, re.MULTILINE)[1])
    assert picture.read_bytes().startswith(b"\x89PNG") and f"table:   {folder}/trials/whole" in said
    page = Path(re.search(r"^report:  (.+)$", said, re.MULTILINE)[1]).read_text(encoding="utf-8")
    assert page == (folder / "studies/whole/report.html").read_text(encoding="utf-8")
    assert "over the separate average" in page and "cd-00000" in page


def test_rows_say_everything(uninterrupted):
    table = results.read(uninterrupted[0])
    paused = table[table["status"] == "stopped"].iloc[0]
    assert (paused["images_seen"], pd.isna(paused["test_score"]), pd.isna(paused["positive_term"])) == (320, True, True)
    assert 0 < paused["val_score"] < 1 and paused["scores"]["val_map_at_r"] > 0
    row = table[(table["search"] == "cd") & (table["trial_index"] > 0) & (table["status"] == "completed")].iloc[0]
    assert (row["metric_name"], row["images_seen"], row["task"]) == ("r_map", 640, "dml")
    assert row["direction"] in ("balance", "joint", "Lambda_p", "Lambda_e")
    assert row["params"] == {"Lambda_p": row["Lambda_p"], "Lambda_e": row["Lambda_e"]}
    assert {"test_map_at_r", "positive_similarity", "negative_pairs"} <= set(row["scores"])
    assert row["positive_term"] > 0 and row["ended_at"] > row["started_at"]
    assert '"torch"' in row["software"] and '"margin": 0.5' in row["config"]
    curves = results.read_curves(uninterrupted[0])
    assert curves[curves["trial_id"] == row["trial_id"]]["images_seen"].tolist() == [320, 640]
    assert row["val_score"] == curves[curves["trial_id"] == row["trial_id"]]["val_score"].max()


def test_the_baselines_stay_on_their_diagonals(uninterrupted):
    table = results.read(uninterrupted[0])
    ratio = table["Lambda_e"] / table["Lambda_p"]
    assert ratio[table["search"] == "separate"].to_numpy() == pytest.approx(1)
    assert ratio[table["search"] == "global"].to_numpy() == pytest.approx(62)


def test_another_search_method_through_the_same_door(run, tmp_path):
    pytest.importorskip("optuna", reason="Optuna's methods need the extra `baselines`")
    run(tmp_path, "--study", "other", "--search", "tpe", "--num-samples", "4", "--no-baseline")
    rows = asked(tmp_path, "other", "tpe")
    assert [row[0] for row in rows] == [0, 1, 2, 3] and len({row[2:4] for row in rows}) == 4
    assert rows[0][1:4] == ("start", 0.63, 8.6) and {row[1] for row in rows[1:]} == {"sampled"}


XBM_STUDY = [
    "--study", "xbm", "--experiment", "xbm", "--set", "memory_size=96", "memory_start=2", "images_seen=640",
    "evaluations=1", "--workers", "1",  # each of its six set-ups starts processes of its own
]  # fmt: skip


def test_the_xbm_experiment_ends_in_its_table(run, tmp_path):
    """All rows, both schedules in one study; nothing is trained twice, and each choice once more with decay."""
    said = run(tmp_path, *XBM_STUDY, "--num-samples", "2")
    table = results.read(tmp_path, "xbm")
    said_of = table["config"].map(json.loads)
    table = table.assign(**{name: said_of.map(itemgetter(name)) for name in ("memory", "schedule")})
    searched = table[table["schedule"] == "constant"]
    counts = {"without": 1, "S1": 1, "S2": 1, "without-tuned": 2, "S1-tuned": 2, "S3": 2}
    assert searched.groupby("search").size().to_dict() == counts
    assert dict(zip(searched["search"], searched["memory"])) == {
        "without": "none", "without-tuned": "none", "S1": "variable", "S1-tuned": "variable",
        "S2": "fixed", "S3": "fixed",
    }  # fmt: skip
    assert not table.duplicated(["memory", "schedule", "Lambda_p", "Lambda_e"]).any()
    untuned = searched[searched["search"].isin(["without", "S1", "S2"])]
    assert set(zip(untuned["Lambda_p"], untuned["Lambda_e"])) == {(3.0, 60.0)}
    assert len({scores["test_r_map"] for scores in untuned["scores"]}) == 3, "memory and balance matter"
    for memory, rows in searched.groupby("memory"):
        best = rows.loc[rows["val_score"].idxmax()]
        again = table[(table["schedule"] == "plateau") & (table["memory"] == memory)]
        assert set(zip(again["Lambda_p"], again["Lambda_e"])) == {(3.0, 60.0), (best["Lambda_p"], best["Lambda_e"])}
    assert set(table["metric_name"]) == {"recall_at_1"}
    assert (table["val_score"] == table["scores"].map(lambda s: s["val_recall_at_1"])).all()
    numbers = r" +[\d.e-]+ +[\d.e-]+ +0\.\d+ +0\.\d+ +0\.\d+ +\d+"
    lines = [f"{label}{end}{numbers}" for label in MEMORY_MODES for end in ("", SUFFIX)]
    lines += [rf"\| {re.escape(row)} +\| 0\.\d\d / 0\.\d\d +\| 0\.\d\d / 0\.\d\d +\|.*" for row in MEMORY_TABLE]
    assert [line for line in lines if not re.search(f"^{line}$", said, re.MULTILINE)] == []


@pytest.mark.faults
def test_the_xbm_experiment_resumed_is_as_never_stopped(run, tmp_path):
    """A choice that changes is trained with decay as well, and the table has its number."""
    run(tmp_path, *XBM_STUDY, "--num-samples", "1")
    first = results.read(tmp_path, "xbm")
    said = run(tmp_path, *XBM_STUDY, "--num-samples", "4", "--resume")
    assert "without: 1 of 1 full trainings' worth; " in said
    run(tmp_path / "whole", *XBM_STUDY, "--num-samples", "4")
    tables = [results.read(folder, "xbm") for folder in (tmp_path, tmp_path / "whole")]
    for name in ("without-tuned", "S1-tuned", "S3"):
        assert asked(tmp_path / "whole", "xbm", name) == asked(tmp_path, "xbm", name)
    assert memory_modes(tables[0]).equals(memory_modes(tables[1])) and len(tables[0]) >= len(tables[1])
    assert set(first["trial_id"]) <= set(tables[0]["trial_id"])
    run(tmp_path, *XBM_STUDY, "--num-samples", "4", "--resume")
    assert len(results.read(tmp_path, "xbm")) == len(tables[0])


NETWORK = """
import torch

def flat(channels, image_size):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * image_size**2, 32))
"""


def test_ones_own_network_and_weights_from_the_directory_one_is_in_and_an_odd_terminal(cluster, tmp_path, monkeypatch):
    """A real process, with a notebook's backend, a terminal without Greek letters, and axes of 2,000 octaves: the
    picture is drawn, the report is written, the exit status is 0."""
    (tmp_path / "mynets.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    trunk = importlib.import_module("mynets").flat(1, 28)
    torch.save(torch.nn.ModuleDict({"trunk": trunk}).state_dict(), tmp_path / "mine.pt")
    options = "--results r --study own --full-length --num-samples 1 --no-baseline --range 1e-300,1e300"
    command = [*COMMAND, "network=mynets:flat", "--weights", "mine.pt", "--start", "Lambda_p=0.1,Lambda_e=0.1"]
    foreign = {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "PYTHONIOENCODING": "latin-1"}
    environ = os.environ | foreign | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.run(
        [*command, *options.split(), "--address", cluster.address],
        cwd=tmp_path, env=environ, capture_output=True, encoding="latin-1", timeout=LIMIT,
    )  # fmt: skip
    said = process.stdout
    assert process.returncode == 0 and "Traceback" not in process.stderr, said + process.stderr
    config = json.loads(results.read(tmp_path / "r")["config"].iloc[0])
    assert "1 training: 1 completed" in said and re.search(r"^report:  .+report.html$", said, re.MULTILINE)
    assert (config["network"], config["weights"]) == ("mynets:flat", str(tmp_path / "mine.pt"))
    picture = re.search(r"^picture: (.+)$", said, re.MULTILINE)[1]
    assert Path(picture).read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_drawn_does_not_change_how_a_study_ends(run, uninterrupted, tmp_path):
    """A folder is in its place: the summary is whole, the report is written, the exit status is 0."""
    shutil.copytree(uninterrupted[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "studies/whole/search.png").unlink()
    (tmp_path / "studies/whole/search.png/full").mkdir(parents=True)
    said = run(tmp_path, "--study", "whole", "--resume", drawn=True)
    assert "best with global average" in said and re.search(r"^report:  .+report.html$", said, re.MULTILINE)
    assert re.search("^picture: could not be made: IsADirectoryError", said, re.MULTILINE)
