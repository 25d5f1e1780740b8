"""Conversion of Tune's `param_space` to a `Space`."""

from collections.abc import Mapping
from typing import Any

from ray.tune.search.sample import Categorical, Domain, Float, Integer, LogUniform, Quantized, Uniform
from ray.tune.search.variant_generator import parse_spec_vars
from ray.tune.utils import flatten_dict

from tune_cd.search.category import Category
from tune_cd.search.space import Axis, Space, choice

SEARCHED = "uniform, loguniform, randint, lograndint, their q-forms and choice"
HIDDEN, FUNCTION = "__ref_ph", "__fn_ph"  # begin the tuples that Ray Tune puts in the place of objects, of functions


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


def drawn_in(config: Mapping[str, Any]) -> list[str]:
    """The names of a `param_space`'s entries that a function gives to each trial (`tune.sample_from`)."""
    return sorted(name for name, value in flatten_dict(dict(config)).items() if _is_drawn(value))


def _is_drawn(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and (value[:1] == (FUNCTION,) or any(map(_is_drawn, value)))


def space_of(given: Space | Mapping[str, Any] | None) -> Space | None:
    """Convert a searcher's `space` argument, a `Space` or a dict of Tune's domains.

    Raises ValueError as `space_from_tune` does, and for a dict without a domain.
    """
    if given is None or isinstance(given, Space):
        return given
    if not isinstance(given, Mapping) or (space := space_from_tune(given)) is None:
        raise ValueError(f"space {given!r}: a Space, or a dict with {SEARCHED}")
    return space


def check_goal(
    metric: str | None, mode: str | None, of_search: tuple[str | None, str | None] = (None, None)
) -> None:  # fmt: skip
    """Raise ValueError unless metric is one name or None, mode is "min", "max" or None, and both are those of the
    search as far as it has any."""
    if metric is not None and not isinstance(metric, str):
        raise ValueError(f"metric {metric!r}: the name of one metric; several are not searched for at a time")
    if mode not in (None, "min", "max"):
        raise ValueError(f"mode {mode!r}: 'min' or 'max'")
    for name, new, own in zip(("metric", "mode"), (metric, mode), of_search):
        if None not in (new, own) and new != own:
            raise ValueError(f"the Tuner has {name} {new!r}, and the search {own!r}")


def check_ranges(given: Space, searched: Space) -> None:
    """Raise ValueError for a `param_space` with another range than the one that is searched."""
    if not set(given.axes) <= set(searched.axes):
        raise ValueError(
            f"param_space has {given}, but the searched space is {searched}; allowed: the same ranges in both, or in "
            "one alone (from_results goes on in another range)"
        )


def _name(path: tuple[Any, ...]) -> str:
    name = "/".join(map(str, path))
    if any(not isinstance(key, str) for key in path):
        raise ValueError(f"{name}: a searched parameter in a list, or under a key that is no text; give it a text key")
    if any("/" in key for key in path):
        raise ValueError(f"{name}: a key with '/', which joins the keys of nested parameters; rename it")
    return name


def _axis(name: str, domain: Domain) -> Axis | Category:
    if isinstance(domain, Categorical):
        if any(isinstance(value, tuple) and value[:1] == (HIDDEN,) for value in domain.categories):
            raise ValueError(
                f"{name}: a choice of objects, which Tune hides from searchers. Write numpy integers as int(...); for "
                f"others choose keys, and look them up in the trainable: {name} = {{'a': ...}}[config[{name!r}]]"
            )
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
    if domain.lower > upper:
        raise ValueError(f"{name}: ({domain.lower}, {domain.upper}) is empty; Tune's upper bound is not included")
    if domain.lower == upper:
        return Axis.choice(name, [upper])
    return Axis(name, domain.lower, upper, step=step or 1, scale=scale)
