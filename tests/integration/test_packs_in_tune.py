"""Packs and replicates in real Tune runs: rows, failures, the driver's death."""

from pathlib import Path

import pytest
from drivers import Driver, run, whole  # noqa: F401

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
    argv = ["--no-baseline", "--num-samples", "2", "--replicates", "2", "--start", "conventional"]
    said = run(tmp_path, *argv, "--pack", "4", "--workers", "2", "--study", "packed")
    table = trained_once(tmp_path, "packed")
    assert "2 at a time, up to 4 in a process" in said and {"completed", "stopped"} == set(table["status"])
    assert (table.groupby("trial_index")["images_seen"].nunique() == 1).all(), "seeds of a setting pause together"
    on = table[table["attempt"] > 0]
    assert len(on) and (on["status"] == "completed").all() and (on.groupby("trial_index").size() == 2).all()


@pytest.mark.faults
def test_the_driver_dies_in_the_middle_of_replicates_and_none_is_trained_twice(cluster, tmp_path):
    argv = ["--num-samples", "3", "--replicates", "2", "--full-length"]
    driver = Driver(tmp_path, cluster.address, *argv)
    driver.until(lambda: driver.rows() >= 3)
    driver.kill()
    kept = results.read(tmp_path, "s")
    said = whole(tmp_path, cluster.address, *argv, "--resume").said
    table = trained_once(tmp_path, "s")
    assert len(table) == 6 and (table.groupby("trial_index")["seed"].apply(sorted).map(tuple) == (0, 1)).all()
    again = table.set_index("trial_id").loc[kept["trial_id"]].reset_index()
    assert again["started_at"].tolist() == kept["started_at"].tolist(), "rows of the first run stand"
    assert "means over 2 seeds" in said and "6 trainings: " in said and "±" in said
    (tmp_path / "whole").mkdir()
    whole(tmp_path / "whole", cluster.address, *argv)
    told = ["trial_id", "params", "seed", "val_score"]
    uncut = results.read(tmp_path / "whole", "s")
    assert uncut[told].to_dict() == table[told].to_dict(), "the course it would have taken"
