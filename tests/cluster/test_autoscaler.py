"""What the autoscaler says, from both of its versions. No Ray runs."""

import json

import pytest

from tune_cd.cluster.autoscaler import Scaling, from_v1, from_v2

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
