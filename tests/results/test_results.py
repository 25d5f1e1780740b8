"""The results: what is written is read back, and nothing final is ever changed."""

import json
import math
import random
from datetime import UTC, datetime, timedelta, timezone
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import NOON, evaluation, full, minimal
from warned import silent

from tune_cd import results
from tune_cd.results.redaction import hide
from tune_cd.results.schema import check_trial
from tune_cd.results.writing import write_many

REQUIRED = [
    "study", "search", "trial_id", "trial_index", "attempt", "params", "status", "metric_name", "scores", "config",
    "software",
]  # fmt: skip


def test_few_fields_are_required():
    assert [field.name for field in results.TRIALS if not field.nullable] == REQUIRED


def test_every_field_explains_itself_in_the_file_too_and_strings_are_plain(tmp_path):
    stored = pq.read_schema(results.write_trial(tmp_path, full()))
    assert stored.equals(results.TRIALS)
    for schema in (stored, results.CURVES):
        assert schema.metadata[b"format_version"] == b"4"
        for field in schema:
            assert field.metadata[b"unit"] and len(field.metadata[b"meaning"]) > 10
            assert not pa.types.is_dictionary(field.type)
            assert field.type == results.TRIALS.field(field.name).type, "curves share the trials' fields"


@pytest.mark.parametrize("error, kind", [
    ("lost: the node died", "lost"),
    ("out of memory: batch_size=512: CUDA out of memory", "out_of_memory"),
    ("timeout: not done after 5 s", "timeout"),
    ("RuntimeError: lost: it says so itself", "error"),
    (None, "error"),
])  # fmt: skip
def test_a_failed_row_that_does_not_say_its_kind_gets_the_one_its_error_states(error, kind):
    row = minimal(error=error)
    assert check_trial(row)["failure_kind"] == kind and "failure_kind" not in row
    assert check_trial(minimal(error=error, failure_kind="timeout"))["failure_kind"] == "timeout", "said is said"
    assert check_trial(full(error=error))["failure_kind"] is None, "it did not fail"


def test_a_full_row_is_read_back(tmp_path):
    path = results.write_trial(str(tmp_path), full())
    assert path == tmp_path / "trials" / "demo" / "t0.parquet"
    table = silent(results.read, tmp_path)
    assert list(table.columns) == results.TRIALS.names
    row = table.iloc[0].to_dict()
    assert pd.isna(row.pop("failure_kind")) and row == full()
    assert isinstance(table.started_at.dtype, pd.DatetimeTZDtype) and str(table.started_at.dt.tz) == "UTC"
    assert table.batch_size.dtype == pd.Int64Dtype() and table.trial_index.dtype == np.int64


NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
NUMBERS = st.dictionaries(NAMES, st.floats(allow_nan=False), max_size=3)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
CONFIGS = st.dictionaries(NAMES, INTEGERS, max_size=2).filter(lambda config: hide(config) == config)
"""What a configuration keeps as it is: hypothesis also tries constants of the modules that other tests imported."""

OPTIONAL = {
    "error": st.none() | NAMES, "val_score": st.none() | st.floats(allow_nan=False), "seed": st.none() | INTEGERS,
    "ended_at": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
}  # fmt: skip


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.fixed_dictionaries({"scores": NUMBERS, "config": CONFIGS.map(json.dumps)}, optional=OPTIONAL))
def test_any_row_is_read_back(values):
    row = minimal(**values, failure_kind="error")
    with TemporaryDirectory() as folder:
        (stored,) = pq.read_table(results.write_trial(folder, row)).to_pylist()
    assert stored | {name: dict(stored[name]) for name in ("params", "scores")} == {
        name: row.get(name) for name in results.TRIALS.names
    }


def test_numpy_numbers_other_time_zones_and_nan_are_taken(tmp_path):
    there = timezone(timedelta(hours=2))
    numbers = {"batch_size": np.int32(32), "val_score": np.float32(0.5), "test_score": math.nan}
    row = full(**numbers, started_at=NOON.astimezone(there))
    before = dict(row)
    results.write_trial(tmp_path, row)
    assert row.keys() == before.keys() and row["batch_size"] is before["batch_size"], "the caller's row is as it was"
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


def test_an_empty_folder_gives_an_empty_table_of_the_same_types(tmp_path):
    empty = silent(results.read, tmp_path)
    assert len(empty) == 0 and len(silent(results.read, tmp_path, "never-run")) == 0
    results.write_trial(tmp_path, full())
    pd.testing.assert_series_equal(empty.dtypes, results.read(tmp_path).dtypes)


def test_a_study_or_results_that_are_not_there_are_refused_and_one_that_has_begun_has_no_row_yet(tmp_path):
    results.write_trial(tmp_path, full())
    results.publish(tmp_path / "studies/begun/study.json", b"{}")
    assert len(silent(results.read, tmp_path, "begun")) == 0 == len(results.read(tmp_path, "dem", missing=True))
    with pytest.raises(ValueError, match=rf"no study 'dem' in {tmp_path}; there are \['begun', 'demo'\]"):
        results.read(tmp_path, "dem")
    for place in ("trials", "trials/demo", "studies"):
        assert (
            len(results.read(tmp_path / place, missing=True)) == 0 == len(results.read(tmp_path / "no", missing=True))
        )
        with pytest.raises(ValueError, match=f"no trials below {tmp_path / place}: RESULTS is the folder that holds"):
            results.read(tmp_path / place)


@pytest.mark.parametrize("fields, named", [
    ({"batchsize": 32}, r"'batchsize'.*allowed are .*'batch_size'"),
    ({"software": None}, r"missing fields \['software'\]"),
    ({"batch_size": 32.0}, r"batch_size = 32\.0 \(float\).*an int"),
    ({"seed": 2**63}, "seed = 9223372036854775808 "),
    ({"Lambda_p": "0.5"}, r"Lambda_p = '0\.5' \(str\)"),
    ({"scores": [("r_map", 0.5)]}, "scores = "),
    ({"params": {"Lambda_p": math.inf}}, "params = .*finite"),
    ({"started_at": datetime(2026, 1, 1)}, "started_at = .*time zone"),
    ({"error": "\udcff"}, "error = "),
    ({"config": "{"}, r"config = '\{'.*JSON object"),
    ({"config": '{"a": [-Infinity]}'}, "config = .*JSON object"),
    ({"config": '{"a": ' + "[" * 99_999 + "]" * 99_999 + "}"}, "config = .*JSON object"),
    ({"software": "[]"}, "software = .*JSON object"),
    ({"trial_index": -1}, "trial_index = -1.*>= 0"),
    ({"attempt": -1}, "attempt = -1.*>= 0"),
    ({"status": "done"}, "status = 'done'.*completed, diverged, failed, stopped"),
    ({"failure_kind": "gone"}, "failure_kind = 'gone' is not allowed"),
    ({"status": "stopped", "failure_kind": "lost"}, "failure_kind = 'lost' is not allowed"),
    ({"status": "completed"}, "val_score = None.*finite"),
    ({"status": "completed", "val_score": math.nan}, "val_score = nan.*finite"),
])  # fmt: skip
def test_a_row_that_is_not_allowed_is_refused_and_leaves_nothing(tmp_path, fields, named):
    with pytest.raises(ValueError, match=named):
        results.write_trial(tmp_path, minimal(**fields))
    assert list(tmp_path.iterdir()) == []


BAD_NAMES = [
    "", ".", "..", ".hidden", "_skipped", "a/b", "../up", "/etc", "a\\b", "a b", "a\n", "é", "k=1", "x" * 101, None, 7,
]  # fmt: skip


def test_names_cannot_escape_or_hide(tmp_path):
    """`test_security.py` tries all that takes a name."""
    for name in BAD_NAMES:
        with pytest.raises(ValueError):
            results.check_name(name)
    for name in ("a", "2026-05-04_sop.v2", "train_a1b2c_00001", "x" * 100):
        assert results.check_name(name) == name


def test_many_rows_are_written_as_if_each_had_been_written_alone(tmp_path):
    """What is stored stays: equal rows are left out, and others of its trials refused before anything is written."""
    rows = [full(trial_id=f"t{n}", trial_index=n, config='{"token": "abc"}') for n in (2, 0, 1)]
    for row in rows:
        results.write_trial(tmp_path / "alone", row)
    write_many(tmp_path / "together", rows[:2])
    write_many(tmp_path / "together", rows)
    write_many(tmp_path / "together", [])
    table = silent(results.read, tmp_path / "together")
    pd.testing.assert_frame_equal(table, results.read(tmp_path / "alone"))
    with pytest.raises(results.ConflictingRow, match="trials/demo holds another row of t1"):
        write_many(tmp_path / "together", [full(trial_id="t3"), rows[2] | {"val_score": 0.5}])
    with pytest.raises(ValueError, match="status = 'won'"):
        write_many(tmp_path / "new", [rows[0], rows[1] | {"status": "won"}])
    pd.testing.assert_frame_equal(results.read(tmp_path / "together"), table)
    assert len(list((tmp_path / "together/trials/demo").iterdir())) == 2 and not (tmp_path / "new").exists()


def test_a_curve_is_read_back_in_order(tmp_path):
    rows = [evaluation(images_seen=n, seed=1, val_score=n / 100, train_seconds=0.1 * n) for n in (64, 0, 128)]
    assert results.write_curve(tmp_path, "demo", "t0", rows) == tmp_path / "curves" / "demo" / "t0.parquet"
    results.write_curve(tmp_path, "demo", "a1", rows[:1])
    table = silent(results.read_curves, tmp_path)
    assert list(table.columns) == results.CURVES.names
    assert list(zip(table.trial_id, table.images_seen, strict=True)) == [("a1", 64), ("t0", 0), ("t0", 64), ("t0", 128)]
    assert table.scores[0] == {"mean_positive_similarity": 0.5} and pd.isna(table.positive_term[0])
    results.write_trial(tmp_path, minimal(study="without", trial_id="t0"))
    assert len(results.read_curves(tmp_path, "without")) == 0 == len(results.read_curves(tmp_path, "no", missing=True))
    with pytest.raises(ValueError, match="there is no study 'other' in .*; there are \\['without'\\]"):
        results.read_curves(tmp_path, "other")


def test_a_curve_grows_and_later_attempts_replace_it(tmp_path):
    results.write_curve(tmp_path, "demo", "t0", [evaluation()])
    results.write_curve(tmp_path, "demo", "t0", [evaluation(), evaluation(images_seen=64)])
    results.write_curve(tmp_path, "demo", "t0", [evaluation(attempt=1)])
    results.write_curve(tmp_path, "demo", "t0", [evaluation()])
    assert list(results.read_curves(tmp_path).attempt) == [1]


@pytest.mark.parametrize("rows, named", [
    ([], "at least one"),
    ([evaluation(), evaluation(attempt=1)], "one attempt"),
    ([evaluation(images_seen=-1)], "images_seen = -1"),
    ([evaluation(test_score=0.5)], "'test_score'.*allowed are"),
    ([{"attempt": 0}], "missing fields .*'images_seen', 'scores'"),
])  # fmt: skip
def test_a_curve_that_is_not_allowed_is_refused(tmp_path, rows, named):
    with pytest.raises(ValueError, match=named):
        results.write_curve(tmp_path, "demo", "t0", rows)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("in the way")  # works for root too, whom permissions do not bind
    for folder, reason in (("", "File exists"), ("results", "Not a directory")):
        with pytest.raises(OSError, match=f"^cannot write results to .*file.*: {reason}"):
            results.check_writable(tmp_path / "file" / folder)
    with pytest.raises(OSError, match="^cannot write results to /proc/results: "):  # a read-only file system
        results.check_writable("/proc/results")
