"""Searches as the tests make them: with the knowledge of a balance where weights are searched. No test in here."""

from typing import Any

from tune_cd import LENGTHS, CoordinateDescent, Space
from tune_cd.landscapes.landscape import knowledge


def descent(space: Space, **arguments: Any) -> CoordinateDescent:
    """A search of whole trainings."""
    return CoordinateDescent(space, **{**knowledge(space), **arguments})


def pausing(space: Space, **arguments: Any) -> CoordinateDescent:
    """A search whose trainings pause."""
    return descent(space, **{"lengths": LENGTHS, **arguments})


def curves(search: CoordinateDescent) -> list[tuple[dict, dict[float, float]]]:
    """(h, values by share; -inf: it failed there) of every configuration."""
    return [(dict(one.h), dict(one.curve)) for one in search.trainings]


def walk(search: CoordinateDescent, value, most: int = 10_000) -> list[tuple[dict, float]]:
    """Ask and tell in turn, each at its end, value(h, share); what was asked, and until which share."""
    asked: list[tuple[dict, float]] = []
    while len(asked) < most and (h := search.ask()) is not None:
        asked.append((h, search.until(h)))
        search.tell(h, value(*asked[-1]), asked[-1][1])
    return asked


def filled(search: CoordinateDescent) -> list[dict]:
    """What is live once every worker has been asked for."""
    while search.ask() is not None:
        pass
    return search.live
