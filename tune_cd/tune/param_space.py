"""Tune's `param_space` -> `Space`."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from ray.tune.search.sample import Categorical, Domain, Float, Integer, LogUniform, Quantized
from ray.tune.search.variant_generator import parse_spec_vars

from tune_cd.search.space import Axis, Space


def space_from_tune(config: Mapping[str, Any]) -> Space | None:
    """The searched space of a Tune `param_space`; None where it holds no domain.

    Raises ValueError for domains a log-scaled search cannot answer for, with a hint.
    """
    _, domains, grids = parse_spec_vars(config)
    if grids:
        raise ValueError(
            f"{'/'.join(grids[0][0])}: grid_search is not supported; use tune.choice, or list the values in a Space"
        )
    axes = {"/".join(map(str, path)): domain for path, domain in domains}
    return Space(**{name: _axis_from_tune(name, domain) for name, domain in axes.items()}) if axes else None


def _axis_from_tune(name: str, domain: Domain) -> Axis:
    if isinstance(domain, Categorical):
        if not all(isinstance(value, Real) and not isinstance(value, bool) for value in domain.categories):
            raise ValueError(
                f"{name}: choice({domain.categories!r}) is not numeric; only ordered, positive values can be searched"
            )
        return Axis.choice(name, domain.categories)
    sampler = domain.get_sampler() if isinstance(domain, (Float, Integer)) else None
    step = None
    if isinstance(sampler, Quantized):
        step, sampler = sampler.q, sampler.get_sampler()
    if not isinstance(sampler, LogUniform):
        hint = "use tune.loguniform or tune.lograndint: only positive, log-scaled parameters can be searched"
        raise ValueError(
            f"{name}: {domain.domain_str or type(domain).__name__} with {type(sampler).__name__} sampling is not "
            f"supported; {hint}"
        )
    if isinstance(domain, Float):
        return Axis(name, float(domain.lower), float(domain.upper), step=step)
    upper = domain.upper if step not in (None, 1) else domain.upper - 1  # Tune: exclusive, unless quantised
    return Axis(name, domain.lower, upper, step=step or 1)
