"""KubeRay's own description of its resources (a CRD, which holds Kubernetes' pod fields too): from a file, or downloaded once.

No package on PyPI carries it, so it is taken from KubeRay's release, held to a checksum, and kept in
$TUNE_CD_CACHE/kuberay-<version>/ (or ~/.cache/tune_cd). The best one is the cluster's own:
`kubectl get crd rayjobs.ray.io rayclusters.ray.io -o yaml > crd.yaml`, given as `--crd crd.yaml`.
"""

import functools
import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import yaml

from .documents import at

VERSION = "1.7.0"
URL = "https://raw.githubusercontent.com/ray-project/kuberay/v{version}/ray-operator/config/crd/bases/{name}"
FILES = {
    "RayJob": ("ray.io_rayjobs.yaml", "01a5cf3b17c1769fda44af7e82debcd98722f0c27b9ab84d084681c6649121f5"),
    "RayCluster": ("ray.io_rayclusters.yaml", "c44704442eef0c6721ad40c1d66782c8bd3fdab9d3344306a5820910a679baa1"),
}
"""Kind -> its file in KubeRay's repository at VERSION, and the file's SHA-256."""


def cached(kind: str) -> Path:
    folder = Path(os.environ.get("TUNE_CD_CACHE") or "~/.cache/tune_cd").expanduser()
    return folder / f"kuberay-{VERSION}" / FILES[kind][0]


def schema(kind: str, api_version: str, given: Sequence[str] = ()) -> dict | None:
    """The schema of a kind at an API version ("ray.io/v1"), or None where no file at hand has it.

    given: files to look in instead of the cache. Raises ValueError for one that cannot be read or holds no CRD, and for a
    cached file that is not the released one.
    """
    paths = [Path(path) for path in given] or ([cached(kind)] if cached(kind).exists() else [])
    for path in paths:
        for crd in _definitions(path):
            if at(crd, "spec", "names", "kind") != kind:
                continue
            for version in at(crd, "spec", "versions", default=[]):
                if f"{at(crd, 'spec', 'group')}/{at(version, 'name')}" == api_version:
                    return at(version, "schema", "openAPIV3Schema")
    return None


@functools.cache
def _definitions(path: Path) -> list[dict]:
    try:
        data = path.read_bytes()
        if path in map(cached, FILES):
            _verify(data, path.name)
        documents = list(yaml.load_all(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: no CRD: {error}") from error
    flat = [item for document in documents for item in (at(document, "items") or [document])]
    found = [crd for crd in flat if at(crd, "kind") == "CustomResourceDefinition"]
    if not found:
        raise ValueError(f"{path}: no CRD: nothing in it is a CustomResourceDefinition")
    return found


def download(kind: str) -> Path:
    """Fetch a kind's file into the cache, unless it is there. Raises ValueError where it cannot be had, or is another file."""
    name, _ = FILES[kind]
    url, path = URL.format(version=VERSION, name=name), cached(kind)
    if path.exists():
        return path
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            data = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise ValueError(f"{url}: {getattr(error, 'reason', error)}; give the file with --crd FILE") from error
    _verify(data, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)
    return path


def _verify(data: bytes, name: str) -> None:
    (expected,) = [digest for known, digest in FILES.values() if known == name]
    if (found := hashlib.sha256(data).hexdigest()) != expected:
        raise ValueError(f"{name}: not KubeRay {VERSION}'s: SHA-256 {found}, expected {expected}")
