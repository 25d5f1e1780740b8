"""Rules for RayJob and RayCluster. Their fields are compared with KubeRay's own description (`crd`)."""

import json
import re
from collections.abc import Iterator

from .documents import Document, at
from .fields import compare
from .findings import Finding, Place, suggestion
from .launcher import image_trouble
from .starting import shell_trouble, start_options

METADATA = {
    "name", "generateName", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "uid", "resourceVersion",
    "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds",
}  # fmt: skip
GPU = "nvidia.com/gpu"
SPOT = {
    "cloud.google.com/gke-spot": "true", "cloud.google.com/gke-preemptible": "true", "cloud.google.com/gke-provisioning": "spot",
    "eks.amazonaws.com/capacityType": "SPOT", "karpenter.sh/capacity-type": "spot", "kubernetes.azure.com/scalesetpriority": "spot",
}  # fmt: skip
"""Label -> value of the nodes that GKE, EKS, Karpenter and AKS take away."""


def cluster_place(document: Document) -> Place:
    return ("spec", "rayClusterSpec") if document.data["kind"] == "RayJob" else ("spec",)


def cluster(document: Document) -> dict:
    return at(document.data, *cluster_place(document), default={})


def groups(document: Document) -> list[tuple[Place, dict]]:
    """The worker groups with their places."""
    listed = at(cluster(document), "workerGroupSpecs", default=[])
    place = (*cluster_place(document), "workerGroupSpecs")
    return [((*place, index), group) for index, group in enumerate(listed) if isinstance(group, dict)]


def head(document: Document) -> tuple[Place, dict]:
    return (*cluster_place(document), "headGroupSpec"), at(cluster(document), "headGroupSpec", default={})


def containers(document: Document) -> Iterator[tuple[Place, dict]]:
    """Every container of every group, those that run before it included."""
    for place, group in [head(document), *groups(document)]:
        for name in ("initContainers", "containers"):
            for index, container in enumerate(at(group, "template", "spec", name, default=[])):
                yield (*place, "template", "spec", name, index), container


def fields_exist(document: Document, schema: dict) -> Iterator[Finding]:
    """Kubernetes drops a field that it does not know, with a warning at most: the job runs without it."""
    known = {key: value for key, value in schema["properties"].items() if key != "metadata"}
    top = {
        "type": "object",
        "properties": known | {"metadata": {"type": "object", "properties": dict.fromkeys(METADATA, {})}},
    }
    yield from compare(document.data, top, "KubeRay", ())


def head_never_trains(document: Document) -> Iterator[Finding]:
    """The head drives the search; with CPUs or GPUs to offer it gets trials as well, and takes the search along when it ends."""
    place, group = head(document)
    if str(at(group, "rayStartParams", "num-cpus")) != "0" and str(at(group, "resources", "CPU")) != "0":
        yield Finding((*place, "rayStartParams"), 'num-cpus: "0" is needed here, or trials land on the head')
    for index, container in enumerate(at(group, "template", "spec", "containers", default=[])):
        if at(container, "resources", "limits", GPU, default=0) not in (0, "0"):
            yield Finding(
                (*place, "template", "spec", "containers", index, "resources"), "a GPU for the head, which never trains"
            )


def head_stays(document: Document) -> Iterator[Finding]:
    """Where the head is taken away, everything stops."""
    place, group = head(document)
    if _is_spot(group):
        yield Finding((*place, "template", "spec", "nodeSelector"), "a spot head: with it the whole search is lost")


def spot_has_a_twin(document: Document) -> Iterator[Finding]:
    """Where spot is short its pods stay pending: Ray does not turn to another group unless something is asked for that only that has."""
    found = groups(document)
    if any("?" in _resources(group) for _, group in found):
        return  # said elsewhere
    for place, group in found:
        if not _is_spot(group):
            continue
        wanted = _resources(group) | {"ondemand": 1}
        others = [(other, it) for other, it in found if not _is_spot(it)]
        same = [(other, it) for other, it in others if _pod(it) == _pod(group)]
        if any(_resources(it) == wanted for _, it in same):
            continue
        name = at(group, "groupName", default=place[-1])
        if same:
            where = "rayStartParams" if "resources" not in same[0][1] else "resources"
            yield Finding((*same[0][0], where), f"it is {name}'s on-demand twin, so it needs the resource ondemand: 1")
        elif any(_resources(it) == wanted for _, it in others):
            yield Finding(
                (*place, "template"), "differs from its on-demand twin in more than nodeSelector and tolerations"
            )
        else:
            yield Finding(
                place, "no on-demand twin: the same pod without the spot nodes' selector, and the resource ondemand: 1"
            )


def _is_spot(group: dict) -> bool:
    selector = at(group, "template", "spec", "nodeSelector", default={})
    asked = list(selector.items())
    terms = at(group, "template", "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
               default=[])  # fmt: skip
    for expression in (part for term in terms for part in at(term, "matchExpressions", default=[])):
        asked += [
            (at(expression, "key"), value)
            for value in at(expression, "values", default=[])
            if at(expression, "operator") == "In"
        ]
    return any(SPOT.get(key) == value for key, value in asked)


def _pod(group: dict) -> dict:
    """The pod of a group, leaving aside where it may be put."""
    spec = at(group, "template", "spec", default={})
    return {key: value for key, value in spec.items() if key not in ("nodeSelector", "tolerations", "affinity")}


def _resources(group: dict) -> dict:
    """The group's own resources, as Ray's autoscaler reads them; {"?": text} for what it cannot read."""
    if named := at(group, "resources"):
        return {key: float(value) if re.fullmatch(r"[\d.]+", str(value)) else value for key, value in named.items()}
    text = at(group, "rayStartParams", "resources")
    if text is None:
        return {}
    try:
        return json.loads(str(text)[1:-1].replace("\\", ""))
    except ValueError:
        return {"?": text}


def resources_are_readable(document: Document) -> Iterator[Finding]:
    """Ray's autoscaler takes this string apart in a way of its own, and ends where it cannot."""
    for place, group in [head(document), *groups(document)]:
        if "?" in _resources(group):
            yield Finding(
                (*place, "rayStartParams", "resources"),
                """write it as '"{\\"ondemand\\": 1}"', quotes and backslashes included""",
            )


def start_params_exist(document: Document) -> Iterator[Finding]:
    """They become options of `ray start`, which ends at one that it does not know; numbers must be quoted."""
    known = {option.removeprefix("--") for option in start_options() if option.startswith("--")}
    for place, group in [head(document), *groups(document)]:
        params = at(group, "rayStartParams", default={})
        for key in params:
            if key not in known:
                yield Finding(
                    (*place, "rayStartParams", key), f"`ray start` has no option --{key}{suggestion(key, known)}"
                )


def replicas_fit(document: Document) -> Iterator[Finding]:
    """KubeRay refuses the cluster after the job was made."""
    for place, group in groups(document):
        least, most = at(group, "minReplicas", default=0), at(group, "maxReplicas")
        if isinstance(least, int) and isinstance(most, int) and least > most:
            yield Finding((*place, "minReplicas"), f"{least}, more than maxReplicas, {most}")


def it_scales(document: Document) -> Iterator[Finding]:
    """Without the autoscaler all replicas of all groups run, and are billed, from beginning to end."""
    options = (*cluster_place(document), "autoscalerOptions")
    if at(cluster(document), "enableInTreeAutoscaling") is not True:
        yield Finding(
            (*cluster_place(document), "enableInTreeAutoscaling"),
            "must be true: otherwise nothing scales with the search",
        )
    elif at(document.data, *options, "idleTimeoutSeconds") is None:
        yield Finding(
            options, "idleTimeoutSeconds is missing: how long a GPU without a trial is kept, and billed (default: 60)"
        )


def it_ends(document: Document) -> Iterator[Finding]:
    """A RayJob keeps its cluster when it is done, GPUs included, unless told otherwise."""
    spec = document.data.get("spec")
    if document.data["kind"] != "RayJob" or at(spec, "clusterSelector") or at(spec, "deletionStrategy"):
        return
    if at(spec, "shutdownAfterJobFinishes") is not True:
        yield Finding(
            ("spec", "shutdownAfterJobFinishes"),
            "must be true: otherwise the cluster stays, and is billed, when the search is done",
        )
    elif at(spec, "ttlSecondsAfterFinished") is None:
        yield Finding(("spec",), "ttlSecondsAfterFinished is missing: with 0, the default, the logs are gone at once")


def entrypoint_is_shell(document: Document) -> Iterator[Finding]:
    """A missing quote shows when the cluster is up."""
    text = at(document.data, "spec", "entrypoint")
    if (
        document.data["kind"] == "RayJob"
        and not text
        and at(document.data, "spec", "submissionMode") != "InteractiveMode"
    ):
        yield Finding(("spec",), "entrypoint is missing: what the job runs")
    elif isinstance(text, str) and (wrong := shell_trouble(text)):
        yield Finding(("spec", "entrypoint"), wrong)


def commands_are_shell(document: Document) -> Iterator[Finding]:
    """The same in what a container runs, and before it ends: `[bash, -c, TEXT]`."""
    for place, container in containers(document):
        for where in (
            ("command",),
            ("lifecycle", "preStop", "exec", "command"),
            ("lifecycle", "postStart", "exec", "command"),
        ):
            words = [str(word) for word in at(container, *where, default=[])]
            is_shell = (
                len(words) >= 3 and words[0].endswith("sh") and words[1].startswith("-") and words[1].endswith("c")
            )
            if is_shell and (wrong := shell_trouble(words[2])):
                yield Finding((*place, *where, 2), wrong)


def images_are_named(document: Document) -> Iterator[Finding]:
    """Images that move or are dead: two pods of one cluster get different Rays, or none."""
    for place, container in containers(document):
        image = at(container, "image")
        if not image:
            yield Finding(place, "no image")
        elif wrong := image_trouble(str(image)):
            yield Finding((*place, "image"), wrong)


def token_is_asked_for(document: Document) -> Iterator[Finding]:
    """Without it every pod of the Kubernetes cluster may run code here. `authOptions` makes a token and hands it to all pods."""
    options = at(cluster(document), "authOptions")
    if isinstance(options, dict) and at(options, "mode", default="token") == "token":
        if not at(cluster(document), "rayVersion"):
            yield Finding(cluster_place(document), "rayVersion is missing: KubeRay makes no token without it")
        return
    place = (*cluster_place(document), "authOptions")
    for _, group in [head(document), *groups(document)]:
        env = {at(it, "name"): it for it in at(group, "template", "spec", "containers", 0, "env", default=[])}
        secret = at(env, "RAY_AUTH_TOKEN", "valueFrom", "secretKeyRef") or at(env, "RAY_AUTH_TOKEN", "value")
        if at(env, "RAY_AUTH_MODE", "value") != "token" or not secret:
            yield Finding(place, "mode: token is missing: whoever reaches the head's port may run anything")
            return


def sizes_are_known(document: Document) -> Iterator[Finding]:
    """A GPU that is only requested is refused by Kubernetes; a pod without CPUs is one of which Ray's autoscaler knows no size."""
    for place, group in groups(document):
        resources = at(group, "template", "spec", "containers", 0, "resources", default={})
        where = (*place, "template", "spec", "containers", 0, "resources")
        if GPU in at(resources, "requests", default={}) and GPU not in at(resources, "limits", default={}):
            yield Finding(where, f"{GPU} belongs to limits")
        limits = at(resources, "limits", default={})
        if at(limits, "cpu") is None and at(resources, "requests", "cpu") is None:
            yield Finding(where, "no cpu: Ray's autoscaler cannot tell what fits such a pod")


def service_is_private(document: Document) -> Iterator[Finding]:
    """The dashboard runs jobs; `kubectl port-forward` reaches it without any open port."""
    place, group = head(document)
    if at(group, "serviceType") in ("LoadBalancer", "NodePort"):
        yield Finding(
            (*place, "serviceType"),
            "opens the dashboard beyond the cluster: ClusterIP, and `kubectl port-forward` to see it",
        )
    if at(group, "enableIngress"):
        yield Finding(
            (*place, "enableIngress"), "opens the dashboard beyond the cluster: use `kubectl port-forward` to see it"
        )


RULES = [
    head_never_trains, head_stays, spot_has_a_twin, resources_are_readable, start_params_exist, replicas_fit, it_scales, it_ends,
    entrypoint_is_shell, commands_are_shell, images_are_named, token_is_asked_for, sizes_are_known, service_is_private,
]  # fmt: skip
