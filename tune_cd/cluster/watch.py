"""Watches the cluster while a study runs: requests on-demand nodes while spot is short, and checks nodes that join. A
failure here is reported once, and the study goes on."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex

from tune_cd.cluster.capacity import HEAD, ONDEMAND, Growth, alive_nodes, processes_on
from tune_cd.cluster.ondemand import Shortage, on_demand_type, request_actor
from tune_cd.cluster.ray_internals import starting_nodes
from tune_cd.results.redaction import redact

INTERVAL = 5.0  # seconds between two looks
ANSWER = 10.0  # seconds that the actor may take to answer


@dataclass
class Load:
    """The numbers of the study's trials, set by its driver. running: at present. live: that wait or run. Trials that
    its searches may ask for later do not count: nodes started for them would be idle, and billed."""

    running: int = 0
    live: float = float("inf")  # until the driver has set it


class ClusterWatch:
    """Watches the cluster around a study's trials, as a context manager.

    cpus, gpus: of one process. processes: wanted at a time. after: seconds of shortage before on-demand nodes are
    requested; None: never. joined: called with Ray's entries of the alive nodes at every look. say: prints a line.
    """

    def __init__(
        self, growth: Growth, cpus: int, gpus: float, processes: int, after: float | None, *,
        joined: Callable[[list[dict]], None] = lambda nodes: None, say: Callable[[str], None] | None = None,
        interval: float = INTERVAL,
    ):  # fmt: skip
        self.load = Load()
        self._growth, self._cpus, self._gpus, self._processes = growth, cpus, gpus, processes
        self._joined, self._interval = joined, interval
        self._say = say or (lambda line: print(line, flush=True))
        self._unit, self._amount = ("GPU", gpus) if gpus else ("CPU", float(cpus))
        kind = on_demand_type(growth, cpus, gpus) if after is not None else None
        self._shortage = Shortage(kind, after) if kind is not None and after is not None else None
        self._shared = any(kind.on_demand for kind in growth.types)  # on-demand nodes, with other studies
        self._waiting, self._study, self._actor = False, token_hex(8), None
        self._failures: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cluster-watch", daemon=True)

    def __enter__(self) -> "ClusterWatch":
        self._thread.start()
        return self

    def __exit__(self, *error) -> None:
        """Stop, and withdraw the request. The actor forgets a driver that dies before."""
        self._stop.set()
        self._thread.join(2 * ANSWER)
        if self._actor is not None:
            self._try("on-demand nodes could not be given back, which happens by itself in a minute", self._withdraw)

    def wanted(self) -> int:
        """Processes that the study can use now."""
        return int(min(self._processes, self.load.live))

    def coming(self) -> int:
        """Processes that fit the spot nodes that are being set up."""
        starting, spots = starting_nodes(), (kind for kind in self._growth.types if not kind.on_demand)
        return sum(starting[kind.name] * self._fitting([kind.resources]) for kind in spots)

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._try("the cluster cannot be watched", self._look)
            self._stop.wait(self._interval)

    def _look(self) -> None:
        nodes = alive_nodes()
        resources = [node["Resources"] for node in nodes]
        waiting = not self._fitting(resources) and self.wanted() > 0
        if waiting and not self._waiting:
            self._say("waiting for nodes: none can take a trial; `ray status` on the head names those that start")
        self._waiting = waiting
        if self._shared:
            self._request(resources)
        self._try("nodes that join cannot be checked", lambda: self._joined(nodes))

    def _fitting(self, resources: list[dict]) -> int:
        return processes_on(resources, self._cpus, self._gpus)

    def _request(self, resources: list[dict]) -> None:
        """Renew the request for on-demand nodes: only for trials that wait, as Ray asks for spot nodes for them
        first."""
        most = max(0.0, self._growth.most - sum(HEAD not in node and not node.get(ONDEMAND) for node in resources))
        others, room, running, coming = self._renew(most), self._fitting(resources), self.load.running, 0
        if (shortage := self._shortage) is None:
            return
        here = max(min(running, room), room - int(others / self._amount))
        if here < self.wanted():
            coming = self._try("the autoscaler's status is not known", self.coming) or 0
        wanted = int(min(self.wanted(), here + coming + self.load.live - running))
        on_demand = self._fitting([node for node in resources if node.get(ONDEMAND)])
        before, nodes = shortage.nodes, shortage.look(time.monotonic(), wanted, here, on_demand, most, coming)
        if nodes > before:
            self._say(f"on-demand nodes requested: {nodes}; spot has been short for {shortage.after:g} s")
        if nodes < before:
            self._say(f"on-demand nodes requested: {nodes}, before {before}; the others are given back")
        if nodes != before:
            self._renew(most)

    def _renew(self, most: float) -> float:
        """Renew the request, of all studies at most so many nodes; returns the GPUs or CPUs that the others want."""

        def ask() -> dict:
            import ray

            self._actor = self._actor or request_actor()
            bundles = [dict(self._shortage.kind.bundle)] * self._shortage.nodes if self._shortage else []
            wants = {self._unit: self.wanted() * self._amount}
            return ray.get(self._actor.renew.remote(self._study, wants, bundles, most), timeout=3 * ANSWER)

        answer = self._try("on-demand nodes cannot be requested", ask)
        if answer is None:
            self._actor = None
            return 0.0
        if answer["error"]:
            self._fail("on-demand nodes cannot be requested", answer["error"])
        return answer["others"][self._unit]

    def _withdraw(self) -> None:
        import ray

        ray.get(self._actor.withdraw.remote(self._study), timeout=ANSWER)

    def _try(self, what: str, call: Callable):
        """Call, and return the result; None if it raised, which is reported the first time."""
        try:
            return call()
        except Exception as error:  # no failure here may end the study
            self._fail(what, f"{type(error).__name__}: {error}")
            return None

    def _fail(self, what: str, error: str) -> None:
        if what not in self._failures:
            self._failures.add(what)
            self._say(redact(f"{what}: {error.strip().splitlines()[0]}; the study goes on"))
