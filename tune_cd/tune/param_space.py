"""Conversion of what a user gives as Tune has it: `param_space` to a `Space`, nested configurations to flat ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from ray.tune.search.sample import Categorical, Domain, Float, Integer, LogUniform, Quantized, Uniform
from ray.tune.search.variant_generator import parse_spec_vars
from ray.tune.utils import flatten_dict

from tune_cd.search.category import Category
from tune_cd.search.space import Axis, Space, choice

SEARCHED = "uniform, loguniform, randint, lograndint, their q-forms and choice"


def space_from_tune(config: Mapping[str, Any]) -> Space | None:
    """The searched space of a Tune `param_space`; None if it holds no domain.

    Keys of nested parameters are joined by "/". Raises ValueError, naming the parameter and the remedy, for domains
    other than SEARCHED, and for parameters in a list or under a key with "/", whose joined keys would be ambiguous.
    """
    _, domains, grids = parse_spec_vars(config)
    if grids:
        raise ValueError(
            f"{_name(grids[0][0])}: grid_search is not supported; use tune.choice, or list the values in a Space"
        )
    return Space(**{_name(path): _axis(_name(path), domain) for path, domain in domains}) if domains else None


def space_of(given: Space | Mapping[str, Any] | None) -> Space | None:
    """Convert a searcher's `space` argument, a `Space` or a dict of Tune's domains.

    Raises ValueError as `space_from_tune` does, and for a dict without a domain.
    """
    if given is None or isinstance(given, Space):
        return given
    if not isinstance(given, Mapping) or (space := space_from_tune(given)) is None:
        raise ValueError(f"space {given!r}: a Space, or a dict with {SEARCHED}")
    return space


def configurations(start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> list[dict]:
    """`start`, one configuration or several, nested or flat, as a list of flat ones.

    Raises ValueError unless every configuration is a dict.
    """
    given = [start] if isinstance(start, Mapping) else list(start or [])
    if not all(isinstance(h, Mapping) for h in given):
        raise ValueError(f"start {start!r}: a configuration, or a list of them")
    return [flatten_dict(dict(h)) for h in given]


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
    flat = [flatten_dict(dict(point)) for point in given or []]
    return list(zip(flat, rewards if rewards is not None else [None] * len(flat)))


def _name(path: tuple[Any, ...]) -> str:
    name = "/".join(map(str, path))
    if any(not isinstance(key, str) for key in path):
        raise ValueError(f"{name}: a searched parameter in a list; give it a key of its own in param_space")
    if any("/" in key for key in path):
        raise ValueError(f"{name}: a key with '/', which joins the keys of nested parameters; rename it")
    return name


def _axis(name: str, domain: Domain) -> Axis | Category:
    if isinstance(domain, Categorical):
        return choice(name, domain.categories)
    sampler = domain.get_sampler() if isinstance(domain, (Float, Integer)) else None
    step = None
    if isinstance(sampler, Quantized):
        step, sampler = sampler.q, sampler.get_sampler()
    if not isinstance(sampler, (Uniform, LogUniform)):
        kind = f"{type(domain).__name__} with {type(sampler).__name__} sampling" if sampler else type(domain).__name__
        raise ValueError(
            f"{name}: {kind} has no range to search; searched are {SEARCHED}. Give {name} a range, or fix it and "
            "compute it in the trainable"
        )
    scale = "log" if isinstance(sampler, LogUniform) else "linear"
    if isinstance(domain, Float):
        return Axis(name, float(domain.lower), float(domain.upper), step=step, scale=scale)
    upper = domain.upper if step not in (None, 1) else domain.upper - 1  # Tune: exclusive, unless quantised
    if domain.lower == upper:
        return Axis.choice(name, [upper])
    return Axis(name, domain.lower, upper, step=step or 1, scale=scale)
