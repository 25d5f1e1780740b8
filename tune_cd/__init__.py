"""Hyper-parameter search along lines in log coordinates, for Ray Tune and without it.

`import tune_cd` is light: names are loaded when first used, so that reading tables never imports Ray. For `search`
numpy and scipy are enough; a room whose libraries are missing says how to get them.
"""

import sys
from importlib import import_module
from importlib.util import find_spec

_HOME = {
    "Axis": "search.space",
    "Linear": "search.space",
    "Space": "search.space",
    "CoordinateDescent": "search.search",
    "LENGTHS": "search.search",
    "CoordinateDescentSearch": "tune.searcher",
}
__all__ = sorted(_HOME)

_TABLES = {"pandas": "pandas", "pyarrow": "pyarrow"}
_NEEDS = {  # room: the libraries without which it cannot be imported, and their names for pip
    "optuna": {"optuna": "optuna"},
    "tune": _TABLES | {"ray": "'ray[tune]'"},
    "plots": _TABLES | {"matplotlib": "matplotlib"},
    "cluster": {"yaml": "pyyaml"},
    **dict.fromkeys(("analysis", "landscapes", "replay", "report", "results", "run", "submit"), _TABLES),
}


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__


class _Needs:
    """Asked by `import` for every module; refuses a room whose libraries are not installed, and finds nothing else."""

    @staticmethod
    def find_spec(name: str, path=None, target=None) -> None:
        package, _, room = name.partition(".")
        needs = _NEEDS.get(room, {}) if package == __name__ else {}
        missing = [library for library in needs if find_spec(library) is None]
        if missing:
            command = " ".join(("pip install", *(needs[library] for library in missing)))
            raise ModuleNotFoundError(f"{name} needs {', '.join(missing)}: {command}", name=missing[0])


sys.meta_path.insert(0, _Needs)
