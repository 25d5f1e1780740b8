"""The benchmarks of what a study costs, on small cases. Nothing is timed."""

import os

import big_table
import pytest

from tune_cd import results
from tune_cd.landscapes.formulas import BATCH_SIZES


def test_a_large_table_is_written_read_and_drawn(tmp_path, monkeypatch):
    """Every line, the rows that there should be, and the landscape's own scores in them."""
    monkeypatch.setattr(big_table, "FILES", 3)
    told = dict(big_table.measured(tmp_path, 60, 1))
    assert len(told) == 10 and min(told.values()) > 0 and (tmp_path / "report.html").exists()
    assert len(results.read(tmp_path / "small")) == 1 + 3 + 1
    table = results.read(tmp_path / "large", "big")
    assert len(table) == 60 and table["trial_id"].is_unique and len(list((tmp_path / "large").rglob("*.parquet"))) == 2
    assert table["batch_size"].tolist() == (BATCH_SIZES * 10) and set(table["status"]) == {"completed", "failed"}
    completed = table[table["status"] == "completed"]
    assert (completed["val_score"] - completed["test_score"]).abs().max() < 0.05


def test_what_lies_between_two_trials_by_hand(monkeypatch):
    for name, value in {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AIR_NEW_OUTPUT": "0"}.items():
        monkeypatch.setenv(name, os.environ.get(name, value))  # the command sets them when it is imported
    overhead = pytest.importorskip("overhead", reason="Ray is not installed")
    times = [(1.0, "begin"), (4.0, "end"), (5.0, "begin"), (5.5, "end"), (6.0, "begin"), (9.0, "end")]
    assert overhead.gaps(times) == [1.0, 0.5]
