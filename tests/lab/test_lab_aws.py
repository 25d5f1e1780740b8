"""clusters/gpu.yaml for real, against a cloud within this machine (cloud.py): `ray up`, growth from zero, the loss of a
spot instance with notice, none to be had, two studies at a time, a killed driver, the loss of the head, shrinking when
idle, results in a bucket, `ray down`.

Image, instance types, commands and everything else are as written; only the time until an idle node ends is shorter.
Nothing is timed: limits are an hour. TUNE_CD_KEEP_LAB=1 keeps the machines' files, which are in /var/tmp.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import pytest
from machines import missing
from waiting import until

from tune_cd import results
from tune_cd.results.store import store_of

boto3 = pytest.importorskip("boto3", reason="boto3 comes with the extra `cluster`")
cloud = pytest.importorskip("cloud", reason="moto comes with the extra `test`")

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

ROOT = Path(__file__).parents[2]
RUN = "python -m tune_cd.run --address auto"
WORTH, IMAGES = 24, 32_000
LAB = f"--study lab --setup small --num-samples {WORTH} --no-baseline --images-seen {IMAGES} --workers 2"
LAB += " --max-failures 0 --ondemand-after never"
TRIALS = 6
ONE = f"--study one --setup small --num-samples {TRIALS} --no-baseline --images-seen 6000 --workers 1 --full-length"
ONE += " --cpus-per-trial 2 --seed 3"
PAIR = "--setup small --no-baseline --images-seen 16000 --workers 1 --full-length --num-samples"
AT_END = ["completed", "diverged"]
LONG = 3600  # s; a limit, for a busy machine
NOTICE = 60  # s, of the two minutes that EC2 gives


class Laptop:
    """The user's machine: a checkout and a home of its own."""

    def __init__(self, folder: Path):
        self.folder, self.home = folder, folder / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        text = (ROOT / "clusters/gpu.yaml").read_text()
        assert text.count("idle_timeout_minutes: 10\n") == 1
        self.file = folder / "gpu.yaml"
        self.file.write_text(text.replace("idle_timeout_minutes: 10\n", "idle_timeout_minutes: 1\n"))

    def ray(self, command: str, *arguments: str) -> str:
        """`ray up` and its like, in the root of the checkout; returns all they printed."""
        return self._run(str(Path(sys.executable).with_name("ray")), command, str(self.file), *arguments)

    def python(self, *arguments: str) -> str:
        return self._run(sys.executable, *arguments)

    def _run(self, *command: str) -> str:
        own = {"HOME": str(self.home), "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(
            command, env=os.environ | own | cloud.SEEN, cwd=ROOT, text=True, timeout=LONG,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        with open(self.folder / "laptop.log", "a") as log:
            log.write(f"$ {' '.join(command)}\n{done.stdout}\n[{done.returncode}]\n")
        assert done.returncode == 0, f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout[-6000:]}"
        return done.stdout


@pytest.fixture
def lab():
    folder = Path(tempfile.mkdtemp(prefix="tune_cd-lab-", dir="/var/tmp"))
    yield folder
    if "TUNE_CD_KEEP_LAB" not in os.environ:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def laptop(lab):
    return Laptop(lab / "laptop")


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


def ended(place: str, study: str = "lab") -> pd.DataFrame:
    try:
        return results.read(place, study).sort_values("trial_index", ignore_index=True)
    except (FileNotFoundError, ValueError):  # it has not begun
        return pd.DataFrame({"status": [], "hostname": [], "trial_id": []})


def reported(place: str, study: str = "lab") -> bool:
    """Whether the study has come to its end."""
    return f"studies/{study}/report.html" in store_of(place).listing(f"studies/{study}")


def workers(sky) -> dict[str, dict]:
    """Running worker instances by host name."""
    return {f"e{one['InstanceId'][-7:]}": one for one in sky.instances("running", role="worker")}


def is_spot(instance: dict) -> bool:
    return instance.get("InstanceLifecycle") == "spot"


def requested(laptop) -> int:
    """The on-demand nodes that the autoscaler is asked for."""
    said = laptop.ray("exec", "ray status", "--no-config-cache")
    return sum(map(int, re.findall(r"'ondemand': 1\.0.*: (\d+) from request_resources", said)))


def timed(what: str, began: float) -> None:
    print(f"{what} after {time.monotonic() - began:.0f} s", flush=True)


def test_from_a_laptop_to_spot_gpus(lab, laptop, sky, bucket):
    place = f"s3://{bucket}/results"
    began = time.monotonic()
    laptop.ray("up", "-y", "--no-config-cache")
    timed("up", began)
    (head,) = sky.instances()
    assert cloud.tags(head)["ray-node-type"] == "head" and not is_spot(head), "no GPU is paid for before there is work"
    (group,) = {one["GroupName"] for one in head["SecurityGroups"]}
    assert group == "tune-cd", "not one with a port open to the world"

    began = time.monotonic()
    laptop.ray("exec", "--tmux", f"{RUN} {LAB} --results {place} > ~/driver.log 2>&1", "--no-config-cache")
    until(lambda: len(workers(sky)) == 2, LONG)
    timed("two spot instances", began)
    assert all(is_spot(one) and one["InstanceType"] == "g6.2xlarge" for one in workers(sky).values())
    both = workers(sky)
    until(lambda: len(ended(place)) >= 2, LONG)
    assert set(ended(place)["hostname"]) <= set(both), "the head drives, workers train"

    lost = ended(place)["hostname"].iloc[0]
    sky.take_away(both[lost], NOTICE)
    began = time.monotonic()
    until(lambda: set(workers(sky)) - set(both) or reported(place), LONG)
    assert not reported(place), "the study was over before another node could be missed"
    timed("another in the place of a lost one", began)

    until(lambda: reported(place), LONG)
    table = ended(place)
    assert all(map(is_spot, sky.instances("running", "terminated", role="worker"))), "as --ondemand-after never says"
    said = "a loss with notice is no failure (--max-failures 0)"
    assert {"completed", "stopped"} <= set(table["status"]) <= {*AT_END, "stopped"}, said
    assert table["images_seen"].max() == IMAGES and table["images_seen"].sum() <= WORTH * IMAGES + IMAGES / 8
    page = lab / "report.html"
    laptop.python("-m", "tune_cd.report", place, "--study", "lab", "-o", str(page))
    assert "lab" in page.read_text()

    laptop.ray("exec", "--tmux", f"{RUN} {ONE} --results {place} > ~/one.log 2>&1", "--no-config-cache")
    until(lambda: len(ended(place, "one")) >= 2, LONG)
    sky.take_away(head)
    before = len(ended(place, "one"))
    assert before < TRIALS, "the head is lost in the middle"
    began = time.monotonic()
    laptop.ray("up", "-y", "--no-config-cache")
    timed("another head", began)
    said = laptop.ray("exec", f"{RUN} {ONE} --results {place} --resume", "--no-config-cache")
    timed(f"{TRIALS - before} of {TRIALS} trials on the new cluster", began)
    assert "report:" in said and ended(place, "one")["status"].isin(AT_END).all()

    began = time.monotonic()
    until(lambda: not workers(sky), LONG)
    timed("no worker left", began)
    laptop.ray("down", "-y")
    assert not sky.instances(), "nothing that costs is left"

    laptop.python("-m", "tune_cd.run", "--address", "local", "--results", str(lab / "alone"), *ONE.split())
    columns = ["trial_index", "direction", "Lambda_p", "Lambda_e", "val_score", "test_score"]
    pd.testing.assert_frame_equal(ended(place, "one")[columns], ended(str(lab / "alone"), "one")[columns])


def test_two_studies_at_a_time_and_a_killed_driver(laptop, sky, bucket):
    """Where spot is refused each requests a node. Of the killed driver nothing stays requested."""
    place, sky.spot = f"s3://{bucket}/results", False
    laptop.ray("up", "-y", "--no-config-cache")
    for study, trials in (("a", 6), ("b", 40)):
        command = (
            f"{RUN} {PAIR} {trials} --study {study} --results {place} > ~/{study}.log 2>&1 & echo $! > ~/{study}.pid"
        )
        laptop.ray("exec", "--tmux", f"{command}; wait", "--no-config-cache")
    until(lambda: requested(laptop) == 2, LONG)
    until(lambda: len(ended(place, "a")) and len(ended(place, "b")), LONG)
    laptop.ray("exec", "kill -9 $(cat ~/b.pid)", "--no-config-cache")
    began = time.monotonic()
    until(lambda: requested(laptop) < 2, LONG)
    timed("the request of a killed driver is withdrawn", began)
    until(lambda: ended(place, "a")["status"].isin(AT_END).sum() == 6, LONG)
    until(lambda: requested(laptop) == 0, LONG)
    assert sky.refused
    laptop.ray("down", "-y")
