"""Losses by name. Each is a sum of Lambda_<term> * term over its named terms.

This module does not import torch, so set-ups and command lines can list the losses quickly. The functions that compute
the terms are imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.losses.loss import Loss, Settings

if TYPE_CHECKING:
    from torch import Tensor


def _margin(z: Tensor, labels: Tensor, settings: Settings) -> dict[str, Tensor]:
    from trainables.losses.terms import margin_terms

    how = {"margin": settings.margin, "distance": settings.loss_distance, "q": settings.q, "mining": settings.mining}
    both = margin_terms(z, labels, **how)
    return dict(zip(("p", "e"), both))


def _infonce(z: Tensor, labels: Tensor, settings: Settings) -> dict[str, Tensor]:
    from trainables.losses.terms import infonce_terms

    how = {"temperature": settings.temperature, "distance": settings.loss_distance}
    both = infonce_terms(z, labels, **how, negatives=settings.negatives, mining=settings.mining)
    return dict(zip(("p", "e"), both))


def _alignment_uniformity(z: Tensor, labels: Tensor, settings: Settings) -> dict[str, Tensor]:
    from trainables.losses.two_views import alignment_uniformity_terms, two_views

    return alignment_uniformity_terms(*two_views(z, labels))


def _barlow_twins(z: Tensor, labels: Tensor, settings: Settings) -> dict[str, Tensor]:
    from trainables.losses.two_views import barlow_twins_terms, two_views

    return barlow_twins_terms(*two_views(z, labels))


def _vicreg(z: Tensor, labels: Tensor, settings: Settings) -> dict[str, Tensor]:
    from trainables.losses.two_views import two_views, vicreg_terms

    return vicreg_terms(*two_views(z, labels))


def _siglip(z: Tensor, labels: Tensor, settings: Settings) -> dict[str, Tensor]:
    from trainables.losses.two_views import siglip_terms, two_views

    return siglip_terms(*two_views(z, labels), t=1 / settings.temperature, beta=settings.bias)


_OF_VIEWS = {"tasks": ("ssl",), "k": 2}

LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("margin", ("p", "e"), (1.0, 1.0), _margin),
        Loss("infonce", ("p", "e"), (1.0, 1.0), _infonce),
        Loss("alignment_uniformity", ("align", "uniform"), (1.0, 1.0), _alignment_uniformity, **_OF_VIEWS),
        Loss("barlow_twins", ("on", "off"), (1.0, 0.0051), _barlow_twins, **_OF_VIEWS, normalised=False),
        Loss("vicreg", ("sim", "std", "cov"), (25.0, 25.0, 1.0), _vicreg, **_OF_VIEWS, normalised=False),
        Loss("siglip", ("pos", "neg"), (1.0, 1.0), _siglip, **_OF_VIEWS),
    )
}
"""Losses by name. The coefficients' sources are beside the terms, in `trainables.losses.two_views`."""


REMEMBERED = ("margin", "infonce")
"""The losses that the cross-batch memory supports."""


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
