"""Rules for the files of `ray up`: on AWS, Google Cloud and machines of one's own (provider `local`)."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tune_cd.cluster import ray_internals

from . import rules
from .documents import Document, Finding, Place, at, matches
from .rules import Rule, broken, said

CLOUDS = ("aws", "gcp")
MARKET = ("InstanceMarketOptions", "scheduling")  # the fields in which spot and on-demand nodes differ
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
"""Machine type of EC2 or Compute Engine -> its GPUs, without those of `guestAccelerators`. Others are not known."""
DISK_GB, ROOT = 30, ("/dev/sda1", "/dev/xvda")
HEAD, WORKER = "head_start_ray_commands", "worker_start_ray_commands"
COMMANDS = f"initialization_commands|setup_commands|head_setup_commands|worker_setup_commands|{HEAD}|{WORKER}.*"
KINDS, CONFIG = "available_node_types.*", "available_node_types.*.node_config"
TOKEN, TOKEN_FILE = r"\bRAY_AUTH_MODE=['\"]?token\b", ".ray/auth_token"
PORTLESS = r"\bRAY_HEAD_IP(?!['\"}]*:)"
OLD_AUTOSCALER = "RAY_enable_autoscaler_v2=0"
QUOTED = re.compile(r"\b(?:ba)?sh(?:\s+-\w+)+\s+'[^']*'|\"(?:\\.|[^\"\\])*\"|('[^']*'|\\\$\w+)")
"""Parts of a command. The group: those whose variables no shell expands."""


def unexpanded(command: Any) -> str | None:
    return next((part[1] for part in QUOTED.finditer(f"{command}") if part[1] and "RAY_HEAD_IP" in part[1]), None)


def small_disk(config: dict) -> str | None:
    """The GB of a disk that holds the system, a number or its digits as text, if they are too few."""
    mappings = matches(config, "BlockDeviceMappings.*")
    disks = [at(it, "Ebs", "VolumeSize") for _, it in mappings if at(it, "DeviceName") in ROOT]
    disks += [at(it, "initializeParams", "diskSizeGb") for _, it in matches(config, "disks.*") if at(it, "boot")]
    return next((f"{gb}" for gb in disks if re.fullmatch(r"\d{1,9}", f"{gb}") and int(gb) < DISK_GB), None)


def scheduling(config: dict) -> dict:
    """Of a machine of Google's: an object, or the only element of a list, as in Ray's own files."""
    return at(config, "scheduling", 0, default={}) or at(config, "scheduling", default={})


def is_spot(config: dict) -> bool:
    market, google = at(config, "InstanceMarketOptions", "MarketType"), scheduling(config)
    return market == "spot" or google.get("provisioningModel") == "SPOT" or bool(google.get("preemptible"))


def machine_of(config: dict) -> str:
    return str(config.get("InstanceType") or config.get("machineType") or "").rpartition("/")[2]


def gpus_of(config: dict) -> int | None:
    """The GPUs of a node; None if they are not known here."""
    added = [at(one, "acceleratorCount") for one in at(config, "guestAccelerators", default=[])]
    known = next((gpus for name, gpus in GPUS.items() if re.fullmatch(name, machine_of(config))), None)
    return sum(count for count in added if isinstance(count, int)) or known


def spelt(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Resources under Ray's names."""
    return {{"cpu": "CPU", "gpu": "GPU"}.get(name.lower(), name): amount for name, amount in resources.items()}


def misspelt(resources: Mapping[str, Any]) -> str:
    """The resources under other names than Ray's: it takes any name, and no trial asks for `gpu`."""
    return ", ".join(sorted(resources.keys() - spelt(resources).keys()))


def other_gpus(kind: dict) -> str | None:
    """The GPUs that a node type promises, and has, if they differ. On EC2 alone Ray finds out itself."""
    config, gpus = kind["node_config"], gpus_of(kind["node_config"])
    promised = spelt(kind["resources"]).get("GPU", gpus if "InstanceType" in config else 0)
    return None if gpus in (None, promised) else f"resources: GPU: {promised}, but a {machine_of(config)} has {gpus}"


@cache
def _run_instances() -> Any:
    """The parameters of EC2's RunInstances. Cached, since botocore reads 13 MB of JSON for them."""
    from botocore.session import get_session

    return get_session().get_service_model("ec2").operation_model("RunInstances").input_shape


def ec2_refuses(config: dict) -> str | None:
    from botocore.validate import ParamValidator

    own = {"MinCount": 1, "MaxCount": 1}  # Ray adds these, and uses SubnetIds for SubnetId
    config = {key: value for key, value in config.items() if key != "SubnetIds"} | own
    why = re.sub(", must be one of: .*", "", ParamValidator().validate(config, _run_instances()).generate_report())
    return f"EC2's RunInstances refuses it: {why}" if why else next(_unlisted(config, _run_instances()), None)


def _unlisted(value: Any, shape: Any, name: str = "") -> Iterator[str]:
    """The texts in a valid value of this shape that are in none of EC2's lists, which the validator does not read."""
    if shape.type_name == "string" and shape.enum and value not in shape.enum and rules.PLACEHOLDER not in value:
        yield f"{name}: {value} is misspelt, or newer than the botocore installed here"
    elif shape.type_name == "structure":
        for key in value:
            yield from _unlisted(value[key], shape.members[key], key)
    elif shape.type_name == "list":
        for one in value:
            yield from _unlisted(one, shape.member, name)


NO_WORKER, IDLE = "no worker would be started", "must be more than 0: nodes would end between two trials"
ANYWHERE: list[Rule] = [
    ("docker.image|head_image|worker_image", rules.moves, rules.MOVES),
    (f"{KINDS}.docker.worker_image", rules.moves, rules.MOVES),
    ("file_mounts.*", lambda source: not os.path.exists(os.path.expanduser(f"{source}")),
     "{} does not exist in the current folder, where `ray up` looks for it once the head is billed"),
    *((f"{above}{COMMANDS}", wrong, sentence) for above in ("", f"{KINDS}.") for wrong, sentence in [
        (rules.shell_error, "no valid shell: {}"),
        (lambda text: bool(re.search(r"--dashboard-host[= ]['\"]?(0\.0\.0\.0|::)", f"{text}")),
         "whoever reaches the dashboard runs jobs: --dashboard-host=127.0.0.1, and `ray dashboard`")]),
    (f"{WORKER}.*", unexpanded, "{} is not expanded: use double quotes or none"),
    ("max_workers", lambda most: most == 0, f"must be more than 0: {NO_WORKER}"),
]  # fmt: skip
GROWING: list[Rule] = [
    ("max_workers", lambda most: most is None, "is missing: Ray's default is two nodes"),
    ("available_node_types", lambda kinds: kinds and all(at(kind, "max_workers") == 0 for kind in kinds.values()),
     f"max_workers is 0 in all of them: {NO_WORKER}"),
    (KINDS, lambda kind: at(kind, "min_workers", default=0) > at(kind, "max_workers", default=1e9),
     "min_workers is more than max_workers: Ray starts and ends nodes over and over"),
    (f"{KINDS}.resources", misspelt, "{} is another resource to Ray than CPU or GPU, for which trials ask"),
    ("idle_timeout_minutes", lambda minutes: minutes == 0, IDLE),
    (f"{KINDS}.idle_timeout_s", lambda seconds: seconds == 0, IDLE),
]  # fmt: skip
BILLED: list[Rule] = [
    ("provider.cache_stopped_nodes", lambda kept: kept is not False,
     "must be false: stopped nodes keep their disks, which are billed"),
    (CONFIG, small_disk, f"a disk of {{}} GB is too small for system, torch with CUDA and dataset: {DISK_GB} or more"),
    (KINDS, other_gpus, "{}"),
]  # fmt: skip
OWN: dict[str, list[Rule]] = {
    "aws": [
        (f"{CONFIG}.BlockDeviceMappings.*.Ebs.DeleteOnTermination", lambda ends: ends is False,
         "must be true: a disk that outlives its node is billed"),
        (CONFIG, lambda config: config.get("ImageId") in (None, "latest_dlami") and "LaunchTemplate" not in config,
         "no ImageId: Ray's default is Ubuntu 18.04 with CUDA 11.2, too old for torch"),
        (CONFIG, ec2_refuses, "{}"),
    ],
    "gcp": [
        (f"{CONFIG}.disks.*", lambda disk: at(disk, "autoDelete") is not True,
         "autoDelete: true is missing: the disk outlives its node"),
        (CONFIG, lambda config: is_spot(config) and scheduling(config).get("instanceTerminationAction") != "DELETE",
         "scheduling: instanceTerminationAction: DELETE is missing: a lost spot node keeps its disk, billed"),
        (CONFIG, lambda config: gpus_of(config) and scheduling(config).get("onHostMaintenance") != "TERMINATE",
         "scheduling: onHostMaintenance: TERMINATE is missing: without it Google starts no machine that has GPUs"),
    ],
}  # fmt: skip


def provider(document: Document) -> str:
    return str(at(document.data, "provider", "type", default=""))


def groups_are_good(document: Document) -> Iterator[Finding]:
    """The head holds the search: a trial there takes its memory, and a spot machine may go. A spot type needs a twin:
    where spot is short Ray goes on asking for spot, but for work that asks for what on-demand nodes alone have."""
    workers: list[tuple[Place, bool, dict, dict]] = []
    for place, kind in matches(document.data, KINDS):
        config, resources = kind["node_config"], spelt(kind["resources"])
        if place[-1] == document.data.get("head_node_type"):
            yield from said(place, {
                "resources: {CPU: 0, GPU: 0} is needed here, or trials run on the head":
                    resources.get("CPU") != 0 or resources.get("GPU", 0) != 0,
                "a spot head: with it the whole search is lost": is_spot(config),
            })  # fmt: skip
        else:
            machine = {key: value for key, value in config.items() if key not in MARKET}
            workers.append((place, is_spot(config), resources, machine))
    for place, _, resources, machine in (worker for worker in workers if worker[1]):
        wanted = resources | {"ondemand": 1}
        needed = "{" + ", ".join(f"{name}: {amount:g}" for name, amount in wanted.items()) + "}"
        text = f"no on-demand twin: the same machine, not spot, with resources: {needed}"
        yield from said(place, {text: (False, wanted, machine) not in [twin[1:] for twin in workers]})


def findings(document: Document) -> Iterator[Finding]:
    """Everything wrong with a file of `ray up`. Where Ray itself refuses it, that alone."""
    cloud = provider(document)
    wrong = [Finding(place, f"Ray refuses it: {why}") for place, why in ray_internals.refusals(document.data)]
    yield from wrong
    if wrong:
        return
    yield from broken(ANYWHERE, document.data)
    for rule in (ray_starts, workers_reach_the_head, token_reaches_the_nodes):
        yield from rule(document)
    if cloud != "local":
        yield from broken(GROWING, document.data)
        yield from groups_are_good(document)
    if cloud in CLOUDS:
        yield from broken([*BILLED, *OWN[cloud]], document.data)
        yield from zones_fit(document)


def starts(document: Document, name: str) -> list[tuple[Place, str, str]]:
    """(place, text before `ray start`, its options) for each such command."""
    found = [(place, text.partition("ray start")) for place, text in matches(document.data, f"{name}.*")]
    return [(place, before, re.split(r"[;&|]", after)[0]) for place, (before, start, after) in found if start]


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
                    not head and (not {"--head", "--address"} & {*options} or re.search(PORTLESS, after)),
                "--block never ends: `ray up` would wait for it, and no trial would begin": "--block" in options,
                f"{OLD_AUTOSCALER} is missing before: autoscaler v2 starts no worker here":
                    head and old and OLD_AUTOSCALER not in before,
            })  # fmt: skip


def workers_reach_the_head(document: Document) -> Iterator[Finding]:
    """A worker that looks for the head elsewhere is started and billed, and never joins."""
    asked = [re.search(r"--port[= ]['\"]?([^\s'\"]+)", after) for _, _, after in starts(document, HEAD)]
    port = next((found[1] for found in asked if found), "6379")
    for place, text in matches(document.data, f"{WORKER}.*"):
        ports = re.findall(r"--address[= ]['\"]?(?!http)\S*:(\d+)", text) if port.isdigit() else []
        wrong = [other for other in ports if other != port]
        yield from said(place, {f"port {other}, but the head listens at {port}": True for other in wrong})


def token_reaches_the_nodes(document: Document) -> Iterator[Finding]:
    """Workers need the head's token. With another one, or none, they are started and billed but never join."""
    asked = any(re.search(TOKEN, before) for name in (HEAD, WORKER) for _, before, _ in starts(document, name))
    if asked and TOKEN_FILE not in f"{list(at(document.data, 'file_mounts', default={}))}":
        synced = TOKEN_FILE in f"{document.data.get('cluster_synced_files')}"
        texts = [text for _, text in matches(document.data, COMMANDS)]
        made = any("get-auth-token --generate" in text or TOKEN_FILE in text for text in texts)
        text = f"~/{TOKEN_FILE} is missing: workers would lack the head's token"
        yield from said(("cluster_synced_files",), {text: not synced})
        text = "nothing makes the token: add `ray get-auth-token --generate > /dev/null`"
        yield from said(("head_setup_commands",), {text: not made})


def zones_fit(document: Document) -> Iterator[Finding]:
    """Zones must be of the region; otherwise no node starts."""
    given = document.data["provider"]
    region, zones = given.get("region") or "", given.get("availability_zone") or ""
    if rules.PLACEHOLDER in region + zones:
        return
    for zone in filter(None, map(str.strip, zones.split(","))):
        elsewhere = not re.fullmatch(rf"{re.escape(region)}\D.*", zone)
        yield from said(("provider", "availability_zone"), {f"{zone} is no zone of {region}": elsewhere})
