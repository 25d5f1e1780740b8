"""Rules for the files of `ray up`, whatever the provider."""

import contextlib
import copy
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from .documents import Document, at
from .every import keys_are_text
from .findings import Finding, Place, suggestion

CLOUDS = ("aws", "gcp", "azure", "aliyun", "vsphere")
ANY_PROVIDER = {
    "type", "module", "use_internal_ips", "use_external_head_ip", "disable_node_updaters", "disable_launch_config_check",
    "foreground_node_launch", "worker_liveness_check", "worker_rpc_drain",
}  # fmt: skip
PROVIDER_KEYS = {
    "aws": ANY_PROVIDER
    | {
        "region",
        "availability_zone",
        "cache_stopped_nodes",
        "key_pair",
        "security_group",
        "cloudwatch",
        "aws_credentials",
    },
    "gcp": ANY_PROVIDER | {"project_id", "region", "availability_zone", "cache_stopped_nodes", "gcp_credentials"},
    "local": ANY_PROVIDER | {"head_ip", "worker_ips", "external_head_ip", "coordinator_address", "list_of_node_ips"},
}
"""What Ray's node providers and updaters read from `provider`; its schema lets anything through there."""
NEEDED = {"aws": ["region"], "gcp": ["project_id", "region", "availability_zone"]}


def provider(document: Document) -> str:
    return str(at(document.data, "provider", "type", default=""))


def head_type(document: Document) -> str | None:
    name = at(document.data, "head_node_type")
    return name if isinstance(name, str) else None


def node_types(document: Document) -> dict[str, dict]:
    """Name -> node type, of those that are mappings; Ray's schema complains of the others."""
    kinds = at(document.data, "available_node_types", default={})
    return {name: kind for name, kind in kinds.items() if isinstance(kind, dict)}


def workers(document: Document) -> dict[str, dict]:
    """The node types that are not the head's; none where it is not known which one the head's is."""
    kinds = node_types(document)
    return (
        {name: kind for name, kind in kinds.items() if name != head_type(document)}
        if head_type(document) in kinds
        else {}
    )


def node(name: str, *rest: str | int) -> Place:
    return ("available_node_types", name, *rest)


def shared(names: list[str], field: str, message: str) -> Iterator[Finding]:
    """One finding for all node types that lack the same thing in the same field, usually by one anchor."""
    if names:
        also = f" (so have {', '.join(names[1:])})" if len(names) > 1 else ""
        yield Finding(node(names[0], field), message + also)


def ray_accepts(document: Document) -> Iterator[Finding]:
    """Ray's own schema, then its own preparation and validation: `ray up` begins with the same three."""
    import jsonschema
    import ray.autoscaler
    from ray.autoscaler._private import util

    if list(keys_are_text(document)):
        return  # the schema cannot be applied
    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    errors = list(jsonschema.Draft7Validator(schema).iter_errors(document.data))
    for error in errors:
        yield from _of_schema(error)
    if errors or list(provider_keys(document)):
        return
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            util.validate_config(util.prepare_config(copy.deepcopy(document.data)))
    except Exception as error:  # Ray raises what it likes here, its own abort included
        place: Place = ("max_workers",) if "max_workers" in str(error) else ()
        yield Finding(
            place, f"Ray refuses it: {' '.join((str(error) or said.getvalue()).split()) or type(error).__name__}"
        )


def _of_schema(error: Exception) -> Iterator[Finding]:
    place = tuple(error.absolute_path)
    if error.validator != "additionalProperties":
        yield Finding(
            place, f"Ray's schema refuses it: {error.message if len(error.message) < 200 else error.validator}"
        )
        return
    known = error.schema.get("properties", {})
    for key in set(error.instance) - set(known):
        yield Finding((*place, key), f"Ray does not know it{suggestion(key, known)}")


def provider_keys(document: Document) -> Iterator[Finding]:
    """A misspelt key under `provider` is ignored: the cluster starts in another region, or with Ray's default."""
    kind, given = provider(document), at(document.data, "provider", default={})
    if kind not in PROVIDER_KEYS:
        return
    unknown = [key for key in given if key not in PROVIDER_KEYS[kind]]
    for key in unknown:
        yield Finding(
            ("provider", key),
            f"Ray's provider {kind} does not read it{suggestion(key, PROVIDER_KEYS[kind] - set(given))}",
        )
    for key in NEEDED.get(kind, []):
        if not given.get(key) and not unknown:
            yield Finding(("provider",), f"{key} is missing")


def name_is_usable(document: Document) -> Iterator[Finding]:
    """Ray makes names of machines, labels and lock files from it; Compute Engine takes no others."""
    name = document.data.get("cluster_name")
    if name is not None and not (isinstance(name, str) and re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", name)):
        yield Finding(
            ("cluster_name",), f"{name!r}: small letters, digits and hyphens, at most 40, beginning with a letter"
        )


def sources_exist(document: Document) -> Iterator[Finding]:
    """`ray up` looks for the files that it copies only after the head is running and billed. They start at the current folder."""
    mounts = at(document.data, "file_mounts", default={})
    for remote, source in mounts.items():
        if isinstance(source, str) and not os.path.exists(os.path.expanduser(source)):
            yield Finding(
                ("file_mounts", remote), f"{source} does not exist, seen from the current folder, {os.getcwd()}"
            )


def worker_counts(document: Document) -> Iterator[Finding]:
    """Ray starts min_workers of a type and stops above max_workers: with min > max it does both, over and over."""
    for name, kind in node_types(document).items():
        least, most = at(kind, "min_workers", default=0), at(kind, "max_workers")
        if isinstance(least, int) and isinstance(most, int) and least > most:
            yield Finding(node(name, "min_workers"), f"{least}, more than max_workers, {most}")


def head_never_trains(document: Document) -> Iterator[Finding]:
    """The head drives the search: a trial there competes with the driver, and takes it along where it runs out of memory.

    Not for `local`, whose head is one of the machines: whether it trains is its owner's choice.
    """
    head = node_types(document).get(head_type(document) or "")
    if provider(document) == "local" or head is None:
        return
    given = at(head, "resources", default={})
    for name in ("CPU", "GPU"):
        if given.get(name) != 0 and (name == "CPU" or name in given):
            yield Finding(
                node(head_type(document), "resources"), f"{name}: 0 is needed here, or trials land on the head"
            )


def idle_nodes_end(document: Document) -> Iterator[Finding]:
    """What an idle node costs should be a decision: it is billed all the while."""
    if provider(document) in CLOUDS and "idle_timeout_minutes" not in document.data:
        yield Finding(
            (), "idle_timeout_minutes is missing: how long a node without work is kept, and billed (Ray's default: 5)"
        )


def nothing_is_kept(document: Document) -> Iterator[Finding]:
    """By default AWS and GCP nodes are stopped, not deleted, and the disks of stopped nodes stay on the bill."""
    if provider(document) in ("aws", "gcp") and at(document.data, "provider", "cache_stopped_nodes") is not False:
        yield Finding(
            ("provider", "cache_stopped_nodes"), "must be false: stopped nodes keep their disks, which are billed"
        )


def images_are_named(document: Document) -> Iterator[Finding]:
    """Docker images that move or are dead: two nodes of one cluster get different Rays, or none."""
    docker = at(document.data, "docker", default={})
    for key in ("image", "head_image", "worker_image"):
        if isinstance(at(docker, key), str) and (wrong := image_trouble(docker[key])):
            yield Finding(("docker", key), wrong)
    for name, kind in node_types(document).items():
        if isinstance(at(kind, "docker", "worker_image"), str) and (
            wrong := image_trouble(kind["docker"]["worker_image"])
        ):
            yield Finding(node(name, "docker", "worker_image"), wrong)


def image_trouble(image: str) -> str | None:
    """What is wrong with the name of a Docker image, or None. A digest (`@sha256:`) is as good as a tag; "" is no image at all."""
    if not image:
        return None
    if image.startswith("rayproject/ray-ml"):
        return f"{image}: rayproject/ray-ml has ended; use rayproject/ray:<version>-py312-gpu"
    tag = image.rpartition("/")[2].partition(":")[2]
    if "@" in image:
        return None
    if not tag or re.match(r"(latest|nightly)\b", tag):
        return f"{image} is another image from day to day: name a version"
    return None


RULES = [
    ray_accepts, provider_keys, name_is_usable, sources_exist, worker_counts, head_never_trains, idle_nodes_end, nothing_is_kept,
    images_are_named,
]  # fmt: skip
