"""Options as fields of dataclasses: a field states its default, values and help once, for typed and stored options."""

import os
from dataclasses import Field, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from trainables.training.setup import WEIGHTS
from tune_cd.results.location import is_uri

SECONDS = 1e9  # 32 years; a longer wait overflows the clock of a thread's lock


def option(group: str, default: Any, help: str, **arguments: Any) -> Any:
    """A field that is an option. arguments: of argparse's `add_argument`, the type where it is not the field's own;
    limits: the least and the largest number. help: it says what a default of None means; another default is appended.
    """
    if default is not None and not isinstance(default, bool | tuple):
        help += f"; default: {default:g}" if isinstance(default, float) else f"; default: {default}"
    return field(default=default, metadata={**arguments, "group": group, "help": help})


def argument_of(one: Field, kind: Any) -> dict[str, Any]:
    """The arguments of argparse's `add_argument` for a field of this type."""
    said = {name: value for name, value in one.metadata.items() if name not in ("group", "limits")}
    if kind is bool:
        return said | {"action": "store_false" if one.default else "store_true"}
    plain = next(part for part in get_args(kind) or (kind,) if part is not NoneType)
    return {"metavar": {int: "N", float: "F"}[plain], "type": plain} | said if plain in (int, float) else said


def check_fields(options: Any) -> None:
    """Check each field's choices and limits. options: a frozen dataclass. Raises ValueError naming option, value, and
    the values that are allowed."""
    for one in fields(options):
        name, value, limits = option_of(one.name), getattr(options, one.name), one.metadata.get("limits")
        choices = one.metadata.get("choices")
        if value is not None and choices and value not in choices:
            raise ValueError(f"{name} {value!r}: one of {list(choices)}")
        for number in value if isinstance(value, tuple) else (value,):
            if value is not None and limits and not limits[0] <= number <= limits[1]:
                raise ValueError(f"{name} {number}: at least {limits[0]} and at most {limits[1]:,.15g}")


def option_of(name: str) -> str:
    """The option that a field is set by."""
    return "--set" if name == "assignments" else f"--{name.replace('_', '-')}"


# Readers of an option's text. Where they raise ValueError, argparse's error has their `__name__`: the form of the text.


def seconds_or_never(text: str) -> float | None:
    return None if text == "never" else float(text)


def number_or_auto(text: str) -> float | str:
    return text if text == "auto" else float(text)


def two_numbers(text: str) -> tuple[float, float]:
    low, high = map(float, text.split(","))
    return low, high


def whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


seconds_or_never.__name__, number_or_auto.__name__ = "SECONDS|never", "NUMBER|auto"
two_numbers.__name__, whole_numbers.__name__ = "LO,HI", "N,N,..."


def path(text: str) -> str:
    """Absolute: valid in a trial's folder, and when the study is resumed from another one."""
    if not text:
        raise ValueError("a path is needed")
    return str(Path(os.path.expanduser(text)).resolve())


def path_or_uri(text: str) -> str:
    """An absolute path, or a URI, which is checked later with the study: an error here would repeat it."""
    return text if is_uri(text) and not Path(text).exists() else path(text)


def weights(text: str) -> str:
    return text if text in WEIGHTS else path(text)


def assignment(text: str) -> str:
    name, equals, value = text.partition("=")
    return f"weights={weights(value)}" if equals and name == "weights" else text
