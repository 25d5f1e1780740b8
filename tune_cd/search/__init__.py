"""Search methods, ask and tell. Pure: numpy and scipy only; the baselines bring their own packages."""

from importlib import import_module

_HOME = {"Axis": "space", "Linear": "space", "Space": "space", "CoordinateDescent": "search", "LENGTHS": "search"}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
