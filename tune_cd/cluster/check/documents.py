"""Cluster files as documents: YAML that is small once its aliases are written out, and places in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RAY_UP, KUBERAY, KUBERNETES = "ray up", "KubeRay", "Kubernetes"
UNKNOWN = "no cluster file: neither one for `ray up`, nor a RayJob or RayCluster"
MOST_VALUES, MOST_LEVELS = 100_000, 50

Place = tuple[str | int, ...]
"""Keys and indices from the top of a document; () is the document itself."""


class Finding(NamedTuple):
    """One error in a file. edit: a placeholder that is still there."""

    place: Place
    message: str
    edit: bool = False


class Document(NamedTuple):
    """One YAML document of a file. text: the file's lines, with comments."""

    file: str
    kind: str
    data: dict
    text: list[str]


def _refused(problem: str, node: yaml.Node) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


class _Loader(yaml.SafeLoader):
    """Loads YAML with every key as text. Refuses keys that are given twice, of which YAML silently keeps the last."""

    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        names = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"):
            key.tag = self.DEFAULT_SCALAR_TAG
            if key.value in names:
                raise _refused(f"{key.value} is given twice", key)
            names.add(key.value)
        return node

    def documents(self) -> Iterator[Any]:
        """The value of each document. Raises YAMLError, or RecursionError."""
        while self.check_node():
            node = self.get_node()
            _refuse_large(node)
            try:
                yield self.construct_document(node)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # a month of 13
                raise _refused(f"{type(error).__name__}: {error}", node) from error


def _refuse_large(node: yaml.Node) -> None:
    """Raise YAMLError for a document that aliases, perhaps within their own anchors, make too large or too deep."""
    left = [(node, 1)]
    for _ in range(MOST_VALUES):
        if not left:
            return
        one, level = left.pop()
        if level > MOST_LEVELS:
            raise _refused(f"nested in more than {MOST_LEVELS} levels, aliases written out", one)
        if isinstance(one, yaml.MappingNode):
            left += [(part, level + 1) for pair in one.value for part in pair]
        elif isinstance(one, yaml.SequenceNode):
            left += [(part, level + 1) for part in one.value]
    raise _refused(f"more than {MOST_VALUES:,} values, aliases written out", node)


def load(path: str) -> list[Document]:
    """The documents of a file in order, without empty ones.

    Raises ValueError, without the file's name, for a file that cannot be read or is not a cluster file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = [value for value in list(_Loader(text).documents()) if value is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except RecursionError:
        raise ValueError(f"no YAML: nested in more than {MOST_LEVELS} levels") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"no YAML: {where}{getattr(error, 'problem', None) or error}") from error
    documents = [Document(path, _kind(value), value, text.splitlines()) for value in values]
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
    """(place, value) of all that a path such as `disks.*.boot|autoDelete` names; None where a mapping lacks the key."""
    key, _, rest = path.partition(".")
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items()) if key == "*" else [(name, value.get(name)) for name in key.split("|")]
    elif isinstance(value, list):
        inner = [(index, item) for index, item in enumerate(value) if key in ("*", str(index))]
    for name, item in inner:
        yield from matches(item, rest, (*place, name)) if rest else [((*place, name), item)]


def strings(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Every string in parsed YAML with its place, without keys."""
    for inner, item in matches(value, "*", place):
        yield from [(inner, item)] if isinstance(item, str) else strings(item, inner)


def written(place: Place) -> str:
    """A place as text: `available_node_types.gpu-spot.node_config.InstanceType`, `setup_commands[2]`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
