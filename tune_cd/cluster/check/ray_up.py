"""Rules for the files of `ray up`: on AWS, Google Cloud and machines of one's own (provider `local`)."""

import os
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tune_cd.cluster import ray_internals

from . import rules
from .documents import Document, Finding, Place, at, matches, strings
from .rules import Group, Rule, broken, said

PROVIDER_KEYS = {
    "type", "module", "region", "availability_zone", "cache_stopped_nodes", "use_internal_ips", "use_external_head_ip",
    "disable_node_updaters", "disable_launch_config_check", "foreground_node_launch", "worker_liveness_check",
    "worker_rpc_drain", "key_pair", "security_group", "cloudwatch", "aws_credentials", "project_id", "gcp_credentials",
    "head_ip", "worker_ips", "external_head_ip", "coordinator_address", "list_of_node_ips",
}  # fmt: skip
"""Keys that Ray's providers for AWS, Google Cloud and `local` read. Its schema lets any key through there."""
MARKET = {"aws": "InstanceMarketOptions", "gcp": "scheduling"}  # the one field in which spot and on-demand differ
ACCOUNT = {"aws": ("s3://", "IamInstanceProfile"), "gcp": ("gs://", "serviceAccounts")}
GPUS = {
    r"(g4dn|g5|g6|g6e|gr6)\.(|2|4|8|16)xlarge|g7e?\.[248]xlarge|p2\.xlarge|p3\.2xlarge|p5\.4xlarge": 1,
    r"a[234]x?-\w+-1g|g2-standard-(4|8|12|16|32)|g4-standard-48": 1,
    r"g7e?\.12xlarge|a[234]x?-\w+-2g|g2-standard-24|g4-standard-96": 2,
    r"(g4dn|g5|g6|g6e)\.12xlarge|(g5|g6|g6e|g7e?)\.24xlarge|p3\.8xlarge": 4,
    r"a[234]x?-\w+-4g|g2-standard-48|g4-standard-192": 4,
    r"g4dn\.metal|(g5|g6|g6e|g7e?|p5|p5en?|p6-b[23]00)\.48xlarge|p2\.8xlarge|p3\.16xlarge|p(3dn|4de?)\.24xlarge": 8,
    r"a[234]x?-\w+-8g|g2-standard-96|g4-standard-384": 8,
    r"a2-\w+-16g|p2\.16xlarge": 16,
    r"[acdhimrtxz]\d\w*\.\w+|[cehmntz]\d\w?-.*": 0,
}
"""Machine type of EC2 or Compute Engine -> its GPUs, without those that `guestAccelerators` add. Others are not known."""
DISK_GB = 30
DISKS = ("BlockDeviceMappings.0.Ebs.VolumeSize", "disks.0.initializeParams.diskSizeGb")
HEAD, WORKER = "head_start_ray_commands", "worker_start_ray_commands"
COMMANDS = f"initialization_commands|setup_commands|head_setup_commands|worker_setup_commands|{HEAD}|{WORKER}"
TOKEN, TOKEN_FILE = r"\bRAY_AUTH_MODE=['\"]?token\b", ".ray/auth_token"
OLD_AUTOSCALER = "RAY_enable_autoscaler_v2=0"
QUOTED = re.compile(r"\b(?:ba)?sh(?:\s+-\w+)+\s+'[^']*'|\"(?:\\.|[^\"\\])*\"|('[^']*'|\\\$\w+)")
"""Parts of a command. The group: those whose variables no shell expands."""

ANYWHERE: list[Rule] = [
    ("docker.image|head_image|worker_image", rules.moves, rules.MOVES),
    ("available_node_types.*.docker.worker_image", rules.moves, rules.MOVES),
    ("file_mounts.*", lambda source: isinstance(source, str) and not os.path.exists(os.path.expanduser(source)),
     "{} does not exist in the current folder, where `ray up` looks for it once the head is billed"),
]  # fmt: skip
GROWING: list[Rule] = [
    ("max_workers", lambda most: most is None, "is missing: Ray's default is two nodes"),
    ("max_workers", lambda most: most == 0, "must be more than 0: no worker would be started"),
    ("available_node_types", lambda kinds: kinds and not any(at(kind, "max_workers", default=1) for kind in kinds.values()),
     "max_workers is 0 in all of them: no worker would be started"),
    ("available_node_types.*", lambda kind: at(kind, "min_workers", default=0) > at(kind, "max_workers", default=1e9),
     "min_workers is more than max_workers: Ray starts and ends nodes over and over"),
    ("idle_timeout_minutes", lambda minutes: minutes == 0, "must be more than 0: nodes would end between two trials"),
    ("available_node_types.*.idle_timeout_s", lambda s: s == 0, "must be more than 0: nodes would end between two trials"),
]  # fmt: skip
CONFIG = "available_node_types.*.node_config"
BILLED: list[Rule] = [
    ("provider.cache_stopped_nodes", lambda kept: kept is not False,
     "must be false: stopped nodes keep their disks, which are billed"),
    (f"{CONFIG}.BlockDeviceMappings.*.Ebs.DeleteOnTermination", lambda ends: ends is False,
     "must be true: a disk that outlives its node is billed"),
    (f"{CONFIG}.disks.*", lambda disk: at(disk, "autoDelete") is not True,
     "autoDelete: true is missing: the disk outlives its node"),
    *((f"{CONFIG}.{disk}", lambda gb: re.fullmatch(r"\d+", f"{gb}") and int(gb) < DISK_GB,
       f"{{}} GB, too small for the system, torch with CUDA and a dataset: {DISK_GB} or more") for disk in DISKS),
]  # fmt: skip
AWS: list[Rule] = [
    (CONFIG, lambda config: at(config, "ImageId") in (None, "latest_dlami") and "LaunchTemplate" not in config,
     "no ImageId: Ray's default is Ubuntu 18.04 with CUDA 11.2, too old for torch"),
]  # fmt: skip


def provider(document: Document) -> str:
    return str(at(document.data, "provider", "type", default=""))


def groups(document: Document) -> tuple[list[Group], list[Group]]:
    """(the head, alone; the workers). Both are empty where Ray finds no head."""
    cloud, heads, workers = provider(document), [], []
    for name, kind in at(document.data, "available_node_types", default={}).items():
        config = kind["node_config"]
        spot = at(config, "InstanceMarketOptions", "MarketType") == "spot"
        if cloud == "gcp":
            scheduling = at(config, "scheduling", default={})
            spot = scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible"))
        machine = {key: value for key, value in config.items() if key != MARKET.get(cloud)}
        place = ("available_node_types", name)
        group = Group(name, place, rules.spelt(kind["resources"]), spot, machine)
        (heads if name == document.data.get("head_node_type") else workers).append(group)
    return (heads, workers) if heads else ([], [])


def commands(document: Document, *names: str) -> list[tuple[Place, str]]:
    """(place, command) for every command of these names, those of node types included; of all without a name."""
    keys = "|".join(names) or COMMANDS
    found = [matches(document.data, f"{above}{keys}.*") for above in ("", "available_node_types.*.")]
    return [(place, text) for group in found for place, text in group if isinstance(text, str)]


def starts(document: Document, *names: str) -> list[tuple[Place, str, str]]:
    """(place, text before `ray start`, its options) for each such command."""
    found = [(place, re.split(r"\bray start\b", text, maxsplit=1)) for place, text in commands(document, *names)]
    return [(place, parts[0], re.split(r"[;&|]", parts[1])[0]) for place, parts in found if len(parts) == 2]


def findings(document: Document) -> Iterator[Finding]:
    """Everything wrong with a file of `ray up`. Where a value is of the wrong kind, that alone."""
    if errors := ray_internals.schema_errors(document.data):
        yield from (Finding(place, f"Ray refuses it: {text}") for place, text in errors)
        return
    unknown = list(provider_keys(document))
    refusal = None if unknown else ray_internals.refusal(document.data)
    yield from unknown
    yield from said((), {f"Ray refuses it: {refusal}": refusal})
    yield from broken(ANYWHERE, document.data)
    for rule in (commands_are_valid, ray_starts, workers_reach_the_head, token_reaches_the_nodes):
        yield from rule(document)
    if provider(document) != "local":
        yield from grows(document)


def grows(document: Document) -> Iterator[Finding]:
    """Rules for clouds."""
    cloud, (heads, workers) = provider(document), groups(document)
    yield from broken(GROWING, document.data)
    yield from rules.groups_are_good(next(iter(heads), None), workers, "resources: {CPU: 0, GPU: 0}")
    for place, resources in matches(document.data, "available_node_types.*.resources"):
        yield from rules.misspelt(place, resources)
    if cloud in MARKET:
        yield from broken(BILLED, document.data)
        yield from workers_may_write(document, workers)
        yield from zones_fit(document)
        yield from gpus_are_there(document, heads, workers)
    if cloud == "aws":
        yield from broken(AWS, document.data)
        yield from ec2_accepts(document)


def ec2_accepts(document: Document) -> Iterator[Finding]:
    """Fields that botocore would refuse in a call of EC2's RunInstances, when the first node of the type is
    requested."""
    from botocore.validate import ParamValidator

    own = {"MinCount": 1, "MaxCount": 1}  # Ray adds these, and uses SubnetIds for SubnetId
    for place, config in matches(document.data, CONFIG):
        config = {key: value for key, value in config.items() if key != "SubnetIds"} | own
        for line in ParamValidator().validate(config, _run_instances()).generate_report().splitlines():
            yield Finding(place, f"EC2's RunInstances refuses it: {line.partition(', must be one of: ')[0]}")


@cache
def _run_instances() -> Any:
    """The parameters of RunInstances. Cached, since botocore reads 13 MB of JSON for them."""
    from botocore.session import get_session

    return get_session().get_service_model("ec2").operation_model("RunInstances").input_shape


def provider_keys(document: Document) -> Iterator[Finding]:
    """Ray ignores unknown keys under `provider`, and the cluster starts elsewhere or with a default."""
    for key in document.data["provider"].keys() - PROVIDER_KEYS if provider(document) in ("local", *MARKET) else ():
        yield Finding(("provider", key), "Ray's providers do not read it")


def commands_are_valid(document: Document) -> Iterator[Finding]:
    """A worker whose command fails is billed, ended and started again. An open dashboard runs anybody's jobs."""
    needed = "whoever reaches the dashboard runs jobs: --dashboard-host=127.0.0.1, and `ray dashboard` to see it"
    for place, text in commands(document):
        wrong = rules.shell_error(text)
        yield from said(place, {wrong: wrong, needed: re.search(r"--dashboard-host[= ]['\"]?(0\.0\.0\.0|::)", text)})


def ray_starts(document: Document) -> Iterator[Finding]:
    """Ray must be started with the autoscaler and a token. Its default commands have no token."""
    old = provider(document) == "local" and os.environ.get("RAY_UP_enable_autoscaler_v2") != "0"  # noqa: SIM112, Ray's
    for name in (HEAD, WORKER):
        missing = "no `ray start` here: Ray's default commands start it without a token"
        yield from said((name,), {missing: not starts(document, name)})
        for place, before, after in starts(document, name):
            options, head = re.findall(r"--[\w-]+", after), name == HEAD
            yield from said(place, {
                "RAY_AUTH_MODE=token is missing: without it whoever reaches the port may run anything":
                    not re.search(TOKEN, before),
                "--autoscaling-config=~/ray_bootstrap_config.yaml is missing: no worker would be started":
                    head and "--autoscaling-config" not in options,
                "--head is missing: there would be no cluster": head and "--head" not in options,
                "--head on a worker: each would be a cluster of its own, billed and never used":
                    not head and "--head" in options,
                "--address=$RAY_HEAD_IP:PORT is missing: the worker would never join":
                    not head and not {"--head", "--address"} & {*options},
                "--block never ends: `ray up` would wait for it, and no trial would begin": "--block" in options,
                f"{OLD_AUTOSCALER} is missing before: autoscaler v2 starts no worker here":
                    head and old and OLD_AUTOSCALER not in before,
            })  # fmt: skip


def workers_reach_the_head(document: Document) -> Iterator[Finding]:
    """A worker that looks for the head elsewhere is started and billed, and never joins."""
    asked = [re.search(r"--port[= ]['\"]?([^\s'\"]+)", after) for _, _, after in starts(document, HEAD)]
    port = next((found[1] for found in asked if found), "6379")
    for place, text in commands(document, WORKER):
        kept = [found[1] for found in QUOTED.finditer(text) if found[1] and "RAY_HEAD_IP" in found[1]]
        yield from said(place, {f"{part} is not expanded: use double quotes or none": part for part in kept})
        ports = re.findall(r"(?:RAY_HEAD_IP\}?\"?|--address[= ]\S*):(\d+)", text) if port.isdigit() else []
        wrong = [other for other in ports if other != port]
        yield from said(place, {f"port {other}, but the head listens at {port}": True for other in wrong})


def token_reaches_the_nodes(document: Document) -> Iterator[Finding]:
    """Workers need the head's token. With another one, or none, they are started and billed but never join."""
    asked = any(re.search(TOKEN, before) for _, before, _ in starts(document, HEAD, WORKER))
    if not asked or any(TOKEN_FILE in remote for remote in at(document.data, "file_mounts", default={})):
        return
    synced = any(TOKEN_FILE in f"{path}" for path in at(document.data, "cluster_synced_files", default=[]))
    made = any("get-auth-token --generate" in text or TOKEN_FILE in text for _, text in commands(document))
    text = f"~/{TOKEN_FILE} is missing: workers would lack the head's token"
    yield from said(("cluster_synced_files",), {text: not synced})
    text = "nothing makes the token: add `ray get-auth-token --generate > /dev/null`"
    yield from said(("head_setup_commands",), {text: not made})


def workers_may_write(document: Document, workers: list[Group]) -> Iterator[Finding]:
    """Workers need an account: Ray gives one to the head only, so the first row to a bucket fails."""
    scheme, field = ACCOUNT[provider(document)]
    fields = {field, "LaunchTemplate", "sourceInstanceTemplate"}
    without = [group for group in workers if not group.machine.keys() & fields]
    if without and any(scheme in line for line in document.text):
        place = (*without[0].place, "node_config")
        yield Finding(place, f"no {field}: workers get none by default, and could not write results to {scheme}")


def zones_fit(document: Document) -> Iterator[Finding]:
    """Zones must be of the region, and disks of the zone; otherwise no node starts."""
    given = document.data["provider"]
    region, zones = given.get("region") or "", given.get("availability_zone") or ""
    if rules.PLACEHOLDER in region + zones:
        return
    for zone in filter(None, map(str.strip, zones.split(","))):
        elsewhere = not re.fullmatch(rf"{re.escape(region)}\D.*", zone)
        yield from said(("provider", "availability_zone"), {f"{zone} is no zone of {region}": elsewhere})
    for place, text in strings(document.data.get("available_node_types"), ("available_node_types",)):
        for zone in re.findall(r"\bzones/([\w-]+)/", text):
            yield from said(place, {f"of {zone}, but nodes start in {zones}": zone != zones})


def machine_of(config: dict) -> str:
    return str(config.get("InstanceType") or config.get("machineType") or "").rpartition("/")[2]


def gpus_of(config: dict) -> int | None:
    """The GPUs of a node; None if they are not known here."""
    added = [at(one, "acceleratorCount") for one in at(config, "guestAccelerators", default=[])]
    known = next((gpus for name, gpus in GPUS.items() if re.fullmatch(name, machine_of(config))), None)
    return sum(count for count in added if isinstance(count, int)) or known


def gpus_are_there(document: Document, heads: list[Group], workers: list[Group]) -> Iterator[Finding]:
    """Trials wait for GPUs that a node promises and lacks; GPUs that it has and Ray does not know are billed and idle."""
    google = provider(document) == "gcp"
    for group in [*heads, *workers]:
        config = at(document.data, *group.place, "node_config")
        gpus = gpus_of(config)
        promised = group.resources.get("GPU", 0 if google else gpus)  # Ray asks EC2, and not Compute Engine
        wrong = group in workers and gpus is not None and promised != gpus
        yield from said((*group.place, "resources"), {f"GPU: {promised} here, but a {machine_of(config)} has {gpus}": wrong})
        scheduling = at(config, "scheduling", default={})
        yield from said((*group.place, "node_config", "scheduling"), {
            "onHostMaintenance: TERMINATE is missing: without it Google starts no machine that has GPUs":
                google and (gpus or promised) and scheduling.get("onHostMaintenance") != "TERMINATE",
            "instanceTerminationAction: DELETE is missing: a lost spot node keeps its disk, billed":
                google and group.is_spot and scheduling.get("instanceTerminationAction") != "DELETE",
        })  # fmt: skip
