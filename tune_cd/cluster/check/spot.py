"""Rules about machines that can be taken away (`ray up` on AWS and GCP)."""

from collections.abc import Iterator

from .documents import Document, at
from .findings import Finding, written
from .launcher import head_type, node, node_types, provider, workers

MARKET = {"aws": "InstanceMarketOptions", "gcp": "scheduling"}
"""The one field of a node in which a spot type and its on-demand twin differ."""


def is_spot(kind: dict, cloud: str) -> bool:
    config = at(kind, "node_config", default={})
    if cloud == "aws":
        return at(config, "InstanceMarketOptions", "MarketType") == "spot"
    return at(config, "scheduling", "provisioningModel") == "SPOT" or bool(at(config, "scheduling", "preemptible"))


def head_stays(document: Document) -> Iterator[Finding]:
    """The head holds the search: where it is taken away, everything stops."""
    cloud, head = provider(document), node_types(document).get(head_type(document) or "")
    if cloud in MARKET and head and is_spot(head, cloud):
        yield Finding(
            node(head_type(document), "node_config", MARKET[cloud]), "a spot head: with it the whole search is lost"
        )


def spot_has_a_twin(document: Document) -> Iterator[Finding]:
    """Ray never turns to on-demand by itself where spot is short: it goes on asking for spot.

    What works is a second type, the same machine, with the resource `ondemand: 1`, for which the driver then asks. It may
    have no other resources than the spot type: trials must fit either.
    """
    cloud = provider(document)
    if cloud not in MARKET:
        return
    kinds = workers(document)
    others = {name: kind for name, kind in kinds.items() if not is_spot(kind, cloud)}
    for name, kind in kinds.items():
        if not is_spot(kind, cloud):
            continue
        config, wanted = _machine(kind, cloud), at(kind, "resources", default={}) | {"ondemand": 1}
        same = {other: it for other, it in others.items() if _machine(it, cloud) == config}
        if any(at(it, "resources", default={}) == wanted for it in same.values()):
            continue
        if same:
            twin = next(iter(same))
            yield Finding(
                node(twin, "resources"), f"it is {name}'s on-demand twin, so {_resources(wanted)} are needed here"
            )
        elif near := [other for other, it in others.items() if at(it, "resources", default={}) == wanted]:
            different = _difference(
                at(others[near[0]], "node_config", default={}), at(kind, "node_config", default={}), MARKET[cloud]
            )
            yield Finding(node(name, "node_config"), f"differs from its on-demand twin {near[0]} in {different}")
        else:
            yield Finding(
                node(name), f"no on-demand twin: the same node_config without {MARKET[cloud]}, and {_resources(wanted)}"
            )


def _machine(kind: dict, cloud: str) -> dict:
    return {key: value for key, value in at(kind, "node_config", default={}).items() if key != MARKET[cloud]}


def _resources(wanted: dict) -> str:
    return "resources: {" + ", ".join(f"{name}: {amount}" for name, amount in wanted.items()) + "}"


def _difference(one: dict, other: dict, market: str) -> str:
    return ", ".join(
        written((key,))
        for key in sorted(one.keys() | other.keys(), key=str)
        if key != market and one.get(key) != other.get(key)
    )


RULES = [head_stays, spot_has_a_twin]
