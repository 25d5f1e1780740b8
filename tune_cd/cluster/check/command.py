"""Check cluster files before anything is started: files for `ray up`, RayJob and RayCluster, CloudFormation templates.

One line a finding, `FILE:LINE: PLACE: what is wrong`; nothing is contacted. Exit status:
  0  nothing is wrong                    2  a file could not be read, or a package is missing
  1  something is wrong, or to be edited 3  nothing is wrong, but not everything could be checked (a `note:` says what)
Several files in one call must agree on the version of Ray. Sources in `file_mounts` are looked for from the current
folder, as `ray up` does.
"""

import argparse
import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from . import common, kuberay, ray_up, versions
from .documents import CLOUDFORMATION, KUBERAY, RAY_UP, Document, Finding, at, load, written

HELP = "check cluster files before anything is started or billed"
GOOD, WRONG, UNREADABLE, UNCHECKED = 0, 1, 2, 3
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
            found: list[Finding] = []
            unchecked: list[str] = []
            for document in (document for document in documents if document.file == file):
                own, not_checked = findings(document)
                found += once(document, own + [finding for other, finding in compared if other is document])
                unchecked += not_checked
            status = max(status, _report(file, found, unchecked, args), key=[GOOD, UNCHECKED, WRONG, UNREADABLE].index)
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


def findings(document: Document) -> tuple[list[Finding], list[str]]:
    """(findings, notes on parts that could not be checked) of one document."""
    found = [*document.repeated, *common.secrets(document), *common.placeholders(document)]
    if document.kind == RAY_UP:
        kind = ray_up.provider(document)
        unknown = [] if kind in ray_up.PROVIDER_KEYS else [f"provider {kind!r}: its fields and node_config"]
        return found + list(ray_up.findings(document)), unknown
    if document.kind == KUBERAY:
        return found + list(kuberay.findings(document)), []
    if document.kind == CLOUDFORMATION:
        if find_spec("cfnlint") is None:
            return found, ["a CloudFormation template: `pip install cfn-lint` checks it"]
        return found + list(template(document)), []
    return found, [f"{at(document.data, 'kind')}: read for secrets and placeholders only"]


def template(document: Document) -> Iterator[Finding]:
    """cfn-lint's findings of a CloudFormation template."""
    from cfnlint.api import lint

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        matches = lint("\n".join(document.text))
    for match in matches:
        place = tuple(getattr(match, "path", None) or ())
        yield Finding(place, f"cfn-lint {match.rule.id}: {' '.join(match.message.split())}", line=match.linenumber)


def once(document: Document, found: list[Finding]) -> list[Finding]:
    """The findings with their lines, in this order. Anchors repeat places, so each message is kept once for a line, and
    once for the same field of several node types."""
    placed = [it._replace(line=it.line or document.line(it.place)) for it in found]
    kept: dict[tuple, Finding] = {}
    for it in sorted(placed, key=lambda it: it.line):
        in_node_type = it.place[:1] == ("available_node_types",) and len(it.place) > 2 and not it.edit
        key = (it.message, it.place[2:] if in_node_type else it.line)
        first = kept.setdefault(key, it)
        if it.line != first.line:
            kept[key] = first._replace(message=f"{first.message} (also {it.place[1]})")
    return list(kept.values())


def _report(file: str, found: list[Finding], unchecked: list[str], args: argparse.Namespace) -> int:
    """Print what was found in one file; returns its exit status."""
    shown = [finding for finding in found if not (finding.edit and args.template)]
    for finding in sorted(shown, key=lambda it: it.line):
        place = f"{written(finding.place)}: " if finding.place else ""
        print(f"{file}:{finding.line}: {'to be edited: ' if finding.edit else ''}{place}{finding.message}")
    for note in dict.fromkeys(unchecked):
        print(f"{file}: note: not checked: {note}")
    if shown:
        return WRONG
    left = sum(finding.edit for finding in found)
    edits = f", once {left} values are edited" if left else ""
    print(f"{file}: {'ok as far as it was checked' if unchecked else 'ok'}{edits}")
    return UNCHECKED if unchecked else GOOD
