"""The cluster files: what is this project's own in them. What holds for any such file, `tune_cd.cluster check` finds
(`tests/cluster/test_cluster_check.py`). Nothing is started."""

import fnmatch
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "clusters" / "gpu.yaml"
COMMANDS = [
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
]


@pytest.fixture(scope="module")
def cluster() -> dict:
    return yaml.safe_load(FILE.read_text())


def strings(value) -> list[str]:
    """Every string in parsed YAML, keys included."""
    if isinstance(value, dict):
        return [text for item in value.items() for text in strings(list(item))]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


def commands(cluster: dict) -> list[str]:
    return [command for name in COMMANDS for command in cluster[name]]


def test_the_head_drives_and_does_not_train(cluster):
    head = cluster["available_node_types"][cluster["head_node_type"]]
    assert head["resources"] == {"CPU": 0, "GPU": 0}
    assert "InstanceMarketOptions" not in head["node_config"], "a spot head loses the search"


def test_each_spot_type_has_an_on_demand_twin(cluster):
    workers = {
        name: kind for name, kind in cluster["available_node_types"].items() if name != cluster["head_node_type"]
    }
    spot, on_demand = workers["gpu-spot"], workers["gpu-ondemand"]
    assert set(workers) == {"gpu-spot", "gpu-ondemand"}
    assert spot["node_config"] == on_demand["node_config"] | {"InstanceMarketOptions": {"MarketType": "spot"}}
    assert on_demand["resources"] == spot["resources"] | {"ondemand": 1}
    assert spot["resources"]["GPU"] == 1
    assert all(kind["min_workers"] == 0 and kind["max_workers"] >= 1 for kind in workers.values())


def test_nothing_is_billed_that_is_not_used(cluster):
    assert 1 <= cluster["idle_timeout_minutes"] <= 15
    assert cluster["provider"]["cache_stopped_nodes"] is False, "stopped nodes keep their disks on the bill"
    for kind in cluster["available_node_types"].values():
        assert all(device["Ebs"]["DeleteOnTermination"] for device in kind["node_config"]["BlockDeviceMappings"])


def test_several_zones_of_the_region_are_tried(cluster):
    zones = cluster["provider"]["availability_zone"].split(",")
    assert len(set(zones)) >= 2
    assert all(zone[:-1] == cluster["provider"]["region"] for zone in zones)


def test_ray_asks_for_a_token_that_the_file_does_not_hold(cluster):
    starts = [command for command in commands(cluster) if "ray start" in command]
    assert len(starts) == 2 and all("RAY_AUTH_MODE=token ray start" in command for command in starts)
    assert cluster["cluster_synced_files"] == ["~/.ray/auth_token", "~/constraints.txt"]
    (made,) = [command for command in cluster["head_setup_commands"] if "get-auth-token" in command]
    assert "umask 077" in made and "> /dev/null" in made, "neither others' to read nor in the log"
    assert not any(re.search(r"[0-9a-f]{32}|AKIA[0-9A-Z]{16}", text) for text in strings(cluster))


def test_nothing_floats_but_the_image_that_ec2_looks_up(cluster):
    floating = {text for text in strings(cluster) if "latest" in text or "nightly" in text}
    assert floating == {cluster["metadata"]["image"]} and cluster["metadata"]["image"].startswith(
        "resolve:ssm:/aws/service/"
    )


def test_nothing_must_be_edited_where_the_account_is_prepared(cluster):
    """clusters/aws.yaml makes what the file names."""
    assert not [text for text in strings(cluster) if "EDIT-ME" in text]
    kinds = cluster["available_node_types"]
    assert {kind["node_config"]["ImageId"] for kind in kinds.values()} == {cluster["metadata"]["image"]}
    made = (ROOT / "clusters/aws.yaml").read_text()
    profiles = {kind["node_config"]["IamInstanceProfile"]["Name"] for kind in kinds.values()}
    region = cluster["provider"]["region"]
    named = re.findall(r'InstanceProfileName: !Sub "([\w-]+)-\$\{AWS::Region\}"', made)
    assert profiles == {f"{name}-{region}" for name in named} and len(named) == 2, "workers get none by default"
    assert [cluster["provider"]["security_group"]["GroupName"]] == re.findall(r"GroupName: ([\w-]+)", made)


def test_onprem_has_few_things_to_edit_and_keeps_to_the_first_autoscaler():
    text = (ROOT / "clusters/onprem.yaml").read_text()
    onprem = yaml.safe_load(text)
    assert [text for text in strings(onprem) if "EDIT-ME" in text] == ["EDIT-ME"] * 3
    (start,) = [command for command in onprem["head_start_ray_commands"] if "--head" in command]
    assert "RAY_enable_autoscaler_v2=0" in start, "the second has no provider local, and says nothing"


def test_gpu_and_onprem_prepare_nodes_alike(cluster):
    onprem = yaml.safe_load((ROOT / "clusters/onprem.yaml").read_text())
    for name in ("file_mounts", "rsync_exclude", "cluster_synced_files"):
        assert onprem[name] == cluster[name]
    assert set(onprem["setup_commands"]) <= set(cluster["setup_commands"])


def test_every_node_gets_one_version_of_ray_that_the_package_allows(cluster):
    requirements = pytest.importorskip("packaging.requirements")
    ray = pytest.importorskip("ray")
    words = [word for command in commands(cluster) if "pip install" in command for word in shlex.split(command)]
    asked = [word for word in words if re.fullmatch(r"ray\W?.*", word)]
    pins = re.findall(r"ray\[[\w,]+\]==(\d+\.\d+\.\d+)'", FILE.read_text())  # the commands' and the head comment's
    assert len(asked) == len(pins) - 1 == 1 and len(set(pins)) == 1, (
        "nodes of two patch releases do not talk to each other"
    )
    assert asked[0].endswith(f"=={pins[0]}")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (allowed,) = [r for r in map(requirements.Requirement, declared) if r.name == "ray"]
    assert allowed.specifier.contains(pins[0])
    if ray.__version__.split(".")[:2] != pins[0].split(".")[:2]:
        pytest.skip(f"Ray {ray.__version__} is installed here; `ray up` needs {pins[0]}, the nodes' version")


def test_the_package_travels_whole_and_alone(cluster):
    mounts = cluster["file_mounts"]
    assert all((ROOT / local).exists() for local in mounts.values())
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = [name.rstrip("*") for name in declared["tool"]["setuptools"]["packages"]["find"]["include"]]
    assert set(mounts.values()) == {"pyproject.toml", declared["project"]["readme"], *packages}
    assert {remote.removesuffix(local) for remote, local in mounts.items()} == {"~/checkout/"}
    assert any("-e ~/checkout" in command for command in cluster["setup_commands"])


def test_no_mount_hides_the_package_from_programs_started_at_home(cluster):
    at_home = {Path(remote).parts[1] for remote in cluster["file_mounts"]}
    assert not at_home & set(cluster["file_mounts"].values()), "python in ~ would import the folder, not the package"


def test_no_source_file_is_excluded_and_litter_is(cluster):
    excluded = cluster["rsync_exclude"]
    assert {".git", ".venv", "__pycache__"} <= set(excluded)
    for package in ("tune_cd", "trainables"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            assert not any(fnmatch.fnmatch(part, pattern) for part in parts for pattern in excluded), path


def test_workers_wait_for_their_gpu_and_give_up(cluster):
    assert any(
        "nvidia-smi" in command and command.startswith("timeout ") for command in cluster["worker_setup_commands"]
    )
    assert not any("nvidia-smi" in command for command in cluster["setup_commands"] + cluster["head_setup_commands"])


def test_the_shell_is_prepared_once_however_often_it_is_set_up(cluster, tmp_path):
    (prepare,) = [command for command in cluster["setup_commands"] if ".bashrc" in command]
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    (tmp_path / ".bashrc").write_text("cd /somewhere/tune_cd\n")
    for _ in range(2):
        subprocess.run(["bash", "-c", prepare], env=home, check=True)
    assert len((tmp_path / ".bashrc").read_text().splitlines()) == 2
    shown = subprocess.run(
        ["bash", "-c", ". ~/.bashrc 2> /dev/null; env"], env=home, check=True, capture_output=True, text=True
    ).stdout
    assert f"PATH={tmp_path}/venv/bin:/usr/bin:/bin\n" in shown and "RAY_AUTH_MODE=token\n" in shown


def test_the_head_comment_says_how_to_use_it():
    comment = FILE.read_text().partition("\ncluster_name:")[0]
    assert all(line.startswith("#") for line in comment.splitlines() if line)
    for command in (
        "ray up clusters/gpu.yaml",
        "ray exec clusters/gpu.yaml --tmux 'python -m tune_cd.run",
        "ray down clusters/gpu.yaml",
    ):
        assert command in comment
    (main,) = re.findall(r"python -m tune_cd\.run (.*)'", comment)
    assert "--address auto --dataset tinyimagenet" in main and "--results s3://BUCKET/" in main


def test_the_account_s_stack_is_what_cloudformation_takes():
    """Aliases, for one, are YAML and not allowed in templates."""
    lint = pytest.importorskip("cfnlint.api", reason="cfn-lint has the schemas of AWS's resources")
    from cfnlint.config import ManualArgs

    text = (ROOT / "clusters/aws.yaml").read_text()
    assert not lint.lint(text, config=ManualArgs(regions=["us-west-2"]))
    assert not re.search(r"[:\[{,] *[&*]\w", "\n".join(line.split("#")[0] for line in text.splitlines())), (
        "no anchors, no aliases"
    )
    assert lint.lint(text.replace("GroupDescription", "GroupDescripton"), config=ManualArgs(regions=["us-west-2"]))


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
            TemplateBody=(ROOT / "clusters/aws.yaml").read_text(),
            Capabilities=["CAPABILITY_NAMED_IAM"],
            Parameters=[{"ParameterKey": "SshFrom", "ParameterValue": "203.0.113.7/32"}],
        )
        (group,) = client["ec2"].describe_security_groups(GroupNames=["tune-cd"])["SecurityGroups"]
        rules = {(rule["IpProtocol"], rule.get("FromPort")): rule for rule in group["IpPermissions"]}
        assert [net["CidrIp"] for net in rules.pop(("tcp", 22))["IpRanges"]] == ["203.0.113.7/32"]
        (((protocol, _), between),) = rules.items()
        assert (
            protocol == "-1"
            and not between["IpRanges"]
            and [pair["GroupId"] for pair in between["UserIdGroupPairs"]] == [group["GroupId"]]
        )
        head = client["iam"].get_instance_profile(InstanceProfileName="tune-cd-head-us-west-2")["InstanceProfile"][
            "Roles"
        ][0]
        worker = client["iam"].get_instance_profile(InstanceProfileName="tune-cd-worker-us-west-2")["InstanceProfile"][
            "Roles"
        ][0]
        policy = str(
            client["iam"].get_role_policy(RoleName=head["RoleName"], PolicyName="start-workers")["PolicyDocument"]
        )
        assert "iam:PassRole" in policy and worker["Arn"] in policy
        assert not client["iam"].list_role_policies(RoleName=worker["RoleName"])["PolicyNames"], "workers start nothing"


ALIKE = [
    "cluster_name",
    "max_workers",
    "idle_timeout_minutes",
    "auth",
    "head_node_type",
    "file_mounts",
    "rsync_exclude",
    "cluster_synced_files",
    "setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
]


@pytest.fixture(scope="module")
def gcp() -> dict:
    return yaml.safe_load((ROOT / "clusters" / "gcp.yaml").read_text())


@pytest.fixture(scope="module")
def job() -> dict:
    return yaml.safe_load((ROOT / "clusters" / "kuberay.yaml").read_text())


def test_google_s_cluster_is_amazon_s_but_for_the_cloud(cluster, gcp):
    assert [name for name in ALIKE if gcp[name] != cluster[name]] == []
    assert set(gcp) == set(cluster)
    for name, kind in cluster["available_node_types"].items():
        other = gcp["available_node_types"][name]
        assert {key: value for key, value in other.items() if key != "node_config"} == {
            key: value for key, value in kind.items() if key != "node_config"
        }


def test_google_s_spot_machines_leave_nothing_behind(gcp):
    kinds = gcp["available_node_types"]
    assert kinds["gpu-spot"]["node_config"]["scheduling"] == {
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
    }
    assert kinds["gpu-ondemand"]["node_config"]["scheduling"] == {"onHostMaintenance": "TERMINATE"}
    for kind in kinds.values():
        assert all(disk["autoDelete"] for disk in kind["node_config"]["disks"])
    assert "serviceAccounts" not in kinds["head"]["node_config"], "Ray puts its own there"


def groups(job: dict) -> dict[str, dict]:
    return {group["groupName"]: group for group in job["spec"]["rayClusterSpec"]["workerGroupSpecs"]}


def test_the_job_scales_from_nothing_and_ends(job):
    spec = job["spec"]
    assert spec["shutdownAfterJobFinishes"] is True and spec["ttlSecondsAfterFinished"] <= 3600
    assert spec["activeDeadlineSeconds"] <= 7 * 86400 and spec["backoffLimit"] == 0
    assert all(
        group["minReplicas"] == group["replicas"] == 0 and group["maxReplicas"] >= 1 for group in groups(job).values()
    )
    assert (
        spec["rayClusterSpec"]["enableInTreeAutoscaling"] is True
        and spec["rayClusterSpec"]["autoscalerOptions"]["version"] == "v2"
    )
    assert spec["rayClusterSpec"]["autoscalerOptions"]["idleTimeoutSeconds"] <= 15 * 60


def test_ray_s_autoscaler_reads_from_the_job_what_its_groups_have(job):
    reader = pytest.importorskip("ray.autoscaler._private.kuberay.autoscaling_config")
    spec = job["spec"]["rayClusterSpec"]
    kinds = reader._generate_available_node_types_from_ray_cr_spec(spec)
    (head,) = set(kinds) - set(groups(job))
    gpu = {name: {key: kinds[name]["resources"].get(key) for key in ("CPU", "GPU", "ondemand")} for name in groups(job)}
    assert kinds[head]["resources"]["CPU"] == 0 and not kinds[head]["resources"].get("GPU")
    assert gpu == {
        "gpu-spot": {"CPU": 7, "GPU": 1, "ondemand": None},
        "gpu-ondemand": {"CPU": 7, "GPU": 1, "ondemand": 1},
    }


def test_only_the_spot_group_goes_to_spot_nodes(job):
    spot, ondemand = (groups(job)[name]["template"]["spec"] for name in ("gpu-spot", "gpu-ondemand"))
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    ((label, value),) = spot["nodeSelector"].items()
    assert any(taint["key"] == label and taint["value"] == value for taint in spot["tolerations"])
    for pod in (head, ondemand):
        (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": label, "operator": "DoesNotExist"}] and "nodeSelector" not in pod
    assert {"containers", "serviceAccountName", "volumes"} <= set(spot)
    assert all(spot[key] == ondemand[key] for key in ("containers", "serviceAccountName", "volumes"))


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
    assert environment["pip"] == ["${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"], (
        "the archive itself, as pip installs a folder"
    )
    assert environment["working_dir"].endswith(".zip") and "EDIT-ME" in environment["working_dir"]
    runtime_env = pytest.importorskip("ray.runtime_env")
    runtime_env.RuntimeEnv(**environment)


@pytest.mark.parametrize("name", ["gcp.yaml", "kuberay.yaml"])
def test_the_search_of_the_cluster_files_is_one_that_tune_cd_run_takes(name, gcp, job):
    from tune_cd.run import options

    text = (ROOT / "clusters" / name).read_text()
    line = (
        job["spec"]["entrypoint"]
        if name == "kuberay.yaml"
        else re.search(r"'(python -m tune_cd\.run .*)'", text).group(1)
    )
    words = shlex.split(line)
    assert words[:3] == ["python", "-m", "tune_cd.run"]
    call = options.parse(words[3:]).call
    assert call.address == "auto" and re.match(r"(gs|s3)://", call.results) and call.study == "mine" and call.download


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        (
            "gcp.yaml",
            [
                "ray up clusters/gcp.yaml",
                "ray exec clusters/gcp.yaml --tmux 'python -m tune_cd.run",
                "ray down clusters/gcp.yaml",
            ],
        ),
        (
            "kuberay.yaml",
            ["kubectl create -f clusters/kuberay.yaml", "kubectl logs -f job/tune-cd-mine", "git archive --format=zip"],
        ),
    ],
)
def test_each_head_comment_says_how_to_use_the_file(name, commands):
    comment = re.split(r"\n(?:cluster_name|apiVersion):", (ROOT / "clusters" / name).read_text())[0]
    assert all(line.startswith("#") for line in comment.splitlines() if line)
    for command in [*commands, f"python -m tune_cd.cluster check clusters/{name}", "EDIT-ME"]:
        assert command in comment


def test_the_job_is_named_as_its_comment_says(job):
    assert job["metadata"]["name"] == "tune-cd-mine"
