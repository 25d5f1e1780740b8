"""`python -m tune_cd.submit` on a real Ray head with a token: studies side by side, stopped and continued."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from forked_workers import SETUP

from tune_cd import results

pytestmark = [pytest.mark.ray, pytest.mark.slow]
pytest.importorskip("aiohttp", reason="ray[default] is not installed")

TINY = "--setup small --set images_seen=512 evaluations=2 --no-baseline --cpus-per-trial 1 --checkpoint-seconds 0"
STARTING = 300.0  # s that a head, or two studies, may take on a busy machine
CPUS = 4
STARTING_RAY = f"""
from ray._private import ray_constants
from ray.scripts.scripts import main
ray_constants.SETUP_WORKER_FILENAME = {SETUP!r}
main()
"""  # the command `ray` has no option for it
NETWORK = """
import os
import sys
import time
from pathlib import Path
from torch import nn

FOLDER = Path({folder!r})

def held():
    after = FOLDER.joinpath("hold-after-a-row").exists()
    return FOLDER.joinpath("hold").exists() or (after and any(FOLDER.glob("results/trials/stopped/*.parquet")))

def build(channels, image_size, study="stopped"):
    if sys.argv[0].endswith("worker.py"):
        FOLDER.joinpath("begun-{{}}-{{}}".format(study, os.getpid())).touch()
        while held():
            time.sleep(0.05)
    else:
        from tune_cd.report import writing
        from tune_cd.run import summary
        summary.draw = writing.write_report = lambda *_: "none"
    return nn.Sequential(nn.Conv2d(channels, 4, 3, stride=2), nn.AdaptiveAvgPool2d(4), nn.Flatten())

def one(channels, image_size):
    return build(channels, image_size, "one")

def two(channels, image_size):
    return build(channels, image_size, "two")
"""
"""Every training builds its own. None goes on while there is a file `hold`, or `hold-after-a-row` and the study
`stopped` has one. A driver, which builds one to check it, draws neither picture nor report, which takes long."""


class Head:
    """A Ray head of its own, and commands that know its address and token."""

    def __init__(self, folder: Path):
        self.folder, self.results, self.code = folder, folder / "results", folder / "code"
        self.code.mkdir()
        (self.code / "own_network.py").write_text(NETWORK.format(folder=str(folder)))
        token = folder / "token"
        token.write_text(uuid4().hex)
        self.environ = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_AUTH_TOKEN"):
            self.environ.pop(name, None)
        kinds = (
            "port",
            "dashboard-port",
            "ray-client-server-port",
            "dashboard-agent-listen-port",
            "metrics-export-port",
        )
        ports = free_ports(*kinds)
        self.url = f"http://127.0.0.1:{ports['dashboard-port']}"
        options = [f"--{name}={port}" for name, port in ports.items()]
        ray = [sys.executable, "-c", STARTING_RAY, "start", "--head", "--block", "--disable-usage-stats"]
        ray += [f"--num-cpus={CPUS}", f"--temp-dir={folder}/t"]
        self.log = open(folder / "head.log", "wb")  # noqa: SIM115, open while the head runs
        self.process = subprocess.Popen(
            [*ray, *options], env=self.environ, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + STARTING
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/api/version", timeout=5)
            except urllib.error.HTTPError as error:
                assert error.code == 401, "it wants its token"
                return
            except OSError:
                assert time.monotonic() < deadline and self.process.poll() is None, (
                    self.folder / "head.log"
                ).read_text()
                time.sleep(0.5)

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)  # ends what it has started
        try:
            self.process.wait(60)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            self.log.close()

    def begin(self, *argv: str, **environ) -> subprocess.Popen:
        """A command under way."""
        command = [sys.executable, "-m", "tune_cd.submit", argv[0], "--address", self.url, *argv[1:]]
        return subprocess.Popen(
            command, env=self.environ | environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, *argv: str, expected=0, **environ) -> str:
        """What a command has printed; its exit status is the expected one."""
        return said(self.begin(*argv, **environ), expected)

    def study(self, name: str, *argv: str) -> list[str]:
        network = name if name in ("one", "two") else "build"
        code = ["--working-dir", str(self.code), "--set", f"network=own_network:{network}"]
        return [
            "--python",
            sys.executable,
            "--study",
            name,
            "--results",
            str(self.results),
            *TINY.split(),
            *code,
            *argv,
        ]

    def under_way(self, *names: str) -> list[int]:
        """The processes that train for each study."""
        pids = [[path.name.rpartition("-")[2] for path in self.folder.glob(f"begun-{name}-*")] for name in names]
        return [sum(Path("/proc", pid).exists() for pid in found) for found in pids]

    def rows(self, name: str) -> int:
        return len(list(self.results.glob(f"trials/{name}/*.parquet")))


def said(process: subprocess.Popen, expected=0) -> str:
    printed, _ = process.communicate(timeout=500)
    assert process.returncode == expected, printed
    return printed


def free_ports(*names: str) -> dict[str, int]:
    """Ports that nobody had a moment ago."""
    with ExitStack() as stack:
        found = {}
        for name in names:
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            found[name] = probe.getsockname()[1]
        return found


@pytest.fixture(scope="module")
def head(workers):
    folder = Path(tempfile.mkdtemp(prefix="head-"))  # short: Ray's sockets lie below it
    made = None
    try:
        made = Head(folder)
        yield made
    finally:
        if made is not None:
            made.end()
        shutil.rmtree(folder, ignore_errors=True)


def same(table, other) -> bool:
    columns = ["trial_index", "params", "status", "val_score", "test_score"]
    one, two = (frame.sort_values("trial_index").reset_index(drop=True)[columns] for frame in (table, other))
    return one.equals(two)


@pytest.fixture(scope="module")
def side_by_side(head):
    """Output of two studies, of one worker and of two, submitted together and followed, and how many processes train
    for each. Trainings are held until as many have begun as may, and a little longer."""
    hold = head.folder / "hold"
    hold.touch()
    one = head.begin("start", "--follow", *head.study("one", "--num-samples", "3", "--workers", "1", "--full-length"))
    random = ["--num-samples", "3", "--workers", "2", "--search", "random"]
    two = head.begin("start", "--follow", *head.study("two", *random))
    deadline = time.monotonic() + STARTING
    while sum(head.under_way("one", "two")) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(2)
    under_way = head.under_way("one", "two")
    hold.unlink()
    return {"one": said(one), "two": said(two), "under way": under_way}


def test_each_study_is_held_to_its_workers_and_none_waits_for_another(head, side_by_side):
    assert side_by_side["under way"] == [1, 2], "before any of them had a result"
    one, two = (results.read(head.results, name) for name in ("one", "two"))
    assert (len(one), len(two)) == (3, 3) and {*one["status"], *two["status"]} == {"completed"}
    assert "cd: 3 of 3 settings trained" in side_by_side["one"]
    assert "random: 3 of 3 settings trained" in side_by_side["two"]
    assert all(side_by_side[name].endswith(f"study {name}: SUCCEEDED, 0: finished\n") for name in ("one", "two"))


def test_list_has_every_study_with_its_trials_and_its_end(head, side_by_side):
    lines = {line.split()[0]: line for line in head.run("list").splitlines()}
    assert set(lines) >= {"study", "one", "two"}
    assert (
        all(word in lines["one"] for word in ("SUCCEEDED", "3/3", "r_map 0.", "0: finished")) and "3/3" in lines["two"]
    )


def test_a_network_of_ones_own_reached_the_driver_and_those_that_train(head, side_by_side):
    assert results.read(head.results, "one")["config"].str.contains("own_network:one").all()
    assert "set-up small: own_network:one at 28 px" in side_by_side["one"]


def test_without_the_token_nothing_is_told(head):
    printed = head.run("list", expected=2, RAY_AUTH_MODE="disabled")
    assert "asks for a token, and `ray rsync-down clusters/gpu.yaml" in printed


def test_a_study_stopped_in_its_middle_ends_as_one_that_never_was(head, side_by_side):
    """Its second training does not begin before it is continued."""
    study = head.study("stopped", "--num-samples", "3", "--workers", "1", "--full-length")
    hold = head.folder / "hold-after-a-row"
    hold.touch()
    head.run("start", *study)
    deadline = time.monotonic() + 300
    while not head.rows("stopped"):
        assert time.monotonic() < deadline, head.run("logs", "stopped")
        time.sleep(0.1)
    printed = head.run("stop", "stopped")
    assert "interrupted: every finished trial is in the table" in printed
    assert "study stopped: STOPPED, 143: stopped\ncontinue with: python -m tune_cd.submit start" in printed
    assert head.rows("stopped") == 1
    hold.unlink()
    head.run("start", *study, "--resume")
    assert "cd: 3 of 3 settings trained" in head.run("logs", "stopped", "-f")
    assert same(results.read(head.results, "stopped"), results.read(head.results, "one"))
    (line,) = [line for line in head.run("list").splitlines() if line.startswith("stopped ")]
    assert "SUCCEEDED" in line and "3/?" in line, "the last attempt; how many there may be, the first one's options say"
