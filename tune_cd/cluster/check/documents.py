"""Cluster files as documents: their data, their kind, and the line on which each value begins."""

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RAY_UP, KUBERAY, KUBERNETES, CLOUDFORMATION = "ray up", "KubeRay", "Kubernetes", "CloudFormation"
PLACEHOLDER = "EDIT-ME"
UNKNOWN = "no cluster file: neither one for `ray up`, nor a RayJob or RayCluster, nor a CloudFormation template"

Place = tuple[str | int, ...]
"""Keys and indices from the top of a document; () is the document itself."""


class Finding(NamedTuple):
    """One error in a file. line: if it is known, as of a comment, which has no place; else it follows from the
    place."""

    place: Place
    message: str
    line: int | None = None
    edit: bool = False  # a placeholder that is still there


class Mapping(dict):
    """A mapping that knows the line of each value: its key's, or its anchor's."""

    lines: dict[str, int]


class Sequence(list):
    """A list that knows the line of each item."""

    lines: dict[int, int]


class Document(NamedTuple):
    """One YAML document of a file."""

    file: str
    kind: str
    data: Mapping
    text: list[str]  # the file's lines, with comments
    repeated: list[Finding]  # keys given twice, of which YAML silently keeps the last

    def line(self, place: Place) -> int:
        """The line of a place, or of the innermost value around it that is in the file."""
        value, line = self.data, min(self.data.lines.values(), default=1)
        for key in place:
            if key not in getattr(value, "lines", {}):
                break
            value, line = value[key], value.lines[key]
        return line


class _Loader(yaml.SafeLoader):
    """Loads YAML as Mappings and Sequences, and leaves out CloudFormation's own tags (`!Ref`)."""

    def __init__(self, text: str):
        super().__init__(text)
        self.repeated: list[Finding] = []

    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.value in seen and key.value != "<<":
                line = key.start_mark.line + 1
                self.repeated.append(Finding((str(key.value),), "given twice: only the last counts", line))
            seen.add(str(key.value))
        return node


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Mapping:
    loader.flatten_mapping(node)  # `<<`, whose keys come first
    made = Mapping()
    made.lines = {}
    for key, value in node.value:
        name = loader.construct_object(key, deep=True)
        made[name] = loader.construct_object(value, deep=True)
        made.lines[name] = 1 + min(key.start_mark.line, value.start_mark.line)
    return made


def _sequence(loader: _Loader, node: yaml.SequenceNode) -> Sequence:
    made = Sequence(loader.construct_object(item, deep=True) for item in node.value)
    made.lines = {index: 1 + item.start_mark.line for index, item in enumerate(node.value)}
    return made


def _tagged(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    return _sequence(loader, node) if isinstance(node, yaml.SequenceNode) else _mapping(loader, node)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", _sequence)
_Loader.add_multi_constructor("!", _tagged)


def load(path: str) -> list[Document]:
    """The documents of a file in order, without empty ones.

    Raises ValueError, without the file's name, for a file that cannot be read or is not a cluster file.
    """
    documents = []
    try:
        text = Path(path).read_text(encoding="utf-8")
        loader = _Loader(text)
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
    resources = at(value, "Resources", default={}).values() if isinstance(value, dict) else ()
    if at(value, "AWSTemplateFormatVersion") or any("AWS::" in str(at(part, "Type")) for part in resources):
        return CLOUDFORMATION
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


def suggestion(word: object, known: Iterable[str]) -> str:
    """The text "; did you mean ...?" if a known word is spelt alike, else ""."""
    folded = {str(name).lower(): name for name in sorted(known, key=str)}
    near = difflib.get_close_matches(str(word).lower(), list(folded), n=1, cutoff=0.7)
    return f"; did you mean {folded[near[0]]}?" if near else ""
