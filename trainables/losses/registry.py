"""`Loss`, a weighted sum of named terms: of Lambda_<term> * term over its terms; and the losses by name.

This module does not import torch, so set-ups and command lines can list the losses quickly. The functions that compute
the terms are imported at first use.
"""

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


def _margin(z: Tensor, labels: Tensor, settings: Any) -> dict[str, Tensor]:
    from trainables.losses.terms import margin_terms

    how = {"margin": settings.margin, "distance": settings.loss_distance, "q": settings.q, "mining": settings.mining}
    return dict(zip(PAIR, margin_terms(z, labels, **how)))


def _infonce(z: Tensor, labels: Tensor, settings: Any) -> dict[str, Tensor]:
    from trainables.losses.terms import infonce_terms

    how = {"temperature": settings.temperature, "distance": settings.loss_distance}
    both = infonce_terms(z, labels, **how, negatives=settings.negatives, mining=settings.mining)
    return dict(zip(PAIR, both))


def _of_views(name: str, terms: tuple[str, ...], published: tuple[float, ...], **more: Any) -> Loss:
    """A loss of two views side by side, by its function in `losses.two_views`."""

    def compute(z: Tensor, labels: Tensor, settings: Any) -> dict[str, Tensor]:
        from trainables.losses import two_views

        how = {"t": 1 / settings.temperature, "beta": settings.bias} if name == "siglip" else {}
        return getattr(two_views, f"{name}_terms")(*two_views.two_views(z), **how)

    return Loss(name, terms, published, compute, tasks=("ssl",), k=2, **more)


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("margin", PAIR, (1.0, 1.0), _margin),
        Loss("infonce", PAIR, (1.0, 1.0), _infonce),
        _of_views("alignment_uniformity", ("align", "uniform"), (1.0, 1.0)),
        _of_views("barlow_twins", ("on", "off"), (1.0, 0.0051), normalised=False),
        _of_views("vicreg", ("sim", "std", "cov"), (25.0, 25.0, 1.0), normalised=False),
        _of_views("siglip", ("pos", "neg"), (1.0, 1.0)),
    )
}
"""Losses by name. The coefficients' sources are beside the terms, in `trainables.losses.two_views`."""


REMEMBERED = ("margin", "infonce")
"""The losses that the cross-batch memory supports."""

NEGATIVES = ("others", "all")
"""Choices of K_ij in InfoNCE, see `terms.infonce_terms`."""

MINING = ("none", "hard", "semihard", "easy_positive")
"""Ways to choose the pairs of a batch that count, see `mining.mined`."""
