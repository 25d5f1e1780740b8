"""Packs and replicates in real Tune runs. What a resumed study trains of them: test_study_resumption.py."""

from pathlib import Path

import pytest
from drivers import run  # noqa: F401

from tune_cd import results

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def trained_once(folder: Path, study: str):
    table = results.read(folder, study)
    assert not table.duplicated(["Lambda_p", "Lambda_e", "batch_size", "seed"]).any(), "nothing is trained twice"
    return table


def test_a_grid_in_packs_with_batch_sizes_mixed(run, tmp_path):
    argv = ["--search", "grid", "--grid-step", "65536", "--tune-batch-size", "--batch-sizes", "32,64", "--no-baseline"]
    argv += ["--set", "images_seen=320"]
    packs = ["--pack", "5", "--workers", "8", "--tune-dir", str(tmp_path / "tune")]
    said = run(tmp_path, *argv, *packs, "--study", "packed")
    packed = trained_once(tmp_path, "packed")
    assert len(packed) == 8 and "8 at a time, up to 5 in a process" in said
    assert len(list((tmp_path / "tune").glob("packed-*/packed/grid-*/"))) == 2, "a folder a pack"
    assert packed["batch_size"].value_counts().to_dict() == {32: 4, 64: 4}


def test_replicates_in_packs_pause_and_go_on_together(run, tmp_path):
    """Two settings of two seeds each in a process: the same as one at a time, on a CPU."""
    argv = ["--no-baseline", "--num-samples", "3", "--replicates", "2", "--start", "conventional"]
    said = run(tmp_path, *argv, "--pack", "4", "--workers", "2", "--study", "packed")
    table = trained_once(tmp_path, "packed")
    assert "2 at a time, up to 4 in a process" in said and "means over 2 seeds" in said and "±" in said
    assert {"completed", "stopped"} == set(table["status"])
    assert (table.groupby("trial_index")["images_seen"].nunique() == 1).all(), "seeds of a setting pause together"
    on = table[table["attempt"] > 0]
    assert len(on) and (on["status"] == "completed").all() and (on.groupby("trial_index").size() == 2).all()
