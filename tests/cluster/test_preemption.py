"""A notice of the cloud's is seen, becomes a drain, and has states saved."""

import http.server
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from trainables.training import preemption_notice as notice
from tune_cd.cluster import preemption
from tune_cd.cluster.preemption import Notice, drain, wait_for_notice, watch

TOKEN, EC2 = "/latest/api/token", "/latest/meta-data/spot/instance-action"
GCE = "/computeMetadata/v1/instance/preempted"


def ec2_says(action: str, seconds: float) -> str:
    return f'{{"action": "{action}", "time": "{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"}}'


class Service(http.server.ThreadingHTTPServer):
    """A metadata service. answers: path -> texts, of which the last stays, or states of errors; asked: (method, path,
    headers) of every request."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked, self.url = {}, [], f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.command, self.path, {name.lower(): text for name, text in self.headers.items()}))
        answers = self.server.answers.get(self.path, [404])
        answer = answers[0] if len(answers) == 1 else answers.pop(0)
        self.send_response(answer if isinstance(answer, int) else 200)
        text = "" if isinstance(answer, int) else answer
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_PUT = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    with Service() as served:
        yield served
        served.shutdown()


@pytest.mark.parametrize(
    ("answers", "seconds", "headers"),
    [
        ({TOKEN: ["t"], EC2: [404, 404, ec2_says("terminate", 3600)]}, (1, 3600), {"x-aws-ec2-metadata-token": "t"}),
        ({TOKEN: ["t"], EC2: [ec2_says("stop", -3600)]}, (0, 0), {"x-aws-ec2-metadata-token": "t"}),
        ({TOKEN: [500, "t", 500, "t"], EC2: [404, 500, 404, ec2_says("stop", 3600)]}, (1, 3600), {}),
        ({GCE: ["FALSE", "FALSE", "TRUE"]}, (30, 30), {"metadata-flavor": "Google"}),
    ],
    ids=["ec2", "ec2, of the past", "ec2, after errors", "gce"],
)
def test_a_cloud_gives_notice(service, answers, seconds, headers):
    service.answers = answers
    assert seconds[0] <= wait_for_notice(service.url, every=0).seconds <= seconds[1]
    asked = [found for _, place, found in service.asked if place in list(answers)[-1:]]
    assert asked and all(found.items() >= headers.items() for found in asked), "version 2 of EC2's service"
    assert {method for method, place, _ in service.asked if place == TOKEN} == {"PUT"}


def test_a_machine_of_no_cloud_is_left_alone(service):
    assert wait_for_notice(service.url, every=0, patience=0.1) is None
    service.shutdown()
    service.server_close()
    assert wait_for_notice(service.url, every=0, patience=0.1) is None


@pytest.fixture
def ray(tmp_path):
    """A command `ray` that writes its calls down: (path, its calls so far)."""
    path = tmp_path / "ray"
    calls = tmp_path / "calls"
    path.write_text(f'#!/bin/sh\necho "$RAY_ADDRESS $@" >> {calls}\n[ $(wc -l < {calls}) -gt ${{FAILING:-0}} ]\n')
    path.chmod(0o755)
    return str(path), lambda: calls.read_text().splitlines()


def test_the_watch_drains_leaves_a_notice_for_trainings_and_ends_ray(service, monkeypatch, tmp_path, ray):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    command, calls = ray
    service.answers = {TOKEN: ["t"], EC2: [ec2_says("stop", preemption.MARGIN + 3)]}
    began = time.monotonic()
    assert not notice.noticed()
    watch("10.0.0.1:6379", service.url, command)
    assert notice.noticed() and 1 < time.monotonic() - began < preemption.MARGIN, "after the drain, before the machine"
    drained, stopped = calls()
    assert drained.startswith("10.0.0.1:6379 drain-node --address 10.0.0.1:6379 ") and stopped.endswith(" stop --force")


def test_a_notice_of_an_earlier_start_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    boot = tmp_path / "boot_id"
    monkeypatch.setattr(notice, "BOOT", boot)
    boot.write_text("first\n")
    notice.notice_file().touch()
    assert notice.noticed()
    boot.write_text("second\n")
    assert not notice.noticed()


def test_a_drain_that_is_refused_is_tried_again_and_told(monkeypatch, ray):
    command, calls = ray
    monkeypatch.setenv("FAILING", "2")
    drain("1.2.3.4:6379", Notice("spot", 90), ray=command, pause=0.0)
    assert len(calls()) == 3
    assert calls()[0] == (
        "1.2.3.4:6379 drain-node --address 1.2.3.4:6379 --reason DRAIN_NODE_REASON_PREEMPTION "
        "--reason-message spot --deadline-remaining-seconds 90"
    )
    monkeypatch.setenv("FAILING", "99")
    with pytest.raises(subprocess.CalledProcessError):
        drain("1.2.3.4:6379", Notice("spot", 90), ray=command, pause=0.0)
