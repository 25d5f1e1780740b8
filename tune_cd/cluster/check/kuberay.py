"""Rules for RayJob and RayCluster. Resources of pods are those that Ray's own autoscaler reads."""

import re
from collections.abc import Iterator

from tune_cd.cluster import ray_internals

from . import rules
from .documents import Document, Finding, Place, at, matches
from .rules import Group, Rule, said

SPOT = {
    "cloud.google.com/gke-spot": "true", "cloud.google.com/gke-preemptible": "true",
    "cloud.google.com/gke-provisioning": "spot", "eks.amazonaws.com/capacityType": "SPOT",
    "karpenter.sh/capacity-type": "spot", "kubernetes.azure.com/scalesetpriority": "spot",
}  # fmt: skip
"""Label -> value of spot nodes on GKE, EKS, Karpenter and AKS."""
PLACEMENT = ("nodeSelector", "tolerations", "affinity")  # the fields in which a spot group and its twin differ
REQUIRED = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.*.matchExpressions.*"
POD, SHM = "template.spec", "/dev/shm"
CONTAINERS = f"{POD}.containers|initContainers.*"
HOOKS = [f"{CONTAINERS}.{hook}" for hook in ("command", "lifecycle.preStop|postStart.exec.command")]

JOB: list[Rule] = [
    ("spec", lambda spec: at(spec, "shutdownAfterJobFinishes") is not True and not at(spec, "clusterSelector")
     and not at(spec, "deletionStrategy"),
     "shutdownAfterJobFinishes: true is missing: the cluster stays, and is billed, when the search is done"),
    ("spec.entrypoint", lambda text: rules.shell_error(f"{text}"), "no valid shell: {}"),
]  # fmt: skip
CLUSTER: list[Rule] = [
    ("enableInTreeAutoscaling", lambda grows: grows is not True,
     "must be true: otherwise all replicas are billed from beginning to end"),
    ("autoscalerOptions.idleTimeoutSeconds", lambda seconds: seconds == 0,
     "must be more than 0: pods would end between two trials"),
    ("headGroupSpec.serviceType|enableIngress", lambda kind: kind in ("LoadBalancer", "NodePort", True),
     "opens the dashboard, which runs anybody's jobs, beyond the cluster: use `kubectl port-forward` to see it"),
    (f"workerGroupSpecs.*.{POD}", lambda pod: not shares_memory(pod),
     f"no volume in memory at {SHM}: Kubernetes gives 64 MB, too little for torch's loaders and Ray's objects"),
]  # fmt: skip


def shares_memory(pod: dict) -> bool:
    in_memory = [at(volume, "name") for volume in at(pod, "volumes", default=[])
                 if at(volume, "emptyDir", "medium") == "Memory"]  # fmt: skip
    mounts = at(pod, "containers", 0, "volumeMounts", default=[])
    return any(at(mount, "mountPath") == SHM and at(mount, "name") in in_memory for mount in mounts)


def specs(document: Document) -> list[tuple[Place, dict]]:
    """(place, value) of the cluster, of the head's group, then of each type of worker."""
    place: Place = ("spec", "rayClusterSpec") if document.data["kind"] == "RayJob" else ("spec",)
    cluster = at(document.data, *place, default={})
    found = [*matches(cluster, "headGroupSpec", place), *matches(cluster, "workerGroupSpecs.*", place)]
    return [(place, cluster), *((where, group) for where, group in found if isinstance(group, dict))]


def group_of(name: str, resources: dict, place: Place, group: dict) -> Group:
    pod = at(group, "template", "spec", default={})
    asked = list(at(pod, "nodeSelector", default={}).items())
    for _, expression in matches(pod, REQUIRED):
        if at(expression, "operator") == "In":
            asked += [(f"{at(expression, 'key')}", value) for value in at(expression, "values", default=[])]
    machine = {key: value for key, value in pod.items() if key not in PLACEMENT}
    return Group(name, place, rules.spelt(resources), any(SPOT.get(key) == value for key, value in asked), machine)


def findings(document: Document) -> Iterator[Finding]:
    """All findings of a RayJob or RayCluster. Its fields are not validated."""
    (place, cluster), *groups = specs(document)
    try:
        read = ray_internals.kuberay_config({"metadata": {"name": "x", "namespace": "x"}, "spec": cluster})
        kinds = [(name, kind["resources"]) for name, kind in read["available_node_types"].items()]
        made = [group_of(*kind, *group) for kind, group in zip(kinds, groups, strict=True)]
    except ModuleNotFoundError:
        raise
    except Exception as error:  # Ray raises exceptions of any type here
        yield Finding(place, f"Ray's autoscaler cannot read its groups: {type(error).__name__}: {error}")
    else:
        for (_, resources), (where, _) in zip(kinds, groups):
            wrong = rules.misspelt(resources)
            yield from said((*where, "rayStartParams", "resources"), {rules.MISSPELT.replace("{}", wrong): wrong})
        yield from rules.groups_are_good(made[0], made[1:], 'rayStartParams: {num-cpus: "0"}, without GPUs,')
    yield from rules.broken(CLUSTER, cluster, place)
    for where, group in groups:
        yield from pods_are_good(where, group)
    yield from token_is_asked_for(document)
    if document.data["kind"] == "RayJob":
        yield from rules.broken(JOB, document.data)
        yield from results_stay(document)


def pods_are_good(place: Place, group: dict) -> Iterator[Finding]:
    """Images stay, and commands, `[bash, -c, TEXT]`, are valid: a hook that fails says nothing."""
    yield from rules.broken([(f"{CONTAINERS}.image", rules.moves, rules.MOVES)], group, place)
    for where, words in (found for hook in HOOKS for found in matches(group, hook, place)):
        match [str(word) for word in words or ()] if isinstance(words, list) else []:
            case [shell, flags, text, *_] if shell.endswith("sh") and re.fullmatch("-[a-z]*c", flags):
                error = rules.shell_error(text)
                yield from said((*where, 2), {f"no valid shell: {error}": error})


def results_stay(document: Document) -> Iterator[Finding]:
    """Results must not lie in a pod's own file system: they are lost with the pod, and other pods do not see them."""
    entrypoint = str(at(document.data, "spec", "entrypoint", default=""))
    found = re.search(r"--results[= ]['\"]?(\S+)", entrypoint)
    results = found[1] if found else "results"
    pods = [pod for _, group in specs(document)[1:] for _, pod in matches(group, f"{POD}.containers.*")]
    mounts = [[f"{mount}" for _, mount in matches(pod, "volumeMounts.*.mountPath")] for pod in pods]
    shared = all(any(map(results.startswith, paths)) for paths in mounts)
    lost = "tune_cd.run" in entrypoint and "://" not in results and not shared
    text = f"--results {results} lies in a pod and is lost with it: give a URI"
    yield from said(("spec", "entrypoint"), {text: lost})


def token_is_asked_for(document: Document) -> Iterator[Finding]:
    """Without a token every pod of the Kubernetes cluster may run code here. `authOptions` makes one for all pods."""
    (place, cluster), *groups = specs(document)
    options = at(cluster, "authOptions")
    if isinstance(options, dict) and at(options, "mode", default="token") == "token":
        missing = "rayVersion is missing: KubeRay makes no token without it"
        yield from said(place, {missing: not at(cluster, "rayVersion")})
        return
    asked = []
    for _, group in groups:
        env = {f"{at(it, 'name')}": it for it in at(group, "template", "spec", "containers", 0, "env", default=[])}
        secret = at(env, "RAY_AUTH_TOKEN", "valueFrom", "secretKeyRef") or at(env, "RAY_AUTH_TOKEN", "value")
        asked.append(at(env, "RAY_AUTH_MODE", "value") == "token" and secret)
    text = "mode: token is missing: without it whoever reaches the head's port may run anything"
    yield from said((*place, "authOptions"), {text: not all(asked)})
