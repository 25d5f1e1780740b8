"""Import of a user's own function by its name, "module:function", and the errors that such code raises."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """Context for a user's code: whatever it raises becomes a ValueError that begins with `what`, on one line.

    SystemExit too, as of a module that reads the command line; only Ctrl-C passes.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        said = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        raise ValueError(f"{what} raised {said}") from error


def imported(name: str, what: str) -> Callable[..., Any]:
    """Import the function `name`, "module:function", as Python imports modules.

    what: the function's role, for messages. Raises ValueError if there is no such function.
    """
    module_name, _, attribute = name.partition(":")
    with blamed(f"{what} {name!r}: importing {module_name!r}"):
        found = getattr(importlib.import_module(module_name), attribute, None)
    if found is None:
        raise ValueError(f"{what} {name!r}: {module_name!r} has no {attribute!r}")
    if not callable(found):
        raise ValueError(f"{what} {name!r}: {attribute!r} is {type(found).__name__}, not a function")
    return found


def kind_of(value: Any) -> str:
    """What a user's code returned, for messages: `torch.float32 [2, 3] on cpu`, or the name of its type."""
    tensor = hasattr(value, "dtype") and hasattr(value, "device")
    return f"{value.dtype} {list(value.shape)} on {value.device}" if tensor else type(value).__name__
