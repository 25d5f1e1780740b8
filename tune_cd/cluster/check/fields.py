"""A value against the schema of whoever will read it: EC2, Compute Engine, KubeRay. Stricter than they are.

A schema is a dict in JSON-schema's words. Objects that list their properties have no others: what a service does not know
it ignores or refuses, and either way not what was meant happens.
"""

from collections.abc import Callable, Iterator
from typing import Any

from .every import PLACEHOLDER
from .findings import Finding, Place, suggestion

TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
ARTICLES = {"string": "a string", "integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a list",
            "object": "a mapping"}  # fmt: skip


def compare(
    value: Any, schema: dict, whose: str, place: Place, follow: Callable[[str], dict] | None = None
) -> Iterator[Finding]:
    """Findings for unknown keys, missing ones, wrong types and values that are not among those listed, anywhere in depth.

    value: what stands at `place`; whose: who reads it, as the subject of a sentence; follow: the schema behind a `$ref`.
    """
    if follow and "$ref" in schema:
        schema = follow(schema["$ref"])
    if schema.get("x-kubernetes-int-or-string"):
        schema = {"type": "string" if isinstance(value, str) else "integer"}
    if (isinstance(value, str) and PLACEHOLDER in value) or (value is None and schema.get("nullable")):
        return
    wrong = _leaf(value, schema, whose)
    if wrong:
        yield Finding(place, wrong)
    elif isinstance(value, dict):
        yield from _mapping(value, schema, whose, place, follow)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from compare(item, schema.get("items", {}), whose, (*place, index), follow)


def _mapping(
    value: dict, schema: dict, whose: str, place: Place, follow: Callable[[str], dict] | None
) -> Iterator[Finding]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    for key, item in value.items():
        if properties and key in properties:
            yield from compare(item, properties[key], whose, (*place, key), follow)
        elif isinstance(others, dict):
            yield from compare(item, others, whose, (*place, key), follow)
        elif properties and not others and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield Finding((*place, key), f"{whose} does not know it{suggestion(key, properties)}")
    for key in schema.get("required", []):
        if key not in value and "default" not in (properties or {}).get(key, {}):
            yield Finding(place, f"{whose} needs {key} here")


def _leaf(value: Any, schema: dict, whose: str) -> str | None:
    """What is wrong with a value itself, leaving aside what is inside it."""
    kind = schema.get("type")
    if (
        kind == "string"
        and schema.get("format") in ("int64", "uint64")
        and isinstance(value, int)
        and not isinstance(value, bool)
    ):
        return None  # Google writes 64-bit numbers as strings and takes either
    if kind in TYPES and (
        not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind in ("integer", "number"))
    ):
        return f"{whose} wants {ARTICLES[kind]} here, not {_shown(value)}"
    if schema.get("enum") and isinstance(value, str) and value not in schema["enum"]:
        return f"{whose} does not know {value!r} here{suggestion(value, schema['enum'])}"
    number = isinstance(value, int | float)
    if number and (
        ("minimum" in schema and value < schema["minimum"]) or ("maximum" in schema and value > schema["maximum"])
    ):
        return f"{whose} does not take {value} here: {schema.get('minimum', '')}..{schema.get('maximum', '')}"
    return None


def _shown(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", type(None): "nothing"}
    return names.get(type(value)) or repr(value)
