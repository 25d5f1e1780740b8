"""A user's own loss: a function of embeddings and labels that returns a dict of named unweighted terms."""

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from trainables.losses.loss import PAIR, Loss, Settings
from trainables.own import blamed, imported

TRIED = (16, 8)  # b, d of the random batch on which a function is tried once
NO_GRADIENT = "none of the terms {} has a gradient with respect to z"


def own_loss(name: str) -> Loss:
    """Make a `Loss` of the user's function `name`, "module:function".

    The function is called with (z [b, d], labels [b]) and returns {term: scalar tensor}, unweighted. Rows of z are unit
    vectors; with an attribute `normalised = False` the function gets the network's output as it is. An attribute
    `published`, {term: coefficient}, gives the usual coefficients; without it they are 1. In self-supervision labels
    are 0, 0, 1, 1, ...: views of an image are adjacent.

    Raises ValueError for a function that cannot be imported, fails on a small random batch, or returns anything else.
    """
    function = imported(name, "loss")
    if not isinstance(function, Hashable):
        raise ValueError(f"loss {name!r}: a {type(function).__name__} has no hash, allowed are functions")
    return _examined(name, function)


@lru_cache(maxsize=64)
def _examined(name: str, function: Callable[[Tensor, Tensor], dict[str, Tensor]]) -> Loss:
    normalised = getattr(function, "normalised", True)
    if not isinstance(normalised, bool):
        raise ValueError(f"loss {name!r}: its attribute normalised is {normalised!r}, allowed is True or False")
    terms = _tried(name, function, normalised)

    def compute(z: Tensor, labels: Tensor, settings: Settings) -> dict[str, Tensor]:
        found = function(z, labels)
        return {term: found[term] for term in _ordered(found)}

    return Loss(name, terms, _published(name, function, terms), compute, normalised=normalised)


def _tried(name: str, function: Callable[[Tensor, Tensor], Any], normalised: bool) -> tuple[str, ...]:
    """Call the function on a small random batch, two items per class; returns the names of its terms."""
    b, d = TRIED
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        z = torch.randn(b, d, generator=torch.Generator().manual_seed(0)).requires_grad_()
        labels = torch.arange(b // 2).repeat_interleave(2)
        given = torch.nn.functional.normalize(z, dim=1) if normalised else z.clone()
        before = given.detach().clone(), labels.clone()
        with blamed(f"loss {name!r}: called with z [{b}, {d}] and labels [{b}] it"):
            terms = function(given, labels)
        if not all(map(torch.equal, (given, labels), before)):
            raise ValueError(f"loss {name!r}: it changes z or labels in place, allowed is a function that reads them")
        _check_terms(name, terms)
        with blamed(f"loss {name!r}: the gradient of its terms"):
            [gradient] = torch.autograd.grad(sum(terms.values()), z, allow_unused=True)
    if gradient is None:
        raise ValueError(f"loss {name!r}: {NO_GRADIENT.format(list(terms))}")
    if not gradient.isfinite().all():
        raise ValueError(f"loss {name!r}: the gradient of {list(terms)} with respect to z is not finite on random z")
    return _ordered(terms)


def _ordered(terms: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The names in the function's order, except that p precedes e."""
    return PAIR if set(terms) == set(PAIR) else tuple(terms)


def _check_terms(name: str, terms: object) -> None:
    if not isinstance(terms, dict):
        raise ValueError(f"loss {name!r}: it returned {type(terms).__name__}, allowed is a dict of term -> scalar")
    if not terms:
        raise ValueError(f"loss {name!r}: it returned no terms, at least one is needed")
    for term, value in terms.items():
        if not isinstance(term, str) or not term.isidentifier():
            raise ValueError(f"loss {name!r}: a term is named {term!r}, allowed are identifiers, as in Lambda_<term>")
        if not isinstance(value, Tensor) or value.shape != () or not value.is_floating_point():
            what = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"loss {name!r}: term {term!r} is {what}, allowed is a floating point tensor of shape ()")
        if not value.isfinite():
            raise ValueError(f"loss {name!r}: term {term!r} is {value.item()} on random z, allowed are finite numbers")
    if not any(value.requires_grad for value in terms.values()):
        raise ValueError(f"loss {name!r}: {NO_GRADIENT.format(list(terms))}")


def _published(name: str, function: Callable[..., Any], terms: tuple[str, ...]) -> tuple[float, ...]:
    """The function's coefficients in the order of the terms, 1 if it gives none."""
    given = getattr(function, "published", None)
    if given is None:
        return (1.0,) * len(terms)
    if not isinstance(given, Mapping) or set(given) != set(terms):
        raise ValueError(
            f"loss {name!r}: its attribute published is {given!r}, allowed is a number for each of {terms}"
        )
    numbers = [given[term] for term in terms]
    for number in numbers:
        if type(number) not in (int, float) or not (number > 0 and isfinite(number)):
            raise ValueError(
                f"loss {name!r}: a published coefficient is {number!r}, allowed are finite numbers above 0"
            )
    return tuple(map(float, numbers))
