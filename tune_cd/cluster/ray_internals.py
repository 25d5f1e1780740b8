"""All private API of Ray that clusters need, in one place; where a public one falls short, the function says why.

Called in Ray 2.60.0 (`tests/cluster/test_ray_internals.py` calls every function). The same names are in the source of
2.40.0, with one exception, noted below. All exceptions come from Ray.
"""

import json
from collections import Counter


def draining_nodes() -> set[str]:
    """Ids of nodes that take no new work. `ray.nodes()` shows them as alive."""
    import ray

    return set(ray._private.state.state.get_draining_nodes())


def cluster_config():
    """The ClusterConfig in the head's store, or None. Managed Ray's autoscalers write it; those of open-source Ray and
    KubeRay do not. It is the only record of node types that a driver can read on any node. 2.40.0 has no such
    method."""
    import ray

    method = getattr(ray._private.state.state, "get_cluster_config", None)
    return None if method is None else method()


def recorded_cluster() -> str | None:
    """The address of the cluster that `ray start` last began on this machine, dead or alive; None without one.
    `ray.init()` joins it, and tries for nine minutes if it is dead."""
    from ray._private.services import find_bootstrap_address

    return find_bootstrap_address(None)


def kuberay_config(raycluster: dict) -> dict:
    """The cluster file that KubeRay's autoscaler makes of a RayCluster resource, resources of pods included."""
    from ray.autoscaler._private.kuberay import autoscaling_config

    return autoscaling_config._derive_autoscaling_config_from_ray_cr(raycluster)


def kubernetes_raycluster(name: str, namespace: str) -> dict:
    """The RayCluster resource, read with the pod's service account. Raises OSError if it cannot be read."""
    from ray.autoscaler._private.kuberay import node_provider

    return node_provider.KubernetesHttpApiClient(namespace).get(f"rayclusters/{name}")  # requests' errors are OSErrors


def starting_nodes() -> Counter[str]:
    """Node type -> nodes that the cloud has granted and that are being set up; from either version of the autoscaler,
    empty without one."""
    import ray
    from ray.autoscaler.v2.utils import is_autoscaler_v2

    if is_autoscaler_v2():
        from ray.autoscaler.v2.sdk import get_cluster_status

        status = get_cluster_status(ray.get_runtime_context().gcs_address)
        return Counter(node.ray_node_type_name for node in status.pending_nodes)
    from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
    from ray.experimental.internal_kv import _internal_kv_get

    report = json.loads(_internal_kv_get(DEBUG_AUTOSCALING_STATUS) or b"{}").get("autoscaler_report") or {}
    return Counter(kind for _, kind, _ in report.get("pending_nodes", []))


def prepare_and_validate(config: dict) -> None:
    """Prepare and validate a file as `ray up` does before it contacts anything. Raises whatever Ray raises."""
    from ray.autoscaler._private import util

    util.validate_config(util.prepare_config(config))
