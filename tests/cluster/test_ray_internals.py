"""Ray's private API still is where `ray_internals` looks for it. A release of Ray that moves it fails here."""

import ast
import re
from pathlib import Path

import pytest

from tune_cd.cluster import ray_internals

ROOT = Path(__file__).parents[2]


def test_a_ray_without_a_record_of_node_types_has_none(monkeypatch):
    monkeypatch.setattr("ray._private.state.state", object())
    assert ray_internals.cluster_config() is None


@pytest.mark.ray
@pytest.mark.slow
def test_what_a_connected_cluster_is_asked(ray_session):
    assert ray_internals.draining_nodes() == set()
    config = ray_internals.cluster_config()
    assert config is None or not config.node_group_configs, "open-source Ray leaves no record of node types"
    status, report = ray_internals.autoscaler_report()
    assert (status is None) != (report is None) or (status, report) == (None, None)
    assert ray_internals.autoscaler_log().name == "monitor.log"
    assert ray_internals.autoscaler_log().parent.is_dir()


def test_a_raycluster_is_read_with_its_resources():
    pod = {"spec": {"containers": [{"resources": {"limits": {"cpu": "4", "nvidia.com/gpu": "1"}}}]}}
    group = {"groupName": "a", "minReplicas": 0, "maxReplicas": 3, "rayStartParams": {}, "template": pod}
    spec = {"headGroupSpec": group, "workerGroupSpecs": [group]}
    read = ray_internals.kuberay_config({"metadata": {"name": "x", "namespace": "y"}, "spec": spec})
    assert read["available_node_types"]["a"]["resources"] == {"CPU": 4, "GPU": 1} and read["max_workers"] == 3


def test_kubernetes_is_asked_with_the_pods_account(monkeypatch):
    asked = []
    name = "ray.autoscaler._private.kuberay.node_provider.KubernetesHttpApiClient"

    class Client:
        def __init__(self, namespace):
            asked.append(namespace)

        def get(self, path):
            return {"path": path}

    monkeypatch.setattr(name, Client)
    assert ray_internals.kubernetes_raycluster("mine", "lab") == {"path": "rayclusters/mine"} and asked == ["lab"]


def test_a_file_is_validated_as_ray_up_does():
    good = {
        "cluster_name": "a",
        "provider": {"type": "local", "head_ip": "1", "worker_ips": []},
        "auth": {"ssh_user": "u"},
    }
    ray_internals.prepare_and_validate(good)
    with pytest.raises(Exception, match="max_wokers"):
        ray_internals.prepare_and_validate(good | {"max_wokers": 1})


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
