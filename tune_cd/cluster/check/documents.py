"""Cluster files as documents: YAML that is small once its aliases are written out, and places in it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RAY_UP, KUBERAY, KUBERNETES = "ray up", "KubeRay", "Kubernetes"
UNKNOWN = "no cluster file: neither one for `ray up`, nor a RayJob or RayCluster"
MOST_VALUES = 100_000

Place = tuple[str | int, ...]
"""Keys and indices from the top of a document; () is the document itself."""


class Finding(NamedTuple):
    """One error in a file. edit: a placeholder that is still there."""

    place: Place
    message: str
    edit: bool = False


class Document(NamedTuple):
    """One YAML document of a file. text: the file's lines, with comments."""

    kind: str
    data: dict
    text: list[str]


def load(path: str) -> list[Document]:
    """The documents of a file in order, without empty ones; none of an AWS CloudFormation template.

    Raises ValueError, without the file's name, for a file that cannot be read or is not a cluster file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        if re.search(r'^[{\s"]*AWSTemplateFormatVersion\b', text, re.MULTILINE):
            return []
        values = list(yaml.load_all(text, Loader))
        large = size_of(values, {}) > MOST_VALUES
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except RecursionError:
        raise ValueError("no YAML: too many levels, or an alias within its own anchor") from None
    except Exception as error:  # a value that cannot be made, as a month of 13, raises whatever its type raises
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"no YAML: {where}{getattr(error, 'problem', None) or error}") from error
    if large:
        raise ValueError(f"more than {MOST_VALUES:,} values, aliases written out")
    documents = [Document(_kind(value), value, text.splitlines()) for value in values if value is not None]
    if not any(document.kind != KUBERNETES for document in documents):
        raise ValueError(UNKNOWN)
    return documents


class Loader(yaml.SafeLoader):
    """Keys are text, and none is given twice, of which YAML would keep the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node, names = super().compose_mapping_node(anchor), set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"):
            if key.value in names:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
            names.add(key.value)
            key.tag = self.DEFAULT_SCALAR_TAG
        return node


def size_of(value: Any, known: dict[int, int]) -> int:
    """The number of values in a value with its aliases written out. Raises RecursionError for one within itself."""
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        known[id(value)] = 1 + sum(size_of(item, known) for item in inner)
    return known[id(value)]


def _kind(value: Any) -> str:
    if at(value, "apiVersion") and at(value, "kind"):
        rays = str(value["apiVersion"]).startswith("ray.io/") and value["kind"] in ("RayJob", "RayCluster")
        return KUBERAY if rays else KUBERNETES
    if isinstance(value, dict) and ("provider" in value or "cluster_name" in value):
        return RAY_UP
    raise ValueError(UNKNOWN)


def at(value: Any, *place: str | int, default: Any = None) -> Any:
    """The value at a place; `default` if there is none, or if the default is a mapping or list and the value is not."""
    for key in place:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return default
    other = isinstance(default, dict | list) and not isinstance(value, type(default))
    return default if value is None or other else value


def matches(value: Any, path: str, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """(place, value) of all that a path such as `disks.*.boot|autoDelete` names, "" the value itself; None where a
    mapping lacks the key."""
    if not path:
        yield place, value
        return
    key, _, rest = path.partition(".")
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items()) if key == "*" else [(name, value.get(name)) for name in key.split("|")]
    elif isinstance(value, list):
        inner = [(index, item) for index, item in enumerate(value) if key in ("*", str(index))]
    for name, item in inner:
        yield from matches(item, rest, (*place, name))


def strings(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Every string in parsed YAML with its place, without keys."""
    for inner, item in matches(value, "*", place):
        yield from [(inner, item)] if isinstance(item, str) else strings(item, inner)


def written(place: Place) -> str:
    """A place as text: `available_node_types.gpu-spot.node_config.InstanceType`, `setup_commands[2]`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
