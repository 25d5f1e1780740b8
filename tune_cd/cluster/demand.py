"""When to ask for on-demand nodes, and what to say while nodes are missing. No Ray, no clock: times are passed in."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tune_cd.cluster.growth import ONDEMAND, Growth, NodeType, processes_on
from tune_cd.cluster.status import Scaling

SETTLED = 30.0
"""Seconds that spot nodes must have been there before on-demand nodes are given back for them."""

REPEAT = 30.0
"""Seconds between two lines that say what is waited for."""


@dataclass(frozen=True)
class Seen:
    """One look at the cluster, in processes of this study: those it wants, those it has room for, how many of the latter are
    on on-demand nodes, and those for which spot nodes are being set up. at: seconds on any clock that goes forward; most:
    on-demand nodes that the cluster may have beside the other nodes that are alive."""

    at: float
    wanted: int
    here: int
    on_demand: int = 0
    most: float = math.inf
    coming: int = 0


@dataclass(frozen=True)
class OnDemand:
    """The on-demand node type that is asked for where spot is short."""

    bundle: Mapping[str, float]  # a whole node of it
    processes: int  # that fit one
    most: float  # nodes

    def bundles(self, nodes: int) -> list[dict[str, float]]:
        return [dict(self.bundle)] * nodes


def on_demand_of(growth: Growth, cpus: int, gpus: float) -> OnDemand | None:
    """The type of the cluster that holds most processes, or None where there is none for them."""
    fitting = [(processes_on([kind.resources], cpus, gpus), kind) for kind in growth.types if kind.on_demand]
    fitting = [(processes, kind) for processes, kind in fitting if processes]
    if not fitting:
        return None
    processes, kind = max(fitting, key=lambda pair: pair[0])
    return OnDemand(_whole(kind, "GPU" if gpus else "CPU"), processes, min(kind.most, growth.most))


def _whole(kind: NodeType, unit: str) -> dict[str, float]:
    return {unit: kind.resources[unit], ONDEMAND: kind.resources[ONDEMAND]}


@dataclass(frozen=True)
class Asked:
    """How many on-demand nodes are asked for, and since when more would be needed, or fewer."""

    nodes: int = 0
    short_since: float | None = None
    eased_since: float | None = None


def decide(asked: Asked, seen: Seen, kind: OnDemand, after: float) -> Asked:
    """What to ask for after one more look: more once spot was short for `after` seconds, fewer once spot has been back for
    SETTLED. Those asked for count until then, be they there or not, so one shortage is not asked for twice, and spot nodes that
    the cloud has granted and that take their minutes to start are no shortage. Never more than the cluster may have: Ray's
    autoscaler v2 heeds a request as a whole or not at all."""
    spot = seen.here - min(seen.on_demand, asked.nodes * kind.processes, seen.here)
    needed = _needed(seen, kind, spot + seen.coming)
    enough = _needed(seen, kind, spot)
    short = needed > asked.nodes and seen.wanted > seen.here + seen.coming
    eased = enough < asked.nodes
    short_since = (seen.at if asked.short_since is None else asked.short_since) if short else None
    eased_since = (seen.at if asked.eased_since is None else asked.eased_since) if eased else None
    if short and seen.at - short_since >= after:
        return Asked(needed)
    if eased and seen.at - eased_since >= SETTLED:
        return Asked(enough)
    return replace(asked, short_since=short_since, eased_since=eased_since)


def _needed(seen: Seen, kind: OnDemand, spot: int) -> int:
    """On-demand nodes beside so many processes on spot ones."""
    return int(min(kind.most, seen.most, math.ceil(max(0, seen.wanted - spot) / kind.processes)))


@dataclass(frozen=True)
class Shortage:
    """What was said of missing nodes. None in `since`: nothing is missing."""

    since: float | None = None
    said_at: float = -math.inf
    said: str = ""
    most: int = 0  # processes wanted at any time since


def say(
    shortage: Shortage, seen: Seen, running: int, scaling: Scaling, unit: str, amount: float, others: float = 0
) -> tuple[Shortage, str | None]:
    """(what was said by now, the line to say or None). While nothing runs there is a line every REPEAT seconds; where some of
    the nodes are there, one when this changes.

    unit: "GPU" or "CPU", of which a process has `amount`; others: that other studies want.
    """
    want, have = _units(seen.wanted, amount), _units(min(seen.here, seen.wanted), amount)
    if seen.here >= seen.wanted:
        line = None
        if shortage.since is not None and seen.wanted >= shortage.most:
            line = f"{have} of {want} {unit}s after {_lasted(seen.at - shortage.since)}"
        return Shortage(), line
    since = seen.at if shortage.since is None else shortage.since
    nothing = not running and not seen.here
    begin = f"waiting for a {unit}: {have} of {want} there" if nothing else f"{have} of {want} {unit}s there"
    text = "; ".join([begin, *scaling.parts(), *([f"other studies want {others:g}"] if others else [])])
    due = seen.at - shortage.said_at >= REPEAT and (nothing or text != shortage.said)
    kept = Shortage(
        since, seen.at if due else shortage.said_at, text if due else shortage.said, max(shortage.most, seen.wanted)
    )
    return kept, text if due else None


def _units(processes: int, amount: float) -> int:
    """Whole GPUs or CPUs of so many processes; several share a GPU where each has a fraction."""
    return math.ceil(processes / int(1 / amount + 1e-9)) if amount < 1 else int(processes * amount)


def _lasted(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
