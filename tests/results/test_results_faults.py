"""Faults below the results: what is damaged is named and the rest read, and a crash leaves only whole files."""

import math
import os
import random
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows import evaluation, full, minimal
from warned import silent

from tune_cd import CoordinateDescentSearch, results
from tune_cd.report.__main__ import main as report_command
from tune_cd.results import parquet, writing
from tune_cd.results.__main__ import main as results_command
from tune_cd.results.reading import check_whole
from tune_cd.results.schema import FIRST, LAST


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
    with pytest.raises(results.ConflictingRow, match=r"t0\.parquet has format 4, which another release wrote"):
        results.write_trial(tmp_path, full())
    with pytest.warns(UserWarning, match=r"t0\.parquet has format 4, which another release wrote"):
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


# Files with content that may not be written


def rewritten(path: Path, kind: str, **columns) -> bytes:
    """A file's bytes with other values in the columns of its last row; a map is a list of pairs."""
    schema = parquet.SCHEMAS[kind]
    listed = pq.read_table(path).to_pylist()
    listed[-1] |= columns
    path.write_bytes(parquet.serialise_many(pa.Table.from_pylist(listed, schema)))
    return path.read_bytes()


TIMES = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]
CONTENT = [
    {"params": [("a", 1.0), ("a", 2.0)]}, {"scores": [("a", 1.0), ("b", 1.0), ("a", 2.0)]}, {"config": "no JSON"},
    {"config": '{"a": NaN}'}, {"config": "[]"}, {"software": ""}, {"started_at": TIMES[0]}, {"ended_at": TIMES[1]},
    {"status": "finished"}, {"val_score": math.nan}, {"val_score": None}, {"params": [("a", math.inf)]},
    {"scores": [("a", None)]}, {"trial_index": -1}, {"attempt": -1}, {"study": "other"}, {"study": "../demo"},
    {"trial_id": ".t1"}, {"failure_kind": "lost"}, {"status": "failed", "failure_kind": "gone"},
    {"scores": [("", 1.0), ("", 2.0)]}, {"config": '{"a": ' + "[" * 200 + "]" * 200 + "}"},
    {"config": '{"a": ' + "[" * 9999 + "]" * 9999 + "}"},
]  # fmt: skip


@pytest.mark.parametrize("many", [False, True], ids=["one row", "compacted"])
@pytest.mark.parametrize("columns", CONTENT, ids=lambda columns: str(columns)[:40])
def test_a_file_whose_content_may_not_be_written_is_named_and_left_as_it_is(tmp_path, capsys, columns, many):
    for i in range(30 if many else 3):
        results.write_trial(tmp_path, full(trial_id=f"t{i:02d}", trial_index=i))
    if many:
        results.compact(tmp_path)
    folder = tmp_path / "trials" / "demo"
    path = max(folder.iterdir())
    data, rest = rewritten(path, "trials", **columns), 0 if many else 2
    with pytest.warns(UserWarning) as caught:
        assert len(results.read(tmp_path)) == rest
    (said,) = {str(warning.message) for warning in caught}
    assert len(caught) == 1 and str(path) in said and "left out" in said and " holds " in said
    assert results_command(["compact", str(tmp_path)]) == 1
    assert path.read_bytes() == data and len(list(folder.iterdir())) == (1 if many else 2)
    capsys.readouterr()
    assert results_command(["list", str(tmp_path)]) == 0
    assert capsys.readouterr().err.count(str(path)) == 1
    report = tmp_path / "report.html"
    assert report_command([str(tmp_path), "-o", str(report)]) == (0 if rest else 2)
    assert capsys.readouterr().err.count(str(path)) == 1 and (not rest or path.name in report.read_text())
    with pytest.raises(ValueError, match=rf"'demo' cannot go on: .*{path.name}.*move it out"):
        CoordinateDescentSearch.from_results(tmp_path, "demo", resume=True, metric="r_map", mode="max")
    path.rename(tmp_path / "aside.parquet")
    if rest:
        CoordinateDescentSearch.from_results(tmp_path, "demo", resume=True, metric="r_map", mode="max")


CURVES = [{"scores": [("a", 1.0), ("a", 2.0)]}, {"images_seen": -1}, {"study": "other"}, {"attempt": -1}]


@pytest.mark.parametrize("columns", CURVES, ids=str)
def test_a_curve_whose_content_may_not_be_written_is_left_out_too(tmp_path, columns):
    for i in range(2):
        results.write_trial(tmp_path, full(trial_id=f"t{i}", trial_index=i))
        results.write_curve(tmp_path, "demo", f"t{i}", [evaluation(), evaluation(images_seen=64)])
    path = tmp_path / "curves" / "demo" / "t1.parquet"
    data = rewritten(path, "curves", **columns)
    with pytest.warns(UserWarning, match=r"t1\.parquet holds .*left out"):
        assert set(results.read_curves(tmp_path).trial_id) == {"t0"}
    results.compact(tmp_path)
    assert path.read_bytes() == data
    with pytest.raises(ValueError, match=r"curves/demo/t1\.parquet"):
        check_whole(tmp_path, "demo")


@pytest.mark.parametrize("harm", [lambda data: data[:-9], lambda data: b"no Parquet"], ids=["cut", "another file"])
def test_a_damaged_file_ends_a_resumption_as_well(tmp_path, harm):
    path = results.write_trial(tmp_path, full())
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(ValueError, match=r"t0\.parquet cannot be read .*move it out"):
        check_whole(tmp_path, "demo")


def test_what_may_be_written_is_read_whole(tmp_path):
    """Many rows at once, with the rarer values that are allowed."""
    odd = [
        {"scores": {}}, {"scores": {"a": math.nan, "b": -math.inf}}, {"params": {}}, {"config": "{}"},
        {"status": "failed", "val_score": None, "failure_kind": "lost"}, {"status": "diverged", "val_score": math.nan},
        {"status": "stopped", "val_score": None}, {"started_at": FIRST, "ended_at": LAST}, {"scores": {"ä": 1.0}},
        {"started_at": None},
    ]  # fmt: skip
    rows = [full(trial_id=f"t{i:02d}", trial_index=i, **odd[i % len(odd)]) for i in range(40)]
    results.write_trials(tmp_path / "many", rows)
    for row in rows[:10]:
        results.write_trial(tmp_path / "few", row)
    assert len(silent(results.read, tmp_path / "many")) == 40 and len(silent(results.read, tmp_path / "few")) == 10


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
