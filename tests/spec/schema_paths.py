"""The paths of the JSON schema of a spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlmetrics as sm
from sqlmetrics.spec.schema import schema

SCHEMA = schema(sm.Spec)


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """A key's schema with the model that it refers to; what is said of the key goes first."""
    [named] = node.get("allOf", [node])
    if "$ref" not in named:
        return node
    return SCHEMA["$defs"][named["$ref"].removeprefix("#/$defs/")] | node


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Path, schema and whether it must be given, of every key but the options'."""
    for name, field in node.get("properties", {}).items():
        key_path = f"{path}.{name}".strip(".")
        inner = resolved(field)
        yield key_path, inner, name in node.get("required", ())
        if key_path != "conventions":
            yield from nodes(inner, key_path)
            yield from nodes(resolved(inner.get("items", {})), f"{key_path}[]")


def paths() -> list[str]:
    """The paths of all keys that a spec file can have."""
    return [path for path, _, _ in nodes(SCHEMA)]
