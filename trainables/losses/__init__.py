"""Losses as named unweighted terms, whose weighted sum is trained, and the cross-batch memory.

`import trainables.losses` is light: the functions, which need torch, are loaded when first used.
"""

from importlib import import_module

from trainables.losses.registry import LOSSES, Loss

_HOME = {
    "margin_terms": "terms",
    "infonce_terms": "terms",
    "alignment_uniformity_terms": "two_views",
    "barlow_twins_terms": "two_views",
    "siglip_terms": "two_views",
    "vicreg_terms": "two_views",
}
__all__ = ["LOSSES", "Loss", "find_loss", *sorted(_HOME)]


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
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
