"""The JSON schema of spec files, for editors: pydantic's, and what types cannot say.

`spec.schema.json` is this module's output; a test keeps it current. It is a hint while
typing: what it lets pass, `Spec` still checks.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, core_schema

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import listed
from sqlmetrics.catalog.option import Choice, Option
from sqlmetrics.catalog.presets import PRESETS

Node = dict[str, Any]

METRIC = r"^\s*[A-Za-z_]\w*(\s*=.+|(\.\d+)?(,\d+)*\s*(\(.*\))?\s*(@\s*\d+)?\s*)$"
"""The form of a metric's text, or of a name for a formula; whether there is such a metric the spec
itself checks."""


def schema(model: type[BaseModel]) -> Node:
    """The JSON schema of a file that holds a model (draft 7)."""
    json_schema = model.model_json_schema(schema_generator=_Schema)
    for definition in json_schema["$defs"].values():
        definition.pop("title", None)
    json_schema["description"] = json_schema["description"].split("\n")[0]
    _define_required(json_schema)
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "sqlmetrics spec"}
    return head | json_schema | head


def _define_required(node: Any) -> None:
    """Define each key that a part of the schema requires: strict validators ask for that."""
    if isinstance(node, dict):
        required = node.get("required")
        if isinstance(required, list) and "type" not in node:
            node["properties"] = dict.fromkeys(required, True) | node.get("properties", {})
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _define_required(part)


def schema_text(model: type[BaseModel]) -> str:
    """The schema as the file holds it: what fits into a line is on one."""
    return _printed(schema(model), "") + "\n"


def _printed(node: Any, indent: str, before: int = 0) -> str:
    line = json.dumps(node, ensure_ascii=False)
    if not isinstance(node, dict | list) or len(indent) + before + len(line) <= 110:
        return line
    deeper = indent + "  "
    if isinstance(node, list):
        rows = [deeper + _printed(element, deeper) for element in node]
    else:
        keys = {f"{json.dumps(key)}: ": value for key, value in node.items()}
        rows = [deeper + key + _printed(element, deeper, len(key)) for key, element in keys.items()]
    return line[0] + "\n" + ",\n".join(rows) + "\n" + indent + line[-1]


def one_or_list(item: Node, **keywords: int) -> Node:
    """A value, or a list of such."""
    return {"anyOf": [item, {"type": "array", "items": item, **keywords}]}


def metrics(node: Node) -> None:
    """Tells what `metrics` may be: the catalogue is read only now."""
    at_10 = {"required": "@10", "optional": "@10", "none": ""}
    examples = [metric.name + at_10[metric.cutoff] for metric in listed()]
    del node["type"], node["items"]
    text: Node = {"type": "string", "pattern": METRIC, "examples": examples}
    formulas: Node = {
        "type": "object",
        "propertyNames": {"pattern": r"^\w+$"},
        "additionalProperties": {"type": "string"},
        "minProperties": 1,
    }
    element: Node = {"anyOf": [text, formulas]}
    node |= {"anyOf": [text, {"type": "array", "items": element, "minItems": 1}, formulas]}


def preset(node: Node) -> None:
    """Tells the names and meanings of presets."""
    lines = [f"{name}: {preset.note}" for name, preset in PRESETS.items()]
    node |= {"description": "\n".join(lines), "enum": list(PRESETS)}


def conventions(node: Node) -> None:
    """Tells the options, their values and what they mean."""
    options = {name: _option(option) for name, option in OPTIONS.items()}
    node |= {"additionalProperties": False, "properties": options}


_VALUES: Mapping[str, Node] = {
    "number": {"type": "integer", "minimum": 1},
    "table": {
        "type": "object",
        "additionalProperties": {"type": "number", "minimum": 0},
        "minProperties": 1,
    },
}
"""Choices that stand for values of a kind."""


_BY_GRADE: Node = {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1}
"""A table as a list: the value of each grade from 0 on."""


def _kind(choice: Choice) -> Node:
    """The values that a choice stands for."""
    return _VALUES[choice.name] if choice.is_whole else {"type": "number"}


def _option(option: Option) -> Node:
    """The values of an option; one of single metrics takes a list of them too."""
    names = [choice.name for choice in option.choices if choice.name not in _VALUES]
    kinds = [_kind(choice) for choice in option.choices if choice.name in _VALUES]
    value: Node = {"anyOf": [{"enum": names}, *kinds]} if kinds else {"enum": names}
    lines = [f"{choice.name}: {choice.meaning}" for choice in option.choices]
    values = one_or_list(value, minItems=1) if option.scope == "metric" else value
    if any(choice.name == "table" for choice in option.choices):
        values = {"anyOf": [*values["anyOf"], _BY_GRADE]}
    return {"description": "\n".join([option.meaning, *lines]), **values}


class _Schema(GenerateJsonSchema):
    """Without titles of keys, and with the texts below the fields as descriptions.

    pydantic's own `use_attribute_docstrings` reads them whenever the models are imported,
    which doubles the time that takes; here they are read when a schema is asked for.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def default_schema(self, schema: Any) -> Node:
        is_told = isinstance(schema.get("default"), str | int) and schema["default"] != ""
        return super().default_schema(schema) if is_told else self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: Any) -> Node:
        node = self.generate_inner(schema["schema"])
        if "$ref" in node:  # who does not have such a table leaves the key out
            return node
        values = [node.pop("const")] if "const" in node else node.get("enum", [])
        if "anyOf" in node:
            return node | {"anyOf": [*node["anyOf"], {"type": "null"}]}
        types = [node["type"]] if isinstance(node["type"], str) else node["type"]
        return node | {"type": [*types, "null"]} | ({"enum": [*values, None]} if values else {})

    def model_schema(self, schema: Any) -> Node:
        node = super().model_schema(schema)
        text_by_field = _texts_below_fields(schema["cls"])
        for name, field in node["properties"].items():
            descriptions = [field.pop("description")] if "description" in field else []
            node["properties"][name] = {
                "description": "\n".join([text_by_field[name], *descriptions]),
                **({"allOf": [field]} if "$ref" in field else field),
            }
        return node


def _texts_below_fields(model: type[BaseModel]) -> dict[str, str]:
    """The text below each field of a model, its own or that of one it derives from."""
    text_by_field: dict[str, str] = {}
    for ancestor in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        parsed = ast.parse(inspect.getsource(ancestor)).body[0]
        for pair in pairwise(parsed.body if isinstance(parsed, ast.ClassDef) else ()):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=n)), ast.Expr(ast.Constant(str(text))):
                    text_by_field[n] = " ".join(text.split())
    return text_by_field


# A model that is built when a value of it is given: building one takes milliseconds.


class Placeholder:
    """Stands for a model in the annotation of a field; a value is validated by the model itself.

    Attributes:
        home: The model's module.
        name: Its name there.
    """

    home: ClassVar[str]
    name: ClassVar[str]

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The model."""
        model_class: type[BaseModel] = getattr(import_module(cls.home), cls.name)
        return model_class

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: cls.model().model_validate(value),
            ref=f"{cls.home}.{cls.name}:{id(cls)}",  # a definition of its own in a JSON schema
            serialization=core_schema.plain_serializer_function_ser_schema(BaseModel.model_dump),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        # a model that has another in two places is a definition itself: one of the two is enough
        return handler.resolve_ref_schema(handler(cls.model().__pydantic_core_schema__))
