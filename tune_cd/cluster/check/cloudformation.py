"""CloudFormation templates: cfn-lint's findings, where it is installed. A template starts no nodes; it makes what they need."""

import contextlib
import io
from collections.abc import Iterator

from .documents import Document
from .findings import Finding


def lint(document: Document) -> Iterator[Finding]:
    """What cfn-lint says, with its own line numbers. Raises ModuleNotFoundError where it is not installed."""
    from cfnlint.api import lint as run

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        matches = run("\n".join(document.text))
    for match in matches:
        path = tuple(part for part in getattr(match, "path", None) or [])
        yield Finding(path, f"cfn-lint {match.rule.id}: {' '.join(match.message.split())}", line=match.linenumber)
