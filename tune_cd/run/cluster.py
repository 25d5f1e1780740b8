"""The cluster of a study: what it offers, the check of its nodes, and the watch while trials run."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainables.training.setup import WEIGHTS
from tune_cd.cluster.capacity import Growth, alive_nodes, cluster_growth
from tune_cd.cluster.nodes import Nodes, data_error, own_disk
from tune_cd.cluster.watch import ClusterWatch, Load
from tune_cd.run.resources import check_resources
from tune_cd.run.study import Study, with_form


class Cluster:
    """The connected cluster, for one study.

    study: with the set-up that suits the cluster. resources: of its trials. nodes: the checks of those that can hold a
    process; `nodes.apart` names one that has joined and whose results would be lost.

    Raises ValueError for resources that it does not have, and for an unreadable description of it.
    """

    def __init__(self, study: Study):
        self._alive, self._growth = alive_nodes(), _growth_of(study.call.address)
        resources, most = [node["Resources"] for node in self._alive], max(one.num_samples for one in study.searches)
        self.resources = check_resources(study.config, study.call, resources, self._growth, most)
        self.study = with_form(study, study.config.setup or ("paper" if self.resources.gpus else "small"))
        question = {name: getattr(self.study.setup, name) for name in ("dataset", "task", "image_size")}
        weights = None if self.study.setup.weights in WEIGHTS else self.study.setup.weights
        question |= {"data_root": study.data_root, "download": study.call.download, "weights": weights}
        self._question = question
        self.nodes = Nodes(study.results, question, self.resources.cpus, self.resources.gpus)

    def check(self) -> list[str]:
        """As `look_at`; of this machine alone, which is not asked, the data and the room for them are checked here."""
        if len(self._alive) == 1 and not self._growth.types:
            with warnings.catch_warnings(action="ignore"):  # it has warned of what is left out
                if error := data_error(self._question):
                    raise ValueError(f"data: {error}")
        return look_at(self.nodes, self._alive, self._growth, self.study.results)

    @contextmanager
    def watched(self) -> Iterator[Load]:
        """Watch the cluster while this is held, except for a Ray of the study's own, which does not change."""
        call, its = self.study.call, self.resources
        if call.address == "local":
            yield Load()
            return

        def joined(alive: list[dict]) -> None:
            for line in self.nodes.joined(alive):
                print(f"error: {line}", flush=True)

        if self._growth.types:  # the watch reports it better
            os.environ.setdefault("TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S_AUTOSCALER", "inf")
        needs = its.cpus, its.gpus, its.processes, call.ondemand_after
        try:
            with ClusterWatch(self._growth, *needs, joined=joined) as watch:
                yield watch.load
        finally:
            self.nodes.close()


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


def _growth_of(address: str | None) -> Growth:
    """The growth of the cluster; none, with a message, if it cannot be found out."""
    try:
        return Growth() if address == "local" else cluster_growth()
    except OSError as error:
        said = "--workers and --gpus-per-trial may say"
        print(f"what the cluster may grow to is not known ({error}): {said}", flush=True)
    return Growth()
