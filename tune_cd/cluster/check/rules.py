"""Which rules apply to which document, and what could not be checked."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

from . import aws, cloudformation, crd, every, gcp, kuberay, launcher, local, spot, starting
from .documents import CLOUDFORMATION, KUBERAY, KUBERNETES, RAY_UP, Document
from .findings import Finding

PROVIDERS: dict[str, list[Callable[[Document], Iterator[Finding]]]] = {
    "aws": spot.RULES + aws.RULES,
    "gcp": spot.RULES + gcp.RULES,
    "local": local.RULES,
}


def findings(document: Document, crds: Sequence[str] = ()) -> tuple[list[Finding], list[str]]:
    """Everything wrong with one document by line, and what of it could not be checked.

    crds: files with KubeRay's CRDs, instead of the cached ones. What several rules or several uses of one anchor say of
    one line is said once. Raises ValueError as `crd.schema`, ModuleNotFoundError where a schema's package is absent.
    """
    found, unchecked = [], []
    for rule in every.RULES:
        found += rule(document)
    if document.kind == RAY_UP:
        kind = launcher.provider(document)
        for rule in launcher.RULES + starting.RULES + PROVIDERS.get(kind, []):
            found += rule(document)
        if kind not in PROVIDERS:
            unchecked.append(f"provider {kind!r}: its fields and node_config are not known here")
        if kind == "gcp" and any(gcp.is_tpu(it) for it in launcher.node_types(document).values()):
            unchecked.append("node_config of TPU nodes")
    elif document.kind == KUBERAY:
        for rule in kuberay.RULES:
            found += rule(document)
        schema = crd.schema(document.data["kind"], document.data["apiVersion"], crds)
        if schema:
            found += kuberay.fields_exist(document, schema)
        else:
            unchecked.append(
                f"the fields of {document.data['kind']}: KubeRay's CRD is not here; --download fetches it, --crd FILE gives it"
            )
    elif document.kind == CLOUDFORMATION:
        if find_spec("cfnlint"):
            found += cloudformation.lint(document)
        else:
            unchecked.append("a CloudFormation template: `pip install cfn-lint` checks it")
    elif document.kind == KUBERNETES:
        unchecked.append(f"{document.data['kind']}: beside the cluster, read for secrets and placeholders only")
    return once(document, found), unchecked


def once(document: Document, found: list[Finding]) -> list[Finding]:
    """Findings with their lines, in the order of these, and each only once a line."""
    placed = [it._replace(line=it.line or document.line(it.place)) for it in found]
    kept = {(it.line, it.message): it for it in reversed(placed)}
    return sorted(kept.values(), key=lambda it: it.line)
