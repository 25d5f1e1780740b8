"""What the connected cluster has, and what it may grow to.

Three places know node types, and each cluster has at most one of them, so they are asked in this order:

- Ray's own record, `ClusterConfig` in the head's store (`ray._private`, but the only one that a driver reads on any
  node): autoscalers of managed Ray write it; those of open-source Ray 2.60, v1 and v2, do not, nor does KubeRay's.
- ~/ray_bootstrap_config.yaml, which `ray up` leaves on its head: for drivers that run there.
- the RayCluster resource of Kubernetes, as KubeRay's autoscaler reads it: for drivers in a pod that may, as the head's.

A driver elsewhere, or a cluster without an autoscaler, has none: what is alive is all there is.
"""

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

RAY_BOOTSTRAP = Path("~/ray_bootstrap_config.yaml")
"""Where `ray up` leaves the cluster's own description on its head node."""

ONDEMAND = "ondemand"
"""The custom resource of node types that are started only for what asks for it: twins of spot types."""

HEAD = "node:__internal_head__"
NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Nodes = list[dict[str, float]]


@dataclass(frozen=True)
class NodeType:
    """A kind of node that the autoscaler starts; at most so many of them at a time."""

    name: str
    resources: Mapping[str, float]
    most: float  # math.inf: no limit

    @property
    def on_demand(self) -> bool:
        return self.resources.get(ONDEMAND, 0) > 0


@dataclass(frozen=True)
class Growth:
    """The node types of a cluster, and how many nodes but for the head it may have in all."""

    types: tuple[NodeType, ...] = ()
    most: float = math.inf


def processes_on(nodes: Iterable[Mapping[str, float]], cpus: int, gpus: float) -> int:
    """How many processes of so many CPUs and GPUs fit the nodes at a time."""
    return sum(
        int(min(node.get("CPU", 0) // cpus, (node.get("GPU", 0) + 1e-9) // gpus if gpus else math.inf))
        for node in nodes
    )


def processes_in_all(alive: Nodes, growth: Growth, cpus: int, gpus: float) -> float:
    """As `processes_on`, on what is alive and what may come; math.inf where nothing limits it."""
    workers = [node for node in alive if HEAD not in node]
    head = [node for node in alive if HEAD in node]
    to_come, left = 0.0, growth.most
    for processes, most in sorted(_kinds(growth, cpus, gpus), reverse=True):
        nodes = min(most, left)
        to_come += processes * nodes if processes else 0
        left -= nodes if processes else 0
    return processes_on(head, cpus, gpus) + max(processes_on(workers, cpus, gpus), to_come)


def nodes_in_all(alive: Nodes, growth: Growth) -> float:
    """How many nodes with a CPU there are or may be."""
    able = [node for node in alive if node.get("CPU", 0) >= 1]
    head = sum(HEAD in node for node in able)
    to_come = min(growth.most, sum(most for processes, most in _kinds(growth, 1, 0) if processes))
    return head + max(len(able) - head, to_come)


def _kinds(growth: Growth, cpus: int, gpus: float) -> list[tuple[int, float]]:
    """(processes on one, how many) of each kind of node. A spot type and its on-demand twin are one kind: either stands in
    for the other, so they do not add up."""
    counts: dict[tuple, dict[bool, float]] = defaultdict(lambda: {False: 0.0, True: 0.0})
    for kind in growth.types:
        plain = tuple(sorted((name, amount) for name, amount in kind.resources.items() if name != ONDEMAND))
        counts[plain][kind.on_demand] += kind.most
    return [(processes_on([dict(plain)], cpus, gpus), max(count.values())) for plain, count in counts.items()]


def alive_nodes() -> list[dict]:
    """Ray's entries of the nodes that are alive and stay: one that is drained takes no trial any more."""
    import ray

    going = ray._private.state.state.get_draining_nodes()
    return [node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in going]


def cluster_growth(bootstrap: Path = RAY_BOOTSTRAP) -> Growth:
    """What the connected cluster may grow to; see above for where this is found.

    Raises ValueError for a description that cannot be read, OSError for one that does not answer.
    """
    import ray

    reported = ray._private.state.state.get_cluster_config()
    if reported is not None and reported.node_group_configs:
        return _from_report(reported)
    if bootstrap.expanduser().exists():
        return from_description(_read(bootstrap.expanduser()), str(bootstrap))
    if os.environ.get("KUBERNETES_SERVICE_HOST") and os.environ.get("RAY_CLUSTER_NAME") and NAMESPACE.exists():
        return from_description(
            _of_kubernetes(os.environ["RAY_CLUSTER_NAME"], NAMESPACE.read_text().strip()), "the RayCluster"
        )
    return Growth()


def _read(file: Path) -> dict:
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


def from_description(config: dict, where: str) -> Growth:
    """The growth that a cluster file as `ray up` takes it allows. Raises ValueError, naming `where`, for what is none."""
    try:
        most = float(config.get("max_workers", math.inf))
        head = config.get("head_node_type")
        counts = {
            name: kind.get("max_workers", 0 if name == head else most)
            for name, kind in config.get("available_node_types", {}).items()
        }
        types = [
            NodeType(name, dict(config["available_node_types"][name].get("resources", {})), float(count))
            for name, count in counts.items()
        ]
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{where} does not describe a cluster: {error}") from error
    return Growth(tuple(kind for kind in types if kind.most > 0), most)


def _from_report(config) -> Growth:
    """config: Ray's ClusterConfig, in which -1 means without limit."""
    types = [
        NodeType(group.name, dict(group.resources), math.inf if group.max_count == -1 else float(group.max_count))
        for group in config.node_group_configs
    ]
    return Growth(tuple(kind for kind in types if kind.most > 0))


def _of_kubernetes(name: str, namespace: str) -> dict:
    """The RayCluster as KubeRay's autoscaler translates it. Raises OSError where it cannot be had."""
    from ray.autoscaler._private.kuberay import autoscaling_config, node_provider

    resource = node_provider.KubernetesHttpApiClient(namespace).get(
        f"rayclusters/{name}"
    )  # requests' errors are OSErrors
    return autoscaling_config._derive_autoscaling_config_from_ray_cr(resource)
