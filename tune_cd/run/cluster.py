"""A study on its cluster: the cluster's growth, the check of its nodes, and the watch while trials run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tune_cd.cluster.capacity import Growth, cluster_growth
from tune_cd.cluster.nodes import Nodes, own_disk
from tune_cd.cluster.watch import ClusterWatch, Load
from tune_cd.run.resources import Resources
from tune_cd.run.study import Study


def growth_of(address: str | None) -> Growth:
    """The growth of the connected cluster; none, with a message, if it cannot be found out. Raises ValueError for an
    unreadable description of the cluster."""
    try:
        return Growth() if address == "local" else cluster_growth()
    except OSError as error:
        print(
            f"what the cluster may grow to is not known ({error}): --workers and --gpus-per-trial may say", flush=True
        )
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
def watching(study: Study, resources: Resources, growth: Growth, nodes: Nodes) -> Iterator[Load]:
    """Watch the cluster while this is held, except for a Ray of the study's own, which does not change. `nodes.apart`
    then names a node that has joined and whose results would be lost."""
    if study.call.address == "local":
        yield Load()
        return

    def joined(alive: list[dict]) -> None:
        for line in nodes.joined(alive):
            print(f"error: {line}", flush=True)

    if growth.types:  # the watch reports it better
        os.environ.setdefault("TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S_AUTOSCALER", "inf")
    after = study.call.ondemand_after
    try:
        with ClusterWatch(growth, resources.cpus, resources.gpus, resources.processes, after, joined=joined) as watch:
            yield watch.load
    finally:
        nodes.close()
