"""One version of Ray and of Python everywhere: on this machine, on every node, and in all files of one call."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple

from .documents import KUBERAY, RAY_UP, Document, Finding, Place, strings, written

NUMBER = r"(\d+\.\d+\.\d+\w*)"
PATTERNS = {
    "Ray": [rf"\bray(?:\[[^\]]*\])?\s*==\s*{NUMBER}", rf"\brayproject/ray[\w-]*:{NUMBER}"],
    "Python": [r"\brayproject/ray[\w-]*:[\w.]+-(py\d+)"],
}


class Pin(NamedTuple):
    """A place that names a version."""

    document: Document
    place: Place
    what: str
    version: str


def pins(document: Document) -> Iterator[Pin]:
    """Every version of Ray and Python that a document names: in commands, image tags and `rayVersion`."""
    for place, text in strings(document.data):
        for what, patterns in PATTERNS.items():
            for number in (number for pattern in patterns for number in re.findall(pattern, text)):
                yield Pin(document, place, what, number)
        if place[-1:] == ("rayVersion",) and re.fullmatch(NUMBER, text):
            yield Pin(document, place, "Ray", text)


def compare(documents: Sequence[Document]) -> Iterator[tuple[Document, Finding]]:
    """Find versions that differ from the installed one, else from most others. Nodes of two patch releases of Ray, or
    of two versions of Python, do not work together, and `ray up` needs the nodes' Ray."""
    documents = [document for document in documents if document.kind in (RAY_UP, KUBERAY)]
    named = [pin for document in documents for pin in pins(document)]
    installed = version("ray")
    for what in PATTERNS:
        same = [pin for pin in named if pin.what == what]
        counted = Counter(pin.version for pin in same)
        usual = installed if installed in counted else counted.most_common(1)[0][0] if counted else None
        witness = next((pin for pin in same if pin.version == usual), None)
        for pin in same:
            if pin.version != usual:
                where = f"{witness.document.file}: {written(witness.place)}"
                yield pin.document, Finding(pin.place, f"{what} {pin.version} here, {usual} in {where}")
        for document in documents if what == "Ray" else ():
            first = next((pin for pin in same if pin.document is document), None)
            if first is None:
                text = "every node must have the same one, 'ray[default]==2.x.y', or the image's tag"
                yield document, Finding((), f"no version of Ray is named: {text}")
            elif document.kind == RAY_UP and first.version == usual != installed:
                text = f"Ray {usual} on the nodes, {installed} installed here: `ray up` needs the nodes' version"
                yield document, Finding(first.place, text)
