"""`tune_cd.cluster check`: the shipped files pass, and every planted mistake is found, alone, where it is."""

import re
from pathlib import Path

import pytest

from tune_cd.cluster.__main__ import main

pytest.importorskip("botocore", reason="the `cluster` extra: EC2's description of its calls")
pytest.importorskip("jsonschema", reason="Ray validates with it; part of ray[default]")

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(path.name for path in (ROOT / "clusters").glob("*.yaml"))
RAY = re.search(r"'ray\[default,tune\]==(\d+\.\d+\.\d+)'", (ROOT / "clusters" / "gcp.yaml").read_text()).group(1)


@pytest.fixture
def check(capsys, monkeypatch):
    """check(*files) -> (status, lines of output, lines of errors), in the root of the checkout."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("RAY_UP_enable_autoscaler_v2", raising=False)
    monkeypatch.setattr("tune_cd.cluster.check.versions.version", lambda name: RAY)

    def run(*files, options=("--template",)) -> tuple[int, list[str], list[str]]:
        status = main(["check", *map(str, files), *options])
        out = capsys.readouterr()
        return status, out.out.splitlines(), out.err.splitlines()

    return run


def edited(tmp_path: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A copy of a shipped file with texts replaced; each must be in it."""
    text = (ROOT / "clusters" / name).read_text()
    for old, new in changes:
        assert old in text, f"{name} no longer contains {old!r}"
        text = text.replace(old, new)
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_file_is_good_but_for_what_its_user_fills_in(check, name):
    status, lines, errors = check(f"clusters/{name}")
    assert (status, errors) == (0, []), lines
    assert len(lines) == 1 and re.fullmatch(rf"clusters/{name}: ok(, once [1-9] values are edited)?", lines[0])


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_to_be_edited_is_found_where_it_is_written_and_nothing_else(check, name):
    status, lines, _ = check(f"clusters/{name}", options=())
    text = (ROOT / "clusters" / name).read_text().splitlines()
    written = [number for number, line in enumerate(text, 1) if "EDIT-ME" in line.partition("#")[0]]
    if not written:
        assert (status, lines) == (0, [f"clusters/{name}: ok"])
        return
    found = [re.fullmatch(rf"clusters/{name}:(\d+): to be edited: [\w.\[\]-]+: \S*EDIT-ME\S*", line) for line in lines]
    assert status == 1 and all(found), lines
    reported = [int(match.group(1)) for match in found]
    assert len(reported) == len(set(reported)) == len(written)
    assert all(0 <= there - said <= 4 for said, there in zip(reported, written, strict=True)), (
        "a long text begins some lines above"
    )


def test_all_shipped_files_want_the_same_ray(check):
    status, lines, _ = check(*(f"clusters/{name}" for name in SHIPPED))
    assert status == 0 and len(lines) == len(SHIPPED)


SYNCED = "cluster_synced_files: [~/.ray/auth_token, ~/constraints.txt]"
MAKES_TOKEN = "  - umask 077 && ~/venv/bin/ray get-auth-token --generate > /dev/null"
PIN = f"-q -c ~/constraints.txt 'ray[default,tune]=={RAY}'"
# text of the file, text in its place, place of the finding, what it says
COMMON = [
    ("cluster_name: tune-cd\n", "cluster_name: tune-cd\nmax_wokers: 8\n", "", "('max_wokers' was unexpected)"),
    ("cluster_name: tune-cd\n", "cluster_name: tune-cd\ncluster_name: tune-cd\n", "cluster_name", "given twice"),
    ("README.md: README.md", "README.md: REDME.md", "file_mounts.~/checkout/README.md", "REDME.md does not exist"),
    (
        "\nauth:",
        "\ndocker: {image: 'rayproject/ray:latest', container_name: ray}\nauth:",
        "docker.image",
        "changes from day",
    ),
    ("--dashboard-host=127.0.0.1", "--dashboard-host=0.0.0.0", "head_start_ray_commands[1]", "reaches the dashboard"),
    (
        "RAY_AUTH_MODE=token ray start --address",
        "ray start --address",
        "worker_start_ray_commands[1]",
        "MODE=token is missing",
    ),
    ("RAY_AUTH_MODE=token ray start --head", "ray start --head", "head_start_ray_commands[1]", "MODE=token is missing"),
    (SYNCED, "cluster_synced_files: []", "cluster_synced_files", "would lack the head's token"),
    (MAKES_TOKEN, "  - 'true'", "head_setup_commands", "nothing makes the token"),
    ("  - umask 077 &&", "  - umask 077 && 'a", "head_setup_commands", "no valid shell"),
    (
        "--autoscaling-config=~/ray_bootstrap_config.yaml",
        "",
        "head_start_ray_commands[1]",
        "no worker would be started",
    ),
    (PIN, "-q -c ~/constraints.txt 'ray[default,tune]'", "setup_commands", "no version of Ray is named"),
    ("\nauth:", "\n# AKIAABCDEFGHIJKLMNOP\nauth:", "", "looks like an AWS access key"),
    ("\nauth:", "\n# token: 0123456789abcdef0123456789abcdef\nauth:", "", "looks like a token"),
]
TWIN, HEAD = "available_node_types.gpu-ondemand", "available_node_types.head"
COUNTS = "    min_workers: {}\n    max_workers: {}\n    node_config:\n"
CLOUD = [
    ("  cache_stopped_nodes: false", "  cache_stopped_nodes: true", "provider.cache_stopped_nodes", "keep their disks"),
    ("idle_timeout_minutes: 10\n", "", "", "idle_timeout_minutes is missing"),
    ("resources: {CPU: 0, GPU: 0}", "resources: {CPU: 2, GPU: 0}", HEAD, "{CPU: 0, GPU: 0} is needed"),
    ("resources: {CPU: 8, GPU: 1, ondemand: 1}", "resources: {CPU: 8, GPU: 1}", TWIN, "{CPU: 8, GPU: 1, ondemand: 1}"),
    (
        COUNTS.format(0, 8),
        COUNTS.format(8, 4),
        "available_node_types.gpu-spot.min_workers",
        "8, more than max_workers, 4",
    ),
    ("head_node_type: head", "head_node_type: haed", "", "Ray refuses it: `head_node_type` must be one of"),
    (
        "  cache_stopped_nodes: false\n",
        "  cache_stopped_nodes: false\n  regoin: x\n",
        "provider.regoin",
        "does not read it",
    ),
]
AWS = [
    (PIN, PIN.replace(RAY, "2.41.0"), "setup_commands", f"Ray 2.41.0 on the nodes, {RAY} installed here"),
    ("InstanceType: g6.2xlarge", "InstanceTyp: g6.2xlarge", "node_config.InstanceTyp", "did you mean InstanceType?"),
    ("VolumeType:", "VolumTyp:", "node_config.BlockDeviceMappings[0].Ebs.VolumTyp", "did you mean VolumeType?"),
    ("DeleteOnTermination: true", "DeleteOnTermination: 'true'", "Ebs.DeleteOnTermination", "RunInstances refuses it"),
    (
        "DeleteOnTermination: true",
        "DeleteOnTermination: false",
        "Ebs.DeleteOnTermination",
        "a disk that outlives its node",
    ),
    ("  region: us-west-2\n", "  regoin: us-west-2\n", "provider.regoin", "does not read it; did you mean region?"),
    ("    ImageId: *image\n", "", ".node_config", "Ray's default is Ubuntu 18.04"),
    (
        "    IamInstanceProfile: {Name: tune-cd-worker-us-west-2}",
        "    # ",
        "gpu-spot.node_config",
        "could not write results",
    ),
    (
        "InstanceMarketOptions: {MarketType: spot}",
        "InstanceMarketOptions: {MarketType: capacity-block}\n"
        "  gpu-spot2:\n    resources: {CPU: 8, GPU: 2}\n    min_workers: 0\n    max_workers: 8\n    node_config:\n"
        "      <<: *gpu_node\n      InstanceMarketOptions: {MarketType: spot}",
        "available_node_types.gpu-spot",
        "on-demand twin",
    ),
]
GCP = [
    ("  region: us-central1\n", "  regoin: us-central1\n", "provider.regoin", "did you mean region?"),
    ("      autoDelete: true\n", "", "disks[0]", "autoDelete: true is missing"),
    (
        "instanceTerminationAction: DELETE, ",
        "",
        "node_config.scheduling",
        "instanceTerminationAction: DELETE is missing",
    ),
    ("images/EDIT-ME", "images/family/common", "sourceImage", "nodes may get different drivers"),
    ("    serviceAccounts: [", "    labels: {}\n    # [", "gpu-spot.node_config", "no serviceAccounts"),
    ("    resources: {CPU: 8, GPU: 1", "    resources: {CPU: 8", "available_node_types.gpu-spot.resources", "no GPU"),
    (
        "diskType: *disk_type, ",
        "",
        "node_config.disks[0]",
        "no diskType: Google's default, pd-standard, is none of g2-st",
    ),
    ("zones/us-central1-a/", "zones/us-east4-a/", "disks[0].initializeParams.diskType", "not of the availability zone"),
    ("acceleratorCount: 1", "acceleratorCount: 4", "gpu-spot.resources.GPU", "the machine has 4 GPUs"),
    (
        "      machineType: e2-standard-2",
        "      machineType: e2-standard-2\n      scheduling: {provisioningModel: SPOT}",
        f"{HEAD}.node_config",
        "a spot head",
    ),
    (
        "    node_config: *gpu_node",
        "    node_config: {<<: *gpu_node, machineType: g2-standard-12}",
        "gpu-spot.node_config",
        "differs from its on-demand twin gpu-ondemand in machineType",
    ),
    ("  project_id: EDIT-ME\n", "", "provider", "project_id is missing"),
]
LOCAL = [
    ("RAY_enable_autoscaler_v2=0 ", "", "head_start_ray_commands[1]", "autoscaler v2 starts no worker here"),
    ("worker_ips: [EDIT-ME]", "worker_ips: [10.0.0.2, 10.0.0.2]", "provider.worker_ips[1]", "10.0.0.2 is in the file"),
    ("  worker_ips:", "  worker_ip:", "provider.worker_ip", "did you mean worker_ips?"),
]
AFFINITY, ON_SPOT = "          affinity: &not_on_spot", "          nodeSelector: {cloud.google.com/gke-spot: 'true'}\n"
CLUSTER, WORKER = "spec.rayClusterSpec", "workerGroupSpecs[0].template.spec.containers[0]"
ONDEMAND = 'resources: \'"{\\"ondemand\\": 1}"\''
KUBERAY = [
    (
        "shutdownAfterJobFinishes: true",
        "shutdownAfterJobFinishes: false",
        "spec.shutdownAfterJobFinishes",
        "cluster stays",
    ),
    (
        "enableInTreeAutoscaling: true",
        "enableInTreeAutoscaling: false",
        f"{CLUSTER}.enableInTreeAutoscaling",
        "all replicas",
    ),
    ("      mode: token", "      mode: disabled", f"{CLUSTER}.authOptions", "mode: token is missing"),
    (f'    rayVersion: "{RAY}" # the image\'s\n', "", CLUSTER, "rayVersion is missing"),
    ('num-cpus: "0"', 'num-cpus: "2"', "headGroupSpec", "or trials run on the head"),
    (
        f"rayproject/ray:{RAY}-py312-gpu",
        "mine:latest",
        "headGroupSpec.template.spec.containers[0].image",
        "from day to day",
    ),
    (f'rayVersion: "{RAY}"', 'rayVersion: "2.41.0"', f"{CLUSTER}.rayVersion", f"Ray 2.41.0 here, {RAY} in"),
    ("image: *image", f"image: rayproject/ray:{RAY}-py311-gpu", "image", "Python py312 here, py311 in"),
    (
        ONDEMAND,
        "num-gpus: '1'",
        "workerGroupSpecs[1]",
        "as gpu-spot's on-demand twin it needs resources: {CPU: 7, GPU: 1",
    ),
    (ONDEMAND, "resources: '{ondemand: 1}'", CLUSTER, "Ray's autoscaler cannot read its groups"),
    (AFFINITY, ON_SPOT + AFFINITY, "headGroupSpec.template", "a spot head"),
    ('cpu: "7", ', "", CLUSTER, "Ray's autoscaler cannot read its groups"),
    ("mountPath: /dev/shm", "mountPath: /scratch", WORKER, "no volume in memory at /dev/shm"),
    ("medium: Memory, ", "", WORKER, "no volume in memory at /dev/shm"),
    ("'the pod is taken away'", "the pod's taken away", "lifecycle.preStop.exec.command[2]", "no valid shell"),
    ("--study mine", "--study 'mine", "spec.entrypoint", "no valid shell"),
    (
        "--results s3://EDIT-ME/results",
        "--results /home/ray/results",
        "spec.entrypoint",
        "lies in a pod and is lost with it",
    ),
    ("--results s3://EDIT-ME/results", "", "spec.entrypoint", "--results results lies in a pod"),
    (
        "    headGroupSpec: # it",
        "    headGroupSpec:\n      serviceType: LoadBalancer # it",
        "headGroupSpec.serviceType",
        "opens the dashboard",
    ),
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
    ("name", "old", "new", "place", "says"),
    PLANTED,
    ids=[f"{name}-{new.strip()[:50]!r}" for name, _, new, _, _ in PLANTED],
)
def test_a_planted_mistake_is_the_only_finding(check, tmp_path, name, old, new, place, says):
    path = edited(tmp_path, name, (old, new))
    status, lines, errors = check(path)
    assert (status, errors) == (1, [])
    assert len(lines) == 1, lines
    assert place in lines[0] and says in lines[0], lines
    number = int(re.match(rf"{re.escape(str(path))}:(\d+): ", lines[0]).group(1))
    assert 1 <= number <= len(path.read_text().splitlines())
