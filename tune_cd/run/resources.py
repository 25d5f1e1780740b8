"""Resources of a process, trainings that it holds, and configurations trained at a time."""

import math
from dataclasses import dataclass

from trainables.training.parallel import MOST
from tune_cd.cluster.capacity import Growth, Nodes, processes_in_all
from tune_cd.run.config import Call, StudyConfig

ROUNDS = 5
"""By default a search that learns has at least this many rounds of trials: with fewer it can hardly learn from any."""


@dataclass(frozen=True)
class Resources:
    """Resources of a run. A process trains one configuration, or several as a pack, on its GPU or its CPU threads."""

    cpus: int  # of a process
    gpus: float  # of a process
    workers: int  # configurations trained at a time
    pack: int = 1  # trainings in a process
    replicates: int = 1  # trainings of a configuration
    room: int = 10**9  # processes that fit the nodes that there are or may be

    @property
    def processes(self) -> int:
        settings = max(1, self.pack // self.replicates)  # the trainings of a configuration stay together
        return math.ceil(self.workers / settings)

    @property
    def together(self) -> int:
        """Processes that run at a time; others wait."""
        return min(self.processes, self.room)


def check_resources(config: StudyConfig, call: Call, alive: Nodes, growth: Growth, trials: int) -> Resources:
    """The resources for a search of so many `trials`. Nodes that may come count as much as those that are alive.

    Raises ValueError for more than any node will ever have, and for numbers that contradict each other.
    """
    nodes, replicates = alive + [dict(kind.resources) for kind in growth.types], config.replicates
    most_gpus, share = max(node.get("GPU", 0) for node in nodes), call.gpus_per_trial  # share: for one training
    if share == "auto":  # the memory decides: the smallest
        share = 1 / MOST if most_gpus else 0.0
    elif share is None:
        share = float(min(1, most_gpus)) / (call.pack or 1)
    pack = call.pack or (max(1, int(1 / share + 1e-9)) if 1e-3 <= share < 1 else 1)
    gpus = share * pack if call.gpus_per_trial not in (None, "auto") else float(min(1, most_gpus))
    room = processes_in_all(alive, growth, call.cpus_per_trial, gpus)
    if not room:
        raise ValueError(
            f"no node of the cluster can take a trial of {call.cpus_per_trial} CPUs and {gpus:g} GPUs "
            "(--cpus-per-trial, --gpus-per-trial), and it is not known that others may come (what `ray up` leaves on "
            "its head says it)"
        )
    limit = trials if config.search in ("grid", "random") else trials // ROUNDS
    settings = max(1, pack // replicates)  # configurations in a process
    workers = call.workers or int(max(1, min(room * settings, limit)))
    if call.pack is None and pack > 1:
        pack = min(pack, replicates * math.ceil(workers / room))  # evenly over the GPUs there are or may be
        gpus = share * pack if call.gpus_per_trial != "auto" else gpus
    return Resources(call.cpus_per_trial, gpus, workers, pack, replicates, room)
