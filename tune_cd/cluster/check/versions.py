"""One version of Ray everywhere: on the machine that runs `ray up`, on every node, and in every file of one call."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple

from .documents import KUBERAY, RAY_UP, Document, strings
from .every import PLACEHOLDER
from .findings import Finding, Place

NUMBER = r"(\d+\.\d+\.\d+\w*)"
IN_VALUES = [re.compile(rf"\bray(?:\[[^\]]*\])?\s*==\s*{NUMBER}"), re.compile(rf"\brayproject/ray[\w-]*:{NUMBER}")]
INSTALLS = re.compile(r"\b(?:pip|uv)3?\b.*\binstall\b.*(?<![\w/.-])ray(?![\w/.=-])")


class Pin(NamedTuple):
    """A place that says which Ray it wants."""

    document: Document
    place: Place
    line: int
    version: str
    comment: bool


def pins(document: Document) -> list[Pin]:
    """Every Ray that a document names: in commands, image tags, `rayVersion`, and in comments, which people copy."""
    found = {}
    for place, text in strings(document.data):
        numbers = [number for pattern in IN_VALUES for number in pattern.findall(text)]
        if place[-1:] == ("rayVersion",) and re.fullmatch(NUMBER, text):
            numbers.append(text)
        for number in numbers:
            found.setdefault((document.line(place), number), Pin(document, place, document.line(place), number, False))
    for index, line in enumerate(document.text):
        for pattern in IN_VALUES:
            for number in pattern.findall(line.partition("#")[2]):
                key = (document.first + index, number)
                found.setdefault(key, Pin(document, (), document.first + index, number, True))
    return list(found.values())


def one_ray_everywhere(documents: Sequence[Document]) -> Iterator[tuple[Document, Finding]]:
    """Nodes of two patch releases do not talk to each other, and `ray up` needs the nodes' Ray.

    What differs from most others is found; where all agree with each other but not with the Ray installed here, that is
    one finding a `ray up` file.
    """
    documents = [document for document in documents if document.kind in (RAY_UP, KUBERAY)]
    named = [pin for document in documents for pin in pins(document)]
    for document in documents:
        own = [pin for pin in named if pin.document is document and not pin.comment]
        if not own:
            yield document, _unpinned(document)
    if not named:
        return
    counted = Counter(pin.version for pin in named)
    here = version("ray")
    usual = here if here in counted else counted.most_common(1)[0][0]
    witness = next(pin for pin in named if pin.version == usual)
    for pin in named:
        if pin.version != usual:
            where = f"{witness.document.file}:{witness.line}"
            yield pin.document, Finding(pin.place, f"Ray {pin.version} here, {usual} in {where}", line=pin.line)
    for document in documents:
        first = next((pin for pin in named if pin.document is document and pin.version == usual), None)
        if document.kind == RAY_UP and usual != here and first:
            said = f"Ray {usual} on the nodes, {here} installed here: `ray up` needs the nodes' version"
            yield document, Finding(first.place, said, line=first.line)


def _unpinned(document: Document) -> Finding:
    places = [place for place, text in strings(document.data) if INSTALLS.search(text) or place[-1:] == ("rayVersion",)]
    edited = any(PLACEHOLDER in text and place[-1:] == ("image",) for place, text in strings(document.data))
    hint = ", or the image's tag" if edited else ""
    return Finding(
        places[0] if places else (),
        f"no version of Ray is named: every node must have the same one, 'ray[default]==2.x.y'{hint}",
    )
