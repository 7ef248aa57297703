"""A model that is built when a value of it is given: building one takes milliseconds."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema


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
