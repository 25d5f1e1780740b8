"""Ray's private API still is where `ray_internals` looks for it. A release of Ray that moves it fails here."""

import ast
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tune_cd.cluster import ray_internals

ROOT = Path(__file__).parents[2]


def test_the_record_of_a_cluster_is_read_whether_it_lives_or_not(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert ray_internals.recorded_cluster() is None
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1\n")
    assert ray_internals.recorded_cluster() == "127.0.0.1:1"


@pytest.mark.ray
@pytest.mark.slow
def test_what_a_connected_cluster_is_asked(ray_session):
    assert ray_internals.draining_nodes() == set()
    assert ray_internals.starting_nodes() == {}, "without an autoscaler"


@pytest.mark.parametrize("version", [1, 2])
def test_starting_nodes_are_read_from_either_autoscaler(monkeypatch, version):
    from ray.autoscaler.v2.schema import ClusterStatus, NodeInfo

    pending = [["10.0.0.7", "gpu-spot", "setting-up"], ["10.0.0.8", "gpu-ondemand", "waiting-for-ssh"]]
    status = ClusterStatus(pending_nodes=[NodeInfo("g6", kind, "i-1", address) for address, kind, _ in pending])
    report = {"autoscaler_report": {"pending_nodes": pending, "pending_launches": {"gpu-spot": 5}}}
    monkeypatch.setattr("ray.autoscaler.v2.utils.is_autoscaler_v2", lambda: version == 2)
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(gcs_address="10.0.0.1:6379"))
    monkeypatch.setattr("ray.autoscaler.v2.sdk.get_cluster_status", lambda address: status)
    monkeypatch.setattr("ray.experimental.internal_kv._internal_kv_get", lambda key: json.dumps(report).encode())
    assert ray_internals.starting_nodes() == {"gpu-spot": 1, "gpu-ondemand": 1}


def test_a_file_is_validated_as_ray_up_does():
    provider = {"type": "local", "head_ip": "1", "worker_ips": []}
    good = {"cluster_name": "a", "provider": provider, "auth": {"ssh_user": "u"}}
    assert ray_internals.schema_errors(good) == [] and ray_internals.refusal(good) is None
    assert "max_wokers" in ray_internals.refusal(good | {"max_wokers": 1})
    assert "head_ip" in ray_internals.refusal(good | {"provider": {"type": "local"}}), "what Ray aborts with"
    wrong = good | {"setup_commands": None, "auth": {"ssh_user": 5}}
    assert {place for place, _ in ray_internals.schema_errors(wrong)} == {("setup_commands",), ("auth", "ssh_user")}


def test_no_other_module_uses_rays_private_api():
    """`ray.x._y`, `ray._x`, modules below `ray.autoscaler.v2`, and the store's internal functions."""
    for path in [*(ROOT / "tune_cd").rglob("*.py"), *(ROOT / "trainables").rglob("*.py")]:
        names = []
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names += [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom):
                names += [f"{node.module}.{name.name}" for name in node.names]
            elif isinstance(node, ast.Attribute):
                names.append(ast.unparse(node))
        ours = (name for name in names if re.fullmatch(r"ray(\.\w+)+", name))
        used = [name for name in ours if "._" in name or ".autoscaler.v2" in name]
        assert not used or path.name == "ray_internals.py", (path, used)
