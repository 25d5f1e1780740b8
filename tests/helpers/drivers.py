"""Studies as processes of their own, on one Ray of two nodes that the tests of a worker share: starting one takes
long."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from forked import Forked

TINY = ["--setup", "small", "--cpus-per-trial", "1", "--set", "images_seen=640", "evaluations=2"]
COMMAND = [sys.executable, "-m", "tune_cd.run", *TINY]
SMALL = ["--setup", "small", "--set", "images_seen=512", "evaluations=4", "--no-baseline"]
SMALL += ["--cpus-per-trial", "1", "--checkpoint-seconds", "0"]
LIMIT = 1500  # s: what takes longer hangs, on a busy machine too


def finished(folder: Path, *argv: str, drawn=False) -> tuple[int, str, str]:
    """A study of tiny trainings to its end: (exit status, what it printed, its errors). drawn: with its picture and
    report."""
    with TemporaryDirectory(dir=folder.parent) as said:
        out, err = Path(said, "out"), Path(said, "err")
        environ = {**os.environ, "DRAWN": "1"} if drawn else None
        process = Forked("faulty:main", [*TINY, "--results", str(folder), *argv], out, err, env=environ)
        try:
            return process.wait(LIMIT), out.read_text(), err.read_text()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def run(cluster):
    """Runs a study on the cluster to its end: (results folder, *arguments, drawn) -> what was printed."""

    def whole(folder: Path, *argv: str, drawn=False) -> str:
        status, said, wrong = finished(folder, "--address", cluster.address, *argv, drawn=drawn)
        assert status == 0, said + wrong
        return said

    return whole


class Driver:
    """`tune_cd.run` on the cluster, its trainings with a diary."""

    def __init__(self, folder: Path, address: str, *argv: str, study="s", where=None, faults="{}", **environ):
        self.folder, self.study, self.where = folder, study, str(where or folder)
        self.diary, self._log = folder / f"{study}.diary", folder / f"{study}.log"
        self._written = self.diary.stat().st_size if self.diary.exists() else 0
        options = [*SMALL, "--results", self.where, "--study", study, "--address", address, *argv]
        environ = {**os.environ, "DIARY": str(self.diary), "FAULTS": faults, **environ}
        self.process = Forked("faulty:main", options, self._log, env=environ)

    def wait(self) -> int:
        try:
            return self.process.wait(LIMIT)
        finally:
            self.process.kill()

    def kill(self, how=signal.SIGKILL) -> int:
        self.process.send_signal(how)
        return self.wait()

    @property
    def said(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def until(self, condition, or_ended=False) -> None:
        deadline = time.monotonic() + LIMIT
        while not (condition() or (or_ended and self.process.poll() == 0)):
            assert self.process.poll() is None and time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def holds(self) -> bool:
        """Whether its imports are over and the study is its own."""
        lock = self.folder / f"studies/{self.study}/driver.json"
        try:
            return json.loads(lock.read_bytes())["pid"] == self.process.pid
        except FileNotFoundError:
            return False

    def begun(self) -> bool:
        """Whether one of its trainings has."""
        return self.diary.exists() and self.diary.stat().st_size > self._written

    def rows(self) -> int:
        return len(list(Path(self.where).glob(f"trials/{self.study}/*.parquet")))


def whole(folder: Path, address: str, *argv: str, **parameters) -> Driver:
    """A driver that came to its end."""
    driver = Driver(folder, address, *argv, **parameters)
    assert driver.wait() == 0, driver.said
    return driver
