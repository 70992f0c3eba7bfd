"""Parameters of tools that others describe by a JSON Schema: MCP servers and plug-ins (004, contract 11)."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any, ClassVar

from pydantic import (
    ConfigDict,
    GetJsonSchemaHandler,
    JsonValue,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.tools.base import Parameters

MAX_SCHEMA_CHARACTERS = 16_000
"""A longer schema is refused: no window has room for it."""
_DEEPEST = 12
"""Levels of a schema that are looked at; whoever made it checks the rest."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class SchemaParameters(Parameters):
    """Arguments that fit a schema; each tool has a class of its own, made by `schema_parameters`."""

    # Names go to the tool as they came: none of them is ours.
    model_config = ConfigDict(alias_generator=None, extra="allow", frozen=True, defer_build=True)
    given_schema: ClassVar[JsonObject] = {"type": "object"}

    @model_validator(mode="wrap")
    @classmethod
    def _fits(cls, data: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(data, dict):
            faults = list(_faults(data, cls.given_schema, ()))  # pyright: ignore[reportUnknownArgumentType]  # JSON of any shape
            if faults:
                raise ValidationError.from_exception_data(cls.__name__, faults)
        return handler(data)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /) -> JsonObject:
        return cls.given_schema

    def on_the_wire(self) -> JsonObject:
        """Return the arguments as they were given."""
        return dict(self.model_extra or {})


def schema_parameters(name: str, schema: JsonObject) -> type[SchemaParameters]:
    """Return the parameters that a JSON Schema describes.

    Raises:
        ValueError: It describes no object, or is too long for a model to read.
    """
    if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), dict):
        raise ValueError("its parameters are no JSON object")
    shown = _without_titles(schema)
    shown.pop("$schema", None)
    shown.setdefault("type", "object")
    if not shown.setdefault("properties", {}):
        shown.setdefault("additionalProperties", True)
    if (length := len(json.dumps(shown))) > MAX_SCHEMA_CHARACTERS:
        raise ValueError(f"its schema has {length:,} characters, over {MAX_SCHEMA_CHARACTERS:,}")
    return type(name, (SchemaParameters,), {"given_schema": shown, "__module__": __name__})


def _without_titles(schema: JsonObject) -> JsonObject:
    """Return a schema as a model reads it: a title repeats the name."""
    return {
        key: _parts(value) if key in ("properties", "$defs", "definitions") else _within(value)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }


def _parts(value: JsonValue) -> JsonValue:
    return {name: _within(part) for name, part in value.items()} if isinstance(value, dict) else value


def _within(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_within(part) for part in value]
    return _without_titles(value) if isinstance(value, dict) else value


def _faults(value: JsonValue, schema: JsonValue, at: tuple[str | int, ...]) -> Generator[InitErrorDetails]:
    """Yield what does not fit of types, choices and required names: a wrong call need not leave the program.

    No pattern or reference of a schema counts: a stranger's could keep us busy for ever.
    """
    if not isinstance(schema, dict) or len(at) > _DEEPEST:
        return
    kinds, choices = schema.get("type"), schema.get("enum")
    allowed = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    known = [str(kind) for kind in allowed if str(kind) in _TYPES]
    if known and not any(_is_a(value, kind) for kind in known):
        yield _fault(at, value, f"it should be of type {' or '.join(known)}")
    elif isinstance(choices, list) and value not in choices:
        yield _fault(at, value, f"it should be one of {', '.join(json.dumps(choice) for choice in choices[:20])}")
    elif isinstance(value, dict):
        properties, required = schema.get("properties"), schema.get("required")
        for name in required if isinstance(required, list) else ():
            if str(name) not in value:
                yield _fault((*at, str(name)), value, "it is required")
        for name, part in properties.items() if isinstance(properties, dict) else ():
            if name in value:
                yield from _faults(value[name], part, (*at, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, schema.get("items"), (*at, index))


def _is_a(value: JsonValue, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _fault(at: tuple[str | int, ...], value: JsonValue, text: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError("schema", "{text}", {"text": text}), loc=at, input=value)
