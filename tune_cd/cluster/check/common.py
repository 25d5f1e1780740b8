"""Rules for several kinds of files: secrets, shell commands, images, and groups of equal nodes."""

import functools
import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .documents import PLACEHOLDER, Document, Finding, Place, at, strings

SECRETS = {
    "an AWS access key": r"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
    "an AWS secret key": r"(?i)aws_?secret_?access_?key\W{1,4}[A-Za-z0-9/+]{40}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{36}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "a token": r"(?i)(token|password|secret)\W{1,4}['\"]?[0-9a-f]{32,}",
}


def placeholders(document: Document) -> Iterator[Finding]:
    """Values that the user has to fill in."""
    for number, line in enumerate(document.text, 1):
        if PLACEHOLDER in line.partition("#")[0]:
            yield Finding((), f"line {number}: {line.partition('#')[0].strip()}", edit=True)


def secrets(document: Document) -> Iterator[Finding]:
    """Find secrets, since a cluster file is committed, mailed and copied to every node. The secret itself is never
    printed."""
    for line, text in enumerate(document.text, 1):
        name = next((name for name, pattern in SECRETS.items() if re.search(pattern, text)), None)
        if name:
            yield Finding((), f"line {line} looks like {name}: keep it out of the file")
    if document.data.get("kind") == "Secret" and (document.data.get("data") or document.data.get("stringData")):
        yield Finding(("kind",), "a Secret with its values: make it with `kubectl create secret` instead")
    for place, text in strings(document.data):
        if text == "RAY_AUTH_TOKEN" and place[-1:] == ("name",) and at(document.data, *place[:-1], "value"):
            where = (*place[:-1], "value")
            yield Finding(where, "the cluster's token, readable by all who have the file: take it from a Secret")


@functools.cache
def shell_error(text: str) -> str | None:
    """The syntax error that bash finds in a command, without running it, or None. A missing quote would show only on a
    billed node."""
    checked = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True)
    said = checked.stderr.strip().splitlines()
    return f"no valid shell: {said[0].removeprefix('bash: ')}" if checked.returncode else None


def image_error(image: str) -> str | None:
    """The error of an image whose tag moves, or None: nodes would get different images, and versions of Ray. A digest
    stays."""
    tag = image.rpartition("/")[2].partition(":")[2]
    if image and "@" not in image and (not tag or re.match(r"(latest|nightly)\b", tag)):
        return f"{image} changes from day to day: name a version"
    return None


class Group(NamedTuple):
    """Nodes of one type. machine: the fields under `config` that a spot type and its on-demand twin must share."""

    name: str
    place: Place
    config: str  # the key of the machine below `place`
    resources: dict
    is_spot: bool
    machine: dict


def head_drives(head: Group | None, needed: str) -> Iterator[Finding]:
    """The head holds the search: a trial there competes with it for memory, and with a spot machine it is lost. needed:
    the text that sets its resources to none."""
    if head is None:
        return
    if head.resources.get("CPU") != 0 or head.resources.get("GPU", 0) != 0:
        yield Finding(head.place, f"{needed} is needed here, or trials run on the head")
    if head.is_spot:
        yield Finding((*head.place, head.config), "a spot head: with it the whole search is lost")


def spot_has_a_twin(workers: Sequence[Group]) -> Iterator[Finding]:
    """Each spot type needs an on-demand twin: the same machine with `ondemand: 1`, all else equal, so that trials fit
    either. Where spot is short Ray goes on asking for spot; on-demand nodes come only for work that asks for a resource
    which they alone have."""
    others = [group for group in workers if not group.is_spot]
    for group in workers:
        wanted = group.resources | {"ondemand": 1}
        same = [other for other in others if other.machine == group.machine]
        named = [other for other in others if other.resources == wanted]
        if not group.is_spot or any(other in named for other in same):
            continue
        needed = "resources: {" + ", ".join(f"{name}: {amount:g}" for name, amount in wanted.items()) + "}"
        if same:
            yield Finding(same[0].place, f"as {group.name}'s on-demand twin it needs {needed}")
        elif named:
            keys = sorted(group.machine.keys() | named[0].machine.keys(), key=str)
            differs = ", ".join(str(key) for key in keys if group.machine.get(key) != named[0].machine.get(key))
            yield Finding((*group.place, group.config), f"differs from its on-demand twin {named[0].name} in {differs}")
        else:
            yield Finding(group.place, f"no on-demand twin: the same machine, not on spot, with {needed}")
