"""Compaction loses nothing and shows nothing twice, whatever else is at work or breaks off; `read` keeps its rule."""

import json
import math
import os
import shutil
import time
import warnings
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import NOON, evaluation, full, minimal
from s3 import place, proxy, server  # noqa: F401
from warned import silent

from tune_cd import results
from tune_cd.results import parquet, store
from tune_cd.results.__main__ import main
from tune_cd.results.merging import merge


def some_trials(folder: Path | str, number: int = 6, study: str = "demo") -> pd.DataFrame:
    """The table of so many trials, every third one failed, with curves."""
    for n in range(number):
        trial = minimal if n % 3 == 2 else full
        curve = [evaluation(images_seen=images, val_score=math.nan) for images in (0, 64)]
        results.write_curve(folder, study, f"t{n}", curve)
        results.write_trial(folder, trial(study=study, trial_id=f"t{n}", trial_index=n))
    return results.read(folder)


def put(folder: Path, file: str, *rows: dict) -> Path:
    """A file of these rows where nobody asked for it."""
    path = folder / "trials" / "demo" / file
    results.publish(
        path, parquet.serialise(pa.Table.from_pylist([results.check_trial(row) for row in rows], results.TRIALS))
    )
    return path


def names(folder: Path, table: str = "trials", study: str = "demo") -> list[str]:
    return sorted(path.name for path in (folder / table / study).iterdir())


def same(folder: Path | str, before: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(silent(results.read, folder), before)


def test_compaction_changes_files_and_nothing_else(tmp_path):
    """Done again it changes nothing, and later trials are merged with what was compacted."""
    some_trials(tmp_path, study="other")
    before, curves = some_trials(tmp_path), results.read_curves(tmp_path)
    assert silent(results.compact, tmp_path, "demo") == []
    same(tmp_path, before)
    pd.testing.assert_frame_equal(silent(results.read_curves, tmp_path), curves)
    (file,) = names(tmp_path)
    assert parquet.is_compacted(file) and len(names(tmp_path, study="other")) == 6
    assert len(names(tmp_path, "curves")) == 1
    written = (tmp_path / "trials/demo" / file).stat().st_mtime_ns
    results.compact(tmp_path)
    same(tmp_path, before)
    assert len(names(tmp_path, study="other")) == 1 and names(tmp_path) == [file]
    assert (tmp_path / "trials/demo" / file).stat().st_mtime_ns == written
    more = some_trials(tmp_path, 9)
    assert len(names(tmp_path)) == 4
    results.compact(tmp_path)
    same(tmp_path, more)
    assert len(names(tmp_path)) == 1


PLAIN = ["study", "trial_id", "attempt", "status", "val_score"]


def plain(table: pd.DataFrame) -> list[tuple]:
    return sorted(table[PLAIN].fillna({"val_score": -1}).itertuples(index=False, name=None))


def test_pandas_duckdb_and_polars_read_the_same(tmp_path):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    some_trials(tmp_path, study="other")
    before = some_trials(tmp_path)
    for compacted in (False, True):
        if compacted:
            results.compact(tmp_path, "demo")
        assert plain(pd.read_parquet(tmp_path / "trials")) == plain(before)
        assert plain(pd.read_parquet(tmp_path / "trials" / "demo")) == plain(before[before.study == "demo"])
        rows = duckdb.sql(f"SELECT * FROM '{tmp_path}/trials/*/*.parquet'")
        assert rows.columns == results.TRIALS.names
        assert plain(pd.DataFrame(rows.select(*PLAIN).fetchall(), columns=PLAIN)) == plain(before)
        frame = polars.read_parquet(tmp_path / "trials")
        assert plain(pd.DataFrame(frame.select(PLAIN).to_dicts())) == plain(before)


def counts(rows: list[dict]) -> dict:
    """The rule, slowly: the row of one trial that counts."""
    final = [row for row in rows if row["status"] == "diverged"]
    if final:
        return min(final, key=lambda row: (row.get("ended_at") is None, row.get("ended_at") or NOON))
    latest = max(row["attempt"] for row in rows)
    return min((row for row in rows if row["attempt"] == latest), key=lambda row: row["ended_at"])


TIMES = [NOON + timedelta(seconds=n) for n in range(10)]
KINDS = st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.sampled_from(["failed", "stopped", "diverged"]))


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(KINDS, min_size=1, max_size=7), st.permutations(TIMES), st.booleans())
def test_every_trial_is_one_row_by_the_rule(kinds, times, again):
    rows = [
        minimal(trial_id=trial, attempt=attempt, ended_at=time, status=status)
        for (trial, attempt, status), time in zip(kinds, times, strict=False)
    ]
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, row in enumerate(rows + rows[:2]):  # some stand twice
            put(Path(folder), f"copy-{n}.parquet", row)
        if again:
            results.compact(folder)
        table = results.read(folder)
        chosen = {trial: counts([row for row in rows if row["trial_id"] == trial]) for trial, _, _ in kinds}
        expected = sorted((trial, row["attempt"], row["ended_at"]) for trial, row in chosen.items())
        assert sorted(zip(table.trial_id, table.attempt, table.ended_at, strict=True)) == expected


def test_rows_that_contradict_are_named_and_none_is_removed(tmp_path):
    first = put(tmp_path, "t0.parquet", full(val_score=0.1))
    second = put(tmp_path, "t0~1.parquet", full(val_score=0.2, attempt=1, ended_at=NOON))
    put(tmp_path, "t1.parquet", full(trial_id="t1"))
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"{second} contradicts {first}; the latter is left out"):
            assert list(results.read(tmp_path).val_score) == [0.2, 0.71]
        assert results.compact(tmp_path) == [f"{second} contradicts {first}"]
        assert names(tmp_path)[1:] == ["t0.parquet", "t0~1.parquet"] and parquet.is_compacted(names(tmp_path)[0])


def test_two_files_of_many_trials_are_named_once_with_in_how_many_they_contradict(tmp_path):
    """As where two results folders with a study of one name were copied into one."""
    for score in (0.1, 0.2):
        for n in range(5):
            results.write_trial(tmp_path / str(score), full(trial_id=f"t{n}", trial_index=n, val_score=score))
        results.compact(tmp_path / str(score))
    shutil.copytree(tmp_path / "0.2" / "trials", tmp_path / "0.1" / "trials", dirs_exist_ok=True)
    with pytest.warns(UserWarning, match="contradicts .* in 5 trials; the latter is left out") as caught:
        assert len(results.read(tmp_path / "0.1")) == 5 and len(caught) == 1
    assert len(results.compact(tmp_path / "0.1")) == 1


def test_what_was_compacted_is_as_final_as_before(tmp_path):
    before = some_trials(tmp_path)
    results.compact(tmp_path)
    held = names(tmp_path)
    for n in range(6):
        same_row = (minimal if n % 3 == 2 else full)(trial_id=f"t{n}", trial_index=n)
        assert results.write_trial(tmp_path, same_row) == tmp_path / "trials" / "demo" / held[0]
        reason = "later attempt" if n % 3 == 2 else r"never changes.*\['val_score'\]"
        with pytest.raises(results.ConflictingRow, match=reason):
            results.write_trial(tmp_path, same_row | {"val_score": 0.9})
    assert names(tmp_path) == held
    same(tmp_path, before)


def test_a_compacted_file_that_is_damaged_is_named_and_stays(tmp_path):
    """Rows to come are refused, so that they wait: it may hold theirs."""
    some_trials(tmp_path)
    results.compact(tmp_path)
    (path,) = (tmp_path / "trials" / "demo").iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(OSError, match=f"{path} cannot be read"):
        results.write_trial(tmp_path, full(trial_id="new"))
    (problem,) = results.compact(tmp_path)
    assert str(path) in problem and path.exists()
    with pytest.warns(UserWarning, match=f"{path} cannot be read .*left out"):
        assert len(results.read(tmp_path)) == 0


def test_a_curve_that_is_written_again_replaces_what_was_compacted(tmp_path):
    """As of a training that was killed before its row was written, and has been repeated."""
    for images in (64, 32):
        results.write_curve(tmp_path, "demo", "t0", [evaluation(images_seen=n) for n in (0, images)])
        assert list(silent(results.read_curves, tmp_path).images_seen) == [0, images]
        results.compact(tmp_path)
        assert list(silent(results.read_curves, tmp_path).images_seen) == [0, images]
    results.write_curve(tmp_path, "demo", "t0", [evaluation(attempt=1)])
    for _ in range(2):
        assert list(silent(results.read_curves, tmp_path).attempt) == [1]
        results.compact(tmp_path)
    assert len(names(tmp_path, "curves")) == 1


def broken_off(folder: Path, removed: int) -> None:
    """What a compaction leaves that was killed after so many removals, as it states it."""
    whole = folder / "studies/whole"
    shutil.copytree(folder / "trials", whole / "trials")
    results.compact(whole)
    single, (compacted,) = names(folder), names(whole)
    shutil.copy(whole / "trials/demo" / compacted, folder / "trials/demo")
    for name in single[:removed]:
        (folder / "trials/demo" / name).unlink()
    shutil.rmtree(whole)
    results.publish(folder / "studies/demo/compaction.json", b'{"done": false}')


@pytest.mark.parametrize("removed", [0, 1, 6])
def test_a_compaction_that_broke_off_is_completed_where_results_are_opened_for_writing(tmp_path, removed):
    """Until then plain readers may see a row twice, `read` and writers do not, and nothing is lost."""
    before = some_trials(tmp_path)
    broken_off(tmp_path, removed)
    same(tmp_path, before)
    assert len(pd.read_parquet(tmp_path / "trials")) == 12 - removed
    with pytest.raises(results.ConflictingRow, match="never changes"):
        results.write_trial(tmp_path, full(val_score=0.9))
    merge(tmp_path)
    assert len(pd.read_parquet(tmp_path / "trials")) == len(before) and len(names(tmp_path)) == 1
    same(tmp_path, before)
    assert json.loads((tmp_path / "studies/demo/compaction.json").read_text())["done"]


def test_what_killed_writers_left_of_a_file_goes_once_nobody_can_be_at_it(tmp_path):
    some_trials(tmp_path)
    left, now = [tmp_path / name for name in (
        "studies/demo/.compaction.json.0123456789abcdef", "studies/demo/networks/.cd~0.5~t1.pt.0123456789abcdef",
        "trials/demo/.t1.parquet.0123456789abcdef",
    )], time.time()  # fmt: skip
    kept = [tmp_path / "trials/demo/.t2.parquet.fedcba9876543210", tmp_path / "studies/demo/.own.notes"]
    for path in (*left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
        os.utime(path, (now - 4000, now - 4000 * (path != kept[0])))
    results.compact(tmp_path)
    assert not any(path.exists() for path in left) and all(path.exists() for path in kept)


def test_nothing_is_removed_where_the_new_file_is_not_what_was_written(tmp_path, monkeypatch):
    before, write = some_trials(tmp_path), store.Store.write
    monkeypatch.setattr(store.Store, "write", lambda self, name, data: write(self, name, bytes(data)[:-50] + bytes(50)))
    with pytest.raises(OSError, match="nothing was removed"):
        results.compact(tmp_path)
    with pytest.warns(UserWarning, match="compact~.*left out"):
        pd.testing.assert_frame_equal(results.read(tmp_path), before)


def between(monkeypatch, method: str, action) -> None:
    """Let others act once, after the first call of a method of the store and before its caller goes on."""
    original = getattr(store.Store, method)

    def called(self, *arguments, **options):
        try:
            return original(self, *arguments, **options)
        finally:
            if not done:
                done.append(True)
                action()

    done: list[bool] = []
    monkeypatch.setattr(store.Store, method, called)


@pytest.mark.parametrize("bucket", [False, True])
def test_a_compaction_between_listing_and_reading_hides_nothing(tmp_path, place, monkeypatch, bucket):
    where = place if bucket else tmp_path
    before = some_trials(where)
    between(monkeypatch, "listing", lambda: results.compact(where))
    same(where, before)
    assert len(store.store_of(where).listing("trials", recursive=True)) == 1


@pytest.mark.parametrize("method", ["listing", "read", "write", "remove"])
def test_what_is_written_and_compacted_within_a_compaction_is_not_lost(tmp_path, monkeypatch, method):
    before = some_trials(tmp_path)

    def others():
        some_trials(tmp_path, 8)
        results.write_trial(tmp_path, full(trial_id="t2", trial_index=2, attempt=1))  # it had failed
        results.compact(tmp_path)

    between(monkeypatch, method, others)
    results.compact(tmp_path)
    table = silent(results.read, tmp_path)
    assert len(table) == 8 and table.iloc[2][["attempt", "status"]].tolist() == [1, "completed"]
    pd.testing.assert_frame_equal(table[:2], before[:2])
    results.compact(tmp_path)
    same(tmp_path, table)


def test_a_study_with_a_driver_at_work_is_left_to_it(tmp_path, capsys):
    before = some_trials(tmp_path)
    some_trials(tmp_path, study="other")
    lock = tmp_path / "studies/demo/driver.json"
    results.publish(lock, b"{}")
    assert results.compact(tmp_path) == ["study demo has a driver at work, which compacts it"]
    assert [len(names(tmp_path, study=study)) for study in ("demo", "other")] == [6, 1]
    assert main(["compact", str(tmp_path), "demo"]) == 1 and "a driver at work" in capsys.readouterr().err
    os.utime(lock, (0, 0))  # the driver died
    results.compact(tmp_path, "demo")
    assert len(names(tmp_path)) == 1
    some_trials(tmp_path, 8)
    os.utime(lock)
    results.compact(tmp_path, "demo", driver=True)
    assert len(names(tmp_path)) == 1 and len(results.read(tmp_path, "demo")) == 8 == len(before) + 2
