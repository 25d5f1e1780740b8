"""A user's own loss: a function of embeddings and labels that returns a dict of named unweighted terms."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from trainables.losses.registry import PAIR, Loss
from trainables.own import blamed, imported, kind_of

TRIED = (16, 8)  # b, d of the random batch on which a function is tried once


def own_loss(name: str) -> Loss:
    """Make a `Loss` of the user's function `name`, "module:function".

    The function is called with (z [b, d], labels [b]) and returns {term: scalar tensor}, unweighted. Rows of z are unit
    vectors; with an attribute `normalised = False` the function gets the network's output as it is. An attribute
    `published`, {term: coefficient}, gives the usual coefficients; without it they are 1. In self-supervision labels
    are 0, 0, 1, 1, ...: views of an image are adjacent.

    Raises ValueError for a function that cannot be imported, fails on a small random batch, returns anything else, or
    has parameters to train, as a proxy loss has: the training moves the network's alone.
    """
    return _examined(name, imported(name, "loss"))


@lru_cache(maxsize=64)
def _examined(name: str, function: Callable[[Tensor, Tensor], dict[str, Tensor]]) -> Loss:
    normalised = bool(getattr(function, "normalised", True))
    terms = _tried(name, function, normalised)

    def compute(z: Tensor, labels: Tensor, settings: Any) -> dict[str, Tensor]:
        found = function(z, labels)
        return {term: found[term] for term in _ordered(found)}

    return Loss(name, terms, _published(name, function, terms), compute, normalised=normalised)


def _tried(name: str, function: Callable[[Tensor, Tensor], Any], normalised: bool) -> tuple[str, ...]:
    """Call the function on a small random batch, two items per class; returns the names of its terms."""
    b, d = TRIED
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        z = torch.randn(b, d, generator=torch.Generator().manual_seed(0)).requires_grad_()
        labels = torch.arange(b // 2).repeat_interleave(2)
        rows = torch.nn.functional.normalize(z, dim=1) if normalised else z.clone()
        with blamed(f"loss {name!r}: called with z [{b}, {d}] and labels [{b}] it"):
            constant = function(rows.detach(), labels)  # in z, but not in parameters of the loss's own
            terms = function(rows, labels)
        if not isinstance(terms, dict) or not terms:
            raise ValueError(f"loss {name!r}: it returned {kind_of(terms)}, allowed is a dict of terms, not empty")
        for term, value in terms.items():
            scalar = isinstance(value, Tensor) and value.shape == () and value.is_floating_point() and value.isfinite()
            if not isinstance(term, str) or not term.isidentifier() or not scalar or not value.requires_grad:
                raise ValueError(
                    f"loss {name!r}: a term is {term!r}: {kind_of(value)}; allowed is an identifier, as in "
                    "Lambda_<term>, and a floating point tensor [] with a gradient, finite on random z"
                )
            if isinstance(constant[term], Tensor) and constant[term].requires_grad:
                raise ValueError(
                    f"loss {name!r}: its term {term!r} has parameters of its own, which the training would leave as "
                    "they are; allowed is a function of z and labels alone, or parameters with requires_grad = False"
                )
        with blamed(f"loss {name!r}: the gradient of {list(terms)} with respect to z"):
            [gradient] = torch.autograd.grad(sum(terms.values()), z)
    if not gradient.isfinite().all():
        raise ValueError(f"loss {name!r}: the gradient of {list(terms)} with respect to z is not finite on random z")
    return _ordered(terms)


def _ordered(terms: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The names in the function's order, except that p precedes e."""
    return PAIR if set(terms) == set(PAIR) else tuple(terms)


def _published(name: str, function: Callable[..., Any], terms: tuple[str, ...]) -> tuple[float, ...]:
    """The function's coefficients in the order of the terms, 1 if it gives none."""
    given = getattr(function, "published", dict.fromkeys(terms, 1.0))
    try:
        numbers = tuple(float(given[term]) for term in terms)
        right = len(given) == len(terms) and all(number > 0 and isfinite(number) for number in numbers)
    except (KeyError, TypeError, ValueError):
        right = False
    if not right:
        raise ValueError(
            f"loss {name!r}: its attribute published is {given!r}, allowed is a number > 0 for each of {terms}"
        )
    return numbers
