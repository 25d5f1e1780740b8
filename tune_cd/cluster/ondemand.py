"""On-demand nodes where spot nodes are short: when a study requests them, and one request for all studies of a cluster.

`ray.autoscaler.sdk.request_resources` holds one request for the whole cluster. Each call replaces it, and it stays, and
costs money, after its driver has died. So a small detached actor on the head makes it for all studies. A study renews
its part while it lives, and is forgotten when it no longer does. The actor ends itself some time after the last study.
Requests of other programs are replaced, but only once one of our studies requests something.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tune_cd.cluster.capacity import HEAD, ONDEMAND, Growth, processes_on

NAME, NAMESPACE = "node-requests-1", "tune_cd"  # the number goes up when the actor's methods change
EXPIRY = 50.0  # seconds without renewal after which a driver counts as dead: its nodes are given back in a minute
LINGER = 60.0  # seconds without any study after which the actor ends
INTERVAL = 5.0  # seconds between two checks
SETTLED = 30.0
"""Seconds that spot nodes must have been there before on-demand nodes are given back for them."""

Bundles = list[dict[str, float]]


class OnDemandType(NamedTuple):
    """The node type that is requested where spot is short."""

    bundle: Mapping[str, float]  # that requests a whole node
    processes: int  # that fit one node
    most: float  # nodes of the type


def on_demand_type(growth: Growth, cpus: int, gpus: float) -> OnDemandType | None:
    """The on-demand type of the cluster that holds the most processes; None if none holds any."""
    fitting = [(processes_on([kind.resources], cpus, gpus), kind) for kind in growth.types if kind.on_demand]
    processes, kind = max(fitting, key=lambda pair: pair[0], default=(0, None))
    if not processes:
        return None
    bundle = {unit: kind.resources[unit] for unit in ("GPU" if gpus else "CPU", ONDEMAND)}
    return OnDemandType(bundle, processes, min(kind.most, growth.most))


class Shortage:
    """The on-demand nodes that a study needs: more once spot was short for `after` seconds, fewer once it has been back
    for SETTLED. No Ray, no clock: times are passed in."""

    def __init__(self, kind: OnDemandType, after: float):
        self.kind, self.after, self.nodes = kind, after, 0
        self._short: float | None = None  # when more nodes were first needed
        self._eased: float | None = None  # when fewer were

    def look(
        self, at: float, wanted: int, here: int, on_demand: int = 0, most: float = math.inf, coming: int = 0
    ) -> int:
        """The nodes after one more look.

        at: seconds of any clock that goes forward. In processes of the study, wanted: that it can use; here: for which
        there is room; on_demand: of these, on on-demand nodes; coming: that fit spot nodes being set up, which the
        cloud has granted, so that they are no shortage. most: on-demand nodes that the cluster may have beside its
        other nodes.
        """
        requested = self.nodes * self.kind.processes  # whether they are there or not: one shortage is requested once
        spot = here - min(on_demand, requested, here)
        most = min(self.kind.most, most)
        needed, enough = (
            int(min(most, math.ceil(max(0, wanted - there) / self.kind.processes))) for there in (spot + coming, spot)
        )
        short, eased = needed > self.nodes and wanted > here + coming, enough < self.nodes
        self._short = (at if self._short is None else self._short) if short else None
        self._eased = (at if self._eased is None else self._eased) if eased else None
        before = self.nodes
        if self._short is not None and at - self._short >= self.after:
            self.nodes = needed
        elif self._eased is not None and at - self._eased >= SETTLED:
            self.nodes = enough
        if self.nodes != before:
            self._short = self._eased = None
        return self.nodes


class NodeRequests:
    """The requests of all studies, and their sum. send: makes the cluster's request. fresh: none was ever sent, so none
    has to be taken back. expiry, linger: as the constants, in s. clock: seconds that go forward."""

    def __init__(
        self, send: Callable[[Bundles], None], fresh: bool = True, expiry: float = EXPIRY, linger: float = LINGER,
        clock: Callable[[], float] = time.monotonic,
    ):  # fmt: skip
        self._send, self._sent = send, [] if fresh else None
        self._expiry, self._linger, self._clock = expiry, linger, clock
        self._studies: dict[str, tuple[float, Mapping[str, float], Bundles]] = {}  # (renewed at, wanted, requested)
        self._most = math.inf
        self._used_at: float | None = None  # when the actor was last needed
        self._lock = threading.Lock()
        self._error: str | None = None

    def renew(self, study: str, wants: Mapping[str, float], bundles: Bundles, most: float = math.inf) -> dict[str, Any]:
        """Renew a study's part. wants: units that it can use in all, {"GPU": 8}. bundles: that it requests. most:
        bundles that the cluster may have now; autoscaler v2 ignores a larger request as a whole.

        Returns {"others": units that the other studies want, "error": the last error of the request}.
        """
        with self._lock:
            self._most = most
            self._studies[study] = (self._clock(), dict(wants), list(bundles))
            others = [want for name, (_, want, _) in self._studies.items() if name != study]
            self._update()
            return {"others": {unit: sum(want.get(unit, 0) for want in others) for unit in wants}, "error": self._error}

    def withdraw(self, study: str) -> None:
        """Remove the part of a study that has ended."""
        with self._lock:
            self._studies.pop(study, None)
            self._update()

    def expire(self) -> bool:
        """Forget dead studies; returns whether the actor is still needed."""
        now = self._clock()
        with self._lock:
            self._studies = {name: study for name, study in self._studies.items() if now - study[0] <= self._expiry}
            self._update()
            if self._studies or self._sent != [] or self._used_at is None:
                self._used_at = now
            return now - self._used_at < self._linger

    def _update(self) -> None:
        """Send the sum of all parts if it has changed. After a failure the next call tries again."""
        total = [bundle for _, _, bundles in self._studies.values() for bundle in bundles]
        total = sorted(total, key=lambda bundle: sorted(bundle.items()))[: int(min(self._most, len(total)))]
        if total == self._sent:
            return
        try:
            self._send(total)
            self._sent, self._error = total, None
        except Exception as error:  # whatever Ray raises is told to the studies, which go on
            self._error = f"{type(error).__name__}: {error}"


class RequestActor(NodeRequests):
    """`NodeRequests` as the cluster's actor, which ends itself."""

    def __init__(self, expiry: float = EXPIRY, linger: float = LINGER, interval: float = INTERVAL):
        import ray
        from ray.autoscaler.sdk import request_resources

        fresh = not ray.get_runtime_context().was_current_actor_reconstructed
        super().__init__(lambda bundles: request_resources(bundles=bundles), fresh, expiry, linger)
        threading.Thread(target=self._watch, args=[interval], name="node-requests", daemon=True).start()

    def _watch(self, interval: float) -> None:
        import ray

        while self.expire():
            time.sleep(interval)
        ray.kill(ray.get_actor(NAME, namespace=NAMESPACE), no_restart=True)


def request_actor(*times: float):
    """The cluster's RequestActor, started on the head with these times if there is none. Needs a connected Ray."""
    import ray

    lasting = {"name": NAME, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True, "max_restarts": -1}
    return ray.remote(RequestActor).options(num_cpus=0, resources={HEAD: 0.001}, **lasting).remote(*times)
