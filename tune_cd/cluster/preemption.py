"""Waits for a cloud's notice that this machine will be taken away, and tells the cluster and the trainings on it.

Runs on every worker beside Ray (`python -m tune_cd.cluster watch`), since open-source Ray does not ask for notices. The
node is drained: it gets no new trial, and the loss of its trials does not count as a failure (`--max-failures`). The
trainings on it save their states at their next evaluation (`trainables.training.preemption_notice`). Some seconds
before the machine goes, Ray on it is ended: otherwise the cluster waits a minute for the silent node before it replaces
it.
"""

import json
import logging
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from trainables.training.preemption_notice import notice_file

METADATA = "http://169.254.169.254"
TIMEOUT = 2.0  # seconds; the service is on the machine itself
EVERY = 5.0  # seconds between two looks, as EC2 recommends
PATIENCE = 60.0  # seconds without an answer after which a machine counts as outside any cloud
MARGIN = 10  # seconds before the machine goes at which Ray on it is ended
GCE_SECONDS = 30  # of notice; EC2's notice says how long: two minutes
TOKEN_SECONDS = 21600  # lifetime of a token of EC2's service, the longest it allows
RAY = str(Path(sys.executable).with_name("ray"))
ATTEMPTS, PAUSE = 6, 2.0  # at draining the node, and seconds between two

log = logging.getLogger(__name__)


class Notice(NamedTuple):
    """A cloud's notice that this machine will be taken away in so many seconds."""

    reason: str
    seconds: int


def ec2_notice(service: str) -> Notice | None:
    """EC2's notice of two minutes (`spot/instance-action`), or None, by version 2 of its service. Raises OSError
    without it."""
    token = _answer(f"{service}/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", str(TOKEN_SECONDS), "PUT")
    try:
        said = _answer(f"{service}/latest/meta-data/spot/instance-action", "X-aws-ec2-metadata-token", token)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise
    action = json.loads(said)
    left = datetime.fromisoformat(action["time"]) - datetime.now(UTC)
    reason = f"EC2 will {action['action']} this spot instance at {action['time']}"
    return Notice(reason, max(0, int(left.total_seconds())))


def gce_notice(service: str) -> Notice | None:
    """Compute Engine's notice of half a minute (`instance/preempted`), or None. Raises OSError without its service."""
    said = _answer(f"{service}/computeMetadata/v1/instance/preempted", "Metadata-Flavor", "Google")
    return Notice("Compute Engine preempts this machine", GCE_SECONDS) if said.strip() == "TRUE" else None


def _answer(url: str, header: str, value: str, method: str = "GET") -> str:
    request = urllib.request.Request(url, method=method, headers={header: value})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=TIMEOUT) as response:
        return response.read().decode()


def wait_for_notice(service: str = METADATA, every: float = EVERY, patience: float = PATIENCE) -> Notice | None:
    """Wait for the notice and return it; None if no metadata service answers within `patience` seconds. One that has
    answered, and does not for a while, is asked again."""
    deadline, clouds = time.monotonic() + patience, [ec2_notice, gce_notice]
    while len(clouds) == 1 or time.monotonic() <= deadline:
        for ask in clouds:
            try:
                notice = ask(service)
            except (OSError, ValueError, KeyError) as error:
                log.log(logging.WARNING if len(clouds) == 1 else logging.DEBUG, "the metadata service: %s", error)
                continue
            if notice is not None:
                return notice
            clouds = [ask]
            break
        time.sleep(every)
    return None


def drain(address: str, notice: Notice, node: str | None = None, ray: str = RAY, pause: float = PAUSE) -> None:
    """Tell Ray at the address (HOST:PORT) to drain a node. node: its id; None: this one. ray: the command. pause:
    seconds between two attempts. Raises CalledProcessError if Ray refuses."""
    command = [
        ray, "drain-node", "--address", address, "--reason", "DRAIN_NODE_REASON_PREEMPTION",
        "--reason-message", notice.reason, "--deadline-remaining-seconds", str(notice.seconds),
        *(["--node-id", node] if node else []),
    ]  # fmt: skip
    environment = os.environ | {"RAY_ADDRESS": address}  # this node's id is found over a connection
    for attempt in range(ATTEMPTS):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            return
        log.warning("attempt %d to drain this node: %s", attempt + 1, (done.stdout + done.stderr).strip()[-500:])
        time.sleep(pause)
    done.check_returncode()


def watch(address: str, service: str = METADATA, ray: str = RAY) -> None:
    """Wait for the notice and pass it on to the cluster at the address. Ends at once on a machine that gets none."""
    notice = wait_for_notice(service)
    if notice is None:
        log.info("no metadata service answers at %s: no notice is given on this machine", service)
        return
    log.info("%s, in %d s", notice.reason, notice.seconds)
    notice_file().touch(mode=0o644)
    left = max(1, notice.seconds - MARGIN)
    drain(address, Notice(notice.reason, left), ray=ray)
    log.info("this node is drained; Ray on it ends in %d s", left)
    time.sleep(left + 1.0)  # only after the drain's deadline does the end of a trial count as the machine's
    subprocess.run([ray, "stop", "--force"], check=False, capture_output=True)
