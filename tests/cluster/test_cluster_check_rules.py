"""`tune_cd.cluster check`: exit statuses, lines, what cannot be checked, and what is told apart."""

import copy
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tune_cd.cluster.__main__ import main
from tune_cd.cluster.check import common, documents, kuberay, ray_up

ROOT = Path(__file__).parents[2]
CLUSTERS = ROOT / "clusters"
RAY = re.search(r"'ray\[default,tune\]==(\d+\.\d+\.\d+)'", (CLUSTERS / "gcp.yaml").read_text()).group(1)
JUNK = [None, [], {}, "x", "", 5, -1, True, 1.5, [None], {"x": None}, [[]], "a: b"]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch):
    """In the root of the checkout, with the nodes' Ray."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("tune_cd.cluster.check.versions.version", lambda name: RAY)
    monkeypatch.delenv("RAY_UP_enable_autoscaler_v2", raising=False)


@pytest.fixture
def check(capsys):
    """check(*arguments) -> (status, lines of output, lines of errors)."""

    def run(*arguments) -> tuple[int, list[str], list[str]]:
        status = main(["check", *map(str, arguments)])
        out = capsys.readouterr()
        return status, out.out.splitlines(), out.err.splitlines()

    return run


def written(tmp_path: Path, text: str, name: str = "cluster.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def shipped(name: str) -> dict:
    """A shipped file's data, with nothing shared between its parts."""
    return copy.deepcopy(yaml.safe_load((CLUSTERS / name).read_text()))


def dumped(tmp_path: Path, data, name: str = "cluster.yaml") -> Path:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data):
            return True

    return written(tmp_path, yaml.dump(data, Dumper=Plain, sort_keys=False), name)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1, 2", "no YAML: line"),
        ("- 1\n- 2\n", "no cluster file"),
        ("name: mine\non: push\n", "no cluster file"),
        ("apiVersion: v1\nkind: ConfigMap\n", "no cluster file"),
        ("provider: &p\n  type: *p\n", "no YAML: line 1"),
        ("", "no cluster file"),
    ],
)
def test_what_is_no_cluster_file_is_said_to_be_none(check, tmp_path, text, says):
    path = written(tmp_path, text)
    status, lines, errors = check(path)
    assert (status, lines) == (2, [])
    assert len(errors) == 1 and errors[0].startswith(f"{path}: ") and says in errors[0]


def test_a_file_that_cannot_be_read_does_not_hide_what_is_wrong_with_the_others(check, tmp_path):
    broken = written(tmp_path, (CLUSTERS / "gcp.yaml").read_text().replace("      autoDelete: true\n", ""))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    status, lines, errors = check(tmp_path / "absent.yaml", binary, broken, "--template")
    assert status == 2
    assert errors == [
        f"{tmp_path}/absent.yaml: cannot be read: No such file or directory",
        f"{binary}: cannot be read: not UTF-8, byte 0",
    ]
    assert len(lines) == 1 and "autoDelete: true is missing" in lines[0]


def test_the_worst_status_counts(check, tmp_path, monkeypatch):
    good, job, stack = CLUSTERS / "gcp.yaml", CLUSTERS / "kuberay.yaml", CLUSTERS / "aws.yaml"
    assert check(good, job, "--template")[0] == 0
    monkeypatch.setattr("tune_cd.cluster.check.command.find_spec", lambda name: None)
    assert check(good, job, stack, "--template")[0] == 3, "no cfn-lint: not everything was checked"
    assert check(good, job, stack)[0] == 1, "to be edited"
    assert check(good, job, stack, tmp_path / "absent.yaml")[0] == 2


def test_files_of_one_call_must_agree_on_ray(check, tmp_path):
    text = (CLUSTERS / "gcp.yaml").read_text()
    other = written(tmp_path, text.replace(RAY, "2.41.0"), "other.yaml")
    status, lines, _ = check(CLUSTERS / "gcp.yaml", CLUSTERS / "kuberay.yaml", other, "--template")
    found = [line for line in lines if "Ray 2.41.0 here" in line]
    assert status == 1
    assert [line.partition(": ")[0] for line in found] == [
        f"{other}:{number}"
        for number, line in enumerate(other.read_text().splitlines(), 1)
        if "==2.41.0" in line.partition("#")[0]
    ]
    assert all(f", {RAY} in {CLUSTERS / 'gcp.yaml'}:" in line for line in found)
    assert not any(line.startswith(f"{CLUSTERS / 'kuberay.yaml'}:") and re.search(r"Ray \d", line) for line in lines)


def test_ray_up_needs_the_ray_of_the_nodes(check, monkeypatch):
    monkeypatch.setattr("tune_cd.cluster.check.versions.version", lambda name: "2.41.1")
    status, lines, _ = check(CLUSTERS / "gcp.yaml", CLUSTERS / "kuberay.yaml", "--template")
    wrong = [line for line in lines if "2.41.1 installed here" in line]
    assert status == 1 and len(wrong) == 1 and wrong[0].startswith(f"{CLUSTERS / 'gcp.yaml'}:"), (
        "a RayJob asks nothing of this machine"
    )


def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from tune_cd.cluster.__main__ import main
sys.exit(main(["check", {file!r}, "--template"]))
"""
    for absent, name in (("jsonschema", "gcp.yaml"), ("botocore", "gpu.yaml")):
        command = [sys.executable, "-c", code.format(absent=absent, file=f"clusters/{name}")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and done.stdout == "", done.stderr
        assert f"{absent} is not installed" in done.stderr and "Traceback" not in done.stderr
        assert "pip install 'tune_cd[cluster]'" in done.stderr


def test_help_needs_none_of_the_packages():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"ray", "torch", "botocore", "boto3", "googleapiclient", "jsonschema", "cfnlint"}:
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent())
from tune_cd.cluster.__main__ import main
main(["check", "--help"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "--template" in done.stdout, done.stderr


def test_a_provider_that_is_not_known_here_is_checked_by_rays_schema_and_that_is_said(check, tmp_path):
    data = shipped("gcp.yaml") | {"provider": {"type": "azure", "location": "westus2", "resource_group": "mine"}}
    status, lines, _ = check(dumped(tmp_path, data), "--template")
    assert (
        status == 3 and "note: not checked: provider 'azure'" in lines[0] and "ok as far as it was checked" in lines[1]
    )
    status, lines, _ = check(dumped(tmp_path, data | {"max_wokers": 3}), "--template")
    assert status == 1 and "'max_wokers' was unexpected" in lines[0]


def test_a_spot_type_alone_needs_a_twin_and_on_demand_types_alone_need_none(check, tmp_path):
    data = shipped("gcp.yaml")
    ondemand = data["available_node_types"].pop("gpu-ondemand")
    status, lines, _ = check(dumped(tmp_path, data), "--template")
    assert status == 1 and len(lines) == 1
    assert (
        ": available_node_types.gpu-spot: no on-demand twin: " in lines[0]
        and "resources: {CPU: 8, GPU: 1, ondemand: 1}" in lines[0]
    )
    data["available_node_types"] = {
        "head": data["available_node_types"]["head"],
        "gpu": ondemand | {"resources": {"CPU": 8, "GPU": 1}},
    }
    assert check(dumped(tmp_path, data), "--template")[0] == 0


def test_rays_default_commands_start_a_cluster_without_a_token(check, tmp_path):
    data = shipped("gcp.yaml")
    del data["worker_start_ray_commands"]
    status, lines, _ = check(dumped(tmp_path, data), "--template")
    assert (
        status == 1
        and len(lines) == 1
        and "no `ray start` here: Ray's default commands start it without a token" in lines[0]
    )


@pytest.mark.parametrize(
    ("image", "says"),
    [
        ("rayproject/ray", "day to day"),
        ("rayproject/ray:latest", "day to day"),
        ("rayproject/ray:nightly-gpu", "day to day"),
        ("registry:5000/mine", "day to day"),
        ("registry:5000/mine:1.2", None),
        ("", None),
        ("mine@sha256:0123", None),
        ("nightly/mine:3", None),
    ],
)
def test_images_that_move_are_told_from_those_that_stay(image, says):
    found = common.image_error(image)
    assert found is None if says is None else says in found


def test_merged_and_shared_values_have_the_lines_that_they_are_written_on(tmp_path):
    text = "cluster_name: a\nmetadata:\n  one: &one\n    x: 1\n    y: {z: 2}\n  two:\n    <<: *one\n    x: 3\n"
    text += "  three: *one\n  four: &four 5\n  five: *four\n"
    (document,) = documents.load(str(written(tmp_path, text)))
    lines = {
        place: document.line(("metadata", *place))
        for place in [("two", "x"), ("two", "y", "z"), ("three",), ("three", "x"), ("five",)]
    }
    assert lines == {("two", "x"): 8, ("two", "y", "z"): 5, ("three",): 3, ("three", "x"): 4, ("five",): 10}
    assert document.line(("metadata", "two", "y", "missing")) == 5, "the nearest thing around it"


def test_every_document_of_a_file_is_checked_with_lines_of_the_file(check, tmp_path):
    job = (CLUSTERS / "kuberay.yaml").read_text()
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: mine}\nstringData: {auth_token: abc}\n"
    spec = job.partition("  rayClusterSpec:")[2].replace("\n    ", "\n  ")
    cluster = f"apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {{name: b}}\nspec:{spec}"
    path = written(tmp_path, "---\n" + secret + "---\n" + cluster.replace("mode: token", "mode: disabled"))
    status, lines, errors = check(path, "--template")
    assert (status, errors) == (1, [])
    found = {int(re.search(r":(\d+): ", line).group(1)): line for line in lines if "note:" not in line}
    text = path.read_text().splitlines()
    assert set(found) == {3, text.index("  authOptions:") + 1}
    assert "a Secret with its values" in found[3] and "abc" not in "".join(lines)


def test_a_token_written_out_is_found_and_one_from_a_secret_is_as_good_as_kuberays(check, tmp_path):
    data = shipped("kuberay.yaml")
    spec = data["spec"]["rayClusterSpec"]
    del spec["authOptions"]
    secret = {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "auth_token"}}}
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["template"]["spec"]["containers"][0]["env"] = [{"name": "RAY_AUTH_MODE", "value": "token"}, secret]
    assert check(dumped(tmp_path, data), "--template")[0] == 0
    spec["headGroupSpec"]["template"]["spec"]["containers"][0]["env"][1] = {
        "name": "RAY_AUTH_TOKEN",
        "value": "tea-for-two",
    }
    status, lines, _ = check(dumped(tmp_path, data), "--template")
    assert (
        status == 1
        and "the cluster's token, readable by all who have the file" in lines[0]
        and "tea-for-two" not in "".join(lines)
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("key: AKIAABCDEFGHIJKLMNOP", "an AWS access key"),
        ("# token=0123456789abcdef0123456789abcdef", "a token"),
        ("aws_secret_access_key: 0123456789abcdefghij0123456789abcdefghij", "an AWS secret key"),
        ("x: -----BEGIN RSA PRIVATE KEY-----", "a private key"),
        ("url: https://ghp_0123456789abcdefghijABCDEFGHIJ012345@github.com", "a GitHub token"),
        ("commit: 0123456789abcdef0123456789abcdef01234567", None),
        ("cluster_synced_files: [~/.ray/auth_token, ~/constraints.txt]", None),
    ],
)
def test_secrets_are_told_from_what_only_looks_long(tmp_path, line, name):
    (document,) = documents.load(str(written(tmp_path, f"cluster_name: a\nmetadata:\n  {line}\n")))
    found = list(common.secrets(document))
    assert [finding.line for finding in found] == ([] if name is None else [3])
    assert all(name in finding.message and line.split()[-1] not in finding.message for finding in found)


def places(value, place=()):
    yield place
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []:
        yield from places(item, (*place, key))


def changed(data: dict, rng: random.Random) -> tuple[dict, tuple]:
    """Data with one value, anywhere, taken out, renamed, or replaced by something of another kind."""
    data = copy.deepcopy(data)
    place = rng.choice([place for place in places(data) if place])
    around = data
    for key in place[:-1]:
        around = around[key]
    how = rng.choice(["remove", "rename", *JUNK])
    if how == "remove":
        del around[place[-1]]
    elif how == "rename" and isinstance(around, dict):
        around[rng.choice(["zz", 5, None])] = around.pop(place[-1])
    else:
        around[place[-1]] = how
    return data, place


def test_the_provider_keys_are_those_that_rays_providers_read():
    folder = Path(pytest.importorskip("ray.autoscaler._private").__path__[0])
    read = re.compile(r"""(?:provider_config|\["provider"\]|provider_cfg)(?:\.get\(|\[)\s*"([a-z]\w+)\"""")
    for kind, known in ray_up.PROVIDER_KEYS.items():
        sources = [*(folder / kind).rglob("*.py"), *folder.glob("*.py")]
        found = {key for path in sources for key in read.findall(path.read_text())}
        assert {"type"} < found and found <= known | ray_up.ANY_PROVIDER, kind
        assert set(ray_up.NEEDED.get(kind, [])) <= found


@pytest.mark.parametrize("name", ["gpu.yaml", "gcp.yaml", "onprem.yaml", "kuberay.yaml"])
def test_no_file_however_wrong_makes_the_check_itself_fail(check, tmp_path, name):
    rng = random.Random(name)
    for _ in range(10):
        data, place = changed(shipped(name), rng)
        status, lines, errors = check(dumped(tmp_path, data), "--template")
        assert status in (0, 1, 2, 3) and lines + errors, place


def test_the_environment_may_choose_the_autoscaler(check, tmp_path, monkeypatch):
    text = (CLUSTERS / "onprem.yaml").read_text().replace("RAY_enable_autoscaler_v2=0 ", "")
    path = written(tmp_path, text)
    assert check(path, "--template")[0] == 1
    monkeypatch.setenv("RAY_UP_enable_autoscaler_v2", "0")
    assert check(path, "--template")[0] == 0


def test_the_same_mistake_in_several_node_types_is_said_once_with_all_their_names(check, tmp_path):
    data = shipped("gcp.yaml")
    for name in ("gpu-spot", "gpu-ondemand"):
        del data["available_node_types"][name]["node_config"]["serviceAccounts"]
        del data["available_node_types"][name]["resources"]["GPU"]
    status, lines, _ = check(dumped(tmp_path, data), "--template")
    (gpus,) = [line for line in lines if "no GPU" in line]
    assert (
        status == 1 and ": available_node_types.gpu-spot.resources: " in gpus and gpus.endswith("(also gpu-ondemand)")
    )


def test_results_in_a_volume_that_every_pod_mounts_stay(tmp_path):
    data = shipped("kuberay.yaml")
    data["spec"]["entrypoint"] = "python -m tune_cd.run --results /shared/results"
    spec = data["spec"]["rayClusterSpec"]
    pods = [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]
    for pod in pods:
        (document,) = documents.load(str(dumped(tmp_path, data)))
        assert len(list(kuberay.results_stay(document))) == 1
        pod["containers"] = copy.deepcopy(pod["containers"])  # which the groups share
        pod["containers"][0].setdefault("volumeMounts", []).append({"mountPath": "/shared", "name": "nfs"})
    (document,) = documents.load(str(dumped(tmp_path, data)))
    assert list(kuberay.results_stay(document)) == []


def test_a_template_is_checked_by_cfn_lint_or_said_not_to_be(check, tmp_path, monkeypatch):
    text = 'AWSTemplateFormatVersion: "2010-09-09"\nResources:\n  Bucket:\n    Type: AWS::S3::Bucket\n    Properties:\n'
    path = written(tmp_path, text + '      BucketNam: !Sub "a-${AWS::Region}"\n')
    monkeypatch.setattr("tune_cd.cluster.check.command.find_spec", lambda name: None)
    status, lines, _ = check(path)
    assert status == 3 and "pip install cfn-lint" in lines[0]
    monkeypatch.undo()
    pytest.importorskip("cfnlint", reason="moto's server brings it")
    status, lines, _ = check(path)
    assert status == 1 and lines[0].startswith(f"{path}:6: Resources.Bucket.Properties.BucketNam: cfn-lint E3002")
