"""Decides when on-demand nodes are requested because spot nodes are short. No Ray, no clock: times are passed in."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tune_cd.cluster.capacity import ONDEMAND, Growth, processes_on

SETTLED = 30.0
"""Seconds that spot nodes must have been there before on-demand nodes are given back for them."""


@dataclass(frozen=True)
class Snapshot:
    """The cluster at one moment, in processes of this study.

    at: seconds of any clock that goes forward. wanted: that the study can use. here: for which there is room.
    on_demand: of `here`, on on-demand nodes. coming: that fit spot nodes being set up. most: on-demand nodes (not
    processes) that the cluster may have beside its other nodes.
    """

    at: float
    wanted: int
    here: int
    on_demand: int = 0
    most: float = math.inf
    coming: int = 0


@dataclass(frozen=True)
class OnDemandType:
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


@dataclass(frozen=True)
class Requested:
    """The requested on-demand nodes. short_since, eased_since: when more, or fewer, were first needed."""

    nodes: int = 0
    short_since: float | None = None
    eased_since: float | None = None


def decide(requested: Requested, now: Snapshot, kind: OnDemandType, after: float) -> Requested:
    """The request after one more look: more nodes once spot was short for `after` seconds, fewer once it has been back
    for SETTLED.

    Nodes that were requested count as on-demand whether they are there or not, so one shortage is not requested twice.
    Spot nodes that the cloud has granted, and that take minutes to start, do not count as a shortage.
    """
    spot = now.here - min(now.on_demand, requested.nodes * kind.processes, now.here)
    needed, enough = (
        int(min(kind.most, now.most, math.ceil(max(0, now.wanted - there) / kind.processes)))
        for there in (spot + now.coming, spot)
    )
    short = needed > requested.nodes and now.wanted > now.here + now.coming
    eased = enough < requested.nodes
    short_since = (now.at if requested.short_since is None else requested.short_since) if short else None
    eased_since = (now.at if requested.eased_since is None else requested.eased_since) if eased else None
    if short and now.at - short_since >= after:
        return Requested(needed)
    if eased and now.at - eased_since >= SETTLED:
        return Requested(enough)
    return replace(requested, short_since=short_since, eased_since=eased_since)
