"""Options as fields of dataclasses: a field states its default, values and help once, for typed and stored options."""

import argparse
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import Field, field, fields
from math import inf
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from trainables.losses import LOSSES
from tune_cd.results.location import is_uri

SECONDS = 1e9  # 32 years; a longer wait overflows the clock of a thread's lock
SMALLEST = 0.001  # part of a GPU for a training


def option(group: str, default: Any, help: str, **arguments: Any) -> Any:
    """A field that is an option. arguments: of argparse's `add_argument`, the type where it is not the field's own;
    limits: the least and the largest number. help: it says what a default of None means; another default is appended.
    """
    if default is not None and not isinstance(default, bool | tuple):
        help += f"; default: {default:g}" if isinstance(default, float) else f"; default: {default}"
    return field(default=default, metadata={**arguments, "group": group, "help": help})


def argument_of(one: Field, kind: Any) -> dict[str, Any]:
    """The arguments of argparse's `add_argument` for a field of this type."""
    if kind is bool:
        return {"action": "store_false" if one.default else "store_true"}
    plain = next(part for part in get_args(kind) or (kind,) if part is not NoneType)
    usual = {"metavar": {int: "N", float: "F"}[plain], "type": plain} if plain in (int, float) else {}
    return usual | {name: value for name, value in one.metadata.items() if name not in ("group", "limits", "help")}


def check_fields(options: Any) -> None:
    """Check each field's type, choices and limits. options: a frozen dataclass. Raises ValueError naming option, value,
    and the values that are allowed."""
    kinds = get_type_hints(type(options))
    for one in fields(options):
        name, value, kind = option_of(one.name), getattr(options, one.name), kinds[one.name]
        if not _is(value, kind):
            raise ValueError(f"{name} {value!r}: a value of type {getattr(kind, '__name__', kind)} is needed")
        choices, limits = one.metadata.get("choices"), one.metadata.get("limits")
        if value is not None and choices and value not in choices:
            raise ValueError(f"{name} {value!r}: one of {list(choices)}")
        for number in value if isinstance(value, tuple) else (value,):
            if value is not None and limits and not limits[0] <= number <= limits[1]:
                raise ValueError(f"{name} {number}: at least {limits[0]} and at most {limits[1]:,.15g}")


def option_of(name: str) -> str:
    """The option that a field is set by."""
    return "--set" if name == "assignments" else f"--{name.replace('_', '-')}"


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return any(_is(value, one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        there = isinstance(value, tuple) and (parts[-1] is Ellipsis or len(parts) == len(value))
        return there and all(_is(part, parts[0]) for part in value)
    return isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))


def reader(read: Callable[[str], Any], needed: str, fits: Callable[[Any], bool] = lambda value: True) -> Callable:
    """A reader of an option's text: `read`. It raises argparse's error naming what is `needed` where `read` raises
    ValueError or its value does not fit."""

    def value_of(text: str) -> Any:
        with suppress(ValueError):
            if fits(value := read(text)):
                return value
        raise argparse.ArgumentTypeError(f"{text!r}: {needed}")

    return value_of


seconds_or_never = reader(lambda text: None if text == "never" else float(text), "a number of seconds, or never")
bounds = reader(lambda text: tuple(map(float, text.split(","))), "two numbers LO,HI", lambda ends: len(ends) == 2)
integers = reader(
    lambda text: tuple(map(int, text.split(","))),
    "whole numbers B,B,..., each once",
    lambda numbers: len({*numbers}) == len(numbers),
)
gpus = reader(
    lambda text: text if text == "auto" else float(text),
    f"0, a number of at least {SMALLEST}, or auto",
    lambda share: share == "auto" or not (0 < share < SMALLEST or share == inf),  # others depend on the cluster
)
loss = reader(str, f"one of {', '.join(LOSSES)}, or module:function", lambda name: name in LOSSES or ":" in name)
"""A loss of one's own is imported later, with the study: an error here would not say why."""
path = reader(lambda text: str(Path(os.path.expanduser(text)).resolve()) if text else "", "a path", bool)
"""Absolute: valid in a trial's folder, and when the study is resumed from another one."""


def folder(text: str) -> str:
    if is_uri(text):  # which is not repeated, as it may hold a secret
        raise argparse.ArgumentTypeError("a folder of this machine, not a URI")
    return path(text)


def root(text: str) -> str:
    """An absolute path, or a URI, which is checked later with the study: an error here would repeat it."""
    return text if is_uri(text) and not Path(text).exists() else path(text)


def weights(text: str) -> str:
    return text if text in ("none", "imagenet") else path(text)


def assignment(text: str) -> str:
    name, equals, value = text.partition("=")
    return f"weights={weights(value)}" if equals and name == "weights" else text
