"""Readers of option values for `argparse`. All raise `argparse.ArgumentTypeError` for text that they cannot read."""

import argparse
import os
from math import inf
from pathlib import Path

from trainables.losses import LOSSES
from tune_cd.results.location import is_uri

SMALLEST = 0.001  # part of a GPU for a training


def path(text: str) -> str:
    """An absolute path, valid in a trial's folder and when the study is resumed from another one."""
    if not text:
        raise argparse.ArgumentTypeError(f"{text!r}: a path")
    return str(Path(os.path.expanduser(text)).resolve())


def folder(text: str) -> str:
    if is_uri(text):  # which is not repeated, as it may hold a secret
        raise argparse.ArgumentTypeError("a folder of this machine, not a URI")
    return path(text)


def root(text: str) -> str:
    """An absolute path, or a URI, which is checked later with the study: an error here would repeat it."""
    return text if is_uri(text) and not Path(text).exists() else path(text)


def loss(text: str) -> str:
    """The name of a loss, or module:function, imported later with the study: an error here would not say why."""
    if text in LOSSES or ":" in text:
        return text
    raise argparse.ArgumentTypeError(f"{text!r}: one of {', '.join(LOSSES)}, or module:function")


def weights(text: str) -> str:
    return text if text in ("none", "imagenet") else path(text)


def assignment(text: str) -> str:
    name, equals, value = text.partition("=")
    return f"weights={weights(value)}" if equals and name == "weights" else text


def gpus(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        number = float(text)
    except ValueError:
        number = inf
    if 0 < number < SMALLEST or number == inf:  # others depend on the cluster, and are refused with it
        raise argparse.ArgumentTypeError(f"{text!r}: 0, a number of at least {SMALLEST}, or auto")
    return number


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise argparse.ArgumentTypeError(f"{text!r}: a number of seconds")
    return number


def seconds_or_never(text: str) -> float | None:
    return None if text == "never" else seconds(text)


def limit(text: str) -> float:
    number = seconds(text)
    if not number:
        raise argparse.ArgumentTypeError("0 s are no time to train")
    return number


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: 0, 1, 2, ...")
    return int(text)


def bounds(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: two numbers LO,HI") from None
    return low, high


def integers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"{text!r}: whole numbers B,B,..., each once")
    return numbers
