"""`python -m tune_cd.submit` on a real Ray head with a token: studies side by side, stopped and continued, and how each
ends."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from uuid import uuid4

import pytest
from forked_workers import SETUP
from s3 import free_port
from waiting import started, until

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


STUDY = """#!/bin/sh
while [ "$1" != --study ]; do shift; done
case $2 in
  ends-*) echo 'error: as was asked'; echo 'the last line'; exit ${2#ends-};;
  killed) echo begun; kill -9 $$;;
  *) trap 'echo last words; exit 143' TERM; echo begun; while :; do sleep 0.1; done;;
esac
"""
"""A program in the place of the head's Python: what it does its study's name says."""


COMMANDS = """
import json, os, sys
from tune_cd import submit
for line in sys.stdin:
    argv, said = json.loads(line)
    if os.fork() == 0:
        sys.stdin.close()
        for number in (1, 2):
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        status = submit.main(argv)
        sys.stdout.flush()
        sys.stderr.flush()
        with open(said + '.part', 'w') as file:
            file.write(str(status))
        os.rename(said + '.part', said + '.status')
        os._exit(0)
"""
"""Runs commands in forks of a process with imports done. Ray reads the mode of its tokens when it is imported."""


class Head:
    """A Ray head of its own, and commands that know its address and token."""

    def __init__(self, folder: Path):
        self.folder, self.results, self.code = folder, folder / "results", folder / "code"
        self.code.mkdir()
        self.results.mkdir()
        (self.code / "own_network.py").write_text(NETWORK.format(folder=str(folder)))
        self.program = folder / "study"
        self.program.write_text(STUDY)
        self.program.chmod(0o755)
        token = folder / "token"
        token.write_text(uuid4().hex)
        self.environ = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_AUTH_TOKEN"):
            self.environ.pop(name, None)
        names = ("port", "dashboard-port", "ray-client-server-port", "dashboard-agent-listen-port")
        found: set[int] = set()
        while len(found) <= len(names):
            found.add(free_port())
        ports = dict(zip((*names, "metrics-export-port"), found))
        self.url = f"http://127.0.0.1:{ports['dashboard-port']}"
        options = [f"--{name}={port}" for name, port in ports.items()]
        ray = [sys.executable, "-c", STARTING_RAY, "start", "--head", "--block", "--disable-usage-stats"]
        ray += [f"--num-cpus={CPUS}", f"--temp-dir={folder}/t", *options]
        with open(folder / "head.log", "wb") as log:
            self.process = subprocess.Popen(
                ray, env=self.environ, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        said = folder / "head.log"  # the dashboard answers before there is a node
        until(lambda: self.process.poll() is not None or "Ray runtime started" in said.read_text(), STARTING)
        assert self.process.poll() is None, said.read_text()
        until(self.answers, STARTING)
        server = [sys.executable, "-c", COMMANDS]
        self.commands = subprocess.Popen(server, env=self.environ, stdin=subprocess.PIPE, text=True)

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/api/version", timeout=5)
        except urllib.error.HTTPError as error:
            return error.code == 401  # it wants its token
        except OSError:
            return False
        assert not has_tokens(), "it asks for no token"
        return True

    def end(self) -> None:
        self.commands.communicate(timeout=60)
        self.process.send_signal(signal.SIGTERM)  # ends what it has started
        try:
            self.process.wait(60)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)

    def begin(self, command: str, *argv: str) -> Path:
        """A command under way: the file of what it prints."""
        said = self.folder / f"said-{uuid4().hex}"
        self.commands.stdin.write(json.dumps([[command, "--address", self.url, *argv], str(said)]) + "\n")
        self.commands.stdin.flush()
        return said

    def run(self, *argv: str, expected=0) -> str:
        """What a command has printed; its exit status is the expected one."""
        return printed(self.begin(*argv), expected)

    def whole(self, name: str, *argv: str, expected=0) -> str:
        """What a study has printed that was started and followed to its end, with this exit status."""
        self.run("start", *argv)
        return self.run("logs", name, "-f", expected=expected)

    def study(self, name: str, *argv: str) -> list[str]:
        network = name if name in ("one", "two") else "build"
        code = ["--working-dir", str(self.code), "--set", f"network=own_network:{network}"]
        options = ["--python", sys.executable, "--study", name, "--results", str(self.results)]
        return [*options, *TINY.split(), *code, *argv]

    def quick(self, name: str, *argv: str) -> list[str]:
        """Of a study that is no search, but `self.program`."""
        place = ["--results", str(self.results), "--workers", "2", "--num-samples", "5", "--no-baseline"]
        return ["--python", str(self.program), "--study", name, *place, *argv]

    def listed(self) -> dict[str, str]:
        return {line.split()[0]: line for line in self.run("list").splitlines()}

    def under_way(self, *names: str) -> list[int]:
        """The processes that train for each study."""
        pids = [[path.name.rpartition("-")[2] for path in self.folder.glob(f"begun-{name}-*")] for name in names]
        return [sum(Path("/proc", pid).exists() for pid in found) for found in pids]

    def rows(self, name: str) -> int:
        return len(list(self.results.glob(f"trials/{name}/*.parquet")))


def has_tokens() -> bool:
    from ray import exceptions

    return hasattr(exceptions, "AuthenticationError")


def printed(said: Path, expected=0) -> str:
    status = said.with_suffix(".status")
    until(status.exists, 500)
    assert int(status.read_text()) == expected, said.read_text()
    return said.read_text()


@pytest.fixture(scope="module")
def head(workers):
    folder, made = Path(tempfile.mkdtemp(prefix="head-")), None  # short: Ray's sockets lie below it
    try:
        made = started(lambda: Head(Path(tempfile.mkdtemp(dir=folder, prefix=""))))
        yield made
    finally:
        if made is not None:
            made.end()
        shutil.rmtree(folder, ignore_errors=True)


def test_how_a_study_ends_is_its_exit_status_and_is_explained(head):
    """Of a quick program in the place of `tune_cd.run`."""
    assert head.run("list") == "no study was submitted to this cluster\n"
    said = {code: head.whole(f"ends-{code}", *head.quick(f"ends-{code}"), expected=code) for code in (0, 1, 2, 126)}
    assert "the last line\n" in said[0] and said[0].endswith("study ends-0: SUCCEEDED, 0: finished\n")
    head.whole("killed", *head.quick("killed"), expected=137)
    head.whole("absent", "--python", "/no/python", *head.quick("absent")[2:], expected=127)
    listed = head.listed()
    for study, words in {
        "ends-0": "SUCCEEDED.* 0: finished$", "ends-1": "FAILED.* 1: broke off, .*$",
        "ends-2": "FAILED.* 2: refused before the first trial$",
        "ends-126": "FAILED.* 126: ended otherwise$", "killed": "FAILED.* 137: ended otherwise$",
        "absent": "FAILED.* 127: ended otherwise$",
    }.items():  # fmt: skip
        assert re.search(words, listed[study]), listed[study]
    assert list(listed)[1:3] == ["absent", "killed"], "the latest first"
    assert head.run("stop", "ends-0").endswith("study ends-0: SUCCEEDED, 0: finished\n"), "it has ended already"


def test_a_study_under_way_is_refused_to_others_listed_followed_and_stopped(head):
    said = head.run("start", *head.quick("waits"))
    assert "is submitted as tune_cd~waits~1; results in " in said and said.endswith(f" -f --address {head.url}\n")
    until(lambda: "begun\n" in head.run("logs", "waits"), 60)
    refused = head.run("start", *head.quick("waits", "--resume"), expected=2)
    assert "error: study 'waits' is running (" in refused and "2 workers, RUNNING)" in refused
    assert "RUNNING" in (line := head.listed()["waits"]) and str(head.results) in line
    said = head.run("stop", "waits")
    assert said.index("STOPPED, 143: stopped") < said.index("continue with: python -m tune_cd.submit start ")
    assert said.endswith(f" --resume --address {head.url}\n")
    assert "last words\n" in head.run("logs", "waits", "-f", expected=143)
    assert "tune_cd~waits~2" in head.run("start", *head.quick("waits", "--resume"))
    head.run("stop", "waits")
    assert "error: no study 'nobody' was submitted" in head.run("stop", "nobody", expected=2)


@pytest.fixture(scope="module")
def side_by_side(head):
    """Output of two studies, of one worker and of two, submitted together and followed, and how many processes train
    for each. Trainings are held until as many have begun as may, and a little longer."""
    hold = head.folder / "hold"
    hold.touch()
    head.run("start", *head.study("one", "--num-samples", "2", "--workers", "1", "--full-length"))
    head.run("start", *head.study("two", "--num-samples", "2", "--workers", "2", "--search", "random"))
    one, two = (head.begin("logs", name, "-f") for name in ("one", "two"))
    until(lambda: sum(head.under_way("one", "two")) >= 3, STARTING)
    time.sleep(2)
    under_way = head.under_way("one", "two")
    hold.unlink()
    return {"one": printed(one), "two": printed(two), "under way": under_way}


def test_each_study_is_held_to_its_workers_and_none_waits_for_another(head, side_by_side):
    assert side_by_side["under way"] == [1, 2], "before any of them had a result"
    one, two = (results.read(head.results, name) for name in ("one", "two"))
    assert (len(one), len(two)) == (2, 2) and {*one["status"], *two["status"]} == {"completed"}
    assert "cd: 2 of 2 full trainings" in side_by_side["one"]
    assert "random: 2 of 2 full trainings" in side_by_side["two"]
    assert all(side_by_side[name].endswith(f"study {name}: SUCCEEDED, 0: finished\n") for name in ("one", "two"))
    listed = head.listed()
    assert all(word in listed["one"] for word in ("SUCCEEDED", "0: finished"))
    assert one["config"].str.contains("own_network:one").all(), "code of this machine reached those that train"
    assert "set-up small: own_network:one at 28 px" in side_by_side["one"], "and the driver"


def test_without_the_token_nothing_is_told(head):
    if not has_tokens():
        pytest.skip("an older Ray has no tokens")
    command = [sys.executable, "-m", "tune_cd.submit", "list", "--address", head.url]
    done = subprocess.run(command, env=head.environ | {"RAY_AUTH_MODE": "disabled"}, capture_output=True, text=True)
    assert done.returncode == 2 and "asks for a token, and `ray rsync-down clusters/gpu.yaml" in done.stderr


def test_a_study_stopped_in_its_middle_ends_as_one_that_never_was(head, side_by_side):
    """Its second training does not begin before it is continued."""
    study = head.study("stopped", "--num-samples", "2", "--workers", "1", "--full-length")
    hold = head.folder / "hold-after-a-row"
    hold.touch()
    head.run("start", *study)
    until(lambda: head.rows("stopped"), 300)
    assert "study stopped: STOPPED, 143: stopped\ncontinue with: python -m" in head.run("stop", "stopped")
    assert "interrupted: every finished trial is in the table" in head.run("logs", "stopped")
    assert head.rows("stopped") == 1
    hold.unlink()
    head.run("start", *study, "--resume")
    assert "cd: 2 of 2 full trainings" in head.run("logs", "stopped", "-f")
    columns = ["params", "status", "val_score", "test_score"]
    ended, whole = (results.read(head.results, name).set_index("trial_index")[columns] for name in ("stopped", "one"))
    assert ended.sort_index().equals(whole.sort_index())
    assert "SUCCEEDED" in head.listed()["stopped"]
