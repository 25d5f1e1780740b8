"""Capacity, requests for on-demand nodes, lines about missing nodes, and checks of nodes. No Ray runs."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_cd.cluster import capacity, nodes
from tune_cd.cluster.autoscaler import Scaling, from_v1, from_v2
from tune_cd.cluster.capacity import Growth, NodeType, from_description, nodes_in_all, processes_in_all, processes_on
from tune_cd.cluster.node_requests import NodeRequests
from tune_cd.cluster.spot import OnDemandType, Requested, Snapshot, decide, on_demand_type
from tune_cd.cluster.watch import ClusterWatch, Shortage, report
from tune_cd.results.store import Folder
from tune_cd.run import cluster
from tune_cd.run.options import parse
from tune_cd.run.resources import check_resources

HEAD = {"CPU": 0.0, "node:__internal_head__": 1.0}
SPOT, ONDEMAND = {"CPU": 8, "GPU": 1}, {"CPU": 8, "GPU": 1, "ondemand": 1}
GPU_YAML = Growth((NodeType("gpu-spot", SPOT, 8.0), NodeType("gpu-ondemand", ONDEMAND, 8.0)), 8.0)


# what the cluster can give


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


def test_a_bootstrap_file_that_is_no_yaml_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("ray._private.state.state.get_cluster_config", lambda: None)
    (tmp_path / "b.yaml").write_text("a: [")
    with pytest.raises(ValueError, match="b.yaml cannot be read"):
        capacity.cluster_growth(tmp_path / "b.yaml")


def test_rays_own_record_comes_first(tmp_path, monkeypatch):
    from ray.core.generated.autoscaler_pb2 import ClusterConfig, NodeGroupConfig

    record = ClusterConfig(
        node_group_configs=[
            NodeGroupConfig(name="a", resources={"CPU": 4}, max_count=-1),
            NodeGroupConfig(name="b", max_count=0),
        ]
    )
    (tmp_path / "b.yaml").write_text(yaml.safe_dump({"available_node_types": {"c": {"resources": {"CPU": 2}}}}))
    monkeypatch.setattr("ray._private.state.state.get_cluster_config", lambda: record)
    assert capacity.cluster_growth(tmp_path / "b.yaml") == Growth((NodeType("a", {"CPU": 4}, math.inf),))
    monkeypatch.setattr("ray._private.state.state.get_cluster_config", lambda: None)
    assert [kind.name for kind in capacity.cluster_growth(tmp_path / "b.yaml").types] == ["c"]
    assert capacity.cluster_growth(tmp_path / "absent") == Growth()


def test_a_raycluster_of_kubernetes_is_read_as_kuberay_does(tmp_path, monkeypatch):
    def group(name, most, **limits):
        container = {"resources": {"limits": {"cpu": "4", "memory": "8Gi", **limits}}}
        return {
            "groupName": name,
            "minReplicas": 0,
            "maxReplicas": most,
            "rayStartParams": {},
            "template": {"spec": {"containers": [container]}},
        }

    spec = {
        "headGroupSpec": group("", 1) | {"rayStartParams": {"num-cpus": "0"}},
        "workerGroupSpecs": [group("spot", 6, **{"nvidia.com/gpu": "1"})],
    }
    asked = []

    class Client:
        def __init__(self, namespace):
            self.namespace = namespace

        def get(self, path):
            asked.append((self.namespace, path))
            return {"metadata": {"name": "mine", "namespace": self.namespace}, "spec": spec}

    monkeypatch.setattr("ray.autoscaler._private.kuberay.node_provider.KubernetesHttpApiClient", Client)
    monkeypatch.setattr("ray._private.state.state.get_cluster_config", lambda: None)
    monkeypatch.setattr(capacity, "NAMESPACE", tmp_path / "namespace")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("RAY_CLUSTER_NAME", "mine")
    assert capacity.cluster_growth(tmp_path / "absent") == Growth(), "no service account: not a pod that may ask"
    (tmp_path / "namespace").write_text("lab\n")
    found = capacity.cluster_growth(tmp_path / "absent")
    assert asked == [("lab", "rayclusters/mine")] and found.most == 6
    assert processes_in_all([HEAD], found, 1, 1) == 6


@pytest.mark.parametrize(
    "alive, grown, cpus, gpus, expected",
    [
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
        (
            [HEAD],
            Growth((NodeType("big", {"CPU": 8, "GPU": 4}, 2.0), NodeType("small", SPOT, 9.0)), 4.0),
            1,
            1,
            10,
        ),  # the big ones first
        ([HEAD], Growth((NodeType("cpu", {"CPU": 9}, 9.0), NodeType("small", SPOT, 2.0)), 4.0), 1, 1, 2),
        ([HEAD], Growth((NodeType("any", SPOT, math.inf),)), 1, 1, math.inf),
    ],
)
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
    assert nodes_in_all(there, Growth(kinds, most)) == max(alive, min(most, max(spot, twin)))


def test_a_share_of_a_gpu_fits_as_often_as_it_should():
    assert [processes_on([{"CPU": 99, "GPU": 1}], 1, share) for share in (0.1, 0.2, 0.25, 1 / 3, 0.5, 0.7, 1, 2)] == [
        10,
        5,
        4,
        3,
        2,
        1,
        1,
        0,
    ]


# when on-demand nodes are asked for

ONE = OnDemandType({"GPU": 1, "ondemand": 1}, 1, 8)


def played(looks, kind=ONE, after=60.0):
    """Nodes asked for after each look (seconds, wanted, here, on-demand ones among them)."""
    asked, nodes = Requested(), []
    for look in looks:
        asked = decide(asked, Snapshot(*look), kind, after)
        nodes.append(asked.nodes)
    return nodes


def test_the_type_with_the_resource_is_the_one_asked_for():
    assert on_demand_type(GPU_YAML, 1, 1.0) == OnDemandType({"GPU": 1, "ondemand": 1}, 1, 8)
    assert on_demand_type(GPU_YAML, 4, 0) == OnDemandType({"CPU": 8, "ondemand": 1}, 2, 8)
    assert on_demand_type(GPU_YAML, 9, 0) is None, "no process of that size fits"
    assert on_demand_type(Growth((NodeType("gpu-spot", SPOT, 8.0),)), 1, 1.0) is None
    four = Growth((NodeType("o", {"CPU": 32, "GPU": 4, "ondemand": 1}, 5.0),), 2.0)
    assert on_demand_type(four, 1, 1.0) == OnDemandType({"GPU": 4, "ondemand": 1}, 4, 2)


def test_nothing_is_asked_for_before_the_time_is_up_nor_for_what_spot_gives():
    assert played([(t, 8, 6) for t in (0, 30, 59)]) == [0, 0, 0]
    assert played([(0, 8, 6), (60, 8, 6)]) == [0, 2], "the missing number"
    assert played([(0, 8, 6), (50, 8, 8), (55, 8, 6), (110, 8, 6), (115, 8, 6)]) == [0, 0, 0, 0, 2], (
        "spot came in between"
    )
    assert played([(0, 8, 6), (60, 8, 6)], after=math.inf) == [0, 0]
    assert played([(0, 8, 0), (0, 8, 0)], after=0.0) == [8, 8]


def test_a_shortage_is_asked_for_once():
    """Nodes that were asked for take minutes to start, and are on-demand when they come."""
    looks = [(0, 8, 6), (60, 8, 6), (120, 8, 6), (180, 8, 7, 1), (240, 8, 8, 2), (900, 8, 8, 2)]
    assert played(looks) == [0, 2, 2, 2, 2, 2]


def test_it_is_given_back_when_spot_nodes_have_been_there_for_a_while():
    begun = [(0, 8, 6), (60, 8, 6), (200, 8, 8, 2)]
    assert played([*begun, (300, 8, 9, 2), (329, 8, 9, 2), (330, 8, 9, 2)])[3:] == [2, 2, 1]
    assert played([*begun, (300, 8, 9, 2), (320, 8, 8, 2), (330, 8, 9, 2), (359, 8, 9, 2), (360, 8, 9, 2)])[3:] == [
        2,
        2,
        2,
        2,
        1,
    ], "it came and went"
    assert played([*begun, (300, 2, 8, 2), (330, 2, 8, 2)])[3:] == [2, 0], "the study wants less than spot has"


def test_another_loss_is_a_shortage_of_its_own():
    begun = [(0, 8, 6), (60, 8, 6), (200, 8, 8, 2)]
    assert played([*begun, (300, 8, 7, 2), (359, 8, 7, 2), (360, 8, 7, 2)])[3:] == [2, 2, 3]


def test_on_demand_nodes_that_others_asked_for_count_as_room():
    assert played([(0, 4, 4, 4), (600, 4, 4, 4)]) == [0, 0]


def test_whole_nodes_are_asked_for_and_no_more_than_there_may_be():
    four = OnDemandType({"GPU": 4, "ondemand": 1}, 4, 3)
    assert played([(0, 9, 4), (60, 9, 4)], four) == [0, 2]
    assert played([(0, 99, 4), (60, 99, 4)], four) == [0, 3]


def test_no_more_is_asked_for_than_the_cluster_may_have_beside_its_other_nodes():
    assert played([(0, 16, 6, 0, 2), (60, 16, 6, 0, 2)]) == [0, 2], "of at most 8 nodes 6 are there"
    assert played([(0, 16, 8, 0, 0), (60, 16, 8, 0, 0)]) == [0, 0]


def scheduled(spot: int, ask: int, waiting: int, on_demand: int = 0, idle: bool = False) -> tuple[dict, int]:
    """What Ray's autoscaler v2 does on a cluster as clusters/gpu.yaml's: (nodes it starts, idle nodes it ends).
    spot, on_demand: nodes there; ask: on-demand nodes requested; waiting: trials that want a GPU."""
    from ray.autoscaler.v2.instance_manager.config import NodeTypeConfig
    from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
    from ray.autoscaler.v2.schema import AutoscalerInstance
    from ray.autoscaler.v2.utils import ResourceRequestUtil as Util
    from ray.core.generated.autoscaler_pb2 import ClusterResourceConstraint, NodeState, NodeStatus
    from ray.core.generated.instance_manager_pb2 import Instance, NodeKind

    def instance(name, kind, resources):
        node_kind = NodeKind.HEAD if kind == "head" else NodeKind.WORKER
        managed = Instance(
            node_kind=node_kind,
            instance_id=name,
            instance_type=kind,
            status=Instance.RAY_RUNNING,
            node_id=name,
            cloud_instance_id=name,
        )
        status, since = (NodeStatus.IDLE, 10**7) if idle else (NodeStatus.RUNNING, 0)
        free = {unit: 0 if unit == "GPU" and not idle else amount for unit, amount in resources.items()}
        state = NodeState(
            ray_node_type_name=kind,
            node_id=name.encode(),
            instance_id=name,
            total_resources=resources,
            available_resources=free,
            status=status,
            idle_duration_ms=since,
        )
        return AutoscalerInstance(cloud_instance_id=name, im_instance=managed, ray_node=state)

    types = {"head": ({"CPU": 0}, 0, 1), "gpu-spot": (SPOT, 8, spot), "gpu-ondemand": (ONDEMAND, 8, on_demand)}
    constraint = ClusterResourceConstraint(
        resource_requests=Util.group_by_count([Util.make({"GPU": 1, "ondemand": 1})] * ask)
    )
    reply = ResourceDemandScheduler(event_logger=None).schedule(
        SchedulingRequest(
            disable_launch_config_check=True,
            max_num_nodes=8 + 1,
            idle_timeout_s=60,
            node_type_configs={
                name: NodeTypeConfig(name, 0, most, resources=resources) for name, (resources, most, _) in types.items()
            },
            resource_requests=Util.group_by_count([Util.make({"CPU": 1, "GPU": 1})] * waiting),
            cluster_resource_constraints=[constraint] if ask else [],
            current_instances=[
                instance(f"{name}-{n}", name, resources)
                for name, (resources, _, there) in types.items()
                for n in range(there)
            ],
        )
    )
    return {launch.instance_type: launch.count for launch in reply.to_launch}, len(reply.to_terminate)


def test_rays_autoscaler_does_what_is_relied_on():
    assert scheduled(6, 0, 2) == ({"gpu-spot": 2}, 0), "trials alone never get an on-demand node"
    assert scheduled(6, 2, 2) == ({"gpu-ondemand": 2}, 0) and scheduled(0, 8, 8) == ({"gpu-ondemand": 8}, 0)
    assert scheduled(6, 2, 0, on_demand=2) == ({}, 0), "what is there counts, at work or not"
    assert scheduled(0, 2, 0, on_demand=2, idle=True) == ({}, 0) and scheduled(0, 1, 0, on_demand=2, idle=True) == (
        {},
        1,
    )
    assert scheduled(0, 0, 0, on_demand=2, idle=True) == ({}, 2), "given back, they end"
    assert scheduled(6, 3, 2) == ({"gpu-spot": 2}, 0), (
        "one more than fits, and all of it is ignored: this must not be asked for"
    )


def test_spot_nodes_that_are_being_set_up_are_no_shortage():
    """They take minutes: on-demand nodes beside them would be paid for twice."""
    kind, asked = ONE, Requested()
    for at in range(0, 600, 5):
        asked = decide(asked, Snapshot(at, 4, 0, coming=4), kind, 60)
    assert asked.nodes == 0
    for at in range(600, 700, 5):
        asked = decide(asked, Snapshot(at, 4, 0, coming=1), kind, 60)
    assert asked.nodes == 3, "what nobody has granted is asked for"
    for at in range(700, 800, 5):
        asked = decide(asked, Snapshot(at, 4, 3, on_demand=3, coming=1), kind, 60)
    assert asked.nodes == 3, "nothing is given back for what is not there yet"
    for at in range(800, 835, 5):
        asked = decide(asked, Snapshot(at, 4, 5, on_demand=3), kind, 60)
    assert asked.nodes == 2


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 12)), max_size=40),
    st.integers(0, 90),
    st.integers(1, 4),
)
def test_laws_of_asking(steps, after, per_node):
    """Never more than missing at some look, never more before the shortage has lasted, and nothing for ever."""
    kind = OnDemandType({"GPU": per_node, "ondemand": 1}, per_node, 8)
    asked, at, short_for = Requested(), 0, 0
    for wait, wanted, spot in steps:
        at += wait
        here = spot + min(asked.nodes * per_node, 12)  # what was asked for came
        seen = Snapshot(at, wanted, here, here - spot)
        before, asked = asked, decide(asked, seen, kind, after)
        short_for = 0 if wanted <= here else short_for + wait
        assert 0 <= asked.nodes <= 8
        if asked.nodes > before.nodes:
            assert wanted > here and short_for >= after and asked.nodes == min(8, math.ceil((wanted - spot) / per_node))
        if asked.nodes < before.nodes:
            assert asked.nodes * per_node + spot >= min(wanted, 8 * per_node + spot), "what is left is enough"
    for _ in range(3):
        at += 100
        asked = decide(asked, Snapshot(at, 0, 0), kind, after)
    assert asked.nodes == 0


# what is said

NOTHING = Scaling()


def said(looks, scaling=NOTHING, unit="GPU", amount=1.0):
    """The lines of looks (seconds, wanted, here, running)."""
    shortage, lines = Shortage(), []
    for at, wanted, here, running in looks:
        shortage, line = report(shortage, Snapshot(at, wanted, here), running, scaling, unit, amount)
        lines.append(line)
    return lines


def test_waiting_is_said_at_once_and_every_half_minute_and_its_end():
    lines = said([(5.0 * n, 8, 0, 0) for n in range(13)] + [(200, 8, 8, 0), (205, 8, 8, 8)])
    waiting = "waiting for a GPU: 0 of 8 there"
    assert [at for at, line in enumerate(lines) if line == waiting] == [0, 6, 12]
    assert lines[13:] == ["8 of 8 GPUs after 3 min 20 s", None]


def test_why_is_said():
    scaling = Scaling({"gpu-spot": 2, "gpu-ondemand": 1}, "InsufficientInstanceCapacity gpu-spot (us-west-2a)")
    line = "waiting for a GPU: 0 of 8 there; 1 gpu-ondemand, 2 gpu-spot starting; last refusal: "
    line += "InsufficientInstanceCapacity gpu-spot (us-west-2a)"
    assert said([(0, 8, 0, 0)], scaling) == [line]
    assert (
        report(Shortage(), Snapshot(0, 4, 0), 0, NOTHING, "GPU", 1.0, 8)[1]
        == "waiting for a GPU: 0 of 4 there; other studies want 8"
    )


def test_some_missing_is_said_when_it_changes_and_not_too_often():
    lines = said(
        [
            (0, 8, 8, 8),
            (5, 8, 6, 6),
            (10, 8, 6, 6),
            (40, 8, 6, 6),
            (45, 8, 5, 5),
            (50, 8, 6, 6),
            (60, 8, 5, 5),
            (90, 8, 8, 5),
        ]
    )
    assert lines == [
        None,
        "6 of 8 GPUs there",
        None,
        None,
        "5 of 8 GPUs there",
        None,
        None,
        "8 of 8 GPUs after 1 min 25 s",
    ]


def test_the_end_of_a_search_is_not_said_to_be_the_end_of_a_shortage():
    assert said([(0, 8, 6, 6), (5, 3, 6, 3)]) == ["6 of 8 GPUs there", None]


def test_processes_are_told_as_gpus_and_cpus():
    assert said([(0, 8, 0, 0)], amount=0.25) == ["waiting for a GPU: 0 of 2 there"]
    assert said([(0, 8, 4, 4)], amount=0.25) == ["1 of 2 GPUs there"]
    assert said([(0, 3, 1, 1)], unit="CPU", amount=4.0) == ["4 of 12 CPUs there"]
    assert said([(0, 3, 0, 0)], amount=2.0) == ["waiting for a GPU: 0 of 6 there"]


# what the autoscaler says

V1 = {
    "autoscaler_report": {
        "pending_launches": {"gpu-spot": 2},
        "pending_nodes": [["10.0.0.7", "gpu-spot", "setting-up"], ["10.0.0.8", "gpu-ondemand", "waiting-for-ssh"]],
        "node_availability_summary": {
            "node_availabilities": {
                "gpu-spot": {
                    "node_type": "gpu-spot",
                    "is_available": False,
                    "last_checked_timestamp": 990.0,
                    "unavailable_node_information": {
                        "category": "InsufficientInstanceCapacity",
                        "description": "We do not have sufficient g6.2xlarge capacity in the zone (us-west-2a).",
                    },
                },
                "old": {
                    "node_type": "old",
                    "is_available": False,
                    "last_checked_timestamp": 100.0,
                    "unavailable_node_information": None,
                },
                "fine": {
                    "node_type": "fine",
                    "is_available": True,
                    "last_checked_timestamp": 999.0,
                    "unavailable_node_information": None,
                },
            }
        },
    },
}
REFUSAL = "InsufficientInstanceCapacity gpu-spot (us-west-2a)"


def test_version_1_of_the_autoscaler():
    assert from_v1(json.dumps(V1).encode(), 1000.0) == Scaling(
        {"gpu-spot": 3, "gpu-ondemand": 1}, REFUSAL, {"gpu-spot": 1, "gpu-ondemand": 1}
    )
    assert from_v1(json.dumps(V1).encode(), 2000.0).refusal is None, "that was long ago"
    for nothing in (None, b"{}", b'{"autoscaler_report": null}'):
        assert from_v1(nothing, 0.0) == Scaling()


FAILED = "Failed to launch 1 nodes of type gpu-spot: Node Launch Exception"


@pytest.mark.parametrize(
    "log, refusal",
    [
        (
            f"x\n{FAILED} (InsufficientInstanceCapacity): none in us-west-2a\n"
            "Failed to launch 1 nodes of type other: E (X): y\n",
            REFUSAL,
        ),
        (f"{FAILED} error occurred (InsufficientInstanceCapacity) when calling RunInstances: us-west-2a\n", REFUSAL),
        ("", "quota gpu-spot"),
    ],
)
def test_version_2_of_the_autoscaler(log, refusal):
    from ray.autoscaler.v2.schema import ClusterStatus, LaunchRequest, NodeInfo

    pending, failed = LaunchRequest.Status.PENDING, LaunchRequest.Status.FAILED
    told = ClusterStatus(
        pending_launches=[LaunchRequest("g6", "gpu-spot", 2, pending, 0)],
        pending_nodes=[NodeInfo("g6", "gpu-spot", "i-1", "10.0.0.7")],
        failed_launches=[
            LaunchRequest(
                "g6",
                "gpu-spot",
                1,
                failed,
                0,
                at,
                "launch failed with Failed to launch 1 nodes of type gpu-spot with request id a-b: quota",
            )
            for at in (900, 990)
        ],
    )
    assert from_v2(told, log, 1000.0) == Scaling({"gpu-spot": 3}, refusal, {"gpu-spot": 1})
    assert (
        from_v2(told, log, 9000.0) == Scaling({"gpu-spot": 3}, None, {"gpu-spot": 1})
        and from_v2(ClusterStatus(), "", 0.0) == Scaling()
    )


# all studies' requests


def test_requests_of_all_studies_add_up_and_are_sent_when_they_change():
    sent = []
    requests, two = NodeRequests(sent.append), [{"GPU": 1, "ondemand": 1}] * 2
    assert requests.renew("a", {"GPU": 8}, [], 0)["others"] == {"GPU": 0} and sent == [], (
        "nothing asked for, nobody else's wish replaced"
    )
    requests.renew("a", {"GPU": 8}, two, 5)
    assert requests.renew("b", {"GPU": 4}, two[:1], 6) == {"others": {"GPU": 8}, "error": None}
    requests.renew("a", {"GPU": 8}, two, 10)
    assert sent == [two, two + two[:1]]
    requests.withdraw("a")
    requests.withdraw("a")
    assert sent[2:] == [two[:1]]


def test_all_studies_together_ask_for_no_more_than_the_cluster_may_have():
    sent = []
    requests, bundle = NodeRequests(sent.append), {"GPU": 1, "ondemand": 1}
    requests.renew("a", {}, [bundle] * 2, 0, 3)
    requests.renew("b", {}, [bundle] * 2, 0, 3)
    requests.renew("a", {}, [bundle] * 2, 5, 1)
    requests.withdraw("b")
    requests.renew("a", {}, [bundle] * 2, 7, math.inf)
    assert [len(bundles) for bundles in sent] == [2, 3, 1, 2]


def test_a_dead_drivers_wish_is_dropped_and_the_last_one_out_ends_it():
    sent = []
    requests = NodeRequests(sent.append)
    requests.renew("a", {}, [{"GPU": 1}], 0)
    requests.renew("b", {}, [{"GPU": 1}], 50)
    assert requests.expire(60) and sent[-1] == [{"GPU": 1}] * 2
    assert requests.expire(61) and sent[-1] == [{"GPU": 1}]
    assert requests.expire(110) and sent[-1] == [{"GPU": 1}]
    assert requests.expire(111) and sent[-1] == []
    assert requests.expire(169) and not requests.expire(170)


def test_one_that_has_lost_its_memory_takes_back_what_it_may_have_asked_for():
    sent = []
    assert NodeRequests(sent.append, fresh=False).expire(0) and sent == [[]]


def test_what_could_not_be_sent_is_told_and_tried_again():
    fail = [OSError("no head"), None]

    def send(bundles):
        error = fail.pop(0)
        if error:
            raise error

    requests = NodeRequests(send)
    assert requests.renew("a", {}, [{"GPU": 1}], 0)["error"] == "OSError: no head"
    assert requests.renew("a", {}, [{"GPU": 1}], 5)["error"] is None and not fail


# the command line


def test_after_how_long_is_an_option_of_the_call():
    assert parse([])[0].ondemand_after == 60.0 and parse(["--ondemand-after", "5"])[0].ondemand_after == 5.0
    assert parse(["--ondemand-after", "never"])[0].ondemand_after is None
    for wrong in ("-1", "inf", "soon"):
        with pytest.raises(SystemExit):
            parse([f"--ondemand-after={wrong}"])
    from tune_cd.run.options import SITUATION

    assert "ondemand_after" in SITUATION, "it does not change what a study is"


# nodes


@pytest.fixture
def question(tmp_path):
    """Of a glyphs study whose driver sees tmp_path/shared, its token there."""
    folder = Folder(tmp_path / "shared")
    folder.write(".preflight-1", b".preflight-1")
    return {
        "results": str(folder.root),
        "token": ".preflight-1",
        "dataset": "glyphs",
        "task": None,
        "data_root": None,
        "download": False,
        "weights": "none",
    }


def test_a_node_in_order(question, tmp_path):
    found = nodes.look(question, ".preflight-1-node", False)
    assert (found["results"], found["data"], found["gpus"]) == (None, None, [])
    assert (tmp_path / "shared" / ".preflight-1-node").read_text() == ".preflight-1-node", "what the driver reads"
    assert nodes.problems(found, "r", 0, nodes.software_here()) == []


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_of_the_same_name_that_is_another_is_found_out_and_left_alone(question, tmp_path, exists):
    elsewhere = tmp_path / "elsewhere"
    if exists:
        elsewhere.mkdir()
    found = nodes.look(question, "own", False, store=lambda results: Folder(elsewhere))
    (said,) = nodes.problems(found, question["results"], 0, nodes.software_here())
    assert (
        said
        == f"results {question['results']} is not the folder the driver sees; give a folder all nodes mount, or s3://…"
    )
    assert (not exists and not elsewhere.exists()) or (exists and not list(elsewhere.iterdir()))


def test_a_folder_that_can_be_read_and_not_written(question):
    class Full(Folder):
        def write(self, name, data):
            raise OSError(28, "No space left on device")

    found = nodes.look(question, "own", False, store=lambda results: Full(Path(results)))
    assert found["results"] == "cannot be written: [Errno 28] No space left on device"


@pytest.mark.parametrize("download, expected", [(False, "omniglot"), (True, None)])
def test_data_are_there_or_can_be_fetched(question, own_cache, tmp_path, download, expected):
    found = nodes.look(
        question | {"dataset": "omniglot", "data_root": str(tmp_path / "none"), "download": download}, "own", False
    )
    assert found["data"] is None if expected is None else expected in found["data"]


def test_data_behind_a_uri_are_asked_for_and_not_fetched(question, own_cache, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("trainables.datasets.servers.survey", lambda address: asked.append(address.uri))
    place = question | {"dataset": "omniglot", "data_root": "s3://bucket/omniglot.zip"}
    assert nodes.look(place, "own", False)["data"] is None and asked == ["s3://bucket/omniglot.zip"]
    assert not (tmp_path / "cache").exists()
    monkeypatch.setattr(
        "trainables.datasets.servers.survey", lambda address: (_ for _ in ()).throw(ConnectionError("no way there"))
    )
    assert nodes.look(place, "own", False)["data"] == "no way there"


def test_weights_that_only_the_driver_has(question):
    assert (
        nodes.look(question | {"weights": "/absent/w.pt"}, "own", False)["data"] == "there are no weights /absent/w.pt"
    )


def test_what_is_wrong_is_said_with_both_sides():
    own = {"ray": "2.60.0", "torch": "2.15.0", "source of tune_cd": "a" * 16}
    found = {
        "software": own | {"torch": "2.14.0"},
        "results": None,
        "data": "no data",
        "gpus": [],
        "gpu_error": "no driver",
    }
    assert nodes.problems(found, "r", 2.0, own) == [
        "other software than the driver's: torch 2.14.0, here 2.15.0",
        "data: no data",
        "torch sees 0 of its 2 GPUs: no driver",
    ]


def test_a_package_is_known_by_its_source(tmp_path, monkeypatch):
    def digest(name, **files):
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / f"{file}.py").write_text(text)
        return nodes._digest(name)

    monkeypatch.syspath_prepend(tmp_path)
    same = [digest("one", __init__="", a="x = 1"), digest("two", __init__="", a="x = 1")]
    others = [
        digest("three", __init__="", a="x = 2"),
        digest("four", __init__="", b="x = 1"),
        digest("five", __init__="x = 1", a=""),
    ]
    assert len(set(same)) == 1 and len({*same, *others}) == 4


def test_gpus_are_described_as_they_are_sold():
    l4 = ["NVIDIA L4", 23_600_000_000, 23_700_000_000]
    busy = ["NVIDIA L4", 3_000_000_000, 23_700_000_000]
    assert nodes.described({"gpus": [l4]}, {"CPU": 8.0, "GPU": 1.0}) == "1 x NVIDIA L4 24 GB, 8 CPUs"
    assert (
        nodes.described({"gpus": [l4, busy, l4]}, {"CPU": 1.0, "GPU": 2.0})
        == "1 x NVIDIA L4 24 GB, 1 x NVIDIA L4 24 GB (3 GB free), 1 CPU"
    )
    assert nodes.described({"gpus": []}, {"CPU": 2.0}) == "2 CPUs"


MOUNTS = """overlay / overlay rw 0 0
/dev/sda1 /home ext4 rw 0 0
nas:/x /home/me/shared nfs4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
s3fs /mnt/bucket fuse.s3fs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/results", "overlay"),
        ("/home/me/results", "ext4"),
        ("/home/me/shared/results", None),
        ("/home/me/shared2/r", "ext4"),
        ("/tmp/r", "tmpfs"),
        ("/mnt/bucket/r", None),
    ],
)
def test_a_disk_of_this_machine_s_own_is_known(tmp_path, folder, kind):
    """Nodes that come later would write their rows where nobody reads them."""
    (tmp_path / "mounts").write_text(MOUNTS)
    assert nodes.own_disk(Path(folder), tmp_path / "mounts") == kind
    assert nodes.own_disk(Path(folder), tmp_path / "absent") is None


def test_a_cluster_where_nothing_fits_and_nothing_may_come_is_refused():
    """As on a head that never trains, whose description cannot be read: trials would wait for ever."""
    with pytest.raises(ValueError, match="no node of the cluster can take a trial"):
        check_resources(parse([])[0], [HEAD], Growth(), 20)


def test_what_is_wanted_is_what_waits_or_runs():
    """The baselines at a study's end go one by one: nodes for the trials they will ask for later are not wanted yet."""
    watch = ClusterWatch(GPU_YAML, 1, 1.0, 4, 60.0)
    assert watch.wanted() == 4, "before the first trial is known"
    watch.load.running, watch.load.live = 1, 2
    assert watch.wanted() == 2


def test_spot_nodes_on_their_way_are_counted_and_on_demand_ones_are_not():
    watch = ClusterWatch(GPU_YAML, 1, 0.5, 4, 60.0)
    assert watch._coming(Scaling({"gpu-spot": 3}, None, {"gpu-spot": 2, "gpu-ondemand": 1, "other": 5})) == 4


class Looked:
    """What is found of nodes, as it is said."""

    def __init__(self, ready=(), wrong=()):
        self.found, self.closed = (list(ready), list(wrong)), 0

    def check(self, alive):
        return self.found

    def close(self):
        self.closed += 1


def test_results_on_the_head_s_own_disk_are_refused_where_no_node_is_there_to_look_from(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "own_disk", lambda folder: "ext4")
    nobody = Looked()
    with pytest.raises(ValueError, match="own disk .ext4., which nodes that come will not see"):
        cluster.look_at(nobody, [], GPU_YAML, tmp_path)
    assert nobody.closed == 1, "nothing is left among the results"
    assert cluster.look_at(Looked(), [], GPU_YAML, "s3://bucket/r") == ([], [])
    assert cluster.look_at(Looked(), [], Growth(), tmp_path) == ([], []), "one machine, and no other will come"
    assert cluster.look_at(Looked(ready=["node a: ready"]), [], GPU_YAML, tmp_path) == (["node a: ready"], [])


def test_a_store_that_fails_for_a_moment_is_asked_again(monkeypatch):
    monkeypatch.setattr(nodes, "PAUSE", 0.0)
    answers = iter([OSError("slow down"), OSError("slow down"), "there"])

    def call():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert nodes.with_retries(call) == "there"
    answers = iter([FileNotFoundError("none"), "never asked"])
    with pytest.raises(FileNotFoundError):
        nodes.with_retries(call)
    answers = iter([OSError(str(n)) for n in range(nodes.ATTEMPTS)])
    with pytest.raises(OSError, match=str(nodes.ATTEMPTS - 1)):
        nodes.with_retries(call)
