"""Faults below the results: what is damaged is named and the rest read, and a crash leaves only whole files."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from rows import evaluation, full, minimal
from warned import silent

from tune_cd import results
from tune_cd.results.reading import check_whole


def of_format(version: str, *without: str):
    """A change of a file: another format's number, and fewer columns."""

    def change(path: Path) -> None:
        table = pq.read_table(path).drop_columns(list(without))
        pq.write_table(table.replace_schema_metadata({b"format_version": version.encode()}), path)

    return change


def cut(part: float):
    return lambda path: path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])


def flip(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"node-1", b"nodd-1", 1))  # e and d differ in one bit


DAMAGED = {"empty": cut(0), "beginning": cut(0.02), "half": cut(0.5), "but the end": cut(0.999), "flipped": flip}
FOREIGN = {
    "has format 5, which another release wrote; this one reads 4": of_format("5"),
    "has format 3, ": of_format("3", "choices", "mode"),
    "has format one, ": of_format("one"),
    "has format none, which another program wrote; ": lambda path: pd.DataFrame({"x": [1]}).to_parquet(path),
    r"\(format 4\) lacks the columns of its format": of_format("4", "choices"),
}


@pytest.mark.parametrize("harm", [*DAMAGED, *FOREIGN])
def test_a_file_that_cannot_be_used_is_named_and_the_rest_is_read(tmp_path, harm):
    """And stays as it is: its trial's next row is refused, so that it waits, and its study does not go on."""
    paths = [results.write_trial(tmp_path, full(trial_id=f"t{i}", trial_index=i)) for i in range(3)]
    (FOREIGN | DAMAGED)[harm](paths[1])
    held, reason = paths[1].read_bytes(), harm if harm in FOREIGN else "cannot be read "
    with pytest.warns(UserWarning, match=rf"trials/demo/t1\.parquet {reason}.*left out") as caught:
        assert list(results.read(tmp_path).trial_id) == ["t0", "t2"]
    assert len(caught) == 1
    with pytest.raises(ValueError, match=rf"'demo' cannot go on: .*t1\.parquet {reason}.*move it out"):
        check_whole(tmp_path, "demo")
    results.compact(tmp_path)
    assert paths[1].read_bytes() == held
    with pytest.raises(OSError, match=rf"t1\.parquet {reason}"):
        results.write_trial(tmp_path, full(trial_id="t1", trial_index=1, attempt=1))
    with pytest.raises(ValueError, match=rf"t1\.parquet {reason}"):
        results.read_file(paths[1])
    paths[1].unlink()
    check_whole(tmp_path, "demo")


def test_what_parquet_readers_skip_is_skipped(tmp_path):
    path = results.write_trial(tmp_path, full())
    for hidden in ("demo/_t1.parquet", "demo/.t1.parquet", "_aside/t1.parquet", ".aside/t1.parquet"):
        (tmp_path / "trials" / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / "trials" / hidden).write_bytes(path.read_bytes()[:99])
    assert len(silent(results.read, tmp_path)) == len(pd.read_parquet(tmp_path / "trials")) == 1


@pytest.mark.parametrize(
    "crash", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full-disk", "interrupt"]
)
@pytest.mark.parametrize("step", [("fsync",), ("link", "replace")], ids=["content", "name"])
def test_a_write_that_breaks_off_leaves_what_was_there(tmp_path, monkeypatch, step, crash):
    results.write_trial(tmp_path, minimal())
    before = results.read(tmp_path)

    def broken(*_):
        raise crash

    with monkeypatch.context() as patch:
        for function in step:
            patch.setattr(os, function, broken)
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
    for _ in range(2):
        results.write_curve(tmp_path, "demo", "t0", [evaluation()])
    assert done == [("fsync", False), ("replace", True), ("fsync", True)] * 2
    assert not [path for path in (tmp_path / "trials" / "demo").iterdir() if path.name.startswith(".")]


WRITES_AND_COMPACTS = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[2])
from rows import full, minimal
from tune_cd import results
pick, done = random.Random(5), 0
for _ in range(16):
    told, tells = os.pipe()
    if (child := os.fork()) == 0:
        for n in range(done, 100_000):
            if n % 3 == 0 and n > done:  # the row of `done` may be written and not told of
                results.write_trial(sys.argv[1], minimal(trial_id=f"t{n}", trial_index=n))
            results.write_trial(sys.argv[1], full(trial_id=f"t{n}", trial_index=n, attempt=1))
            os.write(tells, b".")
            if n % 4 == 0:
                results.compact(sys.argv[1])
    os.close(tells)
    done += len(os.read(told, 1))  # one row is written
    time.sleep(pick.uniform(0, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while tail := os.read(told, 9999):
        done += len(tail)
print(done)
"""


@pytest.mark.slow
def test_kill_9_at_any_moment_of_writing_and_compacting_loses_no_row(tmp_path):
    command = [sys.executable, "-c", WRITES_AND_COMPACTS, tmp_path, Path(results.__file__).parents[2] / "tests/helpers"]
    done = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    table = silent(results.read, tmp_path)
    completed = table[table.status == "completed"]
    assert done >= 16 and list(completed.trial_index)[:done] == list(range(done)) and len(table) <= done + 1
    results.compact(tmp_path)  # killed between a later attempt's row and the removal of the one before, both were there
    pd.testing.assert_frame_equal(silent(results.read, tmp_path), table)
    assert len(pd.read_parquet(tmp_path / "trials")) == len(table)


TWO_WRITE = """
import os, sys
sys.path.insert(0, sys.argv[2])
if sys.argv[3] == "no links":
    os.link = lambda *paths: (_ for _ in ()).throw(PermissionError(1, "not permitted"))
from rows import full
from tune_cd import results
other = os.fork()
for n in range(20):
    results.write_trial(sys.argv[1], full(trial_id=f"w{other > 0:d}-{n}", trial_index=n))
    results.write_trial(sys.argv[1], full(trial_id=f"both-{n}", trial_index=n))
    try:
        results.write_trial(sys.argv[1], full(trial_id=f"first-{n}", trial_index=n, seed=int(other > 0)))
        print(f"first-{n}", flush=True)
    except results.ConflictingRow as conflict:
        assert "never changes" in str(conflict)
sys.exit(os.waitpid(other, 0)[1] if other else 0)
"""


@pytest.mark.parametrize("links", ["links", "no links"])
def test_two_processes_write_at_once(tmp_path, links):
    """Of two different rows of one trial one is refused, of equal ones none."""
    command = [sys.executable, "-c", TWO_WRITE, tmp_path, Path(results.__file__).parents[2] / "tests/helpers", links]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    table = silent(results.read, tmp_path)
    kinds = ("w0", "w1", "both", "first")
    assert sorted(table.trial_id) == sorted(f"{kind}-{n}" for kind in kinds for n in range(20))
    assert len(list((tmp_path / "trials" / "demo").iterdir())) == 80
    if links == "links":  # else the check comes a moment before the write
        assert sorted(told) == sorted(f"first-{n}" for n in range(20))


def test_a_file_that_cannot_be_published_is_named_without_its_temporary_one(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match=rf"\] Is a directory: '{tmp_path}/report\.html'$"):
        results.publish(tmp_path / "report.html", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
