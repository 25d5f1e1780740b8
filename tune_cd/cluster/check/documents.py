"""Cluster files as documents: YAML that is small once its aliases are written out, and places in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RAY_UP, KUBERAY, KUBERNETES = "ray up", "KubeRay", "Kubernetes"
UNKNOWN = "no cluster file: neither one for `ray up`, nor a RayJob or RayCluster"
MOST_VALUES, MOST_LEVELS = 100_000, 50
DEEP, LARGE = f"nested in more than {MOST_LEVELS} levels", f"more than {MOST_VALUES:,} values"

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
    """The documents of a file in order, without empty ones.

    Raises ValueError, without the file's name, for a file that cannot be read or is not a cluster file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = [_value(node) for node in list(yaml.compose_all(text, yaml.SafeLoader))]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except RecursionError:
        raise ValueError(f"no YAML: {DEEP}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"no YAML: {where}{getattr(error, 'problem', None) or error}") from error
    documents = [Document(_kind(value), value, text.splitlines()) for value in values if value is not None]
    if not any(document.kind != KUBERNETES for document in documents):
        raise ValueError(UNKNOWN)
    return documents


def _value(document: yaml.Node) -> Any:
    """The value of a document, its keys as text. Raises YAMLError for keys that are given twice, of which YAML keeps
    the last, for a document that aliases, perhaps within their own anchors, make too large or too deep, and for what
    cannot be made, as a month of 13."""
    left, seen = [(document, 1)], 0
    while left:
        node, level = left.pop()
        seen += 1
        if seen > MOST_VALUES or level > MOST_LEVELS:
            raise _refused(f"{LARGE if seen > MOST_VALUES else DEEP}, aliases written out", document)
        parts = [] if isinstance(node, yaml.ScalarNode) else node.value
        if isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key in (key for key, _ in parts if isinstance(key, yaml.ScalarNode) and key.value != "<<"):
                if key.value in names:
                    raise _refused(f"{key.value} is given twice", key)
                names.add(key.value)
                key.tag = yaml.SafeLoader.DEFAULT_SCALAR_TAG
            parts = [part for pair in parts for part in pair]
        left += [(part, level + 1) for part in parts]
    try:
        return yaml.SafeLoader("").construct_document(document)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _refused(f"{type(error).__name__}: {error}", document) from error


def _refused(problem: str, node: yaml.Node) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


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
