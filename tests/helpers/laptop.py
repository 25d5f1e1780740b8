"""Whoever uses a cluster: a checkout, a home of its own, and the commands that a cluster file's first lines name."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from machines import sh

ROOT = Path(__file__).parents[2]
RAY = Path(sys.executable).parent / "ray"


@pytest.fixture
def lab():
    """A folder that all machines see under the same path, as a mounted one; TUNE_CD_KEEP_LAB=1 keeps it."""
    folder = Path(tempfile.mkdtemp(prefix="tune_cd-lab-", dir="/var/tmp"))
    yield folder
    if "TUNE_CD_KEEP_LAB" not in os.environ:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Laptop:
    """folder: its home, and where the adapted cluster file lies.  variables: more of its environment."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home = self.folder / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))

    @property
    def key(self) -> Path:
        return self.home / ".ssh/id_ed25519"

    @property
    def public_key(self) -> str:
        return self.key.with_suffix(".pub").read_text()

    def ray(self, command: str, file: Path, *arguments: str, timeout: float = 600) -> str:
        """`ray up` and its like, in the root of the checkout; raises CalledProcessError with all they printed."""
        return self._run([str(RAY), command, str(file), *arguments], timeout)

    def python(self, *arguments: str, timeout: float = 600) -> str:
        return self._run([sys.executable, *arguments], timeout)

    def _run(self, command: list[str], timeout: float) -> str:
        environment = os.environ | {
            "HOME": str(self.home),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONUNBUFFERED": "1",
            **self.variables,
        }
        done = subprocess.run(
            command, env=environment, cwd=ROOT, text=True, timeout=timeout,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        with open(self.folder / "laptop.log", "a") as log:
            log.write(f"$ {' '.join(command)}\n{done.stdout}\n[{done.returncode}]\n")
        if done.returncode:
            raise AssertionError(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout[-6000:]}")
        return done.stdout
