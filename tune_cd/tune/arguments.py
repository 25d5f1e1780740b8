"""Checks of searchers' arguments."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from ray.tune.utils import flatten_dict

from tune_cd.search.space import is_number, number_of


def check_metric(metric: str | None) -> None:
    """Raise ValueError unless metric is a name or None."""
    if metric is not None and not isinstance(metric, str):
        raise ValueError(f"metric {metric!r}: the name of one metric; several are not searched for at a time")


def check_mode(mode: str | None) -> None:
    """Raise ValueError unless mode is "min", "max" or None."""
    if mode not in (None, "min", "max"):
        raise ValueError(f"mode {mode!r}: 'min' or 'max'")


def check_use_result(use_result: str) -> None:
    """Raise ValueError unless use_result is "last" or "best"."""
    if use_result not in ("last", "best"):
        raise ValueError(f"use_result {use_result!r}: 'last' or 'best'")


def configurations(start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> list[dict]:
    """`start`, one configuration or several, nested or flat, as a list of flat ones.

    Raises ValueError unless every configuration is a dict.
    """
    given = [start] if isinstance(start, Mapping) else list(start or [])
    if not all(isinstance(h, Mapping) for h in given):
        raise ValueError(f"start {start!r}: a configuration, or a list of them")
    return [flatten_dict(dict(h)) for h in given]


def check_full_length(full_length: tuple[str, float]) -> None:
    """Raise ValueError unless full_length is (key of a result, its value at the end of a training, finite and > 0)."""
    if isinstance(full_length, (tuple, list)) and len(full_length) == 2:
        key, amount = full_length
        number = number_of(amount)
        if isinstance(key, str) and number is not None and 0 < number < inf and float(number) < inf:
            return
    raise ValueError(f"full_length {full_length!r}: the key of a result, and its value above 0 at the end")


def points(
    given: Sequence[Mapping[str, Any]] | None, rewards: Sequence[float] | None
) -> list[tuple[dict, float | None]]:
    """points_to_evaluate and evaluated_rewards as pairs (flat configuration, known value or None).

    Raises ValueError unless `given` is a list of dicts and `rewards`, if given, has as many entries.
    """
    if given is not None and (isinstance(given, Mapping) or not all(isinstance(point, Mapping) for point in given)):
        raise ValueError(f"points_to_evaluate {given!r}: a list of dicts")
    if rewards is not None and len(rewards) != len(given or []):
        raise ValueError(f"evaluated_rewards has {len(rewards)} values for {len(given or [])} points_to_evaluate")
    for reward in rewards if rewards is not None else []:
        if reward is not None and not is_number(reward):
            raise ValueError(f"evaluated_rewards {reward!r} ({type(reward).__name__}): numbers are required")
    flat = [flatten_dict(dict(point)) for point in given or []]
    return list(zip(flat, rewards if rewards is not None else [None] * len(flat)))
