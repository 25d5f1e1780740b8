"""The capacity of the connected cluster, now and as far as it may grow.

The node types are in one of two places: the file that `ray up` leaves on its head, for drivers there; the RayCluster
resource of Kubernetes, for drivers in a pod that may read it, as the head's. A driver elsewhere, or on a cluster
without an autoscaler, counts the nodes that are alive.
"""

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tune_cd.cluster import ray_internals

RAY_BOOTSTRAP = Path("~/ray_bootstrap_config.yaml")
"""Where `ray up` leaves the cluster's description on its head node."""

ONDEMAND = "ondemand"
"""The custom resource of the on-demand twins of spot types. Ray starts a node that has it only for work that asks for
it."""

HEAD = "node:__internal_head__"
NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Nodes = list[dict[str, float]]


@dataclass(frozen=True)
class NodeType:
    """A type of node that the autoscaler starts. most: at a time."""

    name: str
    resources: Mapping[str, float]
    most: float  # math.inf: no limit

    @property
    def on_demand(self) -> bool:
        return self.resources.get(ONDEMAND, 0) > 0


@dataclass(frozen=True)
class Growth:
    """The node types of a cluster. most: nodes that it may have in all, without the head."""

    types: tuple[NodeType, ...] = ()
    most: float = math.inf


def processes_on(nodes: Iterable[Mapping[str, float]], cpus: int, gpus: float) -> int:
    """How many processes of so many CPUs and GPUs fit the nodes at a time."""
    return sum(
        int(min(node.get("CPU", 0) // cpus, (node.get("GPU", 0) + 1e-9) // gpus if gpus else math.inf))
        for node in nodes
    )


def processes_in_all(alive: Nodes, growth: Growth, cpus: int, gpus: float) -> float:
    """As `processes_on`, for nodes that are alive and nodes that may come; math.inf without a limit."""
    head, workers = [node for node in alive if HEAD in node], [node for node in alive if HEAD not in node]
    to_come, left = 0.0, growth.most
    for processes, most in sorted(_kinds(growth, cpus, gpus), reverse=True):
        if processes:
            to_come, left = to_come + processes * min(most, left), left - min(most, left)
    return processes_on(head, cpus, gpus) + max(processes_on(workers, cpus, gpus), to_come)


def _kinds(growth: Growth, cpus: int, gpus: float) -> list[tuple[int, float]]:
    """(processes on one node, most nodes) for each kind of node. A spot type and its on-demand twin are one kind:
    either replaces the other, so they do not add up."""
    counts: dict[tuple, dict[bool, float]] = defaultdict(lambda: {False: 0.0, True: 0.0})
    for kind in growth.types:
        plain = tuple(sorted((name, amount) for name, amount in kind.resources.items() if name != ONDEMAND))
        counts[plain][kind.on_demand] += kind.most
    return [(processes_on([dict(plain)], cpus, gpus), max(count.values())) for plain, count in counts.items()]


def alive_nodes() -> list[dict]:
    """Ray's entries of the nodes that are alive and not drained."""
    import ray

    draining = ray_internals.draining_nodes()
    return [node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in draining]


def cluster_growth(bootstrap: Path = RAY_BOOTSTRAP, namespace: Path = NAMESPACE) -> Growth:
    """The growth of the connected cluster; none if neither place describes it. namespace: the file in a pod that names
    its own.

    Raises ValueError for a description that cannot be read, OSError if Kubernetes does not answer.
    """
    if bootstrap.expanduser().exists():
        try:
            return from_description(yaml.safe_load(bootstrap.expanduser().read_text("utf-8")), str(bootstrap))
        except yaml.YAMLError as error:
            raise ValueError(f"{bootstrap} cannot be read: {error}") from error
    name = os.environ.get("RAY_CLUSTER_NAME")
    if os.environ.get("KUBERNETES_SERVICE_HOST") and name and namespace.exists():
        resource = ray_internals.kubernetes_raycluster(name, namespace.read_text().strip())
        return from_description(ray_internals.kuberay_config(resource), "the RayCluster")
    return Growth()


def from_description(config: dict, where: str) -> Growth:
    """The growth that a file for `ray up` allows. Raises ValueError, naming `where`, for anything else."""
    try:
        most, head = float(config.get("max_workers", math.inf)), config.get("head_node_type")
        types = [
            NodeType(name, dict(kind.get("resources", {})), float(kind.get("max_workers", 0 if name == head else most)))
            for name, kind in config.get("available_node_types", {}).items()
        ]
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{where} does not describe a cluster: {error}") from error
    return Growth(tuple(kind for kind in types if kind.most > 0), most)
