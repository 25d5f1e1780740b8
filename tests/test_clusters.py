"""The cluster files: valid by Ray's own schema, and free of the traps that schema does not see. Nothing is started."""

import fnmatch
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FILE = ROOT / "clusters" / "gpu.yaml"
COMMANDS = ["setup_commands", "head_setup_commands", "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands"]


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


def test_ray_accepts_the_file(cluster, monkeypatch):
    util = pytest.importorskip("ray.autoscaler._private.util")
    pytest.importorskip("jsonschema", reason="Ray validates with it; part of ray[default]")
    monkeypatch.chdir(ROOT)
    prepared = util.prepare_config(yaml.safe_load(FILE.read_text()))
    util.validate_config(prepared)
    for name in COMMANDS:
        assert not any("anaconda" in command or "wheels" in command for command in prepared[name]), "one of Ray's defaults"


def test_the_head_drives_and_does_not_train(cluster):
    head = cluster["available_node_types"][cluster["head_node_type"]]
    assert head["resources"] == {"CPU": 0, "GPU": 0}
    assert "InstanceMarketOptions" not in head["node_config"], "a spot head loses the search"


def test_each_spot_type_has_an_on_demand_twin(cluster):
    workers = {name: kind for name, kind in cluster["available_node_types"].items() if name != cluster["head_node_type"]}
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
    assert cluster["cluster_synced_files"] == ["~/.ray/auth_token"]
    (made,) = [command for command in cluster["head_setup_commands"] if "get-auth-token" in command]
    assert "umask 077" in made and "> /dev/null" in made, "neither others' to read nor in the log"
    assert not any(re.search(r"[0-9a-f]{32}|AKIA[0-9A-Z]{16}", text) for text in strings(cluster))


def test_the_dashboard_is_not_the_world_s(cluster):
    (head,) = [command for command in cluster["head_start_ray_commands"] if "--head" in command]
    assert "--dashboard-host=127.0.0.1" in head
    assert not any("0.0.0.0" in text for text in strings(cluster))


def test_nothing_floats(cluster):
    assert not [text for text in strings(cluster) if "latest" in text or "nightly" in text]


def test_what_must_be_edited_is_in_one_place_and_occurs_once(cluster):
    data = "\n".join(line.split("#")[0] for line in FILE.read_text().splitlines())
    block = re.search(r"^metadata:.*?^\S", data, re.DOTALL | re.MULTILINE).group()
    assert data.count("EDIT-ME") == block.count("EDIT-ME") == 4
    for kind in cluster["available_node_types"].values():
        assert kind["node_config"]["ImageId"] == cluster["metadata"]["image"] == "ami-EDIT-ME"
        assert "EDIT-ME" in kind["node_config"]["IamInstanceProfile"]["Name"], "workers get none by default"


def test_every_node_gets_one_version_of_ray_that_the_package_allows(cluster):
    requirements = pytest.importorskip("packaging.requirements")
    ray = pytest.importorskip("ray")
    words = [word for command in commands(cluster) if "pip install" in command for word in shlex.split(command)]
    asked = [word for word in words if re.fullmatch(r"ray\W?.*", word)]
    pins = re.findall(r"ray\[[\w,]+\]==(\d+\.\d+\.\d+)'", FILE.read_text())  # the commands' and the head comment's
    assert len(asked) == len(pins) - 1 == 1 and len(set(pins)) == 1, "nodes of two patch releases do not talk to each other"
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
    assert any("nvidia-smi" in command and command.startswith("timeout ") for command in cluster["worker_setup_commands"])
    assert not any("nvidia-smi" in command for command in cluster["setup_commands"] + cluster["head_setup_commands"])


def test_commands_are_valid_shell(cluster):
    for command in commands(cluster):
        subprocess.run(["bash", "-n", "-c", command], check=True)


def test_the_shell_is_prepared_once_however_often_it_is_set_up(cluster, tmp_path):
    (prepare,) = [command for command in cluster["setup_commands"] if ".bashrc" in command]
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for _ in range(2):
        subprocess.run(["bash", "-c", prepare], env=home, check=True)
    assert len((tmp_path / ".bashrc").read_text().splitlines()) == 1
    shown = subprocess.run(["bash", "-c", ". ~/.bashrc; env"], env=home, check=True, capture_output=True, text=True).stdout
    assert f"PATH={tmp_path}/venv/bin:/usr/bin:/bin\n" in shown and "RAY_AUTH_MODE=token\n" in shown


def test_the_head_comment_says_how_to_use_it():
    comment = FILE.read_text().partition("\ncluster_name:")[0]
    assert all(line.startswith("#") for line in comment.splitlines() if line)
    for command in ("ray up clusters/gpu.yaml", "ray exec clusters/gpu.yaml --tmux 'python -m tune_cd.run", "ray down clusters/gpu.yaml"):
        assert command in comment
    (main,) = re.findall(r"python -m tune_cd\.run (.*)'", comment)
    assert "--address auto --dataset tinyimagenet" in main and "--results /shared/" in main, "a folder that all nodes mount"


def test_ec2_knows_every_field_of_the_nodes(cluster):
    reason = "botocore, of which `pip install boto3` is the usual source, holds EC2's own list of fields"
    session = pytest.importorskip("botocore.session", reason=reason)
    validate = pytest.importorskip("botocore.validate")
    shape = session.get_session().get_service_model("ec2").operation_model("RunInstances").input_shape
    for kind in cluster["available_node_types"].values():
        asked = kind["node_config"] | {"MinCount": 1, "MaxCount": 1}
        report = validate.ParamValidator().validate(asked, shape)
        assert not report.has_errors(), report.generate_report()
