"""Cluster files as documents: their kind, their data, and places in them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RAY_UP, KUBERAY, KUBERNETES = "ray up", "KubeRay", "Kubernetes"
PLACEHOLDER = "EDIT-ME"
UNKNOWN = "no cluster file: neither one for `ray up`, nor a RayJob or RayCluster"

Place = tuple[str | int, ...]
"""Keys and indices from the top of a document; () is the document itself."""


class Finding(NamedTuple):
    """One error in a file. edit: a placeholder that is still there."""

    place: Place
    message: str
    edit: bool = False


class Document(NamedTuple):
    """One YAML document of a file."""

    file: str
    kind: str
    data: dict
    text: list[str]  # the file's lines, with comments
    repeated: list[Finding]  # keys given twice, of which YAML silently keeps the last


class _Loader(yaml.SafeLoader):
    """Loads YAML and notes the keys that are given twice."""

    repeated: list[Finding]

    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        keys = [key.value for key, _ in node.value if key.value != "<<"]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        self.repeated += [Finding((key,), "given twice: only the last counts") for key in twice]
        return node


# deep, so that an alias within its own anchor is refused
_Loader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: loader.construct_mapping(node, deep=True))
_Loader.add_constructor("tag:yaml.org,2002:seq", lambda loader, node: loader.construct_sequence(node, deep=True))


def load(path: str) -> list[Document]:
    """The documents of a file in order, without empty ones.

    Raises ValueError, without the file's name, for a file that cannot be read or is not a cluster file.
    """
    documents = []
    try:
        text = Path(path).read_text(encoding="utf-8")
        loader = _Loader(text)
        loader.repeated = []
        while loader.check_data():
            loader.repeated = []
            if (value := loader.get_data()) is not None:
                documents.append(Document(path, _kind(value), value, text.splitlines(), loader.repeated))
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot be read: not UTF-8, byte {error.start}") from error
    except (yaml.YAMLError, TypeError) as error:  # a mapping as a key is a TypeError
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"no YAML: {where}{getattr(error, 'problem', None) or error}") from error
    if not any(document.kind != KUBERNETES for document in documents):
        raise ValueError(UNKNOWN)
    return documents


def _kind(value: Any) -> str:
    if at(value, "apiVersion") and at(value, "kind"):
        rays = str(value["apiVersion"]).startswith("ray.io/") and value["kind"] in ("RayJob", "RayCluster")
        return KUBERAY if rays else KUBERNETES
    if isinstance(value, dict) and ("provider" in value or "cluster_name" in value):
        return RAY_UP
    raise ValueError(UNKNOWN)


def strings(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Every string in parsed YAML, keys included, with its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield (*place, key), key
            yield from strings(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from strings(item, (*place, index))
    elif isinstance(value, str):
        yield place, value


def at(value: Any, *place: str | int, default: Any = None) -> Any:
    """The value at a place; `default` if there is none, or if the default is a mapping or list and the value is not."""
    for key in place:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return default
    other = isinstance(default, dict | list) and not isinstance(value, type(default))
    return default if value is None or other else value


def written(place: Place) -> str:
    """A place as text: `available_node_types.gpu-spot.node_config.InstanceType`, `setup_commands[2]`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
