"""The cluster files: what is this project's own in them, and every option that their README names exists. What holds
for any such file, `tune_cd.cluster check` finds (`test_check.py`). Nothing is started.
"""

import fnmatch
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tune_cd import submit
from tune_cd.cluster import __main__ as cluster_command
from tune_cd.cluster.check.documents import strings
from tune_cd.run import options

ROOT = Path(__file__).parents[2]
CLUSTERS = ROOT / "clusters"
NODES = ["file_mounts", "rsync_exclude", "cluster_synced_files"]
ALIKE = ["cluster_name", "max_workers", "idle_timeout_minutes", "auth", "head_node_type", "setup_commands",
         "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands", *NODES]  # fmt: skip


def parsed(name: str) -> dict:
    return yaml.safe_load((CLUSTERS / name).read_text())


@pytest.fixture(scope="module")
def cluster() -> dict:
    return parsed("gpu.yaml")


@pytest.fixture(scope="module")
def job() -> dict:
    return parsed("kuberay.yaml")


def test_it_grows_from_zero_in_several_zones_and_shrinks_soon(cluster):
    kinds = cluster["available_node_types"]
    assert set(kinds) == {"head", "gpu-spot", "gpu-ondemand"} and kinds["gpu-spot"]["resources"]["GPU"] == 1
    assert all(kind["min_workers"] == 0 for kind in kinds.values()) and 1 <= cluster["idle_timeout_minutes"] <= 15
    zones = cluster["provider"]["availability_zone"].split(",")
    assert len(set(zones)) >= 2 and all(zone[:-1] == cluster["provider"]["region"] for zone in zones)


def test_the_token_is_neither_others_to_read_nor_in_the_log(cluster):
    (made,) = [command for command in cluster["head_setup_commands"] if "get-auth-token" in command]
    assert "umask 077" in made and "> /dev/null" in made


def test_nothing_must_be_edited_where_the_account_is_prepared(cluster):
    """clusters/aws.yaml makes what the file names."""
    texts = {text for _, text in strings(cluster)}
    assert not [text for text in texts if "EDIT-ME" in text]
    kinds, image = cluster["available_node_types"], cluster["metadata"]["image"]
    assert image.startswith("resolve:ssm:/aws/service/")
    assert {text for text in texts if "latest" in text} == {image}, "nothing else floats"
    assert {kind["node_config"]["ImageId"] for kind in kinds.values()} == {image}
    made = (CLUSTERS / "aws.yaml").read_text()
    profiles = {kind["node_config"]["IamInstanceProfile"]["Name"] for kind in kinds.values()}
    region = cluster["provider"]["region"]
    named = re.findall(r'InstanceProfileName: !Sub "([\w-]+)-\$\{AWS::Region\}"', made)
    assert profiles == {f"{name}-{region}" for name in named} and len(named) == 2, "workers get none by default"
    assert [cluster["provider"]["security_group"]["GroupName"]] == re.findall(r"GroupName: ([\w-]+)", made)


def test_the_files_are_alike_but_for_the_provider(cluster):
    onprem, gcp = parsed("onprem.yaml"), parsed("gcp.yaml")
    assert [name for name in NODES if onprem[name] != cluster[name]] == []
    assert set(onprem["setup_commands"]) <= set(cluster["setup_commands"])
    assert [name for name in ALIKE if gcp[name] != cluster[name]] == [] and set(gcp) == set(cluster)
    for name, kind in cluster["available_node_types"].items():
        assert gcp["available_node_types"][name] | {"node_config": ...} == kind | {"node_config": ...}
    scheduling = {name: kind["node_config"].get("scheduling") for name, kind in gcp["available_node_types"].items()}
    ends = {"onHostMaintenance": "TERMINATE"}
    spot = {"provisioningModel": "SPOT", "instanceTerminationAction": "DELETE", "automaticRestart": False}
    assert scheduling == {"head": None, "gpu-spot": spot | ends, "gpu-ondemand": ends}
    assert "serviceAccounts" not in gcp["available_node_types"]["head"]["node_config"], "Ray puts its own there"


def test_every_node_gets_a_version_of_ray_that_the_package_allows():
    """The check finds versions that differ."""
    requirements = pytest.importorskip("packaging.requirements")
    pins = set(re.findall(r"ray\[[\w,]+\]==(\d+\.\d+\.\d+)'", (CLUSTERS / "gpu.yaml").read_text()))
    assert len(pins) == 1, "the commands' and the head comment's"
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (allowed,) = [r for r in map(requirements.Requirement, declared) if r.name == "ray"]
    assert allowed.specifier.contains(*pins)


def test_the_package_travels_whole_and_alone(cluster):
    mounts = cluster["file_mounts"]
    assert all((ROOT / local).exists() for local in mounts.values())
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = [name.rstrip("*") for name in declared["tool"]["setuptools"]["packages"]["find"]["include"]]
    assert set(mounts.values()) == {"pyproject.toml", declared["project"]["readme"], *packages}
    assert {remote.removesuffix(local) for remote, local in mounts.items()} == {"~/checkout/"}
    assert any("-e ~/checkout" in command for command in cluster["setup_commands"])

    at_home = {Path(remote).parts[1] for remote in mounts}
    assert not at_home & set(mounts.values()), "python in ~ would import the folder, not the package"
    excluded = cluster["rsync_exclude"]
    assert {".git", ".venv", "__pycache__"} <= set(excluded)
    sources = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    parts = {part for path in sources for part in path.relative_to(ROOT).parts}
    assert sources and not [part for part in parts for pattern in excluded if fnmatch.fnmatch(part, pattern)]


def test_the_shell_is_prepared_once_however_often_it_is_set_up(cluster, tmp_path):
    (prepare,) = [command for command in cluster["setup_commands"] if ".bashrc" in command]
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    (tmp_path / ".bashrc").write_text("cd /somewhere/tune_cd\n")
    for _ in range(2):
        subprocess.run(["bash", "-c", prepare], env=home, check=True)
    assert len((tmp_path / ".bashrc").read_text().splitlines()) == 2
    shown = subprocess.check_output(["bash", "-c", ". ~/.bashrc 2> /dev/null; env"], env=home, text=True)
    assert f"PATH={tmp_path}/venv/bin:/usr/bin:/bin\n" in shown and "RAY_AUTH_MODE=token\n" in shown


def test_the_account_s_stack_is_what_cloudformation_takes():
    """Aliases, for one, are YAML and not allowed in templates."""
    lint = pytest.importorskip("cfnlint.api", reason="cfn-lint has the schemas of AWS's resources")
    from cfnlint.config import ManualArgs

    text, config = (CLUSTERS / "aws.yaml").read_text(), ManualArgs(regions=["us-west-2"])
    assert not lint.lint(text, config=config)
    assert not re.search(r"[:\[{,] *[&*]\w", re.sub("#.*", "", text)), "no anchors, no aliases"
    assert lint.lint(text.replace("GroupDescription", "GroupDescripton"), config=config)


@pytest.mark.slow
def test_the_stack_opens_ssh_to_the_user_and_everything_between_nodes(monkeypatch):
    moto = pytest.importorskip("moto", reason="moto is an AWS to try it on")
    boto3 = pytest.importorskip("boto3")
    for name, value in {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}.items():
        monkeypatch.setenv(name, value)
    with moto.mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
        client = {name: boto3.client(name, region_name="us-west-2") for name in ("cloudformation", "ec2", "iam")}
        client["cloudformation"].create_stack(
            StackName="tune-cd",
            TemplateBody=(CLUSTERS / "aws.yaml").read_text(),
            Capabilities=["CAPABILITY_NAMED_IAM"],
            Parameters=[{"ParameterKey": "SshFrom", "ParameterValue": "203.0.113.7/32"}],
        )
        (group,) = client["ec2"].describe_security_groups(GroupNames=["tune-cd"])["SecurityGroups"]
        rules = {(rule["IpProtocol"], rule.get("FromPort")): rule for rule in group["IpPermissions"]}
        assert [net["CidrIp"] for net in rules.pop(("tcp", 22))["IpRanges"]] == ["203.0.113.7/32"]
        (((protocol, _), between),) = rules.items()
        assert protocol == "-1" and not between["IpRanges"]
        assert [pair["GroupId"] for pair in between["UserIdGroupPairs"]] == [group["GroupId"]]
        head, worker = (
            client["iam"].get_instance_profile(InstanceProfileName=f"tune-cd-{name}-us-west-2")
            ["InstanceProfile"]["Roles"][0] for name in ("head", "worker")
        )  # fmt: skip
        policy = client["iam"].get_role_policy(RoleName=head["RoleName"], PolicyName="start-workers")["PolicyDocument"]
        assert "iam:PassRole" in str(policy) and worker["Arn"] in str(policy)
        assert not client["iam"].list_role_policies(RoleName=worker["RoleName"])["PolicyNames"], "workers start nothing"


def groups(job: dict) -> dict[str, dict]:
    return {group["groupName"]: group for group in job["spec"]["rayClusterSpec"]["workerGroupSpecs"]}


def test_the_job_scales_from_nothing_and_ends(job):
    spec, scaler = job["spec"], job["spec"]["rayClusterSpec"]["autoscalerOptions"]
    assert spec["ttlSecondsAfterFinished"] <= 3600 and spec["activeDeadlineSeconds"] <= 7 * 86400
    assert spec["backoffLimit"] == 0 and scaler["version"] == "v2" and scaler["idleTimeoutSeconds"] <= 15 * 60
    assert all(group["minReplicas"] == group["replicas"] == 0 < group["maxReplicas"] for group in groups(job).values())


def test_only_the_spot_group_goes_to_spot_nodes(job):
    spot, ondemand = (groups(job)[name]["template"]["spec"] for name in ("gpu-spot", "gpu-ondemand"))
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    ((label, value),) = spot["nodeSelector"].items()
    assert any(taint["key"] == label and taint["value"] == value for taint in spot["tolerations"])
    for pod in (head, ondemand):
        (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": label, "operator": "DoesNotExist"}] and "nodeSelector" not in pod


def test_a_pod_that_is_taken_away_says_so_as_the_watch_of_the_clouds_does(job, tmp_path, monkeypatch):
    from trainables.training import preemption_notice as notice

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "ray").write_text('#!/bin/sh\necho "$@" >> "$0.calls"\nexit 1\n')
    (tmp_path / "ray").chmod(0o755)
    for group in groups(job).values():
        (pod,) = group["template"]["spec"]["containers"]
        shell, flags, command = pod["lifecycle"]["preStop"]["exec"]["command"]
        assert (shell, flags) == ("bash", "-lc"), "with the image's own environment"
        here = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RAY_ADDRESS": "head:6379"}
        started = subprocess.run(["bash", "-c", command.replace("/tmp/", f"{tmp_path}/")], env=here)
        assert started.returncode == 1 and notice.noticed(), "and no waiting where nothing could be drained"
    (call, again) = (tmp_path / "ray.calls").read_text().splitlines()
    assert call == again and call.startswith("drain-node --address head:6379 --reason DRAIN_NODE_REASON_PREEMPTION ")
    seconds = int(re.search(r"--deadline-remaining-seconds (\d+)", call).group(1))
    assert seconds < groups(job)["gpu-spot"]["template"]["spec"]["terminationGracePeriodSeconds"]


def test_the_job_s_code_is_installed_with_what_it_needs(job):
    environment = yaml.safe_load(job["spec"]["runtimeEnvYAML"])
    assert environment["pip"] == ["${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"], "the archive, as pip installs a folder"
    assert environment["working_dir"].endswith(".zip") and "EDIT-ME" in environment["working_dir"]
    runtime_env = pytest.importorskip("ray.runtime_env")
    runtime_env.RuntimeEnv(**environment)


RAY = ["ray up clusters/{}", "ray exec clusters/{} --tmux 'python -m tune_cd.run", "ray down clusters/{}"]
KUBECTL = ["kubectl create -f clusters/{}", "kubectl logs -f job/tune-cd-mine", "git archive --format=zip"]
CHECK = ["python -m tune_cd.cluster check clusters/{}", "EDIT-ME"]


@pytest.mark.parametrize(
    ("name", "commands"), [("gpu.yaml", RAY), ("gcp.yaml", RAY + CHECK), ("kuberay.yaml", KUBECTL + CHECK)]
)
def test_each_head_comment_says_how_to_use_the_file(name, commands, job):
    comment = re.split(r"\n(?:cluster_name|apiVersion):", (CLUSTERS / name).read_text())[0]
    assert all(line.startswith("#") for line in comment.splitlines() if line)
    assert [command for command in commands if command.format(name) not in comment] == []
    assert job["metadata"]["name"] == "tune-cd-mine"
    typed = re.search(r"'(python -m tune_cd\.run .*)'", comment)
    search = job["spec"]["entrypoint"] if name == "kuberay.yaml" else typed[1]
    words = shlex.split(search.replace("BUCKET", "bucket"))
    assert words[:3] == ["python", "-m", "tune_cd.run"]
    call = options.parse(words[3:]).call
    assert call.address == "auto" and re.match(r"(gs|s3)://", call.results) and call.study == "mine" and call.download


README = (CLUSTERS / "README.md").read_text(encoding="utf-8")
OTHERS = {"--tmux", "--dry-run=server"}  # of Ray and kubectl


def test_every_option_in_the_text_is_in_a_parser():
    sources = [Path(module.__file__).read_text() for module in (submit, cluster_command)]
    said = "\n".join([options.parser().format_help(), *sources])
    known = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", said)) | OTHERS
    prose = re.sub(r"^```bash\n.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"(?<![\w-])--[a-z][\w=-]*", prose))
    assert named and named <= known


def test_every_file_is_in_the_table_and_there():
    assert set(re.findall(r"`(\w+\.(?:yaml|sh))`", README)) == {path.name for path in CLUSTERS.glob("*.[ys]*")}
    assert len(README.splitlines()) <= 90
