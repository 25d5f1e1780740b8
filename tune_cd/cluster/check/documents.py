"""Cluster files as documents: their data, what kind each is, and the line on which every place begins."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .findings import Place

RAY_UP, KUBERAY, KUBERNETES, CLOUDFORMATION = "ray up", "KubeRay", "Kubernetes", "CloudFormation"
MERGE = "tag:yaml.org,2002:merge"


class Document(NamedTuple):
    """One YAML document of a file.

    lines: place -> the line, from 1, of its key; values: place -> that of its value, which for an alias is the anchor's;
    repeated: places whose key is given more than once.
    """

    file: str
    kind: str
    data: dict
    lines: dict[Place, int]
    values: dict[Place, int]
    repeated: list[Place]
    text: list[str]  # the document's raw lines, comments included
    first: int  # the line of the file on which `text` begins

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest thing around it that is in the file; of an alias, its anchor's."""
        while place and place not in self.lines:
            place = place[:-1]
        key = self.lines.get(place, self.first)
        return min(key, self.values.get(place, key))


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's own tags (`!Ref`, `!GetAtt`), which become what they stand in front of."""


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    return (
        loader.construct_sequence(node, deep=True)
        if isinstance(node, yaml.SequenceNode)
        else loader.construct_mapping(node, deep=True)
    )


_Loader.add_multi_constructor("!", _tagged)


def load(path: str) -> list[Document]:
    """The documents of a file that say something, in order.

    Raises ValueError, without the file's name, for a file that cannot be read, is no YAML, or holds no document of a kind
    that is known here.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        documents = [document for document in _parse(path, text) if document is not None]
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot be read: not UTF-8, byte {error.start}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"no YAML: {where}{getattr(error, 'problem', None) or error}") from error
    except RecursionError as error:
        raise ValueError("no cluster file: a value contains itself") from error
    if not any(document.kind != KUBERNETES for document in documents):
        raise ValueError(
            "no cluster file: neither one for `ray up`, nor a RayJob or RayCluster, nor a CloudFormation template"
        )
    return documents


def _parse(path: str, text: str) -> Iterator[Document | None]:
    lines = text.splitlines()
    nodes = list(yaml.compose_all(text, Loader=_Loader))
    starts = [0 if index == 0 else node.start_mark.line for index, node in enumerate(nodes)]
    ends = [*starts, len(lines)][1:]
    for node, value, start, end in zip(nodes, yaml.load_all(text, Loader=_Loader), starts, ends, strict=True):
        if value is None:
            continue
        kind = _kind(value)
        if kind is None:
            raise ValueError(
                "no cluster file: neither one for `ray up`, nor a RayJob or RayCluster, nor a CloudFormation template"
            )
        keys: dict[Place, int] = {}
        values: dict[Place, int] = {}
        repeated: list[Place] = []
        _positions(node, (), keys, values, repeated)
        yield Document(path, kind, value, keys, values, repeated, lines[start:end], start + 1)


def _kind(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    if "AWSTemplateFormatVersion" in value or any("AWS::" in str(part) for part in _types(value.get("Resources"))):
        return CLOUDFORMATION
    if "apiVersion" in value and "kind" in value:
        rays = str(value["apiVersion"]).startswith("ray.io/") and value["kind"] in ("RayJob", "RayCluster")
        return KUBERAY if rays else KUBERNETES
    return RAY_UP if "provider" in value or "cluster_name" in value else None


def _types(resources: Any) -> list:
    return (
        [part.get("Type") for part in resources.values() if isinstance(part, dict)]
        if isinstance(resources, dict)
        else []
    )


def _positions(
    node: yaml.Node, place: Place, keys: dict[Place, int], values: dict[Place, int], repeated: list[Place]
) -> None:
    """Fill in the lines of every place below a node; merged keys (`<<`) have the line that they are written on."""
    values[place] = node.start_mark.line + 1
    keys.setdefault(place, values[place])
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _positions(item, (*place, index), keys, values, repeated)
    if not isinstance(node, yaml.MappingNode):
        return
    seen = set()
    for key, value in node.value:
        if key.tag == MERGE:
            continue
        if key.value in seen:
            repeated.append((*place, key.value))
        seen.add(key.value)
        keys[*place, key.value] = key.start_mark.line + 1
        _positions(value, (*place, key.value), keys, values, repeated)
    for key, value in node.value:
        for merged in [] if key.tag != MERGE else value.value if isinstance(value, yaml.SequenceNode) else [value]:
            _merge(merged, place, keys, values, seen)


def _merge(node: yaml.Node, place: Place, keys: dict[Place, int], values: dict[Place, int], seen: set[str]) -> None:
    """The lines of what a mapping takes over from another one, but for the keys that it has itself."""
    below: dict[Place, int] = {}
    below_values: dict[Place, int] = {}
    _positions(node, place, below, below_values, [])
    for found, lines in ((below, keys), (below_values, values)):
        for inner, line in found.items():
            if inner != place and inner[len(place)] not in seen:
                lines.setdefault(inner, line)


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
    """What lies at a place, or `default` where there is nothing, or where the default is a mapping or a list and it is not."""
    for key in place:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return default
    other = isinstance(default, dict | list) and not isinstance(value, type(default))
    return default if value is None or other else value
