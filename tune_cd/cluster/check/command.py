"""Check cluster files before anything is started: files for `ray up`, RayJob and RayCluster.

One line a finding, `FILE: PLACE: what is wrong`; nothing is contacted. Exit status: 0 nothing is wrong, 1 something is
wrong or to be edited, 2 a file could not be read or a package is missing. Sources in `file_mounts` are looked for from
the current folder, as `ray up` does.
"""

import argparse
import logging
import sys
import textwrap

from . import kuberay, ray_up, rules
from .documents import KUBERNETES, RAY_UP, Document, Finding, at, load, written

HELP = "check cluster files before anything is started or billed"
GOOD, WRONG, UNREADABLE = 0, 1, 2
PACKAGES = ("botocore", "jsonschema", "ray", "requests")
LONGEST = 300  # characters of a message: Ray's quote whole parts of a file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE")
    template = "the files are templates: what is still to be edited is no finding"
    parser.add_argument("--template", action="store_true", help=template)


def run(args: argparse.Namespace) -> int:
    """Check, print, and return the exit status."""
    logging.getLogger("ray.autoscaler").setLevel(logging.CRITICAL)  # it logs what it raises, with its traceback
    return max(_check(file, args.template) for file in dict.fromkeys(args.files))


def findings(document: Document) -> list[Finding]:
    """Everything wrong with one document."""
    found = list(rules.of_any_file(document))
    if document.kind != KUBERNETES:
        found += (ray_up if document.kind == RAY_UP else kuberay).findings(document)
        found += rules.versions(document)
    return found


def unchecked(document: Document) -> str:
    """The part of a document that is not checked; empty if there is none."""
    if document.kind == KUBERNETES:
        return f"{at(document.data, 'kind')}, but for secrets"
    cloud = ray_up.provider(document) if document.kind == RAY_UP else "local"
    return "" if cloud in ("local", *ray_up.CLOUDS) else f"provider {cloud!r}: its fields and node_config"


def _check(file: str, template: bool) -> int:
    """Print what is wrong with a file; returns its exit status."""
    try:
        documents = load(file)
        found = dict.fromkeys(finding for document in documents for finding in findings(document))
    except ValueError as error:
        print(f"{file}: {error}", file=sys.stderr)
        return UNREADABLE
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        missing = f"{error.name} is not installed, and the check needs it: pip install 'tune_cd[cluster]'"
        print(f"{file}: {missing}", file=sys.stderr)
        return UNREADABLE
    shown = [finding for finding in found if not (finding.edit and template)]
    for finding in shown:
        place = f"{written(finding.place)}: " if finding.place else ""
        text = textwrap.shorten(finding.message, LONGEST, placeholder="...")
        print(f"{file}: {'to be edited: ' if finding.edit else ''}{place}{text}")
    for note in dict.fromkeys(filter(None, map(unchecked, documents))):
        print(f"{file}: not checked: {note}")
    if not shown:
        print(f"{file}: ok{', once it is edited' if found else ''}")
    return WRONG if shown else GOOD
