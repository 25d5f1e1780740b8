"""Losses as named unweighted terms, whose weighted sum is trained, and the cross-batch memory.

`import trainables.losses` is light: the functions, which need torch, are loaded when first used.
"""

from trainables.losses.registry import LOSSES, Loss

__all__ = [
    "LOSSES", "Loss", "alignment_uniformity_terms", "barlow_twins_terms", "find_loss", "infonce_terms", "margin_terms",
    "siglip_terms", "vicreg_terms",
]  # fmt: skip


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


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trainables.losses import terms, two_views

    return getattr(terms if hasattr(terms, name) else two_views, name)
