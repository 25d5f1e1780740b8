"""Arguments of searchers, checked."""

from collections.abc import Mapping, Sequence
from typing import Any

from ray.tune.utils import flatten_dict


def check_mode(mode: str | None) -> None:
    """Raises ValueError for what is neither a mode nor None."""
    if mode not in (None, "min", "max"):
        raise ValueError(f"mode {mode!r}: 'min' or 'max'")


def points(
    given: Sequence[Mapping[str, Any]] | None, rewards: Sequence[float] | None
) -> list[tuple[dict, float | None]]:
    """points_to_evaluate and evaluated_rewards as (configuration, known value or None) pairs, flattened.

    Raises ValueError where there are not as many of one as of the other.
    """
    if rewards is not None and len(rewards) != len(given or []):
        raise ValueError(f"evaluated_rewards has {len(rewards)} values for {len(given or [])} points_to_evaluate")
    flat = [flatten_dict(dict(point)) for point in given or []]
    return list(zip(flat, rewards if rewards is not None else [None] * len(flat)))
