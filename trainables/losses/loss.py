"""`Loss`, a weighted sum of named terms. Like its registry, this module does not import torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


PAIR = ("p", "e")
"""The names of a positive and an entropy term, in their order."""


@dataclass(frozen=True)
class Loss:
    """A weighted sum of named terms.

    name: its name in LOSSES, or "module:function".
    terms: names of the unweighted terms, in order.
    published: the authors' coefficients in the order of the terms; 1 where none is published.
    compute: (embeddings [b, d], labels [b], the `Setup`) -> {term: scalar}, unweighted, in the order of `terms`.
    tasks: the values of `Setup.task` that it can train.
    normalised: whether it takes L2-normalised rows; else it takes the network's output as it is.
    k: items of each class that a batch must have; None: any number.
    """

    name: str
    terms: tuple[str, ...]
    published: tuple[float, ...]
    compute: Callable[[Tensor, Tensor, Any], dict[str, Tensor]]
    tasks: tuple[str, ...] = ("dml", "ssl")
    normalised: bool = True
    k: int | None = None

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of the terms' weights, the parameters of a search. A weight includes the learning rate."""
        return tuple(f"Lambda_{term}" for term in self.terms)

    @property
    def coefficients(self) -> dict[str, float]:
        """Weight -> its published coefficient."""
        return dict(zip(self.weights, self.published, strict=True))

    @property
    def pairwise(self) -> bool:
        """Whether the terms are a positive and an entropy term with published coefficients 1. Their usual balances are
        the averages over pairs; the usual balance of any other loss is its published one."""
        return self.terms == PAIR and self.published == (1.0, 1.0)

    @property
    def scores(self) -> tuple[str, ...]:
        """Names of the terms in results."""
        if self.terms == PAIR:
            return ("positive_term", "entropy_term")
        return tuple(f"term_{term}" for term in self.terms)
