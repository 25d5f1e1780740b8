"""Losses by name. Each is a sum of Lambda_<term> * term over its named terms.

This module does not import torch, so set-ups and command lines can list the losses quickly. The functions that compute
the terms are imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainables.losses.loss import PAIR, Loss

if TYPE_CHECKING:
    from torch import Tensor


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
        return getattr(two_views, f"{name}_terms")(*two_views.two_views(z, labels), **how)

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

NEGATIVES = ("others", "decoupled", "all")
"""Choices of K_ij in InfoNCE, see `terms.infonce_terms`."""

MINING = ("none", "hard", "semihard", "easy_positive")
"""Ways to choose the pairs of a batch that count, see `mining.mined`."""


def find_loss(name: str) -> Loss:
    """Find a loss by name: one of LOSSES, or a user's own as "module:function" (see `trainables.losses.own`).

    Raises ValueError listing the known losses, or saying what is wrong with the user's own.
    """
    if name in LOSSES:
        return LOSSES[name]
    if not isinstance(name, str) or ":" not in name:
        raise ValueError(f"loss = {name!r}: one of {', '.join(LOSSES)}, or module:function for your own")
    from trainables.losses.own import own_loss

    return own_loss(name)
