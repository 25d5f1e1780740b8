"""Faults below the results: what is damaged is named and the rest read, and a crash leaves only whole files."""

import os
import random
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from rows import full, minimal
from warned import silent

from tune_cd import results
from tune_cd.results import writing


def test_a_damaged_row_is_replaced_with_a_warning(tmp_path):
    path = results.write_trial(tmp_path, full())
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.warns(UserWarning, match=r"t0\.parquet cannot be read .*it is replaced"):
        results.write_trial(tmp_path, full(attempt=1))
    assert list(silent(results.read, tmp_path).attempt) == [1]


def test_a_row_that_the_disk_does_not_give_is_not_taken_for_damaged(tmp_path, monkeypatch):
    path = results.write_trial(tmp_path, full())
    data = path.read_bytes()

    def broken(self):
        raise OSError(5, "Input/output error", str(self))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", broken)
        with pytest.raises(OSError, match="Input/output error"):
            results.write_trial(tmp_path, full(attempt=1))
        with pytest.warns(UserWarning, match=r"Input/output error: .*t0\.parquet.*left out"):
            assert len(results.read(tmp_path)) == 0
    assert path.read_bytes() == data


def test_a_row_of_another_format_is_neither_read_nor_replaced(tmp_path):
    path = results.write_trial(tmp_path, full())
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"format_version": b"4"}), path)
    with pytest.raises(results.ConflictingRow, match=r"t0\.parquet has format 4, which a newer release wrote"):
        results.write_trial(tmp_path, full())
    with pytest.warns(UserWarning, match=r"t0\.parquet has format 4, which a newer release wrote"):
        assert len(results.read(tmp_path)) == 0


# Damaged files


def test_what_parquet_readers_skip_is_skipped(tmp_path):
    path = results.write_trial(tmp_path, full())
    for hidden in ("demo/_t1.parquet", "demo/.t1.parquet", "_aside/t1.parquet", ".aside/t1.parquet"):
        (tmp_path / "trials" / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / "trials" / hidden).write_bytes(path.read_bytes()[:99])
    assert len(silent(results.read, tmp_path)) == len(pd.read_parquet(tmp_path / "trials")) == 1


def damaged(tmp_path: Path, damage) -> tuple[list[str], list[str]]:
    """Trials read and warnings given, after the middle one of three files went through `damage` (bytes -> bytes)."""
    paths = [results.write_trial(tmp_path, full(trial_id=f"t{i}", trial_index=i)) for i in range(3)]
    paths[1].write_bytes(damage(paths[1].read_bytes()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = results.read(tmp_path)
    return list(table.trial_id), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("kept", [0, 3, 100, 0.5, -1])
def test_a_truncated_file_is_named_and_the_rest_is_read(tmp_path, kept):
    trials, told = damaged(tmp_path, lambda data: data[: int(kept * len(data)) if isinstance(kept, float) else kept])
    assert trials == ["t0", "t2"]
    assert len(told) == 1 and str(tmp_path / "trials" / "demo" / "t1.parquet") in told[0] and "left out" in told[0]


def test_a_flipped_bit_in_a_value_is_named_and_the_rest_is_read(tmp_path):
    def flip(data: bytes) -> bytes:
        return data.replace(b"node-1", b"nodd-1", 1)  # e and d differ in one bit

    trials, told = damaged(tmp_path, flip)
    assert trials == ["t0", "t2"]
    assert len(told) == 1 and "t1.parquet cannot be read" in told[0]


def test_no_flipped_bit_among_the_values_goes_unseen(tmp_path):
    path = results.write_trial(tmp_path, full())
    whole, data, pick = results.read(tmp_path), path.read_bytes(), random.Random(1)
    pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for _ in range(200):
        bad = bytearray(data)
        bad[pick.randrange(pages)] ^= 1 << pick.randrange(8)
        path.write_bytes(bad)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table = results.read(tmp_path)
        assert len(caught) == 1 if table.empty else table.equals(whole)


# Crashes


@pytest.mark.parametrize(
    "crash", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full-disk", "interrupt"]
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_breaks_off_leaves_what_was_there(tmp_path, monkeypatch, step, crash):
    results.write_trial(tmp_path, minimal())
    before = results.read(tmp_path)

    def broken(*_):
        raise crash

    with monkeypatch.context() as patch:
        patch.setattr(os, step, broken)
        with pytest.raises(type(crash)):
            results.write_trial(tmp_path, full(attempt=1))
    pd.testing.assert_frame_equal(silent(results.read, tmp_path), before)
    assert [path.name for path in (tmp_path / "trials" / "demo").iterdir()] == ["t0.parquet"]


def test_a_row_survives_a_power_cut_once_it_is_written(tmp_path, monkeypatch):
    done = []

    def noted(name, function, of):
        monkeypatch.setattr(os, name, lambda *args: (done.append((name, of(args[0]))), function(*args))[1])

    noted("fsync", os.fsync, lambda descriptor: Path(f"/dev/fd/{descriptor}").resolve().is_dir())
    for name in ("link", "replace"):
        noted(name, getattr(os, name), lambda temporary: temporary.name.startswith("."))
    results.write_trial(tmp_path, minimal())
    assert done == [("fsync", False), ("link", True), ("fsync", True)], "the file, its new name, then the folder"
    done.clear()
    results.write_trial(tmp_path, full(attempt=1))
    assert done == [("fsync", False), ("replace", True), ("fsync", True)]
    assert not [path for path in (tmp_path / "trials" / "demo").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("links", [True, False], ids=["links", "a file system without links"])
def test_of_two_runs_of_one_trial_that_end_at_once_one_is_refused(tmp_path, monkeypatch, links):
    """The other's row appears between the look at the stored rows and the write."""
    if not links:
        monkeypatch.setattr(os, "link", lambda *paths: (_ for _ in ()).throw(PermissionError(1, "not permitted")))
    looked = writing.stored

    def just_before(*args):
        found = looked(*args)
        monkeypatch.setattr(writing, "stored", looked)
        results.write_trial(tmp_path, full(val_score=0.25))
        return found

    monkeypatch.setattr(writing, "stored", just_before)
    with pytest.raises(results.ConflictingRow, match="never changes"):
        results.write_trial(tmp_path, full(val_score=0.75))
    assert results.read(tmp_path)["val_score"].tolist() == [0.25]
    assert len(list((tmp_path / "trials" / "demo").iterdir())) == 1


KILLED_AT_RANDOM = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[2])
from rows import minimal
from tune_cd import results
pick = random.Random(3)
for round in range(25):
    child = os.fork()
    if child == 0:
        for n in range(10_000):
            results.write_trial(sys.argv[1], minimal(trial_id=f"t{n % 5}", attempt=1000 * round + n))
    time.sleep(pick.uniform(0.01, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def test_kill_9_at_any_moment_leaves_only_whole_files(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED_AT_RANDOM, tmp_path, Path(__file__).parent], check=True, timeout=120)
    table = silent(results.read, tmp_path)
    assert set(table.trial_id) <= {f"t{n}" for n in range(5)} and table.attempt.max() >= 1000
    results.compact(
        tmp_path
    )  # killed between a later attempt's row and the removal of the one before, both are there for plain readers
    pd.testing.assert_frame_equal(silent(results.read, tmp_path), table)
    assert len(pd.read_parquet(tmp_path / "trials")) == len(table)


def write_many(folder: Path, writer: int) -> None:
    for n in range(20):
        results.write_trial(folder, full(trial_id=f"w{writer}-{n}", trial_index=n))
        results.write_trial(folder, full(trial_id=f"both-{n}", trial_index=n))


def test_two_processes_write_at_once(tmp_path):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(write_many, [tmp_path] * 2, range(2)))
    table = silent(results.read, tmp_path)
    assert sorted(table.trial_id) == sorted(f"{who}-{n}" for who in ("w0", "w1", "both") for n in range(20))
    assert len(list((tmp_path / "trials" / "demo").iterdir())) == 60
