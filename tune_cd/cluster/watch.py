"""Watches the cluster while a study runs: reports missing nodes, requests on-demand nodes while spot is short, and has
nodes that join checked. A failure here is reported once, and the study goes on."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from secrets import token_hex

from tune_cd.cluster import spot
from tune_cd.cluster.autoscaler import Scaling, autoscaler_status
from tune_cd.cluster.capacity import HEAD, ONDEMAND, Growth, alive_nodes, processes_on
from tune_cd.cluster.node_requests import request_actor
from tune_cd.results.redaction import redact

INTERVAL = 5.0  # seconds between two looks
REPEAT = 30.0  # seconds between two lines about missing nodes
ANSWER = 10.0  # seconds that the actor may take to answer


@dataclass
class Load:
    """The numbers of the study's trials, set by its driver. running: at present. live: that wait or run. Trials that
    its searches may ask for later do not count: nodes started for them would be idle, and billed."""

    running: int = 0
    live: float = float("inf")  # until the driver has set it


@dataclass(frozen=True)
class Shortage:
    """The shortage that was reported. since None: there is none. said_at, said: the last line."""

    since: float | None = None
    said_at: float = -math.inf
    said: str = ""
    most: int = 0  # the most processes wanted at a time since then


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
        self._growth, self._cpus, self._gpus, self._processes, self._after = growth, cpus, gpus, processes, after
        self._joined, self._interval = joined, interval
        self._say = say or (lambda line: print(line, flush=True))
        self._unit, self._amount = ("GPU", gpus) if gpus else ("CPU", float(cpus))
        self._kind = spot.on_demand_type(growth, cpus, gpus) if after is not None else None
        self._requested, self._shortage = spot.Requested(), Shortage()
        self._most = math.inf  # on-demand nodes that the cluster may have beside those of other types
        self._room = 1  # the most processes there was room for at a time
        self._study, self._actor = token_hex(8), None
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
        """Processes that the study can use now; if the cluster cannot grow, no more than it ever had room for."""
        most = self._processes if self._growth.types else min(self._processes, self._room)
        return int(min(most, self.load.live))

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._try("the cluster cannot be watched", self._look)
            self._stop.wait(self._interval)

    def _look(self) -> None:
        nodes = alive_nodes()
        resources = [node["Resources"] for node in nodes]
        room = self._fitting(resources)
        self._room = max(self._room, room)
        self._most = max(
            0.0, self._growth.most - sum(HEAD not in node and not node.get(ONDEMAND) for node in resources)
        )
        others = self._renewed() if self._growth.types or len(nodes) > 1 else 0.0
        here = max(min(self.load.running, room), room - int(others / self._amount))
        wanted, scaling = self.wanted(), Scaling()
        if here < wanted:
            scaling = self._try("the autoscaler's status is not known", autoscaler_status) or scaling
        on_demand = self._fitting([node for node in resources if node.get(ONDEMAND)])
        now = spot.Snapshot(time.monotonic(), wanted, here, on_demand, self._most, self._coming(scaling))
        if self._kind is not None:
            self._request(now)
        self._shortage, line = report(self._shortage, now, self.load.running, scaling, self._unit, self._amount, others)
        if line:
            self._say(redact(line))
        self._try("nodes that join cannot be checked", lambda: self._joined(nodes))

    def _fitting(self, resources: list[dict]) -> int:
        return processes_on(resources, self._cpus, self._gpus)

    def _coming(self, scaling: Scaling) -> int:
        """Processes that fit the spot nodes that are being set up."""
        spots = (kind for kind in self._growth.types if not kind.on_demand)
        return sum(scaling.granted.get(kind.name, 0) * self._fitting([kind.resources]) for kind in spots)

    def _request(self, now: spot.Snapshot) -> None:
        """Update the request for on-demand nodes: only for trials that wait, as Ray asks for spot nodes for them
        first."""
        waiting = self.load.live - self.load.running
        now = replace(now, wanted=int(min(now.wanted, now.here + now.coming + waiting)))
        before, self._requested = self._requested, spot.decide(self._requested, now, self._kind, self._after)
        nodes = self._requested.nodes
        if nodes > before.nodes:
            self._say(f"on-demand nodes requested: {nodes}; spot has been short for {self._after:g} s")
        if nodes < before.nodes:
            self._say(f"on-demand nodes requested: {nodes}, before {before.nodes}; the others are given back")
        if nodes != before.nodes:
            self._renewed()

    def _renewed(self) -> float:
        """Renew the request; returns the GPUs or CPUs that other studies want."""
        answer = self._try("on-demand nodes cannot be requested", self._renew)
        if answer is None:
            self._actor = None
            return 0.0
        if answer["error"]:
            self._fail("on-demand nodes cannot be requested", answer["error"])
        return answer["others"].get(self._unit, 0.0)

    def _renew(self) -> dict:
        import ray

        self._actor = self._actor or request_actor()
        bundles = [] if self._kind is None else [dict(self._kind.bundle)] * self._requested.nodes
        wants = {self._unit: self.wanted() * self._amount}
        return ray.get(self._actor.renew.remote(self._study, wants, bundles, self._most), timeout=3 * ANSWER)

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


def report(
    shortage: Shortage, now: spot.Snapshot, running: int, scaling: Scaling, unit: str, amount: float, others: float = 0
) -> tuple[Shortage, str | None]:
    """(the shortage as it is now reported, the line to print or None). While nothing runs, a line every REPEAT seconds;
    with some of the nodes there, only if the text has changed.

    unit: "GPU" or "CPU". amount: units of one process. others: units that other studies want.
    """
    want, have = _units(now.wanted, amount), _units(min(now.here, now.wanted), amount)
    if now.here >= now.wanted:
        ended = shortage.since is not None and now.wanted >= shortage.most
        return Shortage(), f"{have} of {want} {unit}s after {_duration(now.at - shortage.since)}" if ended else None
    nothing = not running and not now.here
    begin = f"waiting for a {unit}: {have} of {want} there" if nothing else f"{have} of {want} {unit}s there"
    text = "; ".join([begin, *scaling.parts(), *([f"other studies want {others:g}"] if others else [])])
    due = now.at - shortage.said_at >= REPEAT and (nothing or text != shortage.said)
    since, most = now.at if shortage.since is None else shortage.since, max(shortage.most, now.wanted)
    if due:
        return Shortage(since, now.at, text, most), text
    return replace(shortage, since=since, most=most), None


def _units(processes: int, amount: float) -> int:
    """Whole GPUs or CPUs that hold so many processes; processes with a fraction of a GPU share one."""
    return math.ceil(processes / int(1 / amount + 1e-9)) if amount < 1 else int(processes * amount)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
