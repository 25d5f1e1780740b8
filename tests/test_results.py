"""The results folder: what is written is read back, whatever crashes; and nothing final is ever changed."""

import json
import math
import random
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta, timezone
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_cd import results
from tune_cd.schema import check_trial

DOCUMENTED = """study dataset task loss search search_seed seed trial_id trial_index attempt direction line_position params
    Lambda_p Lambda_e batch_size status metric_name val_score test_score scores positive_term entropy_term images_seen
    best_at train_seconds gpus started_at ended_at hostname device error config software""".split()
REQUIRED = "study search trial_id trial_index attempt params status metric_name scores config software".split()
NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=timezone.utc)


def minimal(**fields) -> dict:
    """A row with the required fields alone, but for `fields`."""
    return {
        "study": "demo", "search": "cd", "trial_id": "t0", "trial_index": 0, "attempt": 0, "params": {"Lambda_p": 0.5},
        "status": "failed", "metric_name": "r_map", "scores": {}, "config": "{}", "software": "{}",
    } | fields  # fmt: skip


def full(**fields) -> dict:
    """A row with every field set, but for `fields`."""
    return minimal(
        dataset="glyphs", task="dml", loss="margin", search_seed=1, seed=2, direction="balance", line_position=-1.25,
        params={"Lambda_p": 0.5, "Lambda_e": 0.25}, Lambda_p=0.5, Lambda_e=0.25, batch_size=64, status="completed",
        val_score=0.71, test_score=0.69, scores={"r_map": 0.71, "precision_at_1": 0.9}, positive_term=0.1, entropy_term=2.0,
        images_seen=6400, best_at=3200, train_seconds=12.5, gpus=0.5, started_at=NOON, ended_at=NOON + timedelta(seconds=13),
        hostname="node-1", device="cpu", error="none to speak of", config='{"lr": 1}', software='{"python": "3.11"}',
    ) | fields  # fmt: skip


def evaluation(**fields) -> dict:
    return {"attempt": 0, "images_seen": 0, "scores": {"mean_positive_similarity": 0.5}} | fields


def silent(function, *arguments):
    """The result of a call that must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*arguments)


# The schema


def test_the_table_has_the_documented_columns():
    assert results.TRIALS.names == DOCUMENTED
    assert [field.name for field in results.TRIALS if not field.nullable] == REQUIRED


@pytest.mark.parametrize("schema", [results.TRIALS, results.CURVES], ids=["trials", "curves"])
def test_every_field_explains_itself_and_strings_are_plain(schema):
    assert schema.metadata[b"format_version"] == b"1"
    for field in schema:
        assert field.metadata[b"unit"] and len(field.metadata[b"meaning"]) > 10
        assert not pa.types.is_dictionary(field.type)


def test_the_file_itself_carries_the_schema(tmp_path):
    schema = pq.read_schema(results.write_trial(tmp_path, full()))
    assert schema.equals(results.TRIALS)
    assert b"validation score" in schema.field("best_at").metadata[b"meaning"]


def test_curves_share_the_trials_table_s_fields():
    for field in results.CURVES:
        assert field.name in results.TRIALS.names and field.type == results.TRIALS.field(field.name).type


# What is written is read back


def test_a_full_row_is_read_back(tmp_path):
    path = results.write_trial(str(tmp_path), full())
    assert path == tmp_path / "trials" / "demo" / "t0.parquet"
    table = silent(results.read, tmp_path)
    assert list(table.columns) == DOCUMENTED
    assert table.iloc[0].to_dict() == full()
    assert isinstance(table.started_at.dtype, pd.DatetimeTZDtype) and str(table.started_at.dt.tz) == "UTC"
    assert table.batch_size.dtype == pd.Int64Dtype() and table.trial_index.dtype == np.int64


def test_what_is_left_out_is_null(tmp_path):
    results.write_trial(tmp_path, minimal())
    row = results.read(tmp_path).iloc[0]
    assert {name for name in DOCUMENTED if name not in REQUIRED} == set(row.index[[np.ndim(v) == 0 and pd.isna(v) for v in row]])
    assert row.scores == {}


NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
NUMBERS = st.dictionaries(NAMES, st.floats(allow_nan=False), max_size=3)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    values=st.fixed_dictionaries(
        {"scores": NUMBERS, "config": st.dictionaries(NAMES, st.integers(), max_size=2).map(json.dumps)},
        optional={
            "error": st.none() | NAMES,
            "val_score": st.none() | st.floats(allow_nan=False),
            "seed": st.none() | st.integers(-(2**63), 2**63 - 1),
            "ended_at": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(timezone.utc)),
        },
    )
)
def test_any_row_is_read_back(values):
    row = minimal(**values)
    with TemporaryDirectory() as folder:
        (stored,) = pq.read_table(results.write_trial(folder, row)).to_pylist()
    assert stored | {name: dict(stored[name]) for name in ("params", "scores")} == {name: row.get(name) for name in DOCUMENTED}


def test_numpy_numbers_other_time_zones_and_nan_are_taken(tmp_path):
    there = timezone(timedelta(hours=2))
    row = full(batch_size=np.int32(32), val_score=np.float32(0.5), test_score=math.nan, started_at=NOON.astimezone(there))
    before = dict(row)
    results.write_trial(tmp_path, row)
    assert row.keys() == before.keys() and row["batch_size"] is before["batch_size"], "the caller's row must stay as it was"
    stored = results.read(tmp_path).iloc[0]
    assert (stored.batch_size, stored.val_score, stored.started_at) == (32, 0.5, NOON)
    assert math.isnan(stored.test_score)


def test_rows_come_in_order_of_study_search_and_asking(tmp_path):
    order = [(study, search, index) for study in ("a", "b") for search in ("cd", "random") for index in (0, 1, 2, 10)]
    for name in random.Random(0).sample(range(len(order)), len(order)):
        study, search, index = order[name]
        results.write_trial(tmp_path, minimal(study=study, search=search, trial_index=index, trial_id=f"t{name}"))
    table = results.read(tmp_path)
    assert list(zip(table.study, table.search, table.trial_index, strict=True)) == order
    assert set(results.read(tmp_path, "b").study) == {"b"}


def test_plain_pandas_reads_the_same_table(tmp_path):
    for index in range(3):
        seed = None if index == 0 else index
        results.write_trial(tmp_path, full(study=f"s{index % 2}", trial_id=f"t{index}", trial_index=index, seed=seed))
    folder = tmp_path / "trials"
    (folder / "s0" / ".t9.parquet.0123").write_bytes(b"half a fi")
    table = pd.read_parquet(folder).sort_values(["study", "trial_index"], ignore_index=True)
    assert list(table.columns) == DOCUMENTED
    table[["params", "scores"]] = table[["params", "scores"]].map(dict)  # plain readers give maps as lists of pairs
    pd.testing.assert_frame_equal(table, results.read(tmp_path), check_dtype=False)


def test_a_thousand_files_are_read_in_about_a_second(tmp_path):
    data = results.write_trial(tmp_path, full()).read_bytes()
    for index in range(1, 1000):
        (tmp_path / "trials" / "demo" / f"t{index}.parquet").write_bytes(data)
    started = datetime.now()
    assert len(results.read(tmp_path)) == 1000
    assert datetime.now() - started < timedelta(seconds=5)  # measured: 0.6 to 1.0 s on two shared cores


# No results yet


def test_an_empty_folder_gives_an_empty_table_of_the_same_types(tmp_path):
    empty = silent(results.read, tmp_path)
    assert len(empty) == 0 and len(silent(results.read, tmp_path, "never-run")) == 0
    results.write_trial(tmp_path, full())
    pd.testing.assert_series_equal(empty.dtypes, results.read(tmp_path).dtypes)


@pytest.mark.parametrize("read", [results.read, results.read_curves])
def test_a_missing_folder_is_named(tmp_path, read):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read(tmp_path / "nowhere")


# Rows that are not allowed


@pytest.mark.parametrize(
    "fields, named",
    [
        ({"batchsize": 32}, r"'batchsize'.*allowed are .*'batch_size'"),
        ({"software": None}, r"missing fields \['software'\].*required are .*'study'"),
        ({"batch_size": 32.0}, r"batch_size = 32\.0 \(float\).*an int"),
        ({"batch_size": True}, "batch_size = True"),
        ({"seed": 2**63}, "seed = 9223372036854775808 "),
        ({"Lambda_p": "0.5"}, r"Lambda_p = '0\.5' \(str\)"),
        ({"scores": [("r_map", 0.5)]}, "scores = "),
        ({"scores": {"r_map": None}}, r"scores = \{'r_map': None\}"),
        ({"params": {"Lambda_p": math.inf}}, "params = .*finite"),
        ({"started_at": datetime(2026, 1, 1)}, "started_at = .*time zone"),
        ({"error": "\udcff"}, "error = "),
        ({"config": "{"}, r"config = '\{'.*JSON object"),
        ({"software": "[]"}, "software = .*JSON object"),
        ({"trial_index": -1}, "trial_index = -1.*>= 0"),
        ({"attempt": -1}, "attempt = -1.*>= 0"),
        ({"status": "done"}, "status = 'done'.*completed, diverged, failed, stopped"),
        ({"status": "completed"}, "val_score = None.*finite"),
        ({"status": "completed", "val_score": math.nan}, "val_score = nan.*finite"),
        ({"status": "completed", "val_score": -math.inf}, "val_score = -inf.*finite"),
    ],
)
def test_a_row_that_is_not_allowed_is_refused_and_leaves_nothing(tmp_path, fields, named):
    with pytest.raises(ValueError, match=named):
        results.write_trial(tmp_path, minimal(**fields))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", ["diverged", "failed", "stopped"])
def test_a_trial_that_did_not_complete_needs_no_score(status):
    assert check_trial(minimal(status=status, val_score=math.nan))["status"] == status


BAD_NAMES = ["", ".", "..", ".hidden", "_skipped", "a/b", "../up", "/etc", "a\\b", "a b", "a\n", "é", "key=1", "x" * 101, None, 7]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_cannot_escape_or_hide(tmp_path, name):
    with pytest.raises(ValueError):
        results.check_name(name)
    for field in ("study", "trial_id"):
        with pytest.raises(ValueError):
            results.write_trial(tmp_path, minimal(**{field: name}))
        with pytest.raises(ValueError):
            results.write_curve(tmp_path, **({"study": "demo", "trial_id": "t0", "rows": [evaluation()]} | {field: name}))
    if name is not None:
        with pytest.raises(ValueError):
            results.read(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "2026-05-04_sop.v2", "train_a1b2c_00001", "x" * 100])
def test_usual_names_are_allowed(name):
    assert results.check_name(name) == name


@pytest.mark.parametrize("results_uri", ["s3://bucket/x", Path("s3://bucket/x"), "gs://bucket", "file:///tmp/x", ""])
def test_an_object_store_is_refused_rather_than_taken_for_a_folder(results_uri):
    with pytest.raises(ValueError, match="local or mounted folder"):
        results.write_trial(results_uri, minimal())


# Nothing final is changed


def test_writing_the_same_row_again_is_harmless(tmp_path):
    row = full(test_score=math.nan)
    path = results.write_trial(tmp_path, row)
    before = path.stat().st_mtime_ns
    row["scores"] = dict(reversed(row["scores"].items()))
    assert results.write_trial(tmp_path, row) == path
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("status", ["completed", "diverged", "stopped"])
@pytest.mark.parametrize("change", [{"attempt": 1}, {"val_score": 0.72}, {"status": "failed", "attempt": 1}])
def test_a_final_row_is_not_changed(tmp_path, status, change):
    path = results.write_trial(tmp_path, full(status=status))
    before = path.read_bytes()
    with pytest.raises(results.ConflictingRow, match=rf"demo/t0.parquet holds attempt 0, {status}.*differs in \['"):
        results.write_trial(tmp_path, full(status=status) | change)
    assert path.read_bytes() == before


def test_a_failed_row_is_superseded_by_a_later_attempt_only(tmp_path):
    results.write_trial(tmp_path, minimal(attempt=1))
    for attempt in (0, 1):
        with pytest.raises(results.ConflictingRow, match=f"later attempt.*not attempt {attempt}"):
            results.write_trial(tmp_path, full(attempt=attempt))
    results.write_trial(tmp_path, full(attempt=2))
    table = results.read(tmp_path)
    assert list(table.attempt) == [2] and list(table.status) == ["completed"]


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
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"format_version": b"2"}), path)
    with pytest.raises(results.ConflictingRow, match=r"t0\.parquet \(format 2\)"):
        results.write_trial(tmp_path, full())
    with pytest.warns(UserWarning, match=r"t0\.parquet \(format 2\)"):
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


@pytest.mark.parametrize("crash", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full-disk", "interrupt"])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_breaks_off_leaves_what_was_there(tmp_path, monkeypatch, step, crash):
    results.write_trial(tmp_path, minimal())
    before = results.read(tmp_path)

    def broken(*_):
        raise crash

    with monkeypatch.context() as patch:
        patch.setattr(results.os, step, broken)
        with pytest.raises(type(crash)):
            results.write_trial(tmp_path, full(attempt=1))
    pd.testing.assert_frame_equal(silent(results.read, tmp_path), before)
    assert [path.name for path in (tmp_path / "trials" / "demo").iterdir()] == ["t0.parquet"]


def test_a_row_survives_a_power_cut_once_it_is_written(tmp_path, monkeypatch):
    done = []

    def noted(name, function, of):
        monkeypatch.setattr(results.os, name, lambda *args: (done.append((name, of(args[0]))), function(*args))[1])

    noted("fsync", results.os.fsync, lambda descriptor: Path(f"/dev/fd/{descriptor}").resolve().is_dir())
    noted("replace", results.os.replace, lambda temporary: temporary.name.startswith("."))
    results.write_trial(tmp_path, full())
    assert done == [("fsync", False), ("replace", True), ("fsync", True)], "the file, its new name, then the folder"


KILLED_AT_RANDOM = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[2])
from test_results import minimal
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


# Learning curves


def test_a_curve_is_read_back_in_order(tmp_path):
    rows = [evaluation(images_seen=n, seed=1, val_score=n / 100, train_seconds=0.1 * n) for n in (64, 0, 128)]
    assert results.write_curve(tmp_path, "demo", "t0", rows) == tmp_path / "curves" / "demo" / "t0.parquet"
    results.write_curve(tmp_path, "demo", "a1", rows[:1])
    table = silent(results.read_curves, tmp_path)
    assert list(table.columns) == results.CURVES.names
    assert list(zip(table.trial_id, table.images_seen, strict=True)) == [("a1", 64), ("t0", 0), ("t0", 64), ("t0", 128)]
    assert table.scores[0] == {"mean_positive_similarity": 0.5} and pd.isna(table.positive_term[0])
    assert len(results.read_curves(tmp_path, "other")) == 0


def test_a_curve_grows_and_later_attempts_replace_it(tmp_path):
    results.write_curve(tmp_path, "demo", "t0", [evaluation()])
    results.write_curve(tmp_path, "demo", "t0", [evaluation(), evaluation(images_seen=64)])
    results.write_curve(tmp_path, "demo", "t0", [evaluation(attempt=1)])
    with pytest.raises(results.ConflictingRow, match="holds attempt 1, which attempt 0"):
        results.write_curve(tmp_path, "demo", "t0", [evaluation()])
    assert list(results.read_curves(tmp_path).attempt) == [1]


@pytest.mark.parametrize(
    "rows, named",
    [
        ([], "at least one"),
        ([evaluation(), evaluation(attempt=1)], "one attempt"),
        ([evaluation(images_seen=-1)], "images_seen = -1"),
        ([evaluation(test_score=0.5)], "'test_score'.*allowed are"),
        ([{"attempt": 0}], "missing fields .*'images_seen', 'scores'"),
    ],
)
def test_a_curve_that_is_not_allowed_is_refused(tmp_path, rows, named):
    with pytest.raises(ValueError, match=named):
        results.write_curve(tmp_path, "demo", "t0", rows)
    assert list(tmp_path.iterdir()) == []


# Can it be written?


def test_a_writable_folder_is_made_and_left_empty(tmp_path):
    assert results.check_writable(tmp_path / "new" / "results") == tmp_path / "new" / "results"
    assert list((tmp_path / "new" / "results").iterdir()) == []


@pytest.mark.parametrize("below", ["", "results"])
def test_a_folder_that_cannot_be_written_is_named_with_the_reason(tmp_path, below):
    (tmp_path / "file").write_text("in the way")  # works for root too, whom permissions do not bind
    with pytest.raises(OSError, match="cannot write results to .*file.*: (Not a directory|File exists)"):
        results.check_writable(tmp_path / "file" / below)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs Linux's /proc")
def test_a_read_only_file_system_is_named_with_the_reason():
    with pytest.raises(OSError, match="cannot write results to /proc/results: "):
        results.check_writable("/proc/results")


def test_reading_tables_imports_neither_ray_nor_torch():
    code = "import sys; from tune_cd import results; sys.exit(bool({'ray', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
