"""Rules for documents of every kind."""

import re
from collections.abc import Iterator

from .documents import Document, at, strings
from .findings import Finding, Place

PLACEHOLDER = "EDIT-ME"
SECRETS = {
    "an AWS access key": r"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
    "an AWS secret key": r"(?i)aws_?secret_?access_?key\W{1,4}[A-Za-z0-9/+]{40}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{36}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "a token": r"(?i)(token|password|secret)\W{1,4}['\"]?[0-9a-f]{32,}",
}


def placeholders(document: Document) -> Iterator[Finding]:
    """A file taken as it was shipped asks for an image called ami-EDIT-ME, minutes into `ray up`."""
    for place, text in strings(document.data):
        if PLACEHOLDER in text:
            words = [word for word in text.split() if PLACEHOLDER in word]
            yield Finding(place, words[0] if len(words) == 1 else text, edit=True)


def secrets(document: Document) -> Iterator[Finding]:
    """A cluster file is committed, mailed and copied to every node; what is secret in it is secret no more. Never printed."""
    for index, line in enumerate(document.text):
        for name, pattern in SECRETS.items():
            if re.search(pattern, line):
                yield Finding((), f"looks like {name}: keep it out of the file", line=document.first + index)
                break


def secret_values(document: Document) -> Iterator[Finding]:
    """A Kubernetes Secret or token written out beside the job has the same fate."""
    if document.data.get("kind") == "Secret" and (document.data.get("data") or document.data.get("stringData")):
        yield Finding(("kind",), "a Secret with its values: make it with `kubectl create secret` instead")
    for place, text in strings(document.data):
        if text == "RAY_AUTH_TOKEN" and place[-1:] == ("name",) and at(document.data, *place[:-1], "value"):
            yield Finding(
                (*place[:-1], "value"), "the cluster's token, for all who read the file: take it from a Secret"
            )


def repeated_keys(document: Document) -> Iterator[Finding]:
    """YAML keeps the last of two equal keys and says nothing: the first setting is lost."""
    for place in document.repeated:
        yield Finding(place, "given twice: only the last counts")


def keys_are_text(document: Document) -> Iterator[Finding]:
    """`on`, `null` and `5` are no text in YAML: whoever reads the file looks for another key."""
    waiting: list[tuple[Place, object]] = [((), document.data)]
    while waiting:
        place, value = waiting.pop()
        for key, item in (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
        ):
            if isinstance(value, dict) and not isinstance(key, str):
                yield Finding(place, f"the key {key!r} is no text here: put it in quotes")
            waiting.append(((*place, key), item))


RULES = [placeholders, secrets, secret_values, repeated_keys, keys_are_text]
