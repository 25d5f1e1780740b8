"""Many trials at once: one file a study, nothing replaced, nothing lost where it breaks off."""

from pathlib import Path

import pandas as pd
import pytest
from compactions import names, put, same, some_trials
from rows import full, minimal
from warned import silent

from tune_cd import results
from tune_cd.results import compaction, parquet


def rows(*numbers: int, **fields) -> list[dict]:
    return [full(trial_id=f"r{n}", trial_index=n, **fields) for n in numbers]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_they_are_read_as_if_each_had_been_written_alone(tmp_path):
    for row in rows(2, 0, 1):
        results.write_trial(tmp_path / "alone", row)
    assert results.write_trials(tmp_path / "together", rows(2, 0, 1)) == tmp_path / "together" / "trials" / "demo"
    pd.testing.assert_frame_equal(silent(results.read, tmp_path / "together"), results.read(tmp_path / "alone"))
    (file,) = names(tmp_path / "together")
    assert parquet.is_compacted(file)
    assert len(pd.read_parquet(tmp_path / "together" / "trials")) == 3


def test_the_same_again_changes_nothing(tmp_path):
    results.write_trials(tmp_path, rows(*range(5)))
    before = contents(tmp_path)
    results.write_trials(tmp_path, rows(3, 1))
    results.write_trials(tmp_path, rows(*range(5)))
    assert contents(tmp_path) == before


def test_others_join_those_that_are_there_in_one_file(tmp_path):
    some_trials(tmp_path)
    results.write_trials(tmp_path, rows(0, 1))
    results.write_trials(tmp_path, rows(1, 2))
    table = silent(results.read, tmp_path)
    assert sorted(table["trial_id"]) == ["r0", "r1", "r2", *(f"t{n}" for n in range(6))]
    assert len(names(tmp_path)) == 1


def test_what_is_stored_is_never_replaced(tmp_path):
    results.write_trials(tmp_path, rows(0, 1, 2))
    before = contents(tmp_path)
    with pytest.raises(results.ConflictingRow, match="compact.*never change; nothing was written"):
        results.write_trials(tmp_path, [*rows(3), *rows(1, val_score=0.5)])
    assert contents(tmp_path) == before


def test_a_failed_trial_is_superseded_by_a_later_attempt(tmp_path):
    results.write_trials(tmp_path, [minimal(trial_id="r0")])
    results.write_trials(tmp_path, rows(0, attempt=1))
    assert silent(results.read, tmp_path)["status"].tolist() == ["completed"] and len(names(tmp_path)) == 1


@pytest.mark.parametrize("wrong, message", [
    ([], "0 rows of 0 trials"),
    ([*rows(0), *rows(1, study="other")], r"studies \['demo', 'other'\]"),
    (rows(0, 0), "2 rows of 1 trials"),
    (rows(0, status="won"), "status = 'won'"),
    (rows(0, study="../up"), "name '../up'"),
])  # fmt: skip
def test_rows_that_are_not_allowed_are_refused(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        results.write_trials(tmp_path, wrong)
    assert contents(tmp_path) == {}


def test_secrets_are_not_stored(tmp_path):
    results.write_trials(
        tmp_path, rows(0, config='{"url": "https://me:hunter2@host/x"}', error="AWS_SECRET_ACCESS_KEY=abcdefgh")
    )
    row = results.read(tmp_path).iloc[0]
    assert "hunter2" not in row["config"] and "abcdefgh" not in row["error"]


def test_whatever_breaks_off_nothing_is_lost(tmp_path, monkeypatch):
    """Between the new file and the removal of what it stands for, every row is read once; the next write tidies up."""
    results.write_trials(tmp_path, rows(0, 1))
    put(tmp_path, "t9.parquet", full(trial_id="t9"))

    def broken(*arguments):
        raise OSError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(compaction, "_remove", broken)
        with pytest.raises(OSError, match="the power is gone"):
            results.write_trials(tmp_path, rows(2))
    between = silent(results.read, tmp_path)
    assert sorted(between["trial_id"]) == ["r0", "r1", "r2", "t9"] and len(names(tmp_path)) > 1
    results.write_trials(tmp_path, rows(2))
    same(tmp_path, between)
    assert len(names(tmp_path)) == 1
