"""Joining a Ray cluster: a dead one, one that does not take the driver, and a Ray that is started here."""

import os
import socket
import subprocess
import sys
import time

import pytest

from tune_cd.results.redaction import redact
from tune_cd.run import connection
from tune_cd.run.__main__ import main
from tune_cd.run.connection import connect, own_cpus


@pytest.fixture
def joined(monkeypatch):
    """Addresses that Ray was asked to join; it takes no time."""
    asked = []
    monkeypatch.setattr(os, "environ", os.environ.copy())  # Ray's settings are put there
    monkeypatch.setattr(connection, "recorded_cluster", lambda: None)
    monkeypatch.setattr("ray.init", lambda address, **settings: asked.append(address))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return asked


@pytest.fixture
def closed():
    """An address on this machine at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_dead_cluster_is_told_in_a_sentence_with_the_remedy(tmp_path, joined, closed, monkeypatch, capsys):
    monkeypatch.setattr(connection, "ANSWER", 0.5)
    began = time.monotonic()
    for address, environ, named in ((closed, None, "(--address)"), (None, closed, "(RAY_ADDRESS)")):
        if environ:
            monkeypatch.setenv("RAY_ADDRESS", environ)
        with pytest.raises(ConnectionError, match="no Ray cluster answers at .*--address local") as refused:
            connect(address, False)
        assert f"{closed} {named}" in str(refused.value)
        assert capsys.readouterr().out == f"connecting to Ray at {closed} {named} ...\n"
    assert time.monotonic() - began < 20 and not joined
    assert main(["--results", str(tmp_path), "--study", "s"]) == 2
    assert "error: no Ray cluster answers at" in capsys.readouterr().err


def test_the_address_of_a_job_server_is_refused_at_once(joined, monkeypatch):
    """Ray's documentation has it in RAY_ADDRESS, for `ray job submit`."""
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:8265")
    with pytest.raises(
        ConnectionError, match=r"http://127.0.0.1:8265 \(RAY_ADDRESS\) is a job server's, for tune_cd.sub"
    ):
        connect(None, False)
    connect("local", False)
    assert joined == ["local"]


@pytest.mark.parametrize("error, words", [
    (OSError("AF_UNIX path length cannot exceed 107 bytes: /tmp/long"), "/tmp/long: a shorter TMPDIR or RAY_TMPDIR is"),
    (PermissionError(13, "Permission denied", "/home/me/.ray"), "its token there; HOME names another folder"),
    (PermissionError(13, "Permission denied", "/tmp/ray"), "'/tmp/ray': RAY_TMPDIR names another folder"),
    (Exception("The current node timed out during startup."), "startup.: the machine may be too busy"),
    (ValueError("Invalid address format: localhost"), "localhost: HOST:PORT, auto and local are"),
    (RuntimeError("Version mismatch: the cluster has Ray: 2.59.0"), "error: Version mismatch: the cluster has Ray: 2"),
])  # fmt: skip
def test_what_ray_refuses_is_told_in_a_sentence(tmp_path, joined, monkeypatch, capsys, error, words):
    monkeypatch.setattr("ray.init", lambda *_, **__: (_ for _ in ()).throw(error))
    assert main(["--results", str(tmp_path), "--study", "s", "--address", "local"]) == 2
    assert words in capsys.readouterr().err


def test_a_ray_that_took_too_long_to_start_is_started_again_once(joined, monkeypatch, capsys):
    def start(address, **_):
        joined.append(address)
        if len(joined) != 2:
            raise Exception("The current node timed out during startup.")

    monkeypatch.setattr("ray.init", start)
    connect("local", False)
    assert joined == ["local"] * 2
    assert capsys.readouterr().out == "starting Ray ...\nstarting Ray again, as it took too long ...\n"
    with pytest.raises(ConnectionError, match="may be too busy"):
        connect("local", False)
    assert len(joined) == 4


def test_a_cluster_that_asks_for_a_token_is_told_with_the_remedy(joined, monkeypatch):
    def refuse(*_, **__):
        raise ConnectionError("Failed to connect") from RuntimeError("RPC error: InvalidAuthToken: missing")

    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(ConnectionError) as refused:
        connect("auto", False)
    assert "asks for a token; set RAY_AUTH_MODE to token" in redact(str(refused.value))


@pytest.mark.parametrize("address, environ", [(None, ""), ("local", ""), ("local", "127.0.0.1:1")])
def test_a_ray_of_its_own_is_started_at_once(joined, monkeypatch, capsys, address, environ):
    monkeypatch.setenv("RAY_ADDRESS", environ)
    connect(address, False)
    assert joined == ["local"] and capsys.readouterr().out == "starting Ray ...\n"


def test_the_ray_of_this_machine_is_joined_if_it_lives(joined, closed, monkeypatch, capsys):
    """`ray start` leaves a record, which outlives it."""
    monkeypatch.setattr(connection, "recorded_cluster", lambda: closed)
    connect(None, False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        alive = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(connection, "recorded_cluster", lambda: alive)
        connect(None, False)
    assert joined == ["local", "auto"]  # with an address Ray would not look for the token that `ray start` has made
    said = f"starting Ray ...\nconnecting to Ray at {alive} (of this machine; or --address local) ...\n"
    assert capsys.readouterr().out == said


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_the_cpus_of_a_ray_of_its_own_are_those_that_the_process_may_use():
    """As under `taskset -c 0`, or in a SLURM job with part of a node."""
    code = (
        "import os; from tune_cd.run.connection import own_cpus; "
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(own_cpus())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.stdout.strip() == str({"num_cpus": 1} if os.cpu_count() > 1 else {}), said.stderr
    if len(os.sched_getaffinity(0)) == os.cpu_count():
        assert own_cpus() == {}
