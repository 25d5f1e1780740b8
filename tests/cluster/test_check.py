"""`tune_cd.cluster check`: the shipped files pass, and every planted mistake is found where it is, and nothing else.

Each table is (change, words): what is changed in a shipped file, and what is said of it."""

import gzip
import json
import random
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tune_cd.cluster.__main__ import main
from tune_cd.cluster.check import ray_up

pytest.importorskip("botocore", reason="the `cluster` extra: EC2's description of its calls")
pytest.importorskip("jsonschema", reason="Ray validates with it; part of ray[default]")

ROOT = Path(__file__).parents[2]
CLUSTERS = ROOT / "clusters"
RAY = version("ray")
PINNED = re.search(r"'ray\[default,tune\]==(\d+\.\d+\.\d+)'", (CLUSTERS / "gcp.yaml").read_text()).group(1)
OUT = object()
FILES = ["gpu.yaml", "gcp.yaml", "onprem.yaml", "kuberay.yaml"]
JUNK = [None, [], {}, "x", "", 5, -1, True, 1.5, [None], {"x": None}, [[]], "a: b"]


@pytest.fixture
def check(capsys, monkeypatch):
    """check(*arguments) -> (status, lines of output, lines of errors), in the root of the checkout."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("RAY_UP_enable_autoscaler_v2", raising=False)

    def run(*arguments) -> tuple[int, list[str], list[str]]:
        status = main(["check", *map(str, arguments)])
        out = capsys.readouterr()
        return status, out.out.splitlines(), out.err.splitlines()

    return run


def shipped(name: str) -> str:
    """A shipped file's text, with the Ray that is installed here."""
    return (CLUSTERS / name).read_text().replace(PINNED, RAY)


def parsed(name: str) -> dict:
    """A shipped file's data, with nothing shared between its parts."""
    return json.loads(json.dumps(yaml.safe_load(shipped(name))))


def edited(name: str, changes: dict) -> dict:
    """A shipped file's data with other values: path -> value, or OUT for a key that is taken out."""
    data = parsed(name)
    for path, value in changes.items():
        *above, key = path.split("/")
        inner = data
        for part in above:
            inner = inner[int(part) if isinstance(inner, list) else part]
        inner[int(key) if isinstance(inner, list) else key] = value
        if value is OUT:
            del inner[int(key) if isinstance(inner, list) else key]
    return data


def written(folder: Path, content, name: str = "cluster.yaml") -> Path:
    """A file of a text or of data."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_shipped_files_are_good_but_for_values_to_be_edited(check, tmp_path):
    files = [written(tmp_path, shipped(name), name) for name in FILES]
    good = [f"{file}: ok{', once it is edited' * ('EDIT-ME' in file.read_text())}" for file in files]
    good[0] = f"{files[0]}: ok"  # its comment alone has the word
    assert check(*files, "--template") == (0, good, [])
    status, lines, _ = check(*files)
    placeholders = [
        f"{file}: to be edited: line {number}: {text.partition('#')[0].strip()}"
        for file in files
        for number, text in enumerate(file.read_text().splitlines(), 1)
        if "EDIT-ME" in text.partition("#")[0]
    ]
    assert status == 1 and lines == [good[0], *placeholders] and len(placeholders) >= 10


SYNCED = "cluster_synced_files: [~/.ray/auth_token, ~/constraints.txt]"
MAKES_TOKEN = "  - umask 077 && ~/venv/bin/ray get-auth-token --generate > /dev/null"
PIN = f"-q -c ~/constraints.txt 'ray[default,tune]=={RAY}'"
JOINS = "--address=$RAY_HEAD_IP"
START, WORKER_START = "head_start_ray_commands[1]", "worker_start_ray_commands[1]"
# text of the file, text in its place, place of the finding, its message
COMMON = [
    ("cluster_name: tune-cd\n", "cluster_name: tune-cd\nmax_wokers: 8\n", "", "('max_wokers' was unexpected)"),
    ("README.md: README.md", "README.md: REDME.md", "file_mounts.~/checkout/README.md", "REDME.md does not exist"),
    ("\nauth:", "\ndocker: {image: 'ray:latest', container_name: ray}\nauth:", "docker.image", "changes from day"),
    ("--dashboard-host=127.0.0.1", "--dashboard-host=0.0.0.0", START, "reaches the dashboard"),
    ("RAY_AUTH_MODE=token ray start --address", "ray start --address", WORKER_START, "MODE=token is missing"),
    (SYNCED, "cluster_synced_files: []", "cluster_synced_files", "would lack the head's token"),
    (MAKES_TOKEN, "  - 'true'", "head_setup_commands", "nothing makes the token"),
    ("  - umask 077 &&", "  - umask 077 && 'a", "head_setup_commands", "no valid shell"),
    (f"{JOINS}:6379\n", f"{JOINS}:6380\n", WORKER_START, "port 6380, but the head listens at 6379"),
    (f"{JOINS}:6379\n", "--address='$RAY_HEAD_IP:6379'\n", WORKER_START, "'$RAY_HEAD_IP:6379' is not expanded"),
    (f"ray start {JOINS}:6379", "ray start --head --port=6379", WORKER_START, "each would be a cluster of its own"),
    (f"ray start {JOINS}:6379", f"ray start {JOINS}", WORKER_START, "--address=$RAY_HEAD_IP:PORT is missing"),
    (f"ray start {JOINS}:6379", "ray start", WORKER_START, "--address=$RAY_HEAD_IP:PORT is missing"),
    ("ray start --head", "ray start", START, "--head is missing"),
    ("ray start --address", "ray start --block --address", WORKER_START, "--block never ends"),
    ("--autoscaling-config=~/ray_bootstrap_config.yaml", "", START, "no worker would be started"),
    (PIN, "-q -c ~/constraints.txt 'ray[default,tune]'", "", "no version of Ray is named"),
]
KINDS, HEAD = "available_node_types", "available_node_types.head"
TWIN = "resources: {CPU: 8, GPU: 1, ondemand: 1}"
COUNTS = "    min_workers: {}\n    max_workers: {}\n    node_config:\n"
MOST, IDLE = "\nmax_workers: 8\n", "\nidle_timeout_minutes: 10\n"
CLOUD = [
    ("  cache_stopped_nodes: false", "  cache_stopped_nodes: true", "provider.cache_stopped_nodes", "keep their disks"),
    ("resources: {CPU: 0, GPU: 0}", "resources: {CPU: 2, GPU: 0}", HEAD, "{CPU: 0, GPU: 0} is needed"),
    (TWIN, "resources: {CPU: 8, GPU: 1}", f"{KINDS}.gpu-spot", "no on-demand twin: the same machine, not spot"),
    (COUNTS.format(0, 8), COUNTS.format(8, 4), "gpu-spot", "min_workers is more than max_workers"),
    ("    max_workers: 8\n", "    max_workers: 0\n", f"{KINDS}: ", "max_workers is 0 in all of them"),
    ("head_node_type: head", "head_node_type: haed", "", "Ray refuses it: `head_node_type` must be one of"),
    (MOST, "\n", "max_workers", "is missing: Ray's default is two nodes"),
    (MOST, "\nmax_workers:\n", "max_workers", "None is not of type 'integer'"),
    (MOST, "\nmax_workers: 0\n", "max_workers", "no worker would be started"),
    (IDLE, "\nidle_timeout_minutes: 0\n", "idle_timeout_minutes", "must be more than 0: nodes would end"),
    ("GPU: 1", "gpu: 1", "gpu-spot.resources", "gpu is another resource to Ray"),
    ("GPU: 1", "GPU: 4", "gpu-ondemand", "resources: GPU: 4, but a g"),
    ("region: us-", "region: eu-", "provider.availability_zone", " is no zone of eu-"),
]
SPOT = "InstanceMarketOptions: {MarketType: spot}"
ANOTHER = """InstanceMarketOptions: {MarketType: capacity-block}
  gpu-spot2:
    resources: {CPU: 8, GPU: 1, mine: 1}
    min_workers: 0
    max_workers: 8
    node_config:
      <<: *gpu_node
      InstanceMarketOptions: {MarketType: spot}"""
SMALL = "a disk of 8 GB is too small"
AWS = [
    (PIN, PIN.replace(RAY, "2.41.0"), "setup_commands", f"Ray 2.41.0, but {RAY} is installed here"),
    ("Type: g6.2x", "Typ: g6.2x", ".node_config", 'RunInstances refuses it: Unknown parameter in input: "InstanceTyp"'),
    ("Type: g6.2xlarge", "Type: g6.2xlrge", "spot.node_config", "InstanceType: g6.2xlrge is misspelt, or newer than"),
    ("MarketType: spot", "MarketType: Spot", "gpu-spot.node_config", "MarketType: Spot is misspelt"),
    ("VolumeType: gp3", "VolumeType: gp33", "head.node_config", "VolumeType: gp33 is misspelt"),
    ("OnTermination: true", "OnTermination: false", "Ebs.DeleteOnTermination", "a disk that outlives its node"),
    ("    ImageId: *image\n", "", ".node_config", "Ray's default is Ubuntu 18.04"),
    (SPOT, ANOTHER, "available_node_types.gpu-spot2", "on-demand twin"),
    ("VolumeSize: 150", "VolumeSize: 8", "gpu-spot.node_config", SMALL),
    ("us-west-2b,", "us-west-1b,", "provider.availability_zone", "us-west-1b is no zone of us-west-2"),
    ("GPU: 1", "GPU: 2", "gpu-spot", "resources: GPU: 2, but a g6.2xlarge has 1"),
]
E2, ENDS = "      machineType: e2-standard-2", "scheduling: {onHostMaintenance: TERMINATE}"
SPOT_HEAD = "scheduling: {provisioningModel: SPOT, instanceTerminationAction: DELETE}"
DELETES, KEEPS = (f"scheduling: {field} is missing" for field in
                  ("instanceTerminationAction: DELETE", "onHostMaintenance: TERMINATE"))  # fmt: skip
GCP = [
    ("      autoDelete: true\n", "", "disks[0]", "autoDelete: true is missing"),
    ("instanceTerminationAction: DELETE, ", "", "gpu-spot.node_config", DELETES),
    ("    resources: {CPU: 8, GPU: 1", "    resources: {CPU: 8", "gpu-spot", "GPU: 0, but a g2-standard-8 has 1"),
    (E2, f"{E2}\n      {SPOT_HEAD}", HEAD, "a spot head"),
    ("config: *gpu_node", "config: {<<: *gpu_node, machineType: g2-x}", "gpu-spot", "no on-demand twin"),
    (ENDS, "scheduling: {}", "gpu-ondemand.node_config", KEEPS),
    (" onHostMaintenance: TERMINATE,", "", "gpu-spot.node_config", KEEPS),
    (ENDS, "scheduling: [{onHostMaintenance: MIGRATE}]", "gpu-ondemand.node_config", KEEPS),
    (E2, f"{E2}\n      scheduling: [{{preemptible: true, instanceTerminationAction: DELETE}}]", HEAD, "a spot head"),
    ("diskSizeGb: 150", "diskSizeGb: 8", "gpu-spot.node_config", SMALL),
    ("zone: us-central1-a", "zone: us-central10-a", "provider.availability_zone", "us-central10-a"),
]
LOCAL = [("RAY_enable_autoscaler_v2=0 ", "", START, "autoscaler v2 starts no worker here")]
CLUSTER, WORKER = "spec.rayClusterSpec", "workerGroupSpecs[0].template.spec"
ONDEMAND = 'resources: \'"{\\"ondemand\\": 1}"\''
IMAGE = f"rayproject/ray:{RAY}-py312-gpu"
FINISHES, AUTOSCALING, HEAD_SPEC = "shutdownAfterJobFinishes", "enableInTreeAutoscaling", "    headGroupSpec:"
RESULTS = "--results s3://EDIT-ME/results"
KUBERAY = [
    (f"{FINISHES}: true", f"{FINISHES}: false", "spec", "cluster stays"),
    (f"{AUTOSCALING}: true", f"{AUTOSCALING}: false", f"{CLUSTER}.{AUTOSCALING}", "all replicas"),
    ("      mode: token", "      mode: disabled", f"{CLUSTER}.authOptions", "mode: token is missing"),
    (f'    rayVersion: "{RAY}" # the image\'s\n', "", CLUSTER, "rayVersion is missing"),
    (IMAGE, "mine:latest", "headGroupSpec.template.spec.containers[0].image", "from day to day"),
    (f'rayVersion: "{RAY}"', 'rayVersion: "2.41.0"', f"{CLUSTER}.rayVersion", f"Ray 2.41.0, but {RAY} in"),
    ("idleTimeoutSeconds: 600", "idleTimeoutSeconds: 0", "autoscalerOptions.idleTimeoutSeconds", "pods would end"),
    (ONDEMAND, "resources: '{ondemand: 1}'", CLUSTER, "Ray's autoscaler cannot read its groups"),
    ("mountPath: /dev/shm", "mountPath: /scratch", WORKER, "no volume in memory at /dev/shm"),
    ("--study mine", "--study 'mine", "spec.entrypoint", "no valid shell"),
    ('num-cpus: "0"', 'num-cpus: "2"', f"{CLUSTER}.headGroupSpec.rayStartParams", "or trials run on the head"),
    ("maxReplicas: 8", "maxReplicas: 0", f"{CLUSTER}.workerGroupSpecs", "no worker would be started"),
    ("groupName: gpu-ondemand", "groupName: gpu-spot", f"{CLUSTER}.workerGroupSpecs", "two groups are named gpu-spot"),
    ("nvidia.com/gpu: 1", "nvidia.com/gpus: 1", "containers[0].resources.limits", "nvidia.com/gpus is no GPU to Ray"),
    (RESULTS, "--results /home/ray/results", "spec: entrypoint", "lies in a pod and is lost with it"),
    (HEAD_SPEC, f"{HEAD_SPEC}\n      serviceType: LoadBalancer", "serviceType", "opens the dashboard"),
]
PLANTED = (
    [(name, *mistake) for name in ("gpu.yaml", "gcp.yaml", "onprem.yaml") for mistake in COMMON]
    + [(name, *mistake) for name in ("gpu.yaml", "gcp.yaml") for mistake in CLOUD]
    + [("gpu.yaml", *mistake) for mistake in AWS]
    + [("gcp.yaml", *mistake) for mistake in GCP]
    + [("onprem.yaml", *mistake) for mistake in LOCAL]
    + [("kuberay.yaml", *mistake) for mistake in KUBERAY]
)


@pytest.mark.parametrize(
    ("name", "old", "new", "place", "words"),
    PLANTED,
    ids=[f"{name}-{new.strip()[:50]!r}" for name, _, new, *_ in PLANTED],
)
def test_a_planted_mistake_is_all_that_is_found(check, tmp_path, name, old, new, place, words):
    """Under several places where an anchor shares it."""
    text = shipped(name)
    assert old in text, f"{name} no longer contains {old!r}"
    path = written(tmp_path, text.replace(old, new))
    status, lines, errors = check(path, "--template")
    assert (status, errors) == (1, []) and lines[0].startswith(f"{path}: ")
    assert any(place in line for line in lines) and all(words in line for line in lines), lines


STARTS = "worker_start_ray_commands"
TOKEN = "RAY_AUTH_MODE=token; "
AZURE = {"provider": {"type": "azure", "location": "westus2", "resource_group": "mine"}}
ENTRYPOINT = {"spec/entrypoint": "python -m tune_cd.run --results /shared/results"}
PODS = [f"spec/rayClusterSpec/{group}/template/spec/containers/0/volumeMounts"
        for group in ("headGroupSpec", "workerGroupSpecs/0", "workerGroupSpecs/1")]  # fmt: skip
LIMITS = PODS[1].replace("volumeMounts", "resources/limits")
SHM, NFS = {"mountPath": "/dev/shm", "name": "shm"}, {"mountPath": "/shared", "name": "nfs"}
RAYCLUSTER = {"kind": "RayCluster", "spec": parsed("kuberay.yaml")["spec"]["rayClusterSpec"]}
ROOT_DISK = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 150}}
DATA_DISK = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 8, "DeleteOnTermination": True}}
MAPPINGS = f"{KINDS}/head/node_config/BlockDeviceMappings"


def docker(image: str) -> dict:
    return {"docker": {"image": image, "container_name": "ray"}}


@pytest.mark.parametrize(("name", "changes", "words"), [
    ("gcp.yaml", {"worker_setup_commands": None}, "worker_setup_commands: Ray refuses it: None is not of type"),
    ("gcp.yaml", {"head_node_type": {"a": 1}}, "head_node_type: Ray refuses it: {'a': 1} is not of type"),
    ("gcp.yaml", {"provider": None}, "provider: Ray refuses it: None is not of type 'object'"),
    ("gcp.yaml", {"provider": OUT}, "Ray refuses it: 'provider' is a required property"),
    ("gcp.yaml", {f"{KINDS}/gpu-ondemand": OUT}, "gpu-spot: no on-demand twin: "),
    ("gcp.yaml", {f"{KINDS}/gpu-spot": OUT, f"{KINDS}/gpu-ondemand/resources": {"CPU": 8, "GPU": 1}}, ""),
    ("gcp.yaml", {STARTS: OUT}, "no `ray start` here: Ray's default commands start it"),
    ("gcp.yaml", {STARTS: [TOKEN + 'bash -c "ray start --address=$RAY_HEAD_IP:6379"']}, ""),
    ("gcp.yaml", {STARTS: [TOKEN + "bash -lc 'ray start --address=$RAY_HEAD_IP:6379'"]}, ""),
    ("gcp.yaml", {STARTS: [TOKEN + """echo 'a' "it's"; ray start --address="${RAY_HEAD_IP}:6379" # '"""]}, ""),
    ("gcp.yaml", {STARTS: [TOKEN + "ray start --address=$RAY_HEAD_IP:6379; curl http://$RAY_HEAD_IP:8265/x"]}, ""),
    ("gcp.yaml", AZURE, ""),
    ("gpu.yaml", {MAPPINGS: [ROOT_DISK, DATA_DISK]}, ""),
    ("gpu.yaml", docker("rayproject/ray"), "changes from day to day"),
    ("gpu.yaml", docker("registry:5000/mine:1.2"), ""), ("gpu.yaml", docker("mine@sha256:0123"), ""),
    ("kuberay.yaml", ENTRYPOINT | dict(zip(PODS, [[NFS], [SHM, NFS], [SHM]])), "--results /shared/results lies in"),
    ("kuberay.yaml", ENTRYPOINT | dict(zip(PODS, [[NFS], [SHM, NFS], [SHM, NFS]])), ""),
    ("kuberay.yaml", {LIMITS: OUT}, ""), ("kuberay.yaml", {LIMITS: {"cpu": 7, "a.com/gpucores": 1}}, "gpucores is no"),
    ("kuberay.yaml", {LIMITS: {"nvidia.com/gpumem": 1, "nvidia.com/gpu": 1}}, ""), ("kuberay.yaml", RAYCLUSTER, ""),
    ("kuberay.yaml", RAYCLUSTER | {"spec/authOptions": OUT}, "spec.authOptions: mode: token is missing"),
])  # fmt: skip
def test_files_of_other_forms(check, tmp_path, name, changes, words):
    """Without words they are good. The words name all that is found, or the first of it."""
    status, lines, errors = check(written(tmp_path, edited(name, changes)), "--template")
    assert (status, errors) == (bool(words), []) and any(words in line for line in lines), lines
    assert words or lines[-1].endswith((": ok", ": ok, once it is edited"))


def test_what_is_not_checked_is_said(check, tmp_path):
    azure = written(tmp_path, edited("gcp.yaml", AZURE), "azure.yaml")
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: mine}\nstringData: {auth_token: abc}\n---\n"
    both = written(tmp_path, secret + shipped("kuberay.yaml"), "both.yaml")
    status, lines, _ = check(azure, both, "--template")
    assert status == 0 and lines == [
        f"{azure}: not checked: provider 'azure': its fields and node_config", f"{azure}: ok, once it is edited",
        f"{both}: not checked: Secret", f"{both}: ok, once it is edited",
    ]  # fmt: skip


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
TWICE = "no YAML: line 3: cluster_name is given twice"
MANY, DEEP = "more than 100,000 values, aliases written out", "too many levels, or an alias within its own anchor"


@pytest.mark.parametrize(("content", "words"), [
    ("a: [1, 2", "no YAML: line"), ("- 1\n- 2\n", "no cluster file"), ("name: mine\non: push\n", "no cluster file"),
    ("apiVersion: v1\nkind: ConfigMap\n", "no cluster file"), ("provider: &p\n  type: *p\n", DEEP),
    (f"cluster_name: a\n{BOMB}", MANY), ("[" * 5000, DEEP),
    ("a: !!int ''\n", "no YAML: "), ("? {a: 1}\n: 1\n", "no YAML: line 1"),
    ("cluster_name: a\nx: {cluster_name: a}\ncluster_name: b", TWICE),
    ("a: 2026-13-01", "no YAML: month must be in 1..12"),
    ("", "no cluster file"), (b"\xff\xfe\x00", "cannot be read: 'utf-8' codec can't decode"),
    (None, "cannot be read: No such file or directory"),
])  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_beside_findings_in_others(check, tmp_path, content, words):
    path = tmp_path / "a.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    broken = written(tmp_path, shipped("gcp.yaml").replace("      autoDelete: true\n", ""))
    status, lines, errors = check(path, broken, "--template")
    assert status == 2 and len(errors) == 1 and errors[0].startswith(f"{path}: ") and words in errors[0]
    assert lines and all("autoDelete: true is missing" in line for line in lines)


@pytest.mark.parametrize("start", ["# ours\n", '{\n  "Description": "ours",\n  "'])
def test_a_template_of_another_kind_is_passed_over(check, tmp_path, start):
    path = written(tmp_path, f"{start}AWSTemplateFormatVersion: x\nA: !Equals [!Ref B, '']\n")
    assert check(path) == (0, [f"{path}: not checked: an AWS CloudFormation template"], [])


@pytest.mark.parametrize(
    "absent, file", [("jsonschema", "clusters/gcp.yaml"), ("botocore.validate", "clusters/gpu.yaml")]
)
def test_a_package_that_is_missing_is_named(check, monkeypatch, absent, file):
    monkeypatch.setitem(sys.modules, absent, None)
    said = f"{file}: {absent} is not installed, and the check needs it: pip install 'tune_cd[cluster]'"
    assert check(file, "--template") == (2, [], [said])


def places(value, place=()):
    yield place
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []:
        yield from places(item, (*place, key))


@pytest.mark.parametrize("name", FILES)
def test_no_file_however_wrong_makes_the_check_itself_fail(check, tmp_path, name):
    """One value, anywhere, is taken out or replaced by something of another kind."""
    rng = random.Random(name)
    every = [place for place in places(parsed(name)) if place and not any("/" in f"{key}" for key in place)]
    for place in rng.choices(every, k=10):
        content = edited(name, {"/".join(map(str, place)): rng.choice([OUT, *JUNK])})
        status, lines, errors = check(written(tmp_path, content), "--template")
        assert status in (0, 1, 2) and lines + errors, place


def test_the_gpus_of_ec2s_types_are_those_that_amazon_lists():
    moto = pytest.importorskip("moto", reason="it has EC2's list of instance types")
    listed = json.loads(gzip.decompress((Path(moto.__path__[0]) / "ec2/resources/instance_types.json.gz").read_bytes()))
    gpus = {name: sum(gpu["Count"] for gpu in kind.get("GpuInfo", {}).get("Gpus", ())) for name, kind in listed.items()}
    known = {name: ray_up.gpus_of({"InstanceType": name}) for name in gpus}
    assert {name: (known[name], gpus[name]) for name in gpus if known[name] not in (None, gpus[name])} == {}
    nvidia = [name for name in gpus if re.match("p|g[4-9]", name) and gpus[name]]
    unknown = [name for name in nvidia if known[name] is None]
    assert len(nvidia) > 30 and all(re.match("g4ad|g5g", name) for name in unknown)


@pytest.mark.parametrize(("config", "gpus"), [
    ({"machineType": "g2-standard-24"}, 2), ({"machineType": "zones/x/machineTypes/a2-highgpu-8g"}, 8),
    ({"machineType": "a2-megagpu-16g"}, 16), ({"machineType": "e2-standard-2"}, 0), ({"machineType": "g2-x"}, None),
    ({"machineType": "n1-standard-8", "guestAccelerators": [{"acceleratorCount": 2}]}, 2), ({}, None),
])  # fmt: skip
def test_the_gpus_of_googles_types(config, gpus):
    assert ray_up.gpus_of(config) == gpus
