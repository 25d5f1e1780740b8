"""The main job for real, on a cluster of two nodes: trials, table, picture; more of a study; other searches and experiments.

What may happen to it is in test_faults.py.
"""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from drivers import COMMAND, cluster, run  # noqa: F401
from reported import check_figures, reported
from tune_cd import results

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def asked(folder: Path, study: str, search: str = "cd") -> list[tuple]:
    """(index, direction, Lambda_p, Lambda_e, score) of a search's rows."""
    table = results.read(folder, study)
    rows = table[table["search"] == search]
    return list(rows[["trial_index", "direction", "Lambda_p", "Lambda_e", "val_score"]].itertuples(index=False, name=None))


@pytest.fixture(scope="module")
def uninterrupted(run, tmp_path_factory):
    """A whole small study: (results folder, what was printed)."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(folder, "--study", "whole", "--num-samples", "9")


def test_the_main_job_ends_in_a_table_a_picture_a_report_and_a_comparison(uninterrupted):
    folder, said = uninterrupted
    table = results.read(folder)
    assert table.groupby("search").size().to_dict() == {"cd": 9, "separate": 5, "global": 5}
    assert set(table["status"]) == {"completed"} and set(table["dataset"]) == {"glyphs"}
    plain = pd.read_parquet(folder / "trials")
    assert len(plain) == len(table) and set(plain.columns) == set(results.TRIALS.names)
    assert not table.duplicated(["Lambda_p", "Lambda_e", "batch_size", "seed"]).any(), "nothing is trained twice"
    assert len(re.findall(r"^\[(cd|separate|global) +\d+/\d+\]", said, re.MULTILINE)) == 19, "one line a trial"
    best = table.loc[table[table["search"] == "cd"]["val_score"].idxmax()]
    assert re.search(rf"best balance found +{best['Lambda_p']:.4g} +{best['Lambda_e']:.4g} +64 +{best['val_score']:.4f} +{best['test_score']:.4f}", said)
    assert "best with separate average" in said and "best with global average" in said
    picture = Path(re.search(r"^picture: (.+)$", said, re.MULTILINE)[1])
    assert picture.read_bytes().startswith(b"\x89PNG") and f"table:   {folder}/trials/whole" in said
    page = Path(re.search(r"^report:  (.+)$", said, re.MULTILINE)[1]).read_text(encoding="utf-8")
    assert page == (folder / "studies/whole/report.html").read_text(encoding="utf-8") and "Over the separate average" in page and "cd-00000" in page


def test_its_figures_and_tables_are_drawn(uninterrupted, tmp_path):
    said = reported(f"python -m tune_cd.report {uninterrupted[0]} --figures out", tmp_path)
    check_figures(tmp_path / "out", ["whole"], said)


def test_rows_say_everything(uninterrupted):
    table = results.read(uninterrupted[0])
    row = table[table["search"] == "cd"].iloc[3]
    assert (row["trial_index"], row["metric_name"], row["images_seen"], row["task"]) == (3, "r_map", 1280, "dml")
    assert row["direction"] in ("balance", "joint", "Lambda_p", "Lambda_e")
    assert row["params"] == {"Lambda_p": row["Lambda_p"], "Lambda_e": row["Lambda_e"]}
    assert {"test_map_at_r", "positive_similarity", "negative_pairs"} <= set(row["scores"])
    assert row["positive_term"] > 0 and row["ended_at"] > row["started_at"] and '"torch"' in row["software"] and '"margin": 0.5' in row["config"]
    curves = results.read_curves(uninterrupted[0])
    assert curves[curves["trial_id"] == row["trial_id"]]["images_seen"].tolist() == [640, 1280]
    assert row["val_score"] == curves[curves["trial_id"] == row["trial_id"]]["val_score"].max()


def test_the_baselines_stay_on_their_diagonals(uninterrupted):
    table = results.read(uninterrupted[0])
    ratio = table["Lambda_e"] / table["Lambda_p"]
    assert ratio[table["search"] == "separate"].to_numpy() == pytest.approx(1)
    assert ratio[table["search"] == "global"].to_numpy() == pytest.approx(62)


@pytest.mark.parametrize("search", [pytest.param("random", marks=pytest.mark.faults), "tpe"])
def test_another_search_method_through_the_same_door(run, tmp_path, search):
    if search == "tpe":
        pytest.importorskip("optuna", reason="Optuna's methods need the extra `baselines`")
    run(tmp_path, "--study", "other", "--search", search, "--num-samples", "2", "--no-baseline")
    run(tmp_path, "--study", "other", "--num-samples", "4", "--resume")
    rows = asked(tmp_path, "other", search)
    assert [row[0] for row in rows] == [0, 1, 2, 3] and len({row[2:4] for row in rows}) == 4
    assert rows[0][1:4] == ("start", 0.1, 0.1) and {row[1] for row in rows[1:]} == {"sampled"}


XBM_STUDY = ["--study", "xbm", "--experiment", "xbm", "--set", "memory_size=96", "memory_start=2", "images_seen=640", "evaluations=1"]


def test_the_xbm_experiment_ends_in_its_table(run, tmp_path):
    """S1 to S3 and the loss without memory in one study; nothing is trained twice."""
    said = run(tmp_path, *XBM_STUDY, "--num-samples", "4")
    table = results.read(tmp_path, "xbm")
    assert table.groupby("search").size().to_dict() == {"without": 5, "S1": 5, "S2": 5, "without-tuned": 4, "S3": 4}
    memory = table["config"].map(lambda config: json.loads(config)["memory"])
    assert dict(zip(table["search"], memory)) == {"S3": "fixed", "without-tuned": "none", "without": "none", "S1": "variable", "S2": "fixed"}
    assert not table.assign(memory=memory).duplicated(["memory", "Lambda_p", "Lambda_e"]).any()
    starts = table[(table["direction"] == "start")].set_index("search")["scores"]
    assert set(starts.index) == {"without", "S1", "S2"}, "the tuned ones set out from the best of the lines"
    assert len({scores["test_r_map"] for scores in starts}) == 3, "the memory matters, and so does its balance"
    for row in ("without memory, default balance", "with memory, S1: variable", "with memory, S2: fixed, default", "without memory, tuned balance", "with memory, S3: fixed, tuned"):
        assert re.search(rf"^{row} +[\d.e-]+ +[\d.e-]+ +0\.\d+ +0\.\d+ +0\.\d+$", said, re.MULTILINE), row


@pytest.mark.faults
def test_the_xbm_experiment_resumed_is_as_never_stopped(run, tmp_path):
    run(tmp_path, *XBM_STUDY, "--num-samples", "2")
    run(tmp_path, *XBM_STUDY, "--num-samples", "4", "--resume")
    run(tmp_path / "whole", *XBM_STUDY, "--num-samples", "4")
    assert asked(tmp_path / "whole", "xbm", "S3") == asked(tmp_path, "xbm", "S3")


def test_ones_own_network_and_weights_from_the_directory_one_is_in(tmp_path, monkeypatch):
    (tmp_path / "mynets.py").write_text(
        "import torch\n\n\ndef flat(channels, image_size):\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * image_size**2, 32))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    trunk = importlib.import_module("mynets").flat(1, 28)
    torch.save(torch.nn.ModuleDict({"trunk": trunk}).state_dict(), tmp_path / "mine.pt")
    command = [*COMMAND, "network=mynets:flat", "--weights", "mine.pt", "--results", "r", "--study", "own", "--num-samples", "2", "--no-baseline", "--address", "local"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    table = results.read(tmp_path / "r")
    config = json.loads(table["config"].iloc[0])
    assert set(table["status"]) == {"completed"} and (config["network"], config["weights"]) == ("mynets:flat", str(tmp_path / "mine.pt"))


@pytest.mark.faults
def test_more_trials_for_a_finished_study(run, uninterrupted, tmp_path):
    run(tmp_path, "--study", "grown", "--num-samples", "4", "--no-baseline")
    run(tmp_path, "--study", "grown", "--num-samples", "9", "--no-baseline", "--resume")
    assert asked(tmp_path, "grown") == asked(uninterrupted[0], "whole")


@pytest.mark.faults
def test_two_workers_train_two_at_a_time(run, tmp_path):
    said = run(tmp_path, "--study", "two", "--num-samples", "8", "--search", "cd-paper", "--no-baseline", "--workers", "2", "--cpus-per-trial", "1")
    table = results.read(tmp_path, "two").sort_values("started_at")
    assert "2 at a time" in said and len(table) == 8 and not table.duplicated(["Lambda_p", "Lambda_e", "batch_size"]).any()
    assert (table["started_at"].to_numpy()[1:] < table["ended_at"].to_numpy()[:-1]).any(), "two ran at the same time"


def test_more_than_any_node_has_is_refused(cluster, tmp_path):  # noqa: F811
    command = [*COMMAND, "--results", str(tmp_path), "--address", cluster.address, "--gpus-per-trial", "1"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert finished.returncode == 2 and "no node of the cluster" in finished.stderr


def test_a_dry_run_says_what_would_be_trained(run, tmp_path):
    said = run(tmp_path, "--study", "dry", "--dry-run")
    assert "20 cd + 5 separate + 5 global trials of 1,280 images" in said and not (tmp_path / "studies" / "dry").exists()
