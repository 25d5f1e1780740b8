"""What a cluster has and may grow to. No Ray runs."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_cd.cluster.capacity import Growth, NodeType, cluster_growth, from_description, processes_in_all, processes_on
from tune_cd.run.config import Call, StudyConfig
from tune_cd.run.resources import check_resources

HEAD = {"CPU": 0.0, "node:__internal_head__": 1.0}
SPOT, ONDEMAND = {"CPU": 8, "GPU": 1}, {"CPU": 8, "GPU": 1, "ondemand": 1}
BIG = NodeType("big", {"CPU": 8, "GPU": 4}, 2.0)
GPU_YAML = Growth((NodeType("gpu-spot", SPOT, 8.0), NodeType("gpu-ondemand", ONDEMAND, 8.0)), 8.0)


def test_a_cluster_file_as_ray_up_leaves_it():
    described = {
        "max_workers": 8, "head_node_type": "head",
        "available_node_types": {
            "head": {"resources": {"CPU": 0}}, "gpu-spot": {"resources": SPOT, "max_workers": 8},
            "gpu-ondemand": {"resources": ONDEMAND}, "off": {"resources": SPOT, "max_workers": 0},
        },
    }  # fmt: skip
    assert from_description(described, "here") == GPU_YAML


@pytest.mark.parametrize(
    "described", [None, [], {"max_workers": "many"}, {"available_node_types": {"a": 3}}, {"available_node_types": []}]
)
def test_what_describes_no_cluster_is_named(described):
    with pytest.raises(ValueError, match="the file does not describe a cluster"):
        from_description(described, "the file")


def test_the_file_of_ray_up_on_the_head(tmp_path):
    (tmp_path / "b.yaml").write_text(yaml.safe_dump({"available_node_types": {"c": {"resources": {"CPU": 2}}}}))
    assert [kind.name for kind in cluster_growth(tmp_path / "b.yaml").types] == ["c"]
    assert cluster_growth(tmp_path / "absent") == Growth()
    (tmp_path / "b.yaml").write_text("a: [")
    with pytest.raises(ValueError, match="b.yaml cannot be read"):
        cluster_growth(tmp_path / "b.yaml")


def test_a_raycluster_of_kubernetes_is_read_as_kuberay_does(tmp_path, monkeypatch):
    from ray.autoscaler._private.kuberay import node_provider

    def group(name, most, **limits):
        container = {"resources": {"limits": {"cpu": "4", "memory": "8Gi", **limits}}}
        pod = {"spec": {"containers": [container]}}
        return {"groupName": name, "minReplicas": 0, "maxReplicas": most, "rayStartParams": {}, "template": pod}

    spec = {
        "headGroupSpec": group("", 1) | {"rayStartParams": {"num-cpus": "0"}},
        "workerGroupSpecs": [group("spot", 6, **{"nvidia.com/gpu": "1"})],
    }
    described = {"metadata": {"name": "mine", "namespace": "lab"}, "spec": spec}
    asked, answer = [], SimpleNamespace(status_code=200, json=lambda: described)
    loading = node_provider.load_k8s_secrets
    secrets = ({}, "ca.crt", None)[: len(get_args(loading.__annotations__["return"]))]  # two in older releases
    monkeypatch.setattr(node_provider, loading.__name__, lambda: secrets)
    monkeypatch.setattr("requests.get", lambda url, **how: asked.append(url) or answer)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("RAY_CLUSTER_NAME", "mine")
    none, namespace = tmp_path / "absent", tmp_path / "namespace"
    assert cluster_growth(none, namespace) == Growth(), "no service account: not a pod that may ask"
    namespace.write_text("lab\n")
    found = cluster_growth(none, namespace)
    assert [url.partition("/namespaces/")[2] for url in asked] == ["lab/rayclusters/mine"] and found.most == 6
    assert processes_in_all([HEAD], found, 1, 1) == 6


@pytest.mark.parametrize("alive, grown, cpus, gpus, expected", [
    ([HEAD], GPU_YAML, 1, 1, 8),  # a twin stands in for its spot type
    ([HEAD], replace(GPU_YAML, most=16.0), 1, 1, 8),
    ([HEAD], replace(GPU_YAML, most=3.0), 1, 1, 3),
    ([HEAD, SPOT, SPOT], GPU_YAML, 1, 1, 8),  # what is alive is part of it
    ([HEAD, SPOT, SPOT], Growth(), 1, 1, 2),
    ([HEAD, *[SPOT] * 9], GPU_YAML, 1, 1, 9),  # joined by hand
    ([HEAD], GPU_YAML, 1, 0.25, 32),
    ([HEAD], GPU_YAML, 1, 0.1, 64),  # 10 by GPU, 8 by CPU
    ([HEAD], GPU_YAML, 4, 0, 16),
    ([HEAD | {"CPU": 2.0}], GPU_YAML, 1, 0, 66),
    ([HEAD], Growth((BIG, NodeType("small", SPOT, 9.0)), 4.0), 1, 1, 10),  # the big ones first
    ([HEAD], Growth((NodeType("cpu", {"CPU": 9}, 9.0), NodeType("small", SPOT, 2.0)), 4.0), 1, 1, 2),
    ([HEAD], Growth((NodeType("any", SPOT, math.inf),)), 1, 1, math.inf),
])  # fmt: skip
def test_what_a_cluster_can_give_in_all(alive, grown, cpus, gpus, expected):
    assert processes_in_all(alive, grown, cpus, gpus) == expected


@settings(max_examples=200, deadline=None)
@given(
    alive=st.integers(0, 6), most=st.integers(0, 12), spot=st.integers(1, 8), twin=st.integers(0, 8),
    cpus=st.integers(1, 9), gpus=st.sampled_from([0, 0.1, 0.25, 1, 2]),
)  # fmt: skip
def test_growth_only_adds_and_is_bounded_by_the_clusters_most(alive, most, spot, twin, cpus, gpus):
    kinds = tuple(kind for kind in (NodeType("s", SPOT, spot), NodeType("o", ONDEMAND, twin)) if kind.most)
    there = [HEAD] + [SPOT] * alive
    total = processes_in_all(there, Growth(kinds, most), cpus, gpus)
    one = processes_on([SPOT], cpus, gpus)
    assert total == max(alive, min(most, max(spot, twin))) * one


def test_a_cluster_where_nothing_fits_and_nothing_may_come_is_refused():
    """As on a head that never trains, whose description cannot be read: trials would wait for ever."""
    with pytest.raises(ValueError, match="no node of the cluster can take a trial"):
        check_resources(StudyConfig(), Call(), [HEAD], Growth(), 20)
