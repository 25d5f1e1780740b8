"""Rules for the files of `ray up`: on AWS, Google Cloud and machines of one's own (provider `local`)."""

import contextlib
import copy
import io
import os
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tune_cd.cluster import ray_internals

from . import common
from .documents import Document, Finding, Place, at

ANY_PROVIDER = {
    "type", "module", "use_internal_ips", "use_external_head_ip", "disable_node_updaters", "cache_stopped_nodes",
    "disable_launch_config_check", "foreground_node_launch", "worker_liveness_check", "worker_rpc_drain",
}  # fmt: skip
PROVIDER_KEYS = {
    "aws": {"region", "availability_zone", "key_pair", "security_group", "cloudwatch", "aws_credentials"},
    "gcp": {"project_id", "region", "availability_zone", "gcp_credentials"},
    "local": {"head_ip", "worker_ips", "external_head_ip", "coordinator_address", "list_of_node_ips"},
}
"""Keys that Ray's node providers read from `provider`, beside ANY_PROVIDER. Ray's schema lets any key through there."""
NEEDED = {"aws": ["region"], "gcp": ["project_id", "region", "availability_zone"]}
MARKET = {"aws": "InstanceMarketOptions", "gcp": "scheduling"}  # the one field in which spot and on-demand differ
ACCOUNT = {"aws": ("s3://", "IamInstanceProfile"), "gcp": ("gs://", "serviceAccounts")}
GPU_MACHINES = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")
"""Google's machines that have GPUs without `guestAccelerators`."""
COMMANDS = ["initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands",
            "head_start_ray_commands", "worker_start_ray_commands"]  # fmt: skip
STARTS = ("head_start_ray_commands", "worker_start_ray_commands")
START, TOKEN, TOKEN_FILE = r"\bray start\b", r"\bRAY_AUTH_MODE=['\"]?token\b", ".ray/auth_token"
OLD_AUTOSCALER = "RAY_enable_autoscaler_v2=0"


def provider(document: Document) -> str:
    return str(at(document.data, "provider", "type", default=""))


def node_types(document: Document) -> dict[str, dict]:
    """Name -> node type, of those that are mappings; Ray's schema reports the others."""
    kinds = at(document.data, "available_node_types", default={})
    return {name: kind for name, kind in kinds.items() if isinstance(kind, dict)}


def configs(document: Document) -> Iterator[tuple[str, Place, dict]]:
    """Name, place and value of each node_config."""
    for name, kind in node_types(document).items():
        yield name, ("available_node_types", name, "node_config"), at(kind, "node_config", default={})


def groups(document: Document) -> tuple[common.Group | None, list[common.Group]]:
    """(the head, the workers); (None, []) if the head's type is not among the node types."""
    cloud, head, made = provider(document), at(document.data, "head_node_type"), {}
    for name, place, config in configs(document):
        spot = at(config, "InstanceMarketOptions", "MarketType") == "spot"
        if cloud == "gcp":
            scheduling = at(config, "scheduling", default={})
            spot = scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible"))
        resources = {key: value for key, value in at(node_types(document)[name], "resources", default={}).items()
                     if isinstance(value, int | float)}  # fmt: skip
        machine = {key: value for key, value in config.items() if key != MARKET.get(cloud)}
        made[name] = common.Group(name, place[:-1], "node_config", resources, spot, machine)
    return made.get(head), [group for name, group in made.items() if name != head] if head in made else []


def commands(document: Document) -> Iterator[tuple[Place, str]]:
    """(place, command) for every command, those of node types included."""
    for place in [(), *(("available_node_types", name) for name in node_types(document))]:
        for name in COMMANDS:
            for index, text in enumerate(at(document.data, *place, name, default=[])):
                if isinstance(text, str):
                    yield (*place, name, index), text


def starts(document: Document, *names: str) -> list[tuple[Place, str, str]]:
    """(place, text before `ray start`, its options) for each such command."""
    found = [(place, re.split(START, text, maxsplit=1)) for place, text in commands(document) if place[0] in names]
    return [(place, parts[0], re.split(r"[;&|]", parts[1])[0]) for place, parts in found if len(parts) == 2]


def findings(document: Document) -> Iterator[Finding]:
    """Everything wrong with a file of `ray up`."""
    cloud = provider(document)
    yield from list(provider_keys(document)) or ray_accepts(document)
    for rule in (sources_exist, commands_are_valid, ray_starts, token_reaches_the_nodes, images_are_fixed):
        yield from rule(document)
    head, workers = groups(document)
    for name, kind in node_types(document).items():
        least, most = at(kind, "min_workers", default=0), at(kind, "max_workers")
        if isinstance(least, int) and isinstance(most, int) and least > most:
            place = ("available_node_types", name, "min_workers")
            yield Finding(place, f"{least}, more than max_workers, {most}: Ray starts and ends nodes over and over")
    if cloud == "local":
        yield from local_nodes(document)
        return
    yield from common.head_drives(head, "resources: {CPU: 0, GPU: 0}")
    if cloud in MARKET:
        yield from common.spot_has_a_twin(workers)
        yield from nothing_stays_billed(document)
        yield from workers_may_write(document, workers)
        yield from aws_nodes(document) if cloud == "aws" else gcp_nodes(document, workers)


def ray_accepts(document: Document) -> Iterator[Finding]:
    """Apply Ray's own preparation and validation, by its JSON schema. `ray up` begins with them."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            ray_internals.prepare_and_validate(copy.deepcopy(document.data))
    except ModuleNotFoundError:
        raise
    except Exception as error:  # a jsonschema.ValidationError, or whatever else Ray raises, its own abort included
        text = " ".join((getattr(error, "message", "") or str(error) or said.getvalue()).split())
        yield Finding(tuple(getattr(error, "absolute_path", ())), f"Ray refuses it: {text or type(error).__name__}")


def ec2_accepts(config: dict, place: Place) -> Iterator[Finding]:
    """Fields that botocore would refuse in a call of EC2's RunInstances, when the first node of the type is
    requested."""
    from botocore.validate import ParamValidator

    own = {"MinCount": 1, "MaxCount": 1}  # Ray adds these, and uses SubnetIds for SubnetId
    config = {key: value for key, value in config.items() if key != "SubnetIds"} | own
    for line in ParamValidator().validate(config, _run_instances()).generate_report().splitlines():
        yield Finding(place, f"EC2's RunInstances refuses it: {line.partition(', must be one of: ')[0]}")


@cache
def _run_instances() -> Any:
    """The parameters of RunInstances. Cached, since botocore reads 13 MB of JSON for them."""
    from botocore.session import get_session

    return get_session().get_service_model("ec2").operation_model("RunInstances").input_shape


def provider_keys(document: Document) -> Iterator[Finding]:
    """Find unknown keys under `provider`: Ray ignores them, and the cluster starts elsewhere or with a default."""
    kind, given = provider(document), at(document.data, "provider", default={})
    known = PROVIDER_KEYS.get(kind, set(given)) | ANY_PROVIDER
    unknown = [key for key in given if key not in known]
    for key in unknown:
        yield Finding(("provider", key), f"Ray's provider {kind} does not read it: {', '.join(sorted(known))}")
    for key in NEEDED.get(kind, []):
        if not given.get(key) and not unknown:
            yield Finding(("provider",), f"{key} is missing")


def sources_exist(document: Document) -> Iterator[Finding]:
    """Sources of `file_mounts` must exist in the current folder. `ray up` looks for them only when the head is running
    and billed."""
    for remote, source in at(document.data, "file_mounts", default={}).items():
        if isinstance(source, str) and not os.path.exists(os.path.expanduser(source)):
            yield Finding(("file_mounts", remote), f"{source} does not exist in the current folder, {os.getcwd()}")


def commands_are_valid(document: Document) -> Iterator[Finding]:
    """Commands must be valid: a worker whose command fails is billed, ended and started again. An open dashboard runs
    anybody's jobs."""
    for place, text in commands(document):
        if wrong := common.shell_error(text):
            yield Finding(place, wrong)
        if re.search(r"--dashboard-host[= ]['\"]?(0\.0\.0\.0|::)", text):
            needed = "--dashboard-host=127.0.0.1, and `ray dashboard` to see it"
            yield Finding(place, f"whoever reaches the dashboard runs jobs: {needed}")


def ray_starts(document: Document) -> Iterator[Finding]:
    """Ray must be started with the autoscaler and a token. Its default commands have no token."""
    for name in STARTS:
        if not starts(document, name):
            yield Finding((name,), "no `ray start` here: Ray's default commands start it without a token")
    for place, before, after in starts(document, *STARTS):
        if not re.search(TOKEN, before):
            yield Finding(place, "RAY_AUTH_MODE=token is missing: without it whoever reaches the port may run anything")
        if place[0] == STARTS[0] and "--autoscaling-config" not in after:
            text = "--autoscaling-config=~/ray_bootstrap_config.yaml is missing: no worker would be started"
            yield Finding(place, text)


def token_reaches_the_nodes(document: Document) -> Iterator[Finding]:
    """Workers need the head's token. With another one, or none, they are started and billed but never join."""
    asked = any(re.search(TOKEN, before) for _, before, _ in starts(document, *STARTS))
    if not asked or any(TOKEN_FILE in str(remote) for remote in at(document.data, "file_mounts", default={})):
        return
    if not any(TOKEN_FILE in str(path) for path in at(document.data, "cluster_synced_files", default=[])):
        yield Finding(("cluster_synced_files",), f"~/{TOKEN_FILE} is missing: workers would lack the head's token")
    if not any("get-auth-token --generate" in text or TOKEN_FILE in text for _, text in commands(document)):
        text = "nothing makes the token: add `ray get-auth-token --generate > /dev/null`"
        yield Finding(("head_setup_commands",), text)


def images_are_fixed(document: Document) -> Iterator[Finding]:
    """All nodes of a cluster need the same Docker image."""
    places = [("docker", name) for name in ("image", "head_image", "worker_image")]
    places += [("available_node_types", name, "docker", "worker_image") for name in node_types(document)]
    for place in places:
        image = at(document.data, *place)
        if isinstance(image, str) and (wrong := common.image_error(image)):
            yield Finding(place, wrong)


def nothing_stays_billed(document: Document) -> Iterator[Finding]:
    """Nodes must be deleted. By default they are stopped, and their disks are billed until somebody finds them."""
    if at(document.data, "provider", "cache_stopped_nodes") is not False:
        text = "must be false: stopped nodes keep their disks, which are billed"
        yield Finding(("provider", "cache_stopped_nodes"), text)
    for _, place, config in configs(document):
        for index, device in enumerate(at(config, "BlockDeviceMappings", default=[])):
            if at(device, "Ebs", "DeleteOnTermination") is False:
                where = (*place, "BlockDeviceMappings", index, "Ebs", "DeleteOnTermination")
                yield Finding(where, "must be true: a disk that outlives its node is billed")
        for index, disk in enumerate(at(config, "disks", default=[])):
            if at(disk, "autoDelete") is not True:
                yield Finding((*place, "disks", index), "autoDelete: true is missing: the disk outlives its node")


def workers_may_write(document: Document, workers: list[common.Group]) -> Iterator[Finding]:
    """Workers need an account: Ray gives one to the head only, so the first row to a bucket fails."""
    scheme, field = ACCOUNT[provider(document)]
    fields = {field, "LaunchTemplate", "sourceInstanceTemplate"}
    without = [group for group in workers if not group.machine.keys() & fields]
    if without and any(scheme in line for line in document.text):
        place = (*without[0].place, "node_config")
        yield Finding(place, f"no {field}: workers get none by default, and could not write results to {scheme}")


def aws_nodes(document: Document) -> Iterator[Finding]:
    """Ray's default image has a driver that is too old for current torch. Misspelt fields start no node, or another."""
    for _, place, config in configs(document):
        if at(config, "ImageId") in (None, "latest_dlami") and "LaunchTemplate" not in config:
            yield Finding(place, "no ImageId: Ray's default is Ubuntu 18.04 with CUDA 11.2, too old for torch")
        yield from ec2_accepts(config, place)


def gcp_nodes(document: Document, workers: list[common.Group]) -> Iterator[Finding]:
    """GPUs must be declared: Ray does not detect those of Google's machines. A lost spot node is only stopped."""
    for group in workers:
        config = at(node_types(document)[group.name], "node_config", default={})
        machine = str(config.get("machineType", "")).rpartition("/")[2]
        has_gpus = config.get("guestAccelerators") or machine.startswith(GPU_MACHINES)
        if has_gpus and not group.resources.get("GPU"):
            where = (*group.place, "resources")
            yield Finding(where, "no GPU: Ray cannot tell on Google Cloud, and starts no such node for a trial")
        if group.is_spot and at(config, "scheduling", "instanceTerminationAction") != "DELETE":
            text = "instanceTerminationAction: DELETE is missing: a lost spot node keeps its disk, billed"
            yield Finding((*group.place, "node_config", "scheduling"), text)


def local_nodes(document: Document) -> Iterator[Finding]:
    """Autoscaler v2, Ray's default, has no provider `local`: no worker starts, without a message."""
    if os.environ.get("RAY_UP_enable_autoscaler_v2") != "0":  # noqa: SIM112, as Ray spells it
        for place, before, _ in starts(document, STARTS[0]):
            if OLD_AUTOSCALER not in before:
                yield Finding(place, f"{OLD_AUTOSCALER} is missing before: autoscaler v2 starts no worker here")
