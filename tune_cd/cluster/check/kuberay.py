"""Rules for RayJob and RayCluster, whose groups Ray's own autoscaler must be able to read."""

import re
from collections.abc import Iterator
from typing import Any

from tune_cd.cluster import ray_internals

from . import rules
from .documents import Document, Finding, Place, at, matches
from .rules import Rule

GROUPS, SHM = ("headGroupSpec", "workerGroupSpecs.*"), "/dev/shm"
MOUNTS = "containers.0.volumeMounts.*"


def shares_memory(pod: Any) -> bool:
    mounts = [at(mount, "name") for _, mount in matches(pod, MOUNTS) if at(mount, "mountPath") == SHM]
    volumes = [volume for _, volume in matches(pod, "volumes.*") if at(volume, "emptyDir", "medium") == "Memory"]
    return any(at(volume, "name") in mounts for volume in volumes)


def lost_results(job: Any) -> str | None:
    """The place of the results if it lies in a pod's own file system."""
    entrypoint = str(at(job, "entrypoint", default=""))
    found = re.search(r"--results[= ]['\"]?(\S+)", entrypoint)
    results = found[1] if found else "results"
    pods = [pod for group in GROUPS for _, pod in matches(job, f"rayClusterSpec.{group}.template.spec.containers.*")]
    mounts = [[f"{mount}" for _, mount in matches(pod, "volumeMounts.*.mountPath")] for pod in pods]
    shared = all(any(map(results.startswith, paths)) for paths in mounts)
    return results if "tune_cd.run" in entrypoint and "://" not in results and not shared else None


def shared_name(groups: Any) -> str:
    names = [f"{name}" for _, name in matches(groups, "*.groupName")]
    return next((name for name in names if names.count(name) > 1), "")


JOB: list[Rule] = [
    ("spec", lambda job: at(job, "shutdownAfterJobFinishes") is not True and not at(job, "clusterSelector")
     and not at(job, "deletionStrategy"),
     "shutdownAfterJobFinishes: true is missing: the cluster stays, and is billed, when the search is done"),
    ("spec", lost_results, "entrypoint: --results {} lies in a pod and is lost with it: give a URI"),
    ("spec.entrypoint", lambda text: rules.shell_error(f"{text}"), "no valid shell: {}"),
]  # fmt: skip
CLUSTER: list[Rule] = [
    ("enableInTreeAutoscaling", lambda grows: grows is not True,
     "must be true: otherwise all replicas are billed from beginning to end"),
    ("autoscalerOptions.idleTimeoutSeconds", lambda seconds: seconds == 0,
     "must be more than 0: pods would end between two trials"),
    ("headGroupSpec.rayStartParams", lambda given: f"{at(given, 'num-cpus')}" != "0",
     'num-cpus: "0" is needed here, or trials run on the head'),
    ("workerGroupSpecs", lambda groups: {most for _, most in matches(groups, "*.maxReplicas")} == {0},
     "maxReplicas is 0 in all of them: no worker would be started"),
    ("workerGroupSpecs", shared_name, "two groups are named {}: Ray's autoscaler takes them for one"),
    ("headGroupSpec.serviceType|enableIngress", lambda kind: kind in ("LoadBalancer", "NodePort", True),
     "opens the dashboard, which runs anybody's jobs, beyond the cluster: use `kubectl port-forward` to see it"),
    ("workerGroupSpecs.*.template.spec", lambda pod: not shares_memory(pod),
     f"no volume in memory at {SHM}: Kubernetes gives 64 MB, too little for torch's loaders and Ray's objects"),
    ("workerGroupSpecs.*.template.spec.containers.*.resources.limits",
     lambda limits: "gpu':" not in f"{limits}" and ", ".join(re.findall(r"[\w./-]*gpu[\w./-]*(?=':)", f"{limits}")),
     "{} is no GPU to Ray, whose name ends in gpu: no trial would get it"),
    ("authOptions", lambda options: not isinstance(options, dict) or at(options, "mode", default="token") != "token",
     "mode: token is missing: without it whoever reaches the head may run anything"),
    ("", lambda cluster: at(cluster, "authOptions") and not at(cluster, "rayVersion"),
     "rayVersion is missing: KubeRay makes no token without it"),
    *((f"{group}.template.spec.containers.*.image", rules.moves, rules.MOVES) for group in GROUPS),
]  # fmt: skip


def findings(document: Document) -> Iterator[Finding]:
    """All findings of a RayJob or RayCluster. Its fields are not validated."""
    is_job = document.data["kind"] == "RayJob"
    place: Place = ("spec", "rayClusterSpec") if is_job else ("spec",)
    cluster = at(document.data, *place, default={})
    try:
        ray_internals.kuberay_config({"metadata": {"name": "x", "namespace": "x"}, "spec": cluster})
    except ModuleNotFoundError:
        raise
    except Exception as error:  # Ray raises exceptions of any type here
        yield Finding(place, f"Ray's autoscaler cannot read its groups: {type(error).__name__}: {error}")
    yield from rules.broken(CLUSTER, cluster, place)
    yield from rules.broken(JOB if is_job else [], document.data)
