"""A notice of the cloud's is seen, becomes a drain, and has states saved."""

import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest
from webserver import Page, serve

from trainables.training import preemption_notice as notice
from tune_cd.cluster import preemption
from tune_cd.cluster.preemption import Notice, drain, wait_for_notice, watch

TOKEN, EC2 = "/latest/api/token", "/latest/meta-data/spot/instance-action"
GCE = "/computeMetadata/v1/instance/preempted"


def ec2_says(action: str, seconds: float) -> bytes:
    at = f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
    return f'{{"action": "{action}", "time": "{at}"}}'.encode()


@pytest.fixture
def service():
    with serve() as served:
        yield served


FIRST = {"x-aws-ec2-metadata-token": "t"}
NOTICES = {
    "ec2": ({TOKEN: Page(b"t"), EC2: Page(ec2_says("terminate", 3600), codes=[404, 404])}, (1, 3600), FIRST),
    "ec2, of the past": ({TOKEN: Page(b"t"), EC2: Page(ec2_says("stop", -3600))}, (0, 0), FIRST),
    "ec2, after errors": (
        {TOKEN: Page(b"t", codes=[500]), EC2: Page(ec2_says("stop", 3600), codes=[404, 500, 404])}, (1, 3600), FIRST),
    "gce": ({GCE: Page(b"TRUE", earlier=[b"FALSE", b"FALSE"])}, (30, 30), {"metadata-flavor": "Google"}),
}  # fmt: skip
"""Cloud -> pages of its metadata service, the seconds that are left, and headers of the requests."""


@pytest.mark.parametrize("pages, seconds, headers", NOTICES.values(), ids=NOTICES)
def test_a_cloud_gives_notice(service, pages, seconds, headers):
    service.pages |= pages
    assert seconds[0] <= wait_for_notice(service.url, every=0).seconds <= seconds[1]
    asked = [found for _, place, found in service.heard if place in list(pages)[-1:]]
    assert asked and all(found.items() >= headers.items() for found in asked), "version 2 of EC2's service"
    assert all(method == "PUT" for method, place, _ in service.heard if place == TOKEN)


def test_a_machine_of_no_cloud_is_left_alone(service):
    for url in (service.url, "http://127.0.0.1:1"):
        assert wait_for_notice(url, every=0, patience=0.1) is None


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
    service.pages |= {TOKEN: Page(b"t"), EC2: Page(ec2_says("stop", preemption.MARGIN + 3))}
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
