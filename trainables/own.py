"""Import of a user's own function by its name, "module:function"."""

import importlib
from collections.abc import Callable
from typing import Any


def imported(name: str, what: str) -> Callable[..., Any]:
    """Import the function `name`, "module:function", as Python imports modules.

    what: the function's role, for messages. Raises ValueError if there is no such function.
    """
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's file may raise anything
        raise ValueError(
            f"{what} {name!r}: importing {module_name!r} raised {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, attribute):
        raise ValueError(f"{what} {name!r}: {module_name!r} has no {attribute!r}")
    found = getattr(module, attribute)
    if not callable(found):
        raise ValueError(f"{what} {name!r}: {attribute!r} is {type(found).__name__}, not a function")
    return found
