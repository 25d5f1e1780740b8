"""How rules are written, and those for several kinds of files: commands, images, versions."""

import functools
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from .documents import RAY_UP, Document, Finding, Place, matches, strings, written

PLACEHOLDER = "EDIT-ME"
NUMBER = r"(\d+\.\d+\.\d+\w*)"
PIN = rf"\bray(?:\[[^\]]*\])?\s*==\s*{NUMBER}|\brayproject/ray[\w-]*:{NUMBER}"
"""Where commands and image tags name a version of Ray."""

Rule = tuple[str, Callable[[Any], Any], str]
"""A path of `matches`; whether a value there is wrong, or a text that says what; the sentence, with {} for that text or
the value."""


def broken(rules: Sequence[Rule], value: Any, place: Place = ()) -> Iterator[Finding]:
    """A finding for each place in a value at which a rule is broken. place: the value's own."""
    for path, wrong, sentence in rules:
        for where, found in matches(value, path, place):
            if verdict := wrong(found):
                yield Finding(where, sentence.replace("{}", verdict if isinstance(verdict, str) else f"{found}"))


def said(place: Place, sentences: Mapping[str, Any]) -> Iterator[Finding]:
    """A finding at a place for each sentence that holds: sentence -> whether it does."""
    yield from (Finding(place, sentence) for sentence, holds in sentences.items() if holds)


def placeholders(document: Document) -> Iterator[Finding]:
    """What is still to be edited."""
    for number, line in enumerate(document.text, 1):
        if PLACEHOLDER in (used := line.partition("#")[0]):
            yield Finding((), f"line {number}: {used.strip()}", edit=True)


@functools.cache
def shell_error(text: str) -> str:
    """The syntax error that bash finds in a command, without running it. It would show only on a billed node."""
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    return checked.stderr.strip().partition("\n")[0].removeprefix("bash: ") if checked.returncode else ""


def moves(image: Any) -> bool:
    """Whether an image's tag moves, so that nodes get different images, and versions of Ray. A digest stays."""
    tag = str(image).rpartition("/")[2].partition(":")[2]
    return bool(image) and "@" not in str(image) and (not tag or bool(re.match(r"(latest|nightly)\b", tag)))


MOVES = "{} changes from day to day: name a version"


def versions(document: Document) -> Iterator[Finding]:
    """Nodes of two versions of Ray do not work together, and `ray up` needs the nodes' Ray."""
    texts = list(strings(document.data))
    pins = [(place, one[1] or one[2]) for place, text in texts for one in re.finditer(PIN, text)]
    pins += [(place, text) for place, text in texts if place[-1] == "rayVersion" and re.fullmatch(NUMBER, text)]
    missing = "no version of Ray is named: every node must have the same one, 'ray[default]==2.x.y'"
    yield from said((), {missing: not pins})
    installed, numbers = document.kind == RAY_UP, [number for _, number in pins]
    usual = version("ray") if installed else max(numbers, key=numbers.count, default="")
    where = "is installed here" if installed else f"in {written(pins[numbers.index(usual)][0])}" if pins else ""
    for place, number in pins:
        yield from said(place, {f"Ray {number}, but {usual} {where}": number != usual})
