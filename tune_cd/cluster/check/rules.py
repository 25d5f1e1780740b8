"""How rules are written, and those for several kinds of files: commands, images, versions, groups of nodes."""

import functools
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from .documents import RAY_UP, Document, Finding, Place, matches, strings, written

PLACEHOLDER = "EDIT-ME"
NUMBER = r"(\d+\.\d+\.\d+\w*)"
PIN = rf"\bray(?:\[[^\]]*\])?\s*==\s*{NUMBER}|\brayproject/ray[\w-]*:{NUMBER}"
"""Where commands and image tags name a version of Ray."""
SPELT = {"cpu": "CPU", "gpu": "GPU"}

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


class Group(NamedTuple):
    """Nodes of one type. resources: as Ray names them. machine: what a spot type and its on-demand twin share."""

    name: str
    place: Place
    resources: dict
    is_spot: bool
    machine: dict


def spelt(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Resources under Ray's names."""
    return {SPELT.get(name.lower(), name): amount for name, amount in resources.items()}


def misspelt(resources: Mapping[str, Any]) -> str:
    """The resources under other names than Ray's: it takes any name, and no trial asks for `gpu`."""
    return ", ".join(sorted(resources.keys() - spelt(resources).keys()))


MISSPELT = "{} is another resource to Ray than CPU or GPU, for which trials ask"


def groups_are_good(head: Group, workers: Sequence[Group]) -> Iterator[Finding]:
    """The head holds the search: a trial there takes its memory, and a spot machine may go. A spot type needs a twin:
    where spot is short Ray goes on asking for spot, but for work that asks for what on-demand nodes alone have."""
    trains = head.resources.get("CPU") != 0 or head.resources.get("GPU", 0) != 0
    yield from said(head.place, {"resources: {CPU: 0, GPU: 0} is needed here, or trials run on the head": trains})
    yield from said(head.place, {"a spot head: with it the whole search is lost": head.is_spot})
    for spot in (group for group in workers if group.is_spot):
        wanted = spot.resources | {"ondemand": 1}
        twins = [group for group in workers if (group.resources, group.is_spot) == (wanted, False)]
        needed = "{" + ", ".join(f"{name}: {amount:g}" for name, amount in wanted.items()) + "}"
        text = f"no on-demand twin: the same machine, not spot, with resources: {needed}"
        yield from said(spot.place, {text: spot.machine not in [twin.machine for twin in twins]})
