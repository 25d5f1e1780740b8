"""Files of every earlier format are read as today's, those of later ones are named; the fields that versions added."""

import os
import subprocess
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows import NOON, full
from warned import silent

from tune_cd import results
from tune_cd.results import attempts, provenance
from tune_cd.results.migrations import UPGRADES, upgrade

TEXT, INTEGER, NUMBER, NUMBERS, TIME = (
    pa.string(),
    pa.int64(),
    pa.float64(),
    pa.map_(pa.string(), pa.float64()),
    pa.timestamp("us", tz="UTC"),
)
TRIALS_1 = [
    ("study", TEXT, False), ("dataset", TEXT, True), ("task", TEXT, True), ("loss", TEXT, True),
    ("search", TEXT, False),
    ("search_seed", INTEGER, True), ("seed", INTEGER, True), ("trial_id", TEXT, False), ("trial_index", INTEGER, False),
    ("attempt", INTEGER, False), ("direction", TEXT, True), ("line_position", NUMBER, True), ("params", NUMBERS, False),
    ("Lambda_p", NUMBER, True), ("Lambda_e", NUMBER, True), ("batch_size", INTEGER, True), ("status", TEXT, False),
    ("metric_name", TEXT, False), ("val_score", NUMBER, True), ("test_score", NUMBER, True), ("scores", NUMBERS, False),
    ("positive_term", NUMBER, True), ("entropy_term", NUMBER, True), ("images_seen", INTEGER, True),
    ("best_at", INTEGER, True),
    ("train_seconds", NUMBER, True), ("gpus", NUMBER, True), ("started_at", TIME, True), ("ended_at", TIME, True),
    ("hostname", TEXT, True), ("device", TEXT, True), ("error", TEXT, True), ("config", TEXT, False),
    ("software", TEXT, False),
]  # fmt: skip
CURVES_1 = [
    ("study", TEXT, False), ("trial_id", TEXT, False), ("attempt", INTEGER, False), ("seed", INTEGER, True),
    ("images_seen", INTEGER, False),
    ("train_seconds", NUMBER, True), ("val_score", NUMBER, True), ("positive_term", NUMBER, True),
    ("entropy_term", NUMBER, True),
    ("scores", NUMBERS, False),
]  # fmt: skip
"""Version 1's columns as they were: (name, type, may it be null)."""
TRIALS_2 = [*TRIALS_1, ("git_commit", TEXT, True)]


def write_version_1(folder: Path, table: str, row: dict, name: str = "t0") -> Path:
    return write_version(1, folder, table, row, name)


def write_version(version: int, folder: Path, table: str, row: dict, name: str = "t0") -> Path:
    """A file as the release of that version wrote it."""
    columns = {1: TRIALS_1, 2: TRIALS_2}[version] if table == "trials" else CURVES_1
    fields = [
        pa.field(name, kind, nullable=null, metadata={"unit": "none", "meaning": "what it meant"})
        for name, kind, null in columns
    ]
    schema = pa.schema(fields, metadata={"table": f"tune_cd.{table}", "format_version": str(version)})
    listed = {name: list(v.items()) if isinstance(v, dict) else v for name, v in row.items()}
    path = folder / table / "demo" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    old = pa.Table.from_pylist([{name: listed.get(name) for name in schema.names}], schema)
    pq.write_table(old, path, write_page_checksum=True, use_dictionary=False, write_statistics=False)
    return path


CURVE = {"study": "demo", "trial_id": "t0", "attempt": 0, "images_seen": 64, "scores": {"x": 0.5}, "val_score": 0.25}


def test_version_1_is_read_as_today_s_with_nulls(tmp_path):
    write_version_1(tmp_path, "trials", full())
    write_version_1(tmp_path, "curves", CURVE)
    results.write_trial(tmp_path, full(trial_id="t1", trial_index=1))
    table = silent(results.read, tmp_path)
    assert list(table.columns) == results.TRIALS.names
    old, new = table.iloc[0].to_dict(), table.iloc[1].to_dict()
    assert pd.isna(old.pop("git_commit")) and new.pop("git_commit") == full()["git_commit"]
    expected = {name: value for name, value in full().items() if name != "git_commit"}
    assert pd.isna(old.pop("failure_kind")) and old == expected
    curves = silent(results.read_curves, tmp_path)
    assert list(curves.columns) == results.CURVES.names and curves.iloc[0][list(CURVE)].to_dict() == CURVE


ERRORS = {
    "t0": ("lost: The actor died unexpectedly", "lost"),
    "t1": ("out of memory: batch_size=512 on H200: CUDA out of memory", "out_of_memory"),
    "t2": ("timeout: not done after 5 s", "timeout"),
    "t3": ("ValueError: lost: it only says so", "error"),
    "t4": (None, "error"),
}


@pytest.mark.parametrize("version", [1, 2])
def test_why_a_trial_failed_is_known_of_rows_from_before_it_was_a_field(tmp_path, version):
    for n, (trial, (error, _)) in enumerate(ERRORS.items()):
        row = full(status="failed", val_score=None, error=error, trial_id=trial, trial_index=n)
        write_version(version, tmp_path, "trials", row, trial)
    write_version(version, tmp_path, "trials", full(error="lost: a word in a completed row", trial_id="t9"), "t9")
    table = silent(results.read, tmp_path).set_index("trial_id")
    assert table["failure_kind"][list(ERRORS)].tolist() == [kind for _, kind in ERRORS.values()]
    assert pd.isna(table["failure_kind"]["t9"])
    assert table.index[attempts.to_retry(table)].tolist() == ["t0"]
    assert table.index[attempts.to_retry(table, failed=True)].tolist() == list(ERRORS)
    results.compact(tmp_path)
    pd.testing.assert_frame_equal(silent(results.read, tmp_path).set_index("trial_id"), table)


def test_a_failed_row_of_version_2_is_as_failed_as_any(tmp_path):
    """What an older release wrote is neither written again nor in the way of the next attempt."""
    lost = full(status="failed", val_score=None, error="lost: the node")
    path = write_version(2, tmp_path, "trials", lost)
    held = path.read_bytes()
    assert results.write_trial(tmp_path, lost) == path and path.read_bytes() == held
    with pytest.raises(results.ConflictingRow, match="only a later attempt may supersede it, not attempt 0"):
        results.write_trial(tmp_path, lost | {"failure_kind": "timeout"})
    results.write_trial(tmp_path, full(attempt=1))
    assert results.read(tmp_path)[["attempt", "status"]].values.tolist() == [[1, "completed"]]


def test_compaction_brings_files_to_today_s_version(tmp_path):
    for n in range(2):
        write_version_1(tmp_path, "trials", full(trial_id=f"t{n}", trial_index=n), f"t{n}")
    write_version_1(tmp_path, "curves", CURVE)
    before, curves = results.read(tmp_path), results.read_curves(tmp_path)
    results.compact(tmp_path)
    for table, schema in (("trials", results.TRIALS), ("curves", results.CURVES)):
        (path,) = (tmp_path / table / "demo").iterdir()
        stored = pq.read_schema(path)
        assert stored.equals(schema) and stored.metadata[b"format_version"] == str(results.FORMAT_VERSION).encode()
        assert stored.field("scores").metadata[b"meaning"] == schema.field("scores").metadata[b"meaning"]
    pd.testing.assert_frame_equal(silent(results.read, tmp_path), before)
    pd.testing.assert_frame_equal(silent(results.read_curves, tmp_path), curves)


def test_a_row_of_version_1_is_as_final_as_any(tmp_path):
    path = write_version_1(tmp_path, "trials", full())
    assert results.write_trial(tmp_path, full(git_commit=None)) == path, "it is what is stored"
    with pytest.raises(results.ConflictingRow, match=r"never changes.*\['git_commit'\]"):
        results.write_trial(tmp_path, full())


def test_every_version_has_a_step_to_the_next():
    for table in ("trials", "curves"):
        assert sorted(UPGRADES[table]) == list(range(1, results.FORMAT_VERSION))


@pytest.mark.parametrize("version", [0, results.FORMAT_VERSION + 1])
def test_an_unknown_version_is_refused(version):
    with pytest.raises(ValueError, match=f"version {version} is not known; 1 to {results.FORMAT_VERSION} are"):
        upgrade(results.TRIALS.empty_table(), "trials", version)


@pytest.mark.parametrize(
    "version, said",
    [
        ("4", "format 4, which a newer release wrote; this one reads up to 3"),
        ("one", "lacks the columns"),
        ("0", "lacks the columns"),
    ],
)
def test_a_file_of_a_version_that_is_not_known_is_named_and_left_out(tmp_path, version, said):
    path = results.write_trial(tmp_path, full())
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"format_version": version.encode()}), path)
    held = path.read_bytes()
    results.write_trial(tmp_path, full(trial_id="t1", trial_index=1))
    with pytest.warns(UserWarning, match=rf"t0\.parquet .*{said}.*left out"):
        assert list(results.read(tmp_path).trial_id) == ["t1"]
    results.compact(tmp_path)
    assert path.read_bytes() == held


def test_a_file_that_says_version_1_and_has_today_s_columns_is_left_out(tmp_path):
    path = results.write_trial(tmp_path, full())
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"format_version": b"1"}), path)
    with pytest.warns(UserWarning, match=r"t0\.parquet \(format 1\) lacks the columns of its format.*left out"):
        assert len(results.read(tmp_path)) == 0


def test_times_of_version_1_keep_their_zone(tmp_path):
    write_version_1(tmp_path, "trials", full())
    assert results.read(tmp_path).started_at[0] == NOON


# The commit of the user's code


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A function that runs git in a repository of this test's own."""
    provenance._commit.cache_clear()
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    who = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init")
    yield git
    provenance._commit.cache_clear()


def commit_now(folder: Path) -> str | None:
    provenance._commit.cache_clear()
    return provenance.git_commit(folder)


def test_the_commit_of_a_folder_and_whether_it_was_changed(tmp_path, repository, monkeypatch):
    assert commit_now(tmp_path) is None, "nothing is committed yet"
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1")
    repository("add", ".")
    repository("commit", "-m", "first")
    repository("tag", "-a", "v1", "-m", "a tag is not a commit")
    head = repository("rev-parse", "HEAD")
    assert commit_now(tmp_path) == commit_now(str(tmp_path / "code")) == head
    (tmp_path / "untracked").write_text("2")
    assert commit_now(tmp_path) == head
    (tmp_path / "code" / "a.py").write_text("3")
    assert provenance.git_commit(tmp_path) == head, "the same all through a process"
    assert commit_now(tmp_path) == f"{head}-dirty"
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert commit_now(tmp_path) == f"{head}-dirty", "another repository in the environment is none of ours"


def test_no_repository_and_no_git_is_no_commit(tmp_path, monkeypatch):
    assert commit_now(tmp_path / "none") is None
    assert commit_now("a\0b") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_now(Path(__file__).parent) is None


def test_a_git_that_takes_too_long_is_no_commit(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(provenance, "GIT_SECONDS", 0.2)
    assert commit_now(tmp_path) is None
