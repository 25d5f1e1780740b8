"""Files of other formats are named and left out; the commit of the user's code."""

import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rows import full

from tune_cd import results
from tune_cd.results import provenance


@pytest.mark.parametrize(
    "version, said",
    [
        ("4", "format 4, which another release wrote; this one reads 3"),
        ("2", "format 2"),
        ("one", "format one"),
        ("0", "format 0"),
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


def test_a_file_that_lacks_columns_of_its_format_is_left_out(tmp_path):
    path = results.write_trial(tmp_path, full())
    pq.write_table(pq.read_table(path).drop_columns(["git_commit"]), path)
    with pytest.warns(UserWarning, match=r"t0\.parquet \(format 3\) lacks the columns of its format.*left out"):
        assert len(results.read(tmp_path)) == 0


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
