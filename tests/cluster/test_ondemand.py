"""When on-demand nodes are requested, and the sum of what all studies request. No Ray runs."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tune_cd.cluster.capacity import Growth, NodeType
from tune_cd.cluster.ondemand import NodeRequests, OnDemandType, Shortage, on_demand_type

SPOT, ONDEMAND = {"CPU": 8, "GPU": 1}, {"CPU": 8, "GPU": 1, "ondemand": 1}
GPU_YAML = Growth((NodeType("gpu-spot", SPOT, 8.0), NodeType("gpu-ondemand", ONDEMAND, 8.0)), 8.0)
BUNDLE = {"GPU": 1, "ondemand": 1}
ONE, FOUR = OnDemandType(BUNDLE, 1, 8), OnDemandType({"GPU": 4, "ondemand": 1}, 4, 3)


def test_the_type_with_the_resource_is_requested():
    assert on_demand_type(GPU_YAML, 1, 1.0) == ONE
    assert on_demand_type(GPU_YAML, 4, 0) == OnDemandType({"CPU": 8, "ondemand": 1}, 2, 8)
    assert on_demand_type(GPU_YAML, 9, 0) is None, "no process of that size fits"
    assert on_demand_type(Growth((NodeType("gpu-spot", SPOT, 8.0),)), 1, 1.0) is None
    four = Growth((NodeType("o", {"CPU": 32, "GPU": 4, "ondemand": 1}, 5.0),), 2.0)
    assert on_demand_type(four, 1, 1.0) == OnDemandType({"GPU": 4, "ondemand": 1}, 4, 2)


BEGUN = [(0, 8, 6), (60, 8, 6), (200, 8, 8, 2)]


@pytest.mark.parametrize("looks, nodes, options", [
    ([(t, 8, 6) for t in (0, 30, 59)], [0, 0, 0], {}),  # before the time is up
    ([(0, 8, 6), (60, 8, 6)], [0, 2], {}),
    ([(0, 8, 6), (50, 8, 8), (55, 8, 6), (110, 8, 6), (115, 8, 6)], [0, 0, 0, 0, 2], {}),  # spot came in between
    ([(0, 8, 6), (60, 8, 6)], [0, 0], {"after": math.inf}),
    ([(0, 8, 0), (0, 8, 0)], [8, 8], {"after": 0.0}),
    # a shortage is requested once: these nodes take minutes, and are on demand when they come
    ([(0, 8, 6), (60, 8, 6), (120, 8, 6), (180, 8, 7, 1), (240, 8, 8, 2), (900, 8, 8, 2)], [0, 2, 2, 2, 2, 2], {}),
    # given back when spot nodes have been there for a while
    ([*BEGUN, (300, 8, 9, 2), (329, 8, 9, 2), (330, 8, 9, 2)], [0, 2, 2, 2, 2, 1], {}),
    ([*BEGUN, (300, 8, 9, 2), (320, 8, 8, 2), (330, 8, 9, 2), (359, 8, 9, 2)], [0, 2, 2, 2, 2, 2, 2], {}),
    ([*BEGUN, (300, 8, 9, 2), (320, 8, 8, 2), (330, 8, 9, 2), (360, 8, 9, 2)], [0, 2, 2, 2, 2, 2, 1], {}),
    ([*BEGUN, (300, 2, 8, 2), (330, 2, 8, 2)], [0, 2, 2, 2, 0], {}),  # the study wants less than spot has
    # another loss is a shortage of its own
    ([*BEGUN, (300, 8, 7, 2), (359, 8, 7, 2), (360, 8, 7, 2)], [0, 2, 2, 2, 2, 3], {}),
    ([(0, 4, 4, 4), (600, 4, 4, 4)], [0, 0], {}),  # on-demand nodes of others are room
    # whole nodes, and no more than there may be of the type, or beside the cluster's other nodes
    ([(0, 9, 4), (60, 9, 4)], [0, 2], {"kind": FOUR}),
    ([(0, 99, 4), (60, 99, 4)], [0, 3], {"kind": FOUR}),
    ([(0, 16, 6, 0, 2), (60, 16, 6, 0, 2)], [0, 2], {}),
    ([(0, 16, 8, 0, 0), (60, 16, 8, 0, 0)], [0, 0], {}),
    # spot nodes that are being set up are no shortage; nothing is given back for them either
    ([(t, 4, 0, 0, math.inf, 4) for t in (0, 60, 600)], [0, 0, 0], {}),
    ([(0, 4, 0, 0, math.inf, 1), (60, 4, 0, 0, math.inf, 1), (700, 4, 3, 3, math.inf, 1)], [0, 3, 3], {}),
])  # fmt: skip
def test_on_demand_nodes_are_requested_and_given_back(looks, nodes, options):
    """Looks: (seconds, wanted, here, on-demand ones among them, most, coming)."""
    shortage = Shortage(options.get("kind", ONE), options.get("after", 60.0))
    assert [shortage.look(*look) for look in looks] == nodes


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 12)), max_size=40),
    st.integers(0, 90),
    st.integers(1, 4),
)
def test_laws_of_requests(steps, after, per_node):
    """Never more than missing at some look, never more before the shortage has lasted, and nothing for ever."""
    shortage = Shortage(OnDemandType({"GPU": per_node, "ondemand": 1}, per_node, 8), after)
    at, short_for = 0, 0
    for wait, wanted, spot in steps:
        at, before = at + wait, shortage.nodes
        here = spot + min(before * per_node, 12)  # what was asked for came
        short_for = 0 if wanted <= here else short_for + wait
        nodes = shortage.look(at, wanted, here, here - spot)
        assert 0 <= nodes <= 8
        if nodes > before:
            assert wanted > here and short_for >= after and nodes == min(8, math.ceil((wanted - spot) / per_node))
        if nodes < before:
            assert nodes * per_node + spot >= min(wanted, 8 * per_node + spot), "what is left is enough"
    assert [shortage.look(at + later, 0, 0) for later in (100, 200, 300)][-1] == 0


class Cluster:
    """The requests of its studies, those that were sent, and a clock. failing: errors of the next ones."""

    def __init__(self, fresh: bool = True):
        self.sent, self.now, self.failing = [], 0.0, []
        self.requests = NodeRequests(self.send, fresh, clock=lambda: self.now)

    def send(self, bundles):
        if self.failing:
            raise self.failing.pop()
        self.sent.append(bundles)


def test_requests_of_all_studies_add_up_and_are_sent_when_they_change():
    cluster, two = Cluster(), [BUNDLE] * 2
    renew = cluster.requests.renew
    assert renew("a", {"GPU": 8}, [])["others"] == {"GPU": 0} and cluster.sent == [], "nobody else's wish is replaced"
    renew("a", {"GPU": 8}, two)
    assert renew("b", {"GPU": 4}, two[:1]) == {"others": {"GPU": 8}, "error": None}
    renew("a", {"GPU": 8}, two)
    assert cluster.sent == [two, two + two[:1]]
    for _ in range(2):
        cluster.requests.withdraw("a")
    assert cluster.sent[2:] == [two[:1]]


def test_all_studies_together_request_no_more_than_the_cluster_may_have():
    cluster = Cluster()
    for study, most in (("a", 3), ("b", 3), ("a", 1)):
        cluster.requests.renew(study, {}, [BUNDLE] * 2, most)
    cluster.requests.withdraw("b")
    cluster.requests.renew("a", {}, [BUNDLE] * 2, math.inf)
    assert [len(bundles) for bundles in cluster.sent] == [2, 3, 1, 2]


def test_a_dead_drivers_request_is_dropped_and_the_last_one_out_ends_it():
    cluster = Cluster()
    cluster.requests.renew("a", {}, [BUNDLE])
    cluster.now = 40
    cluster.requests.renew("b", {}, [BUNDLE])
    for now, needed, bundles in [(50, True, 2), (51, True, 1), (90, True, 1), (91, True, 0), (149, True, 0)]:
        cluster.now = now
        assert cluster.requests.expire() is needed and cluster.sent[-1] == [BUNDLE] * bundles
    cluster.now = 150
    assert not cluster.requests.expire()


def test_a_request_that_failed_or_was_forgotten_is_sent_again():
    lost = Cluster(fresh=False)
    assert lost.requests.expire() and lost.sent == [[]], "it takes back what it may have requested"
    cluster = Cluster()
    cluster.failing = [OSError("no head")]
    assert cluster.requests.renew("a", {}, [BUNDLE])["error"] == "OSError: no head"
    assert cluster.requests.renew("a", {}, [BUNDLE])["error"] is None and cluster.sent == [[BUNDLE]]


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
        managed = Instance(
            node_kind=NodeKind.HEAD if kind == "head" else NodeKind.WORKER, instance_id=name, instance_type=kind,
            status=Instance.RAY_RUNNING, node_id=name, cloud_instance_id=name,
        )  # fmt: skip
        free = {unit: 0 if unit == "GPU" and not idle else amount for unit, amount in resources.items()}
        state = NodeState(
            ray_node_type_name=kind, node_id=name.encode(), instance_id=name, total_resources=resources,
            available_resources=free, status=NodeStatus.IDLE if idle else NodeStatus.RUNNING,
            idle_duration_ms=10**7 if idle else 0,
        )  # fmt: skip
        return AutoscalerInstance(cloud_instance_id=name, im_instance=managed, ray_node=state)

    types = {"head": ({"CPU": 0}, 0, 1), "gpu-spot": (SPOT, 8, spot), "gpu-ondemand": (ONDEMAND, 8, on_demand)}
    wanted = Util.group_by_count([Util.make({"GPU": 1, "ondemand": 1})] * ask)
    there = [(f"{name}-{n}", name, resources) for name, (resources, _, count) in types.items() for n in range(count)]
    reply = ResourceDemandScheduler(event_logger=None).schedule(
        SchedulingRequest(
            disable_launch_config_check=True, max_num_nodes=8 + 1, idle_timeout_s=60,
            node_type_configs={
                name: NodeTypeConfig(name, 0, most, resources=resources) for name, (resources, most, _) in types.items()
            },
            resource_requests=Util.group_by_count([Util.make({"CPU": 1, "GPU": 1})] * waiting),
            cluster_resource_constraints=[ClusterResourceConstraint(resource_requests=wanted)] if ask else [],
            current_instances=[instance(*one) for one in there],
        )
    )  # fmt: skip
    return {launch.instance_type: launch.count for launch in reply.to_launch}, len(reply.to_terminate)


@pytest.mark.parametrize("there, expected", [
    ((6, 0, 2), ({"gpu-spot": 2}, 0)),  # trials alone never get an on-demand node
    ((6, 2, 2), ({"gpu-ondemand": 2}, 0)),
    ((0, 8, 8), ({"gpu-ondemand": 8}, 0)),
    ((6, 2, 0, 2), ({}, 0)),  # nodes that are there count, at work or not
    ((0, 2, 0, 2, True), ({}, 0)),
    ((0, 1, 0, 2, True), ({}, 1)),
    ((0, 0, 0, 2, True), ({}, 2)),  # given back, they end
    ((6, 3, 2), ({"gpu-spot": 2}, 0)),  # one more than fits, and the whole request is ignored
])  # fmt: skip
def test_rays_autoscaler_does_what_is_relied_on(there, expected):
    assert scheduled(*there) == expected
