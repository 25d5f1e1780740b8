"""The commit of the user's code."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tune_cd.results import rows

SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A function that runs git in a repository of this test's own, whose branch, remote and tag tell a secret."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    user = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]

    def git(*arguments: str) -> str:
        command = ["git", "-C", tmp_path, *user, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", SECRET)
    git("remote", "add", "origin", f"https://user:{SECRET}@host/code.git")
    yield git
    rows.git_commit.cache_clear()


def commit_now(folder: Path) -> str | None:
    rows.git_commit.cache_clear()
    return rows.git_commit(folder)


def test_the_commit_of_a_folder_and_whether_it_was_changed(tmp_path, repository):
    """And nothing else of its repository."""
    assert commit_now(tmp_path) is None, "nothing is committed yet"
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1")
    repository("add", ".")
    repository("commit", "-m", SECRET)
    repository("tag", "-a", SECRET, "-m", "a tag is not a commit")
    head = repository("rev-parse", "HEAD")
    assert commit_now(tmp_path) == commit_now(str(tmp_path / "code")) == head and re.fullmatch("[0-9a-f]{40}", head)
    (tmp_path / "untracked").write_text("2")
    assert commit_now(tmp_path) == head
    (tmp_path / "code" / "a.py").write_text("3")
    assert rows.git_commit(tmp_path) == head, "the same all through a process"
    assert commit_now(tmp_path) == f"{head}-dirty"


def test_no_repository_no_git_and_a_git_that_takes_too_long_are_no_commit(tmp_path, monkeypatch):
    assert commit_now(tmp_path / "none") is None and commit_now("a\0b") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_now(Path(__file__).parent) is None
    (tmp_path / "git").write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setattr(rows, "GIT_SECONDS", 0.2)
    assert commit_now(tmp_path) is None
