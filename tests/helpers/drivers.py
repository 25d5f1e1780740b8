"""`tune_cd.run` as processes of their own on one Ray of several nodes, which a module's tests share: starting one takes long."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TINY = ["--setup", "small", "--set", "images_seen=1280", "evaluations=2"]
SMALL = [
    "--setup",
    "small",
    "--set",
    "images_seen=512",
    "evaluations=4",
    "--no-baseline",
    "--cpus-per-trial",
    "1",
    "--checkpoint-seconds",
    "0",
]
COMMAND = [sys.executable, "-m", "tune_cd.run", *TINY]


@pytest.fixture(scope="module")
def cluster():
    """A head without trials and two nodes of one trial each, which may use the object store of the tests."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(
            num_cpus=1,
            env_vars={
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "SECRET",
                "AWS_EC2_METADATA_DISABLED": "true",
            },
        )
    made.wait_for_nodes()
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def run(cluster):
    """Runs a study of tiny trainings on the cluster to its end: (results folder, *arguments) -> what was printed."""

    def whole(folder: Path, *argv: str, address=None, timeout=400) -> str:
        command = [*COMMAND, "--results", str(folder), "--address", address or cluster.address, *argv]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    return whole


class Driver:
    """`tune_cd.run` on the cluster, its trainings with a diary."""

    def __init__(self, folder: Path, address: str, *argv: str, study="s", where=None, faults="{}", **environ):
        self.folder, self.study, self.where = folder, study, str(where or folder)
        command = [
            sys.executable,
            "-m",
            "faulty",
            *SMALL,
            "--results",
            self.where,
            "--study",
            study,
            "--address",
            address,
            *argv,
        ]
        self._diary = folder / f"{study}.diary"
        self._written = self._diary.stat().st_size if self._diary.exists() else 0
        self._said = open(folder / f"{study}.log", "ab")
        environ = {**os.environ, "DIARY": str(self._diary), "FAULTS": faults, **environ}
        self.process = subprocess.Popen(
            command, stdout=self._said, stderr=subprocess.STDOUT, env=environ, start_new_session=True
        )

    def wait(self, seconds=400) -> int:
        try:
            return self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self._said.close()

    def kill(self, how=signal.SIGKILL) -> int:
        self.process.send_signal(how)
        return self.wait(120)

    @property
    def said(self) -> str:
        return (self.folder / f"{self.study}.log").read_text()

    def until(self, condition, seconds=240, or_ended=False) -> None:
        deadline = time.monotonic() + seconds
        while not (condition() or (or_ended and self.process.poll() == 0)):
            assert self.process.poll() is None and time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def holds(self) -> bool:
        """Whether its imports are over and the study is its own."""
        try:
            return (
                json.loads((self.folder / f"studies/{self.study}/driver.json").read_bytes())["pid"] == self.process.pid
            )
        except FileNotFoundError:
            return False

    def begun(self) -> bool:
        """Whether one of its trainings has."""
        return self._diary.exists() and self._diary.stat().st_size > self._written

    def rows(self) -> int:
        return len(list(Path(self.where).glob(f"trials/{self.study}/*.parquet")))
