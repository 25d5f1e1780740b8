"""Provenance of a trial: versions of software, and the commit of the user's own code."""

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGES = ("tune_cd", "ray", "torch", "torchvision", "numpy")
GIT_SECONDS = 5  # timeout of git; if the folder is too large or too far away, the commit is not recorded


@cache
def software() -> dict[str, str]:
    """Versions of Python and of the packages that affect results, name -> version; absent packages are left out."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_commit(folder: str | Path = ".") -> str | None:
    """The commit checked out in the repository of `folder`, with the suffix "-dirty" if tracked files differ from it.

    None outside a repository, before its first commit, without git, and for a repository that git does not trust. Never
    raises. Looked up once per process, since imported code does not change with its file.
    """
    return _commit(os.path.abspath(folder))


@cache
def _commit(folder: str) -> str | None:
    command = ["git", "-C", folder, "-c", "core.fsmonitor=false"]
    command += ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    # if this is called from a git hook, the environment names another repository
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        finished = subprocess.run(
            command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=GIT_SECONDS
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip() or None if finished.returncode == 0 else None
