"""The JSON schema of spec files, for editors: the models, and what their types cannot say.

`spec.schema.json` is this module's output; a test keeps it current. It is a hint while
typing: what it lets pass, `Spec` still checks.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import listed
from sqlmetrics.catalog.option import Option
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.spec.source import RankingColumns, Source
from sqlmetrics.spec.spec import Spec

Node = dict[str, Any]

MEANINGS: Mapping[str, str] = {
    "version": "The version of this format.",
    "columns": "What the table calls its columns.",
    "query": "The column of the query's id.",
    "item": "The column of the item's id.",
    "score": "The column of scores, highest first; or give rank.",
    "rank": "The column of ranks, 1 being the best; or give score.",
    "system": "The column of the ranker, model or run.",
    "date": "The column of the day; it is then a part of a query's identity.",
    "weight": "The column of query weights; means are weighted by them.",
    "grade": "The column of grades, 0 being bad.",
    "text": "The column of the query's text.",
    "segments": "Columns that `by` can name.",
    "title": "The column of the item's title.",
    "category": "The column of the item's category.",
    "popularity": "The column of the item's popularity: a count, such as its clicks.",
    "vector": "The column of the item's vector: a list of numbers, equally long for all.",
}
"""What a key means if its model's docstring does not tell."""

METRIC = r"^\s*[A-Za-z_]\w*(\.\d+)?(,\d+)*\s*(\(.*\))?\s*(@\s*\d+)?\s*$"
"""The form of a metric's text; whether there is such a metric the spec itself checks."""


def schema() -> Node:
    """The JSON schema of a spec file (draft 7, without references)."""
    made = Spec.model_json_schema()
    whole = _object(Spec, made, made.get("$defs", {}))
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "sqlmetrics spec"}
    return head | {"description": _summary(Spec)} | whole


def schema_text() -> str:
    """The schema as the file holds it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _object(model: type[BaseModel], made: Node, models: Mapping[str, Node]) -> Node:
    """A model's schema with its inner models in place."""
    properties = {}
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        inner = _inner(field.annotation)
        own = _object(inner, models[inner.__name__], models) if inner else made["properties"][name]
        if inner and get_origin(field.annotation) is tuple:
            own = {"type": "array", "items": own}
        if model is Spec and name in _SPECIAL:
            own = _SPECIAL[name]()
        has_default = isinstance(field.default, str | int) and field.default != ""
        told = {"default": field.default} if has_default else {}
        properties[name] = {"description": _meaning(model, name)} | _plain(own) | told
    required = {"required": made["required"]} if "required" in made and model is not Spec else {}
    node = {"type": "object", "additionalProperties": False, "properties": properties}
    return node | required | _rules(model)


def _plain(node: Node) -> Node:
    """Without titles and defaults; a type or nothing as a list of types."""
    node = {key: value for key, value in node.items() if key not in ("title", "default")}
    types = [one.get("type") for one in node.get("anyOf", ())]
    if types[1:] != ["null"] or "type" not in node["anyOf"][0]:
        return node
    own: Node = {key: value for key, value in node.items() if key != "anyOf"}
    return {**own, **node["anyOf"][0], "type": types}


def _inner(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds, if it holds one."""
    types = (annotation, *get_args(annotation))
    models = (t for t in types if inspect.isclass(t) and issubclass(t, BaseModel))
    return next(models, None)


def _rules(model: type[BaseModel]) -> Node:
    """What holds between the keys of a model."""
    if issubclass(model, Source):
        return {"oneOf": [{"required": [key]} for key in ("relation", "sql", "file")]}
    if model is RankingColumns:
        return {"not": {"required": ["score", "rank"]}}
    if model is Spec:
        columns = {"required": ["columns"], "properties": {"columns": {"required": ["grade"]}}}
        graded = {"required": ["rankings"], "properties": {"rankings": columns}}
        forms = [{"required": ["clicks"]}, {"required": ["rankings", "labels"]}, graded]
        return {"oneOf": forms, "anyOf": [{"required": [key]} for key in ("metrics", "online")]}
    return {}


def _metrics() -> Node:
    at_10 = {"required": "@10", "optional": "@10", "none": ""}
    examples = [metric.name + at_10[metric.cutoff] for metric in listed()]
    text = {"type": "string", "pattern": METRIC, "examples": examples}
    return {"anyOf": [text, {"type": "array", "items": text, "minItems": 1}]}


def _by() -> Node:
    text = {"type": "string"}
    return {"anyOf": [text, {"type": "array", "items": text}]}


def _preset() -> Node:
    told = [f"{name}: {preset.note}" for name, preset in PRESETS.items()]
    meaning = _meaning(Spec, "preset")
    return {"description": "\n".join([meaning, *told]), "enum": list(PRESETS)}


def _conventions() -> Node:
    options = {name: _option(option) for name, option in OPTIONS.items()}
    return {"type": "object", "additionalProperties": False, "properties": options}


_SPECIAL: Mapping[str, Callable[[], Node]] = {
    "metrics": _metrics,
    "by": _by,
    "online": _by,
    "preset": _preset,
    "conventions": _conventions,
}
"""Keys of the spec whose values the types do not tell."""

_VALUES: Mapping[str, Node] = {
    "number": {"type": "integer", "minimum": 1},
    "table": {
        "type": "object",
        "additionalProperties": {"type": "number", "minimum": 0},
        "minProperties": 1,
    },
}
"""Choices that stand for values of a kind."""


def _option(option: Option) -> Node:
    """The values of an option; one of single metrics takes a list of them too."""
    names = [choice.name for choice in option.choices if choice.name not in _VALUES]
    kinds = [_VALUES[choice.name] for choice in option.choices if choice.name in _VALUES]
    values = [{"enum": names}, *kinds]
    if option.scope == "metric":
        one = values[0] if len(values) == 1 else {"anyOf": values}
        values = [*values, {"type": "array", "items": one, "minItems": 1}]
    told = [f"{choice.name}: {choice.meaning}" for choice in option.choices]
    node: Node = values[0] if len(values) == 1 else {"anyOf": values}
    return {"description": "\n".join([option.meaning, *told])} | node


def _meaning(model: type[BaseModel], name: str) -> str:
    """What the docstring of a model, or of one that it derives from, tells of a key."""
    for ancestor in model.__mro__[: model.__mro__.index(BaseModel)]:
        _, _, attributes = inspect.getdoc(ancestor).partition("Attributes:\n")  # type: ignore[union-attr]
        told = re.search(rf"^    {name}: (.*(?:\n {{8}}.*)*)", attributes, re.MULTILINE)
        if told:
            return " ".join(told[1].split())
    return MEANINGS.get(name, "")


def _summary(model: type[BaseModel]) -> str:
    return (inspect.getdoc(model) or "").split("\n", maxsplit=1)[0]
