"""What a rule yields, and how a place in a document is written."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

Place = tuple[str | int, ...]
"""Keys and indices from the top of a document; () is the document itself."""


class Finding(NamedTuple):
    """One thing that is wrong; `line` where the rule knows it (a comment has no place), else it is looked up by place."""

    place: Place
    message: str
    line: int | None = None
    edit: bool = False  # a placeholder that is still there


def written(place: Place) -> str:
    """`available_node_types.gpu-spot.node_config.InstanceType`, `setup_commands[2]`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")


def suggestion(word: object, known: Iterable[str]) -> str:
    """ "; did you mean ...?" where something known is spelt alike, else ""."""
    folded = {str(name).lower(): name for name in sorted(known, key=str)}
    near = difflib.get_close_matches(str(word).lower(), list(folded), n=1, cutoff=0.7)
    return f"; did you mean {folded[near[0]]}?" if near else ""
