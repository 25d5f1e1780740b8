"""clusters/gpu.yaml for real, against a cloud within this machine (cloud.py): `ray up`, growth from zero, the loss of
spot instances with notice, none to be had, shrinking when idle, results in a bucket, `ray down`.

Image, instance types, commands and everything else are as written; only the time until an idle node ends is shorter.
"""

import threading
import time
from pathlib import Path

import pandas as pd
import pytest
from laptop import ROOT, Laptop, lab  # noqa: F401
from machines import missing, until

from tune_cd import results
from tune_cd.results.store import store_of

boto3 = pytest.importorskip("boto3", reason="boto3 comes with the extra `cluster`")
cloud = pytest.importorskip("cloud", reason="moto comes with the extra `test`")

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

WORTH, IMAGES = 16, 32_000
SEARCH = f"--address auto --study lab --setup small --num-samples {WORTH} --no-baseline --images-seen {IMAGES} "
SEARCH += "--workers 2 --max-failures 0"


@pytest.fixture
def laptop(lab):
    return Laptop(lab / "laptop", cloud.SEEN)


@pytest.fixture
def sky(lab, laptop):
    made = cloud.Cloud(lab, laptop.home)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def bucket(sky, monkeypatch) -> str:
    """What clusters/aws.yaml makes, as its first lines say, and the bucket's name."""
    for name, value in cloud.SEEN.items():
        monkeypatch.setenv(name, value)
    formation = boto3.client("cloudformation", region_name=cloud.REGION)
    formation.create_stack(
        StackName="tune-cd", TemplateBody=(ROOT / "clusters/aws.yaml").read_text(),
        Capabilities=["CAPABILITY_NAMED_IAM"],
        Parameters=[{"ParameterKey": "SshFrom", "ParameterValue": f"{cloud.GATEWAY}/32"}],
    )  # fmt: skip
    (stack,) = formation.describe_stacks()["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}["Bucket"]


def adapted(laptop: Laptop) -> Path:
    text = (ROOT / "clusters/gpu.yaml").read_text()
    assert text.count("idle_timeout_minutes: 10\n") == 1
    file = laptop.folder / "gpu.yaml"
    file.write_text(text.replace("idle_timeout_minutes: 10\n", "idle_timeout_minutes: 1\n"))
    return file


def ended(place: str) -> pd.DataFrame:
    try:
        return results.read(place, "lab")
    except FileNotFoundError:
        return pd.DataFrame({"status": [], "hostname": []})


def workers(sky) -> dict[str, dict]:
    """Running worker instances by host name."""
    return {f"e{one['InstanceId'][-7:]}": one for one in sky.instances("running", role="worker")}


def is_spot(instance: dict) -> bool:
    return instance.get("InstanceLifecycle") == "spot"


def lose(sky, place: str, name: str) -> None:
    """Take away a spot instance that trains; 20 s of notice are enough here and are over within one training."""
    until(lambda: name in set(ended(place)["hostname"]), 600)
    sky.interrupt(workers(sky)[name], seconds=20)


def test_from_a_laptop_to_spot_gpus(lab, laptop, sky, bucket):
    file, place = adapted(laptop), f"s3://{bucket}/results"
    began = time.monotonic()
    laptop.ray("up", file, "-y", "--no-config-cache")
    said = [f"up after {time.monotonic() - began:.0f} s"]
    (head,) = sky.instances()
    assert cloud.tags(head)["ray-node-type"] == "head" and not is_spot(head), "no GPU is paid for before there is work"
    (group,) = {one["GroupName"] for one in head["SecurityGroups"]}
    assert group == "tune-cd", "not one with a port open to the world"

    began = time.monotonic()
    laptop.ray(
        "exec",
        file,
        "--tmux",
        f"python -m tune_cd.run {SEARCH} --results {place} > /home/ubuntu/driver.log 2>&1",
        "--no-config-cache",
    )
    until(lambda: len(workers(sky)) == 2, 180)
    said.append(f"two spot instances after {time.monotonic() - began:.0f} s")
    assert all(is_spot(one) and one["InstanceType"] == "g6.2xlarge" for one in workers(sky).values())
    first, second = workers(sky)
    until(lambda: len(ended(place)) >= 2, 600)
    assert set(ended(place)["hostname"]) <= set(workers(sky)), "the head drives, workers train"

    lose(sky, place, first)
    until(lambda: len(workers(sky)) == 2 and first not in workers(sky), 180)

    sky.spot = False
    losing = threading.Thread(target=lose, args=(sky, place, second))
    losing.start()
    losing.join()
    began = time.monotonic()
    until(lambda: any(not is_spot(one) for one in workers(sky).values()), 120)
    said.append(f"an on-demand instance {time.monotonic() - began:.0f} s after spot was lost and refused")
    assert any(spot and not granted for _, _, spot, granted in sky.asked)

    until(lambda: "studies/lab/report.html" in store_of(place).listing("studies/lab"), 1200)
    table = ended(place)
    assert set(table["status"]) == {"completed", "stopped"}, "a loss with notice is no failure (--max-failures 0)"
    assert table["images_seen"].max() == IMAGES and table["images_seen"].sum() <= WORTH * IMAGES + IMAGES / 8
    on_demand = {name for name, one in workers(sky).items() if not is_spot(one)}
    assert on_demand & set(table["hostname"]), "and the search went on there"

    page = lab / "report.html"
    laptop.python("-m", "tune_cd.report", place, "--study", "lab", "-o", str(page))
    assert "lab" in page.read_text()

    began = time.monotonic()
    until(lambda: not workers(sky), 300)
    said.append(f"no worker left {time.monotonic() - began:.0f} s after the last trial")
    laptop.ray("down", file, "-y")
    assert not sky.instances(), "nothing that costs is left"
    print("\n".join(said))
