"""Checks cluster files before anything is billed: files for `ray up`, RayJob and RayCluster.

Ray's and botocore's own validation, and the rules whose breach fails silently or costs money; `rules` says how a rule
is written. Nothing is contacted. Sources in `file_mounts` are looked for from the current folder, as `ray up` does.
"""

import logging
import sys

from . import kuberay, ray_up, rules
from .documents import KUBERNETES, RAY_UP, Document, Finding, load, written

GOOD, WRONG, UNREADABLE = 0, 1, 2


def findings(document: Document) -> list[Finding]:
    """Everything wrong with one document."""
    found = list(rules.placeholders(document))
    if document.kind != KUBERNETES:
        found += (ray_up if document.kind == RAY_UP else kuberay).findings(document)
        found += rules.versions(document)
    return found


def unchecked(document: Document) -> str:
    """The part of a document that is not checked; empty if there is none."""
    if document.kind == KUBERNETES:
        return f"{document.data['kind']}"
    cloud = ray_up.provider(document) if document.kind == RAY_UP else "local"
    return "" if cloud in ("local", *ray_up.CLOUDS) else f"provider {cloud!r}: its fields and node_config"


def check(file: str, template: bool = False) -> int:
    """Print one line a finding, `FILE: PLACE: what is wrong`, and return the exit status: 0 nothing is wrong, 1
    something is wrong or to be edited, 2 the file could not be read or a package is missing. template: the file is one,
    and what is to be edited is no finding."""
    logging.getLogger("ray.autoscaler").setLevel(logging.CRITICAL)  # it logs what it raises, with its traceback
    try:
        documents = load(file)
        found = dict.fromkeys(finding for document in documents for finding in findings(document))
    except (ValueError, RecursionError) as error:
        print(f"{file}: {error}", file=sys.stderr)
        return UNREADABLE
    except ModuleNotFoundError as error:
        missing = f"{error.name} is not installed, and the check needs it: pip install 'tune_cd[cluster]'"
        print(f"{file}: {missing}", file=sys.stderr)
        return UNREADABLE
    if not documents:
        print(f"{file}: not checked: an AWS CloudFormation template")
        return GOOD
    shown = [finding for finding in found if not (finding.edit and template)]
    for finding in shown:
        place = f"{written(finding.place)}: " if finding.place else ""
        print(f"{file}: {'to be edited: ' if finding.edit else ''}{place}{finding.message}")
    for note in dict.fromkeys(filter(None, map(unchecked, documents))):
        print(f"{file}: not checked: {note}")
    if not shown:
        print(f"{file}: ok{', once it is edited' if found else ''}")
    return WRONG if shown else GOOD
