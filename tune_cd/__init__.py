"""Hyper-parameter search along lines in log coordinates, for Ray Tune and without it.

`import tune_cd` is light: names are loaded when first used, so that reading tables never imports Ray.
"""

from importlib import import_module

_HOME = {
    "Axis": "search.space",
    "Linear": "search.space",
    "Space": "search.space",
    "CoordinateDescent": "search.search",
    "LENGTHS": "search.search",
    "CoordinateDescentSearch": "tune.searcher",
    "ResultsCallback": "tune.callback",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
