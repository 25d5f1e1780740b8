"""A notice of the cloud's is seen, becomes a drain, and has states saved."""

import argparse
import http.server
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trainables.training import preemption_notice as notice
from tune_cd.cluster import preemption

EC2 = "/latest/meta-data/spot/instance-action"
IN_AN_HOUR = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
NOTICE = f'{{"action": "terminate", "time": "{IN_AN_HOUR}"}}'


class Service(http.server.ThreadingHTTPServer):
    """A metadata service: answers, path -> text; asked: (method, path, headers) of every request."""

    def __init__(self, answers: dict[str, str]):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = answers, []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(
            (self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        )
        text = self.server.answers.get(self.path)
        self.send_response(200 if text is not None else 404)
        self.send_header("Content-Length", str(len(text or "")))
        self.end_headers()
        self.wfile.write((text or "").encode())

    do_PUT = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def service(monkeypatch):
    served = Service({})
    monkeypatch.setattr(preemption, "METADATA", f"http://127.0.0.1:{served.server_port}")
    yield served
    served.shutdown()
    served.server_close()


@pytest.mark.parametrize(
    "cloud, path, before, after, seconds, headers",
    [
        ("ec2", EC2, None, NOTICE, (1, 3600),
         {"x-aws-ec2-metadata-token": "secret"}),
        ("ec2", EC2, None, '{"action": "stop", "time": "2020-01-01T00:00:00Z"}', (0, 0),
         {"x-aws-ec2-metadata-token": "secret"}),
        ("gce", "/computeMetadata/v1/instance/preempted", "FALSE", "TRUE", (30, 30), {"metadata-flavor": "Google"}),
    ],
    ids=["ec2", "ec2, of the past", "gce"],
)  # fmt: skip
def test_a_cloud_gives_notice(service, cloud, path, before, after, seconds, headers):
    service.answers |= {"/latest/api/token": "secret"} if cloud == "ec2" else {}
    service.answers |= {} if before is None else {path: before}
    assert preemption.CLOUDS[cloud](preemption.ask_metadata) is None
    service.answers[path] = after
    assert seconds[0] <= preemption.wait_for_notice(every=0).seconds <= seconds[1]
    asked = [found for _, place, found in service.asked if place == path]
    assert all(found.items() >= headers.items() for found in asked), "version 2 of EC2's service"
    assert {method for method, place, _ in service.asked if place.endswith("token")} <= {"PUT"}


def test_a_machine_of_no_cloud_is_left_alone(service):
    assert preemption.wait_for_notice(every=0, patience=0.1) is None
    service.shutdown()
    service.server_close()
    assert preemption.wait_for_notice(every=0, patience=0.1) is None


def test_a_service_that_fails_for_a_while_is_asked_again():
    away = ConnectionError("away")
    answers = iter([away, away, "token", None, away, "token", None, None, "token", NOTICE])

    def ask(path, **_):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert preemption.wait_for_notice(ask, every=0, patience=60).seconds > 0


def test_the_watch_drains_and_leaves_a_notice_for_trainings(service, monkeypatch, tmp_path):
    service.answers |= {"/latest/api/token": "t", EC2: NOTICE}
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = []
    monkeypatch.setattr(preemption, "drain", lambda address, found: done.append((address, found, notice.noticed())))
    monkeypatch.setattr(preemption.time, "sleep", lambda seconds: done.append(seconds))
    monkeypatch.setattr(preemption, "end_ray", lambda: done.append("ended"))
    assert not notice.noticed()
    assert preemption.run(argparse.Namespace(address="10.0.0.1:6379")) == 0
    (address, found, before), wait, ended = done
    assert address == "10.0.0.1:6379" and before and ended == "ended", "states are saved while the node is drained"
    assert wait == found.seconds + 1, "after the drain's deadline"
    assert wait < preemption.ec2_notice(preemption.ask_metadata).seconds, "before the machine goes"


def test_a_notice_of_an_earlier_start_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    boot = tmp_path / "boot_id"
    monkeypatch.setattr(notice, "BOOT", boot)
    boot.write_text("first\n")
    notice.notice_file().touch()
    assert notice.noticed()
    boot.write_text("second\n")
    assert not notice.noticed()


def test_a_drain_that_is_refused_is_tried_again_and_told(monkeypatch, tmp_path):
    ray = tmp_path / "ray"
    ray.write_text(f'#!/bin/sh\necho "$RAY_ADDRESS $@" >> {tmp_path}/calls\n[ $(wc -l < {tmp_path}/calls) -ge 3 ]\n')
    ray.chmod(0o755)
    monkeypatch.setattr(preemption, "PAUSE", 0.0)
    monkeypatch.setattr(preemption, "RAY", str(ray))
    preemption.drain("1.2.3.4:6379", preemption.Notice("spot", 90))
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 3
    assert calls[0] == (
        "1.2.3.4:6379 drain-node --address 1.2.3.4:6379 --reason DRAIN_NODE_REASON_PREEMPTION "
        "--reason-message spot --deadline-remaining-seconds 90"
    )
    ray.write_text("#!/bin/sh\necho no; exit 1\n")
    with pytest.raises(preemption.subprocess.CalledProcessError):
        preemption.drain("1.2.3.4:6379", preemption.Notice("spot", 90))


def state(process: subprocess.Popen) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_ray_s_agents_are_held_and_nothing_else_before_ray_is_ended(monkeypatch, tmp_path):
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    agent, other = subprocess.Popen([*sleeper, "/x/dashboard/agent.py"]), subprocess.Popen(sleeper)
    try:
        for process in (agent, other):
            (tmp_path / str(process.pid)).symlink_to(f"/proc/{process.pid}")
        (tmp_path / "999999999").mkdir()
        asked = tmp_path / "asked"
        ray = tmp_path / "ray"
        ray.write_text(f'#!/bin/sh\necho "$@" > {asked}\n')
        ray.chmod(0o755)
        monkeypatch.setattr(preemption, "RAY", str(ray))
        preemption.end_ray(tmp_path)
        deadline = time.monotonic() + 60
        while state(agent) != "T" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (state(agent), state(other) == "T", asked.read_text()) == ("T", False, "stop --force\n")
    finally:
        agent.kill()
        other.kill()
        agent.wait()
        other.wait()
