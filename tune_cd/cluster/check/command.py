"""Check cluster files before anything is started: files for `ray up`, RayJob and RayCluster, CloudFormation templates.

One line a finding, `FILE:LINE: PLACE: what is wrong`; nothing is contacted but with --download. Exit status:
  0  nothing is wrong                    2  a file could not be read, or a package is missing
  1  something is wrong, or to be edited 3  nothing is wrong, but not everything could be checked (a `note:` says what)
Several files in one call must agree on the version of Ray. Sources in `file_mounts` are looked for from the current
folder, as `ray up` does.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from . import crd, launcher, local
from .documents import KUBERAY, RAY_UP, Document, load
from .findings import Finding, written
from .rules import findings, once
from .versions import one_ray_everywhere

HELP = "check cluster files before anything is started or billed"
GOOD, WRONG, UNREADABLE, UNCHECKED = 0, 1, 2, 3
PACKAGES = ("botocore", "googleapiclient", "jsonschema", "ray")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument(
        "--template", action="store_true", help="the files are templates: what is still to be edited is no finding"
    )
    crds = "KubeRay's CRDs, as `kubectl get crd rayjobs.ray.io rayclusters.ray.io -o yaml` gives your cluster's; may be repeated"
    parser.add_argument("--crd", action="append", default=[], metavar="FILE", help=crds)
    parser.add_argument(
        "--download",
        action="store_true",
        help=f"fetch the CRDs of KubeRay {crd.VERSION} (2 MB, once) where they are needed",
    )


def run(args: argparse.Namespace) -> int:
    """Check, print, and return the exit status."""
    documents, status = _load(args.files)
    versions: dict[int, list[Finding]] = {id(document): [] for document in documents}
    try:
        if args.download:
            for kind in sorted({document.data["kind"] for document in documents if document.kind == KUBERAY}):
                crd.download(kind)
        for document, finding in one_ray_everywhere(documents):
            versions[id(document)].append(finding)
        for file in dict.fromkeys(document.file for document in documents):
            own = [document for document in documents if document.file == file]
            status = max(status, _file(file, own, versions, args), key=[GOOD, UNCHECKED, WRONG, UNREADABLE].index)
    except ValueError as error:
        print(error, file=sys.stderr)
        return UNREADABLE
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        print(f"{error.name} is not installed, and the check needs it: pip install 'tune_cd[cluster]'", file=sys.stderr)
        return UNREADABLE
    return status


def _load(files: Sequence[str]) -> tuple[list[Document], int]:
    documents, status = [], GOOD
    for file in dict.fromkeys(files):
        try:
            documents += load(file)
        except ValueError as error:
            print(f"{file}: {error}", file=sys.stderr)
            status = UNREADABLE
    return documents, status


def _file(file: str, documents: list[Document], versions: dict[int, list[Finding]], args: argparse.Namespace) -> int:
    """Print what is to be said of one file; returns its exit status."""
    found: list[Finding] = []
    unchecked: list[str] = []
    for document in documents:
        own, not_checked = findings(document, args.crd)
        found += once(document, own + versions[id(document)])
        unchecked += not_checked
    left = sum(finding.edit for finding in found)
    shown = [finding for finding in found if not (finding.edit and args.template)]
    for finding in sorted(shown, key=lambda it: it.line):
        place = f"{written(finding.place)}: " if finding.place else ""
        print(f"{file}:{finding.line}: {'to be edited: ' if finding.edit else ''}{place}{finding.message}")
    for note in dict.fromkeys(unchecked):
        print(f"{file}: note: not checked: {note}")
    for document in documents:
        for note in _hints(document):
            print(f"{file}: note: {note}")
    if shown:
        return WRONG
    edits = f", once {left} values are edited" if left else ""
    print(f"{file}: {'ok as far as it was checked' if unchecked else 'ok'}{edits}")
    return UNCHECKED if unchecked else GOOD


def _hints(document: Document) -> list[str]:
    """What no file can say for itself."""
    if (
        document.kind == RAY_UP
        and launcher.provider(document) == "local"
        and not list(local.autoscaler_knows_it(document))
    ):
        if (
            any(local.OLD_AUTOSCALER in line for line in document.text)
            or os.environ.get("RAY_UP_enable_autoscaler_v2") == "0"
        ):
            return []
        return ["run `ray up` with RAY_UP_enable_autoscaler_v2=0, or no worker starts"]
    return []
