"""A study on its cluster: the cluster's growth, the preflight of its nodes, and the watch while trials run."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import ray

from tune_cd.cluster.capacity import Growth, cluster_growth
from tune_cd.cluster.nodes import Nodes, own_disk
from tune_cd.cluster.watch import ClusterWatch, Load
from tune_cd.results.redaction import redact
from tune_cd.run.connection import answers
from tune_cd.run.ending import ENDING
from tune_cd.run.resources import Resources
from tune_cd.run.study import Study

REACTION = 3.0  # seconds after which an interrupted main thread counts as stuck


def growth_of(address: str | None) -> Growth:
    """The growth of the connected cluster; none, with a message, if it cannot be found out. Raises ValueError for an
    unreadable description of the cluster."""
    try:
        return Growth() if address == "local" else cluster_growth()
    except OSError as error:
        said = f"what the cluster may grow to is not known ({error}): --workers and --gpus-per-trial may say"
        print(redact(said), flush=True)
    return Growth()


def nodes_of(study: Study, resources: Resources) -> Nodes:
    """The checks of the nodes that can hold a process of the study."""
    question = {name: getattr(study.setup, name) for name in ("dataset", "task", "weights")}
    question |= {"data_root": study.data_root, "download": study.call.download}
    return Nodes(study.results, question, resources.cpus, resources.gpus)


def look_at(nodes: Nodes, alive: list[dict], growth: Growth, results: Path | str) -> list[str]:
    """Check the nodes; returns a line for each ready one. Raises ValueError with a line for each that is not, and for
    results on this machine's own disk if other nodes may come but none is there to check it."""
    try:
        ready, wrong = nodes.check(alive)
    finally:
        nodes.close()
    if wrong:
        raise ValueError("\nerror: ".join(wrong))
    if not ready and growth.types and isinstance(results, Path) and (disk := own_disk(results)):
        raise ValueError(
            f"--results {results} is on this machine's own disk ({disk}), which nodes that come will not see: "
            "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or a folder that all nodes mount is needed"
        )
    return ready


@contextmanager
def guarded(give_up: Callable[[], None]) -> Iterator[None]:
    """While this is held, end the driver if Ray's processes that it needs are gone: Ray would end it without a word,
    14 s after its node's raylet or 60 s after the GCS. give_up: called in a thread if the main thread does not react,
    since it waits for the GCS."""
    context = ray.get_runtime_context()
    own = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    raylet = f"{own['NodeManagerAddress']}:{own['NodeManagerPort']}"
    needed = (("this node's raylet", raylet, 2.0), ("the cluster's GCS", context.gcs_address, 40.0))
    watched = [one for one in needed if answers(one[1])]
    stop, seen = threading.Event(), {address: time.monotonic() for _, address, _ in watched}

    def look() -> None:
        while not stop.wait(1.0):
            for name, address, patience in watched:
                if answers(address):
                    seen[address] = time.monotonic()
                elif time.monotonic() - seen[address] > patience:
                    ENDING.interrupt(f"{name} at {address} is gone")
                    if not stop.wait(REACTION):
                        give_up()
                    return

    threading.Thread(target=look, name="ray-guard", daemon=True).start()
    try:
        yield
    finally:
        stop.set()


@contextmanager
def watching(study: Study, resources: Resources, growth: Growth, nodes: Nodes) -> Iterator[Load]:
    """Watch the cluster while this is held, except for a Ray of the study's own, which does not change. The study ends
    when a node joins whose results would be lost."""
    if study.call.address == "local":
        yield Load()
        return

    def joined(alive: list[dict]) -> None:
        for line in nodes.joined(alive):
            print(redact(f"error: {line}"), flush=True)
        if nodes.apart:
            ENDING.interrupt(nodes.apart[0])

    if growth.types:  # the watch reports it better
        os.environ.setdefault("TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S_AUTOSCALER", "inf")
    after = study.call.ondemand_after
    try:
        with ClusterWatch(growth, resources.cpus, resources.gpus, resources.processes, after, joined=joined) as watch:
            yield watch.load
    finally:
        nodes.close()
