"""Check cluster files before anything is started: files for `ray up`, RayJob and RayCluster.

One line a finding, `FILE: PLACE: what is wrong`; nothing is contacted. Exit status: 0 nothing is wrong, 1 something is
wrong or to be edited, 2 a file could not be read or a package is missing. Sources in `file_mounts` are looked for from
the current folder, as `ray up` does.
"""

import argparse
import logging
import sys

from . import kuberay, ray_up, rules
from .documents import KUBERAY, KUBERNETES, RAY_UP, Document, Finding, at, load, written

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
    status = GOOD
    logging.getLogger("ray.autoscaler").setLevel(logging.CRITICAL)  # it logs what it raises, with its traceback
    for file in dict.fromkeys(args.files):
        try:
            documents = load(file)
            found = [finding for document in documents for finding in findings(document)]
        except ValueError as error:
            print(f"{file}: {error}", file=sys.stderr)
            status = UNREADABLE
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in PACKAGES:
                raise
            missing = f"{error.name} is not installed, and the check needs it: pip install 'tune_cd[cluster]'"
            print(missing, file=sys.stderr)
            return UNREADABLE
        else:
            status = max(status, _report(file, found, args.template))
            for note in dict.fromkeys(map(unchecked, documents)):
                print(f"{file}: not checked: {note}" if note else "", end="\n" * bool(note))
    return status


def findings(document: Document) -> list[Finding]:
    """Everything wrong with one document."""
    own = {RAY_UP: ray_up.findings, KUBERAY: kuberay.findings, KUBERNETES: lambda document: ()}[document.kind](document)
    pins = rules.versions(document) if document.kind != KUBERNETES else ()
    return [*rules.of_any_file(document), *own, *pins]


def unchecked(document: Document) -> str | None:
    """The part of a document that is not checked."""
    if document.kind == KUBERNETES:
        return f"{at(document.data, 'kind')}, but for secrets"
    cloud = ray_up.provider(document) if document.kind == RAY_UP else "local"
    return None if cloud in ("local", *ray_up.CLOUDS) else f"provider {cloud!r}: its fields and node_config"


def _report(file: str, found: list[Finding], template: bool) -> int:
    """Print the findings in one file; returns its exit status."""
    shown = [finding for finding in dict.fromkeys(found) if not (finding.edit and template)]
    for finding in shown:
        place = f"{written(finding.place)}: " if finding.place else ""
        text = " ".join(finding.message.split())
        text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        print(f"{file}: {'to be edited: ' if finding.edit else ''}{place}{text}")
    if not shown:
        print(f"{file}: ok{', once it is edited' if found else ''}")
    return WRONG if shown else GOOD
