"""Watches the cluster while a study runs: says what is waited for, asks for on-demand nodes where spot is short, looks at
nodes that join. Whatever goes wrong with it is said once, and the study goes on.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from secrets import token_hex

from tune_cd.cluster import demand
from tune_cd.cluster.growth import HEAD, ONDEMAND, Growth, alive_nodes, processes_on
from tune_cd.cluster.status import Scaling, autoscaler_status
from tune_cd.cluster.wishes import desk
from tune_cd.results.redaction import redact

PACE = 5.0  # seconds between two looks
ANSWER = 10.0  # seconds that the actor may take to answer


@dataclass
class Load:
    """What a study has to do, told by its driver's loop: trials that run, and that wait or run. What its searches may ask for
    later is none of it: a line search waits for its own trials, and a node for those to come would be idle, and paid for."""

    running: int = 0
    live: float = float("inf")  # until the loop has turned once


class Capacity:
    """A context manager around a study's trials.

    cpus, gpus: of one process; processes: wanted at a time. after: seconds of shortage before on-demand nodes are asked for,
    None: never. joined: called with Ray's entries of the nodes alive at every look. say: prints a line.
    """

    def __init__(
        self, growth: Growth, cpus: int, gpus: float, processes: int, after: float | None, *,
        joined: Callable[[list[dict]], None] = lambda nodes: None, say: Callable[[str], None] | None = None, pace: float = PACE,
    ):  # fmt: skip
        self.load = Load()
        self._growth, self._cpus, self._gpus, self._processes, self._after = growth, cpus, gpus, processes, after
        self._joined, self._say, self._pace = joined, say or _print, pace
        self._unit, self._amount = ("GPU", gpus) if gpus else ("CPU", float(cpus))
        self._kind = demand.on_demand_of(growth, cpus, gpus) if after is not None else None
        self._asked, self._shortage = demand.Asked(), demand.Shortage()
        self._most = math.inf  # on-demand nodes that the cluster may have beside those of other types
        self._seen = 1  # the most processes there was room for at a time
        self._study, self._desk = token_hex(8), None
        self._complaints: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="capacity", daemon=True)

    def __enter__(self) -> "Capacity":
        self._thread.start()
        return self

    def __exit__(self, *error) -> None:
        """Give back what was asked for. A driver that dies before it comes here is forgotten by the actor."""
        self._stop.set()
        self._thread.join(2 * ANSWER)
        if self._desk is not None:
            self._try("on-demand nodes could not be given back, which happens by itself in a minute", self._withdraw)

    def wanted(self) -> int:
        """Processes that the study can use now; where the cluster cannot grow, no more than it has ever had."""
        most = self._processes if self._growth.types else min(self._processes, self._seen)
        return int(min(most, self.load.live))

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._try("the cluster cannot be watched", self._look)
            self._stop.wait(self._pace)

    def _look(self) -> None:
        nodes = alive_nodes()
        resources = [node["Resources"] for node in nodes]
        room = processes_on(resources, self._cpus, self._gpus)
        self._seen = max(self._seen, room)
        others_there = sum(HEAD not in node and not node.get(ONDEMAND) for node in resources)
        self._most = max(0.0, self._growth.most - others_there)
        others = self._others() if self._growth.types or len(nodes) > 1 else 0.0
        here = max(min(self.load.running, room), room - int(others / self._amount))
        on_demand = processes_on([node for node in resources if node.get(ONDEMAND)], self._cpus, self._gpus)
        wanted, scaling = self.wanted(), Scaling()
        if here < wanted:
            scaling = self._try("what the autoscaler does is not known", autoscaler_status) or scaling
        seen = demand.Seen(time.monotonic(), wanted, here, on_demand, self._most, self._coming(scaling))
        if (
            self._kind is not None
        ):  # for trials that wait: those on a node that goes will, and the cloud is asked for spot first
            waiting = self.load.live - self.load.running
            self._ask(replace(seen, wanted=int(min(seen.wanted, seen.here + seen.coming + waiting))))
        self._shortage, line = demand.say(
            self._shortage, seen, self.load.running, scaling, self._unit, self._amount, others
        )
        if line:
            self._say(redact(line))
        self._try("nodes that join cannot be looked at", lambda: self._joined(nodes))

    def _coming(self, scaling: Scaling) -> int:
        """Processes that fit the spot nodes which are being set up."""
        types = [kind for kind in self._growth.types if not kind.on_demand]
        return sum(
            scaling.granted.get(kind.name, 0) * processes_on([kind.resources], self._cpus, self._gpus) for kind in types
        )

    def _ask(self, seen: demand.Seen) -> None:
        """Change what is asked for; it is sent with the next renewal."""
        before, self._asked = self._asked, demand.decide(self._asked, seen, self._kind, self._after)
        if self._asked.nodes > before.nodes:
            self._say(f"on-demand nodes asked for: {self._asked.nodes}; spot has been short for {self._after:g} s")
        if self._asked.nodes < before.nodes:
            self._say(
                f"on-demand nodes asked for: {self._asked.nodes}, no longer {before.nodes}; the others are given back"
            )
        if self._asked.nodes != before.nodes:
            self._others()

    def _others(self) -> float:
        """Renew what is asked for; GPUs, or CPUs, that other studies want."""
        answer = self._try("on-demand nodes cannot be asked for", self._renew)
        if answer is None:
            self._desk = None
            return 0.0
        if answer["error"]:
            self._complain("on-demand nodes cannot be asked for", answer["error"])
        return answer["others"].get(self._unit, 0.0)

    def _renew(self) -> dict:
        import ray

        self._desk = self._desk or desk()
        bundles = self._kind.bundles(self._asked.nodes) if self._kind is not None else []
        return ray.get(
            self._desk.renew.remote(self._study, {self._unit: self.wanted() * self._amount}, bundles, self._most),
            timeout=3 * ANSWER,
        )

    def _withdraw(self) -> None:
        import ray

        ray.get(self._desk.withdraw.remote(self._study), timeout=ANSWER)

    def _try(self, what: str, call: Callable):
        """What the call returns; None where it raised, which is said the first time."""
        try:
            return call()
        except Exception as error:  # nothing here is worth a study
            self._complain(what, f"{type(error).__name__}: {error}")
            return None

    def _complain(self, what: str, error: str) -> None:
        if what not in self._complaints:
            self._complaints.add(what)
            self._say(redact(f"{what}: {error.strip().splitlines()[0]}; the study goes on"))


def _print(line: str) -> None:
    print(line, flush=True)
