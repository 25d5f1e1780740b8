"""A study on its cluster: the cluster's growth, the preflight of its nodes, and the watch while trials run."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import ray
from ray.tune import Callback

from tune_cd.cluster.capacity import Growth, cluster_growth
from tune_cd.cluster.nodes import Nodes, own_disk
from tune_cd.cluster.watch import ClusterWatch, Load
from tune_cd.results.redaction import redact
from tune_cd.run.ending import Ending, interrupt
from tune_cd.run.resources import Resources
from tune_cd.run.study import Study

REACTION = 3.0  # seconds after which an interrupted main thread counts as stuck


def growth_of(address: str | None) -> Growth:
    """The growth of the connected cluster; none, with a message, if it cannot be found out. Raises ValueError for an
    unreadable description of the cluster."""
    if address == "local":
        return Growth()
    try:
        return cluster_growth()
    except OSError as error:
        said = f"what the cluster may grow to is not known ({error}): --workers and --gpus-per-trial may say"
        print(redact(said), flush=True)
        return Growth()


def nodes_of(study: Study, resources: Resources) -> Nodes:
    """The checks of the nodes that can hold a process of the study."""
    question = {name: getattr(study.setup, name) for name in ("dataset", "task", "weights")}
    question |= {"data_root": study.data_root, "download": study.call.download}
    return Nodes(study.results, question, resources.cpus, resources.gpus)


def look_at(nodes: Nodes, alive: list[dict], growth: Growth, results: Path | str) -> tuple[list[str], list[str]]:
    """Check the nodes; returns (a line for each ready node, errors). Its files among the results are removed in any
    case.

    Raises ValueError for results on this machine's own disk if other nodes may come but none is there to check it.
    """
    try:
        ready, wrong = nodes.check(alive)
    finally:
        nodes.close()
    if not ready and not wrong and growth.types and isinstance(results, Path) and (disk := own_disk(results)):
        raise ValueError(
            f"--results {results} is on this machine's own disk ({disk}), which nodes that come will not see: "
            "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or a folder that all nodes mount is needed"
        )
    return ready, wrong


@contextmanager
def guarded(ending: Ending, give_up: Callable[[], None]) -> Iterator[None]:
    """While this is held, interrupt the driver if Ray's processes that it needs are gone. Ray itself would end it 14 s
    after its node's raylet was lost and 60 s after the GCS, without a word. ending.lost: a sentence on what is gone.
    give_up: called in a thread if the main thread does not react, since it waits for the GCS."""
    context = ray.get_runtime_context()
    own = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    raylet = f"{own['NodeManagerAddress']}:{own['NodeManagerPort']}"
    watched = [("this node's raylet", raylet, 2.0), ("the cluster's GCS", context.gcs_address, 40.0)]
    watched = [one for one in watched if _answers(one[1])]
    stop, seen = threading.Event(), {address: time.monotonic() for _, address, _ in watched}

    def look() -> None:
        while not stop.wait(1.0):
            for name, address, patience in watched:
                if _answers(address):
                    seen[address] = time.monotonic()
                elif time.monotonic() - seen[address] > patience:
                    ending.lost = f"{name} at {address} is gone"
                    ending.interrupt()
                    if not stop.wait(REACTION):
                        give_up()
                    return

    thread = threading.Thread(target=look, name="ray-guard", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def watching(study: Study, resources: Resources, growth: Growth, nodes: Nodes) -> Iterator[Load]:
    """Watch the cluster while this is held, except for a Ray of the study's own, which does not change. Raises OSError
    when a node joins whose results would be lost."""
    if study.call.address == "local":
        yield Load()
        return

    def joined(alive: list[dict]) -> None:
        known = len(nodes.apart)
        for line in nodes.joined(alive):
            print(redact(f"error: {line}"), flush=True)
        if nodes.apart and not known:  # once: a second interrupt would disturb a study that is ending
            interrupt()

    if growth.types:  # the watch reports it better
        os.environ.setdefault("TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S_AUTOSCALER", "inf")
    after = study.call.ondemand_after
    try:
        with ClusterWatch(growth, resources.cpus, resources.gpus, resources.processes, after, joined=joined) as watch:
            yield watch.load
    except KeyboardInterrupt:
        if nodes.apart:
            raise OSError(nodes.apart[0]) from None
        raise
    finally:
        nodes.close()


class Counting(Callback):
    """Tells the watch how many trials run, and how many wait or run."""

    def __init__(self, load: Load):
        self._load = load

    def on_step_end(self, iteration, trials, **info) -> None:
        self._load.running = sum(trial.status == trial.RUNNING for trial in trials)
        self._load.live = sum(not trial.is_finished() for trial in trials)
