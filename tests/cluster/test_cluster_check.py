"""`tune_cd.cluster check`: the shipped files pass, and every planted mistake is found, alone, where it is."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tune_cd.cluster.__main__ import main

pytest.importorskip("googleapiclient", reason="the `cluster` extra: Compute Engine's description of its calls")
pytest.importorskip("botocore", reason="the `cluster` extra: EC2's description of its calls")
pytest.importorskip("jsonschema", reason="Ray validates with it; part of ray[default]")

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(path.name for path in (ROOT / "clusters").glob("*.yaml"))
RAY = re.search(r"'ray\[default,tune\]==(\d+\.\d+\.\d+)'", (ROOT / "clusters" / "gcp.yaml").read_text()).group(1)


def described(value) -> dict:
    """A schema that knows the fields of a value and no others."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: described(item) for key, item in value.items()}}
    if isinstance(value, list):
        items: dict = {}
        for item in value:
            items = union(items, described(item))
        return {"type": "array", "items": items}
    return {"x-kubernetes-int-or-string": True} if isinstance(value, int | str) and not isinstance(value, bool) else {}


def union(one: dict, other: dict) -> dict:
    return {
        key: union(one[key], other[key]) if isinstance(one.get(key), dict) and key in other else (one | other)[key]
        for key in one | other
    }


@pytest.fixture(scope="session")
def crd(tmp_path_factory) -> Path:
    """Stands in for KubeRay's: it knows what clusters/kuberay.yaml uses, a RayCluster with the same fields, and a few more."""
    job = yaml.safe_load((ROOT / "clusters" / "kuberay.yaml").read_text())
    spec = job["spec"]["rayClusterSpec"]
    text = {"type": "string"}
    schemas = {"RayJob": described(job), "RayCluster": described(job | {"spec": spec})}
    for kind, path in (("RayJob", ["spec", "rayClusterSpec"]), ("RayCluster", ["spec"])):
        cluster = schemas[kind]
        for key in path:
            cluster = cluster["properties"][key]
        groups = cluster["properties"]["workerGroupSpecs"]["items"]
        groups["properties"]["minReplicas"] = {"type": "integer", "minimum": 0}
        groups["required"] = ["template"]
        head = cluster["properties"]["headGroupSpec"]
        head["properties"] |= {"serviceType": text, "enableIngress": {"type": "boolean"}}
        pod = head["properties"]["template"]["properties"]["spec"]["properties"]
        pod |= groups["properties"]["template"]["properties"]["spec"]["properties"] | pod
        for group in (head, groups):
            group["properties"]["rayStartParams"] = {"type": "object", "additionalProperties": text}
    crds = [
        {
            "kind": "CustomResourceDefinition",
            "spec": {"group": "ray.io", "names": {"kind": kind}, "versions": [
                {"name": "v1alpha1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}},
                {"name": "v1", "schema": {"openAPIV3Schema": schema}},
            ]},
        }
        for kind, schema in schemas.items()
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("crd") / "crd.yaml"
    path.write_text(json.dumps({"kind": "List", "items": crds}))  # as `kubectl get crd a b -o yaml` gives them
    return path


@pytest.fixture
def check(capsys, monkeypatch, crd, tmp_path):
    """check(*files, template=True) -> (status, lines of output, lines of errors), in the root of the checkout."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("RAY_UP_enable_autoscaler_v2", raising=False)
    monkeypatch.setenv("TUNE_CD_CACHE", str(tmp_path / "no-cache"))
    monkeypatch.setattr("tune_cd.cluster.check.versions.version", lambda name: RAY)

    def run(*files, options=("--template",), crds=True) -> tuple[int, list[str], list[str]]:
        given = ["--crd", str(crd)] if crds else []
        status = main(["check", *map(str, files), *options, *given])
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


COMMON = [
    (
        "cluster_name: tune-cd\n",
        "cluster_name: tune-cd\nmax_wokers: 8\n",
        "max_wokers",
        "Ray does not know it; did you mean max_workers?",
    ),
    ("cluster_name: tune-cd\n", "cluster_name: Tune_CD\n", "cluster_name", "small letters"),
    ("cluster_name: tune-cd\n", "cluster_name: tune-cd\ncluster_name: tune-cd\n", "cluster_name", "given twice"),
    (
        "~/checkout/README.md: README.md",
        "~/checkout/README.md: REDME.md",
        "file_mounts.~/checkout/README.md",
        "REDME.md does not exist",
    ),
    (
        "~/checkout/README.md: README.md",
        "~/checkout/README.md: README.md\n  5: README.md",
        "file_mounts",
        "the key 5 is no text here",
    ),
    (
        "\nauth:",
        "\ndocker: {image: 'rayproject/ray:latest', container_name: ray}\nauth:",
        "docker.image",
        "another image from day to day",
    ),
    ("--dashboard-host=127.0.0.1", "--dashboard-host=0.0.0.0", "head_start_ray_commands[1]", "open on every interface"),
    (
        "RAY_AUTH_MODE=token ray start --address",
        "ray start --address",
        "worker_start_ray_commands[1]",
        "RAY_AUTH_MODE=token is missing",
    ),
    (
        "RAY_AUTH_MODE=token ray start --head",
        "ray start --head",
        "head_start_ray_commands[1]",
        "RAY_AUTH_MODE=token is missing",
    ),
    (
        "cluster_synced_files: [~/.ray/auth_token, ~/constraints.txt]",
        "cluster_synced_files: []",
        "cluster_synced_files",
        "would lack the head's token",
    ),
    (
        "  - umask 077 && ~/venv/bin/ray get-auth-token --generate > /dev/null",
        "  - 'true'",
        "head_setup_commands",
        "nothing makes the token",
    ),
    ("  - umask 077 &&", "  - umask 077 && 'a", "head_setup_commands", "no valid shell"),
    (
        "  - umask 077 && ~/venv/bin/ray get-auth-token --generate > /dev/null",
        "  - (umask 077 && ~/venv/bin/ray get-auth-token --generate > /dev/null)",
        "head_setup_commands",
        "arithmetic",
    ),
    (
        "--autoscaling-config=~/ray_bootstrap_config.yaml",
        "",
        "head_start_ray_commands[1]",
        "no worker would ever be started",
    ),
    (
        "--dashboard-host=127.0.0.1",
        "--dashbord-host=127.0.0.1",
        "head_start_ray_commands[1]",
        "did you mean --dashboard-host?",
    ),
    (
        f"-q -c ~/constraints.txt 'ray[default,tune]=={RAY}'",
        "-q -c ~/constraints.txt 'ray[default,tune]'",
        "setup_commands",
        "no version of Ray is named",
    ),
    (
        f"-q -c ~/constraints.txt 'ray[default,tune]=={RAY}'",
        "-q -c ~/constraints.txt 'ray[default,tune]==2.41.0'",
        "setup_commands",
        f"Ray 2.41.0 here, {RAY} in",
    ),
    ("\nauth:", "\n# AKIAABCDEFGHIJKLMNOP\nauth:", "", "looks like an AWS access key"),
    ("\nauth:", "\n# token: 0123456789abcdef0123456789abcdef\nauth:", "", "looks like a token"),
]
CLOUD = [
    ("  cache_stopped_nodes: false", "  cache_stopped_nodes: true", "provider.cache_stopped_nodes", "stopped nodes keep their disks"),
    ("idle_timeout_minutes: 10\n", "", "", "idle_timeout_minutes is missing"),
    ("resources: {CPU: 0, GPU: 0}", "resources: {CPU: 2, GPU: 0}", "available_node_types.head.resources", "CPU: 0 is needed"),
    ("resources: {CPU: 8, GPU: 1, ondemand: 1}", "resources: {CPU: 8, GPU: 1}", "available_node_types.gpu-ondemand.resources", "ondemand: 1"),
    ("    min_workers: 0\n    max_workers: 8\n    node_config:\n", "    min_workers: 8\n    max_workers: 4\n    node_config:\n",
     "available_node_types.gpu-spot.min_workers", "8, more than max_workers, 4"),
    ("head_node_type: head", "head_node_type: haed", "", "Ray refuses it: `head_node_type` must be one of"),
    ("  cache_stopped_nodes: false\n", "  cache_stopped_nodes: false\n  regoin: x\n", "provider.regoin", "does not read it"),
]  # fmt: skip
AWS = [
    ("InstanceType: g6.2xlarge", "InstanceTyp: g6.2xlarge", "node_config.InstanceTyp",
     "EC2's RunInstances does not know it; did you mean InstanceType?"),
    ("VolumeType:", "VolumTyp:", "Ebs.VolumTyp", "did you mean VolumeType?"),
    ("InstanceType: g6.2xlarge", "InstanceType: g6.2xlrge", "node_config.InstanceType", "did you mean g6.2xlarge?"),
    ("DeleteOnTermination: true", "DeleteOnTermination: 'true'", "Ebs.DeleteOnTermination", "wants true or false here, not 'true'"),
    ("DeleteOnTermination: true", "DeleteOnTermination: false", "Ebs.DeleteOnTermination", "a disk that outlives its node"),
    ("  region: us-west-2\n", "  regoin: us-west-2\n", "provider.regoin", "Ray's provider aws does not read it; did you mean region?"),
    ("us-west-2c", "us-east-1c", "provider.availability_zone", "us-east-1c is no zone of us-west-2"),
    ("    ImageId: *image\n", "", "available_node_types.head.node_config", "Ray's default is Ubuntu 18.04"),
    ("    IamInstanceProfile: {Name: tune-cd-worker-us-west-2}", "    # ", "available_node_types.gpu-spot.node_config",
     "workers get none by default"),
    ("MarketType: spot", "MarketType: spt", "InstanceMarketOptions.MarketType", "did you mean spot?"),
]  # fmt: skip
GCP = [
    ("provisioningModel: SPOT", "provisioningModle: SPOT", "scheduling.provisioningModle", "did you mean provisioningModel?"),
    ("machineType: g2-standard-8", "machinetype: g2-standard-8", "node_config.machinetype", "did you mean machineType?"),
    ("acceleratorCount: 1", "acceleratorCount: one", "guestAccelerators[0].acceleratorCount", "wants a whole number here, not 'one'"),
    ("provisioningModel: SPOT", "provisioningModel: spott", "scheduling.provisioningModel", "does not know 'spott' here; did you mean SPOT?"),
    ("  region: us-central1\n", "  regoin: us-central1\n", "provider.regoin", "did you mean region?"),
    ("us-central1-a", "us-west1-a", "provider.availability_zone", "us-west1-a is no zone of us-central1"),
    ("      autoDelete: true\n", "", "disks[0]", "autoDelete: true is missing"),
    ("instanceTerminationAction: DELETE, ", "", "node_config.scheduling", "instanceTerminationAction: DELETE is missing"),
    ("images/EDIT-ME", "images/family/common", "sourceImage", "a family of images moves on"),
    ("    serviceAccounts: [", "    labels: {}\n    # [", "available_node_types.gpu-spot.node_config", "no serviceAccounts"),
    ("devstorage.read_write", "devstorage.read_only", "serviceAccounts", "no scope that writes to storage"),
    ("    resources: {CPU: 8, GPU: 1", "    resources: {CPU: 8", "available_node_types.gpu-spot.resources", "no GPU"),
    ("      machineType: e2-standard-2",
     "      machineType: e2-standard-2\n      scheduling: {provisioningModel: SPOT, instanceTerminationAction: DELETE}",
     "available_node_types.head.node_config.scheduling", "a spot head"),
    ("    node_config: *gpu_node", "    node_config: {<<: *gpu_node, machineType: g2-standard-12}", "available_node_types.gpu-spot.node_config",
     "differs from its on-demand twin gpu-ondemand in machineType"),
    ("      machineType: e2-standard-2\n", "", "available_node_types.head.node_config", "no machineType"),
    ("  project_id: EDIT-ME\n", "", "provider", "project_id is missing"),
]  # fmt: skip
LOCAL = [
    ("RAY_enable_autoscaler_v2=0 ", "", "head_start_ray_commands[1]", "the second autoscaler starts no worker here"),
    (
        "  worker_ips: [EDIT-ME]",
        "  worker_ips: [10.0.0.2, 10.0.0.2]",
        "provider.worker_ips[1]",
        "10.0.0.2 is in the file already",
    ),
    ("  worker_ips:", "  worker_ip:", "provider.worker_ip", "did you mean worker_ips?"),
]
KUBERAY = [
    ("shutdownAfterJobFinishes: true", "shutDownAfterJobFinishes: true\n  shutdownAfterJobFinishes: true", "spec.shutDownAfterJobFinishes",
     "KubeRay does not know it; did you mean shutdownAfterJobFinishes?"),
    ("shutdownAfterJobFinishes: true", "shutdownAfterJobFinishes: false", "spec.shutdownAfterJobFinishes", "the cluster stays"),
    ("  ttlSecondsAfterFinished: 600\n", "", "spec", "ttlSecondsAfterFinished is missing"),
    ("enableInTreeAutoscaling: true", "enableInTreeAutoscaling: false", "spec.rayClusterSpec.enableInTreeAutoscaling", "nothing scales"),
    ("      idleTimeoutSeconds: 600\n", "", "spec.rayClusterSpec.autoscalerOptions", "idleTimeoutSeconds is missing"),
    ("      mode: token", "      mode: disabled", "spec.rayClusterSpec.authOptions", "mode: token is missing"),
    ('num-cpus: "0"', 'num-cpus: "2"', "headGroupSpec.rayStartParams", "or trials land on the head"),
    ('num-cpus: "0"', 'num-cpus: "0"\n        num-cpu: "0"', "headGroupSpec.rayStartParams.num-cpu", "`ray start` has no option --num-cpu;"),
    (f"ray:{RAY}-py312-gpu", "ray:latest-py312-gpu", "headGroupSpec.template.spec.containers[0].image", "another image from day to day"),
    (f"rayproject/ray:{RAY}-py312-gpu", f"rayproject/ray-ml:{RAY}-gpu", "headGroupSpec.template.spec.containers[0].image",
     "rayproject/ray-ml has ended"),
    (f'rayVersion: "{RAY}"', 'rayVersion: "2.41.0"', "spec.rayClusterSpec.rayVersion", f"Ray 2.41.0 here, {RAY} in"),
    ('resources: \'"{\\"ondemand\\": 1}"\'', "num-gpus: '1'", "workerGroupSpecs[1].rayStartParams", "gpu-spot's on-demand twin"),
    ('\'"{\\"ondemand\\": 1}"\'', "'{ondemand: 1}'", "workerGroupSpecs[1].rayStartParams", "ondemand"),
    ("        minReplicas: 0\n        maxReplicas: 8\n        rayStartParams: {}",
     "        minReplicas: 9\n        maxReplicas: 8\n        rayStartParams: {}",
     "workerGroupSpecs[0].minReplicas", "9, more than maxReplicas, 8"),
    ("        minReplicas: 0\n        maxReplicas: 8\n        rayStartParams: {}",
     "        minReplicas: '0'\n        maxReplicas: 8\n        rayStartParams: {}",
     "workerGroupSpecs[0].minReplicas", "KubeRay wants a whole number here, not '0'"),
    ("        rayStartParams: {}", "        rayStartParams: {num-gpus: 1}", "workerGroupSpecs[0].rayStartParams.num-gpus",
     "wants a string here, not 1"),
    ("          affinity: &not_on_spot", "          nodeSelector: {cloud.google.com/gke-spot: 'true'}\n          affinity: &not_on_spot",
     "headGroupSpec.template.spec.nodeSelector", "a spot head"),
    ('cpu: "7", ', "", "workerGroupSpecs[0].template.spec.containers[0].resources", "no cpu"),
    ("'the pod is taken away'", "the pod's taken away", "lifecycle.preStop.exec.command[2]", "no valid shell"),
    ("--study mine", "--study 'mine", "spec.entrypoint", "no valid shell"),
    ("limits: {cpu: \"7\", memory: 24Gi, nvidia.com/gpu: 1}", "limits: {cpu: \"7\", memory: 24Gi, gpu: 1}",
     "resources.limits.gpu", "KubeRay does not know it"),
    ("    headGroupSpec: # it", "    headGroupSpec:\n      serviceType: LoadBalancer # it", "headGroupSpec.serviceType", "opens the dashboard"),
]  # fmt: skip
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
