"""Rules for `ray up` on Google Cloud. The description of compute.v1 comes with google-api-python-client; nothing is asked of Google."""

import functools
import json
from collections.abc import Iterator
from importlib.resources import files

from .documents import Document, at
from .every import PLACEHOLDER
from .fields import compare
from .findings import Finding
from .launcher import node, node_types, shared, workers
from .spot import is_spot

RAYS_OWN = {"sourceInstanceTemplate": {"type": "string"}}
"""What Ray takes out of node_config before Compute Engine sees it."""
GPU_MACHINES = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")
"""Machine families that have GPUs without `guestAccelerators`."""
WRITING = ("cloud-platform", "devstorage.read_write", "devstorage.full_control")


@functools.cache
def schemas() -> dict[str, dict]:
    """Every schema of compute.v1, by name."""
    folder = files("googleapiclient.discovery_cache") / "documents"
    return json.loads((folder / "compute.v1.json").read_text(encoding="utf-8"))["schemas"]


def is_tpu(kind: dict) -> bool:
    config = at(kind, "node_config", default={})
    return "machineType" not in config and bool(
        config.keys() & {"acceleratorType", "acceleratorConfig", "runtimeVersion"}
    )


def fields_exist(document: Document) -> Iterator[Finding]:
    """A misspelt field shows when the first node of that type is asked for: Compute Engine then refuses it."""
    instance = schemas()["Instance"]
    instance = instance | {"properties": instance["properties"] | RAYS_OWN}
    for name, kind in node_types(document).items():
        if not is_tpu(kind):
            config = at(kind, "node_config", default={})
            yield from compare(config, instance, "Compute Engine", node(name, "node_config"), schemas().__getitem__)


def machine_is_named(document: Document) -> Iterator[Finding]:
    """Ray has no default machine here, and Compute Engine none either."""
    known = schemas()["Instance"]["properties"].keys() | RAYS_OWN.keys()
    configs = {
        name: at(kind, "node_config", default={}) for name, kind in node_types(document).items() if not is_tpu(kind)
    }
    without = [
        name
        for name, config in configs.items()
        if not config.keys() & {"machineType", *RAYS_OWN} and config.keys() <= known
    ]
    yield from shared(without, "node_config", "no machineType")


def images_are_fixed(document: Document) -> Iterator[Finding]:
    """A family is whatever was released last: two nodes of one cluster may have different drivers."""
    for name, kind in node_types(document).items():
        for index, disk in enumerate(at(kind, "node_config", "disks", default=[])):
            place = node(name, "node_config", "disks", index)
            source = at(disk, "initializeParams", "sourceImage")
            if isinstance(source, str) and "/family/" in source:
                yield Finding(
                    (*place, "initializeParams", "sourceImage"), "a family of images moves on: name the image itself"
                )
            elif source is None and at(disk, "boot") and not at(disk, "source"):
                yield Finding(place, "no sourceImage: a boot disk needs one")


def resources_are_written(document: Document) -> Iterator[Finding]:
    """Ray does not find out on Google Cloud how many GPUs a type has: it would never start one for a trial that wants a GPU."""
    without = []
    for name, kind in workers(document).items():
        config = at(kind, "node_config", default={})
        machine = str(at(config, "machineType", default="")).rpartition("/")[2]
        has_gpus = bool(at(config, "guestAccelerators")) or machine.startswith(GPU_MACHINES)
        if has_gpus and not at(kind, "resources", "GPU", default=0):
            without.append(name)
    yield from shared(
        without, "resources", "no GPU: Ray cannot tell on Google Cloud, and would start none of these for a trial"
    )


def zone_of_the_region(document: Document) -> Iterator[Finding]:
    """Ray asks for one zone, which must lie in the region."""
    region, zone = at(document.data, "provider", "region"), at(document.data, "provider", "availability_zone")
    if isinstance(region, str) and isinstance(zone, str) and PLACEHOLDER not in region + zone:
        if not (zone.startswith(f"{region}-") and len(zone) == len(region) + 2):
            yield Finding(("provider", "availability_zone"), f"{zone} is no zone of {region} (Ray takes one)")


def disks_end_with_their_node(document: Document) -> Iterator[Finding]:
    """A disk outlives its node unless it says otherwise, and is billed until somebody finds it."""
    for name, kind in node_types(document).items():
        for index, disk in enumerate(at(kind, "node_config", "disks", default=[])):
            if at(disk, "autoDelete") is not True:
                yield Finding(
                    node(name, "node_config", "disks", index), "autoDelete: true is missing: the disk stays on the bill"
                )


def spot_nodes_are_deleted(document: Document) -> Iterator[Finding]:
    """A spot machine that is taken away is only stopped by default, and its disk billed."""
    for name, kind in node_types(document).items():
        scheduling = at(kind, "node_config", "scheduling", default={})
        if is_spot(kind, "gcp") and at(scheduling, "instanceTerminationAction") != "DELETE":
            yield Finding(
                node(name, "node_config", "scheduling"),
                "instanceTerminationAction: DELETE is missing: a stopped disk is billed",
            )


def workers_may_write(document: Document) -> Iterator[Finding]:
    """Ray gives the head a service account and workers none: with results on gs:// the first row of the first trial fails."""
    if not any("gs://" in line for line in document.text):
        return
    without = []
    for name, kind in workers(document).items():
        accounts = at(kind, "node_config", "serviceAccounts", default=[])
        scopes = [str(scope) for account in accounts for scope in at(account, "scopes", default=[])]
        if is_tpu(kind) or any(scope.endswith(WRITING) for scope in scopes):
            continue
        if accounts:
            place = node(name, "node_config", "serviceAccounts")
            yield Finding(place, f"no scope that writes to storage: https://www.googleapis.com/auth/{WRITING[0]}")
        else:
            without.append(name)
    yield from shared(
        without, "node_config", "no serviceAccounts: workers get none by default, and results lie on gs://"
    )


RULES = [
    fields_exist, machine_is_named, images_are_fixed, resources_are_written, zone_of_the_region, disks_end_with_their_node,
    spot_nodes_are_deleted, workers_may_write,
]  # fmt: skip
