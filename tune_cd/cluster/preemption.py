"""Waits for a cloud's notice that this machine will be taken away, and tells the cluster and the trainings on it.

Runs on every worker beside Ray (`python -m tune_cd.cluster watch`), since open-source Ray does not ask for notices. The
node is drained: it gets no new trial, and the loss of its trials does not count as a failure (`--max-failures`). The
trainings on it save their states at their next evaluation (`trainables.training.preemption_notice`). Some seconds
before the machine goes, Ray on it is ended: otherwise the cluster waits a minute for the silent node before it replaces
it.
"""

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainables.training.preemption_notice import notice_file

METADATA = "http://169.254.169.254"
TIMEOUT = 2.0  # seconds; the service is on the machine itself
EVERY = 5.0  # seconds between two looks, as EC2 recommends
PATIENCE = 60.0  # seconds without an answer after which a machine counts as outside any cloud
MARGIN = 10  # seconds before the machine goes at which Ray on it is ended
GCE_SECONDS = 30  # of notice; EC2's notice says how long: two minutes
TOKEN_SECONDS = 21600  # lifetime of a token of EC2's service, the longest it allows
AGENTS = (b"ray::DashboardAgent", b"dashboard/agent.py")
RAY = str(Path(sys.executable).with_name("ray"))
ATTEMPTS, PAUSE = 6, 2.0  # at draining the node, and seconds between two

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Notice:
    """A cloud's notice that this machine will be taken away in so many seconds."""

    reason: str
    seconds: int


def ec2_notice(ask: Callable[..., str | None]) -> Notice | None:
    """EC2's notice of two minutes (`spot/instance-action`), or None, by version 2 of its service. Raises OSError
    without it."""
    token = ask("/latest/api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)})
    if token is None:
        raise ConnectionError("no token: not a machine of EC2's")
    text = ask("/latest/meta-data/spot/instance-action", headers={"X-aws-ec2-metadata-token": token})
    if text is None:
        return None
    action = json.loads(text)
    left = datetime.fromisoformat(action["time"]) - datetime.now(UTC)
    return Notice(
        f"EC2 will {action['action']} this spot instance at {action['time']}", max(0, int(left.total_seconds()))
    )


def gce_notice(ask: Callable[..., str | None]) -> Notice | None:
    """Compute Engine's notice of half a minute (`instance/preempted`), or None. Raises OSError without its service."""
    text = ask("/computeMetadata/v1/instance/preempted", headers={"Metadata-Flavor": "Google"})
    if text is None:
        raise ConnectionError("not a machine of Compute Engine's")
    return Notice("Compute Engine preempts this machine", GCE_SECONDS) if text.strip() == "TRUE" else None


CLOUDS = {"ec2": ec2_notice, "gce": gce_notice}


def ask_metadata(path: str, *, method: str = "GET", headers: dict[str, str]) -> str | None:
    """The answer of the machine's metadata service; None if it says that there is no such thing. Raises OSError."""
    request = urllib.request.Request(METADATA + path, method=method, headers=headers)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=TIMEOUT) as response:
            return response.read().decode()
    except urllib.error.HTTPError as error:
        if error.code in (403, 404, 405):
            return None
        raise


def wait_for_notice(
    ask: Callable[..., str | None] = ask_metadata, every: float = EVERY, patience: float = PATIENCE
) -> Notice | None:
    """Wait for the notice and return it; None if no metadata service answers within `patience` seconds. One that has
    answered, and does not for a while, is asked again."""
    deadline, known = time.monotonic() + patience, None
    while known or time.monotonic() <= deadline:
        for name in [known] if known else CLOUDS:
            try:
                notice = CLOUDS[name](ask)
            except (OSError, ValueError, KeyError) as error:
                log.log(logging.WARNING if known else logging.DEBUG, "the metadata service of %s: %s", name, error)
                continue
            if not known:
                log.info("watching for a notice of %s", name)
            known = name
            if notice is not None:
                return notice
            break
        time.sleep(every)
    return None


def drain(address: str, notice: Notice, node: str | None = None) -> None:
    """Tell Ray at the address (HOST:PORT) to drain a node. node: its id; None: this one. Raises CalledProcessError if
    Ray refuses."""
    command = [
        RAY, "drain-node", "--address", address, "--reason", "DRAIN_NODE_REASON_PREEMPTION",
        "--reason-message", notice.reason, "--deadline-remaining-seconds", str(notice.seconds),
        *(["--node-id", node] if node else []),
    ]  # fmt: skip
    environment = os.environ | {"RAY_ADDRESS": address}  # this node's id is found over a connection
    for attempt in range(ATTEMPTS):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            return
        log.warning("attempt %d to drain this node: %s", attempt + 1, (done.stdout + done.stderr).strip()[-500:])
        time.sleep(PAUSE)
    done.check_returncode()


def end_ray(processes: Path = Path("/proc")) -> None:
    """End Ray on this machine by force. Call it after the drain's deadline: only then does the end of a trial count as
    the machine's. Ray's agents are paused first, since they would report a failure, with pages of logs, to every
    driver."""
    for command in processes.glob("[0-9]*/cmdline"):
        try:
            if any(agent in command.read_bytes() for agent in AGENTS):
                os.kill(int(command.parent.name), signal.SIGSTOP)
        except OSError:  # it has ended
            continue
    subprocess.run([RAY, "stop", "--force"], check=False, capture_output=True)


HELP = "on a cloud's worker, beside Ray: wait for the notice that the machine is taken away, and drain the node"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", required=True, metavar="HOST:PORT", help="of the cluster of this machine")


def run(arguments: argparse.Namespace) -> int:
    """Wait for the notice and pass it on; returns the exit status. Ends at once on a machine that gets none."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    notice = wait_for_notice()
    if notice is None:
        log.info("no metadata service answers at %s: no notice is given on this machine", METADATA)
        return 0
    log.info("%s, in %d s", notice.reason, notice.seconds)
    notice_file().touch(mode=0o644)
    left = Notice(notice.reason, max(1, notice.seconds - MARGIN))
    drain(arguments.address, left)
    log.info("this node is drained; Ray on it ends in %d s", left.seconds)
    time.sleep(left.seconds + 1.0)
    end_ray()
    return 0
