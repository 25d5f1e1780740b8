"""Losses as named unweighted terms, whose weighted sum is trained, and the cross-batch memory.

`import trainables.losses` is light: the functions, which need torch, are loaded when first used.
"""

from importlib import import_module

from trainables.losses.loss import Loss
from trainables.losses.registry import LOSSES, find_loss

_HOME = {
    "margin_terms": "terms",
    "infonce_terms": "terms",
    "alignment_uniformity_terms": "two_views",
    "barlow_twins_terms": "two_views",
    "siglip_terms": "two_views",
    "vicreg_terms": "two_views",
}
__all__ = ["LOSSES", "Loss", "find_loss", *sorted(_HOME)]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
