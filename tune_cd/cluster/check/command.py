"""Check cluster files before anything is started: files for `ray up`, RayJob and RayCluster.

One line a finding, `FILE: PLACE: what is wrong`; nothing is contacted. Exit status: 0 nothing is wrong, 1 something is
wrong or to be edited, 2 a file could not be read or a package is missing. Several files in one call must agree on the
version of Ray. Sources in `file_mounts` are looked for from the current folder, as `ray up` does.
"""

import argparse
import sys
from collections.abc import Sequence

from . import common, kuberay, ray_up, versions
from .documents import KUBERAY, RAY_UP, Document, Finding, at, load, written

HELP = "check cluster files before anything is started or billed"
GOOD, WRONG, UNREADABLE = 0, 1, 2
PACKAGES = ("botocore", "jsonschema", "ray", "requests")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE")
    template = "the files are templates: what is still to be edited is no finding"
    parser.add_argument("--template", action="store_true", help=template)


def run(args: argparse.Namespace) -> int:
    """Check, print, and return the exit status."""
    documents, status = _load(args.files)
    try:
        compared = list(versions.compare(documents))
        for file in dict.fromkeys(document.file for document in documents):
            found, notes = [], []
            for document in (document for document in documents if document.file == file):
                found += [*findings(document), *(finding for other, finding in compared if other is document)]
                notes += unchecked(document)
            status = max(status, _report(file, found, notes, args.template))
    except ValueError as error:
        print(error, file=sys.stderr)
        return UNREADABLE
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        print(f"{error.name} is not installed, and the check needs it: pip install 'tune_cd[cluster]'", file=sys.stderr)
        return UNREADABLE
    return status


def _load(paths: Sequence[str]) -> tuple[list[Document], int]:
    documents, status = [], GOOD
    for path in dict.fromkeys(paths):
        try:
            documents += load(path)
        except ValueError as error:
            print(f"{path}: {error}", file=sys.stderr)
            status = UNREADABLE
    return documents, status


def findings(document: Document) -> list[Finding]:
    """Everything wrong with one document."""
    rules = {RAY_UP: ray_up.findings, KUBERAY: kuberay.findings}.get(document.kind, lambda document: ())
    return [*document.repeated, *common.secrets(document), *common.placeholders(document), *rules(document)]


def unchecked(document: Document) -> list[str]:
    """The parts of one document that are not checked."""
    if document.kind == RAY_UP and (kind := ray_up.provider(document)) not in ray_up.PROVIDER_KEYS:
        return [f"provider {kind!r}: its fields and node_config"]
    return [] if document.kind in (RAY_UP, KUBERAY) else [f"{at(document.data, 'kind')}, but for secrets"]


def _report(file: str, found: list[Finding], notes: list[str], template: bool) -> int:
    """Print the findings in one file; returns its exit status."""
    shown = [finding for finding in dict.fromkeys(found) if not (finding.edit and template)]
    for finding in shown:
        place = f"{written(finding.place)}: " if finding.place else ""
        print(f"{file}: {'to be edited: ' if finding.edit else ''}{place}{finding.message}")
    for note in dict.fromkeys(notes):
        print(f"{file}: not checked: {note}")
    if not shown:
        print(f"{file}: ok{', once it is edited' if found else ''}")
    return WRONG if shown else GOOD
