"""Ray's private API still is where `ray_internals` looks for it. A release of Ray that moves it fails here."""

import ast
import re
from pathlib import Path

import pytest

from tune_cd.cluster import ray_internals
from tune_cd.cluster.capacity import Growth, NodeType
from tune_cd.cluster.watch import ClusterWatch

ROOT = Path(__file__).parents[2]


def test_the_record_of_a_cluster_is_read_whether_it_lives_or_not(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert ray_internals.recorded_cluster() is None
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1\n")
    assert ray_internals.recorded_cluster() == "127.0.0.1:1"


@pytest.mark.ray
@pytest.mark.slow
def test_what_a_connected_cluster_is_asked(ray_session, monkeypatch):
    from ray.autoscaler.v2.schema import ClusterStatus, NodeInfo

    assert ray_internals.draining_nodes() == set()
    assert ray_internals.starting_nodes() == {}, "without an autoscaler"
    kinds = ("gpu-spot", "gpu-spot", "gpu-ondemand", "other")
    status = ClusterStatus(pending_nodes=[NodeInfo("g6", kind, "i-1", "10.0.0.7") for kind in kinds], stats=None)
    monkeypatch.setattr("ray.autoscaler.v2.sdk.get_cluster_status", lambda address: status)
    assert ray_internals.starting_nodes() == {"gpu-spot": 2, "gpu-ondemand": 1, "other": 1}
    spot, on_demand = {"CPU": 8, "GPU": 1}, {"CPU": 8, "GPU": 1, "ondemand": 1}
    growth = Growth((NodeType("gpu-spot", spot, 8.0), NodeType("gpu-ondemand", on_demand, 8.0)), 8.0)
    assert ClusterWatch(growth, 1, 0.5, 4, 60.0).coming() == 4, "of spot nodes alone"


def test_a_file_is_validated_as_ray_up_does():
    provider = {"type": "local", "head_ip": "1", "worker_ips": []}
    good = {"cluster_name": "a", "provider": provider, "auth": {"ssh_user": "u"}}
    wrong = good | {"setup_commands": None, "auth": {"ssh_user": 5}}
    for config, places, words in [
        (good, [], []), (good | {"max_wokers": 1}, [()], ["max_wokers"]),
        (good | {"provider": {"type": "local"}}, [()], ["head_ip"]),  # what Ray aborts with
        (wrong, [("auth", "ssh_user"), ("setup_commands",)], ["5 is not", "None is not"]),
    ]:  # fmt: skip
        found = sorted(ray_internals.refusals(config))
        assert [place for place, _ in found] == places
        assert all(word in text for word, (_, text) in zip(words, found))


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
