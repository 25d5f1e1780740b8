"""Rules for RayJob and RayCluster. Resources of pods are those that Ray's own autoscaler reads."""

import re
from collections.abc import Iterator

from tune_cd.cluster import ray_internals

from . import common
from .documents import Document, Finding, Place, at

SPOT = {
    "cloud.google.com/gke-spot": "true", "cloud.google.com/gke-preemptible": "true",
    "cloud.google.com/gke-provisioning": "spot", "eks.amazonaws.com/capacityType": "SPOT",
    "karpenter.sh/capacity-type": "spot", "kubernetes.azure.com/scalesetpriority": "spot",
}  # fmt: skip
"""Label -> value of spot nodes on GKE, EKS, Karpenter and AKS."""
PLACEMENT = ("nodeSelector", "tolerations", "affinity")  # the fields in which a spot group and its twin differ
TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
HOOKS = (("command",), ("lifecycle", "preStop", "exec", "command"), ("lifecycle", "postStart", "exec", "command"))
SHM = "/dev/shm"


def cluster_place(document: Document) -> Place:
    return ("spec", "rayClusterSpec") if document.data["kind"] == "RayJob" else ("spec",)


def specs(document: Document) -> list[tuple[Place, dict]]:
    """(place, group) of the head, then of each type of worker."""
    place = cluster_place(document)
    cluster = at(document.data, *place, default={})
    workers = enumerate(at(cluster, "workerGroupSpecs", default=[]))
    found = [((*place, "headGroupSpec"), at(cluster, "headGroupSpec", default={}))]
    return found + [((*place, "workerGroupSpecs", index), group) for index, group in workers if isinstance(group, dict)]


def groups(document: Document) -> list[common.Group]:
    """The head and the workers. Raises whatever Ray raises where its autoscaler cannot read them."""
    resource = {
        "metadata": {"name": "x", "namespace": "x"},
        "spec": at(document.data, *cluster_place(document), default={}),
    }
    read = list(ray_internals.kuberay_config(resource)["available_node_types"].items())
    made = []
    for (name, kind), (place, group) in zip(read, specs(document), strict=True):
        pod = at(group, "template", "spec", default={})
        machine = {key: value for key, value in pod.items() if key not in PLACEMENT}
        made.append(common.Group(name, place, "template", kind["resources"], _is_spot(pod), machine))
    return made


def _is_spot(pod: dict) -> bool:
    asked = list(at(pod, "nodeSelector", default={}).items())
    for term in at(pod, *TERMS, default=[]):
        for expression in at(term, "matchExpressions", default=[]):
            if at(expression, "operator") == "In":
                asked += [(at(expression, "key"), value) for value in at(expression, "values", default=[])]
    return any(SPOT.get(key) == value for key, value in asked)


def containers(document: Document) -> Iterator[tuple[Place, dict]]:
    """(place, container) for every container of every group, init containers included."""
    for place, group in specs(document):
        for name in ("initContainers", "containers"):
            for index, container in enumerate(at(group, "template", "spec", name, default=[])):
                yield (*place, "template", "spec", name, index), container


def findings(document: Document) -> Iterator[Finding]:
    """All findings of a RayJob or RayCluster. Its fields are not validated."""
    try:
        head, *workers = groups(document)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # Ray raises exceptions of any type here
        text = f"Ray's autoscaler cannot read its groups: {type(error).__name__}: {' '.join(str(error).split())}"
        yield Finding(cluster_place(document), text)
    else:
        yield from common.head_drives(head, 'rayStartParams: {num-cpus: "0"}, without GPUs,')
        yield from common.spot_has_a_twin(workers)
    for rule in (it_ends, commands_are_valid, containers_are_good, token_is_asked_for, service_is_private):
        yield from rule(document)
    if document.data["kind"] == "RayJob":
        yield from results_stay(document)


def it_ends(document: Document) -> Iterator[Finding]:
    """Without the autoscaler all replicas run, and are billed, to the end. A RayJob keeps its cluster by default."""
    spec, place = document.data.get("spec"), cluster_place(document)
    if at(document.data, *place, "enableInTreeAutoscaling") is not True:
        text = "must be true: otherwise all replicas are billed from beginning to end"
        yield Finding((*place, "enableInTreeAutoscaling"), text)
    kept = document.data["kind"] == "RayJob" and not at(spec, "clusterSelector") and not at(spec, "deletionStrategy")
    if kept and at(spec, "shutdownAfterJobFinishes") is not True:
        text = "must be true: otherwise the cluster stays, and is billed, when the search is done"
        yield Finding(("spec", "shutdownAfterJobFinishes"), text)


def commands_are_valid(document: Document) -> Iterator[Finding]:
    """The entrypoint and the containers' commands, `[bash, -c, TEXT]`, must be valid shell. A hook that fails says
    nothing."""
    texts = [(("spec", "entrypoint"), at(document.data, "spec", "entrypoint"))]
    for place, container in containers(document):
        for where in HOOKS:
            words = [str(word) for word in at(container, *where, default=[])]
            if len(words) >= 3 and words[0].endswith("sh") and re.fullmatch("-[a-z]*c", words[1]):
                texts.append(((*place, *where, 2), words[2]))
    for place, text in texts:
        if isinstance(text, str) and (wrong := common.shell_error(text)):
            yield Finding(place, wrong)


def containers_are_good(document: Document) -> Iterator[Finding]:
    """Images must name a version, and workers need shared memory. Kubernetes gives a container 64 MB of /dev/shm; Ray's
    objects and torch's loaders exceed them, so training fails or falls back to disk."""
    for place, container in containers(document):
        if wrong := common.image_error(str(at(container, "image") or "")):
            yield Finding((*place, "image"), wrong)
    for place, group in specs(document)[1:]:
        pod = at(group, "template", "spec", default={})
        volumes, mounts = at(pod, "volumes", default=[]), at(pod, "containers", 0, "volumeMounts", default=[])
        in_memory = [at(it, "name") for it in volumes if at(it, "emptyDir", "medium") == "Memory"]
        if not any(at(it, "mountPath") == SHM and at(it, "name") in in_memory for it in mounts):
            where = (*place, "template", "spec", "containers", 0)
            yield Finding(where, f"no volume in memory at {SHM}: Kubernetes gives 64 MB, too little for training")


def results_stay(document: Document) -> Iterator[Finding]:
    """Results must not lie in a pod's own file system: they are lost with the pod, and other pods do not see them."""
    entrypoint = str(at(document.data, "spec", "entrypoint", default=""))
    match = re.search(r"--results[= ]['\"]?(\S+)", entrypoint)
    place = match[1] if match else "results"
    mounts = [at(it, "volumeMounts", default=[]) for where, it in containers(document) if where[-2] == "containers"]
    shared = all(any(place.startswith(str(at(mount, "mountPath"))) for mount in listed) for listed in mounts)
    if "tune_cd.run" in entrypoint and "://" not in place and not shared:
        yield Finding(("spec", "entrypoint"), f"--results {place} lies in a pod and is lost with it: give a URI")


def token_is_asked_for(document: Document) -> Iterator[Finding]:
    """Without a token every pod of the Kubernetes cluster may run code here. `authOptions` makes one for all pods."""
    place = cluster_place(document)
    options, version = (at(document.data, *place, name) for name in ("authOptions", "rayVersion"))
    if isinstance(options, dict) and at(options, "mode", default="token") == "token":
        if not version:
            yield Finding(place, "rayVersion is missing: KubeRay makes no token without it")
        return
    for _, group in specs(document):
        env = {at(it, "name"): it for it in at(group, "template", "spec", "containers", 0, "env", default=[])}
        secret = at(env, "RAY_AUTH_TOKEN", "valueFrom", "secretKeyRef") or at(env, "RAY_AUTH_TOKEN", "value")
        if at(env, "RAY_AUTH_MODE", "value") != "token" or not secret:
            text = "mode: token is missing: without it whoever reaches the head's port may run anything"
            yield Finding((*place, "authOptions"), text)
            return


def service_is_private(document: Document) -> Iterator[Finding]:
    """The dashboard runs jobs, so it stays private: `kubectl port-forward` reaches it without any open port."""
    place, head = specs(document)[0]
    opened = [name for name in ("serviceType", "enableIngress") if at(head, name) in ("LoadBalancer", "NodePort", True)]
    for name in opened:
        yield Finding((*place, name), "opens the dashboard beyond the cluster: use `kubectl port-forward` to see it")
