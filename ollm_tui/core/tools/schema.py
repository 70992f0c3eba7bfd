"""A tool's schema for models, made from its parameter model alone (001 R1.6, 000 Property 5, 004 step 3.5)."""

from __future__ import annotations

from copy import deepcopy
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

from pydantic import BaseModel, JsonValue

from ollm_tui.core.base.results import JsonObject, ToolData

if TYPE_CHECKING:
    from types import UnionType

_NOISE = frozenset({"title", "additionalProperties", "$defs"})
_BOUNDS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems"}
)
"""Left out to save tokens: validation errors name the bound that matters."""


class SchemaFormat(StrEnum):
    """The schema formats of model servers (contract section 7)."""

    OLLM = "ollm"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class _Tool(Protocol):
    """What schemas are made of; `core/tools/base.py` has the class, and imports this module."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> type[BaseModel]: ...
    @property
    def returns(self) -> type[ToolData] | UnionType | None: ...


def function_schema(tool: _Tool, form: SchemaFormat = SchemaFormat.OLLM) -> JsonObject:
    """Return a tool's schema as a copy that the caller may change."""
    parameters = deepcopy(compact_schema(tool.parameters))
    match form:
        case SchemaFormat.OLLM:
            return {"name": tool.name, "description": tool.description, "parameters": parameters}
        case SchemaFormat.OPENAI:
            return {"type": "function", "function": function_schema(tool)}
        case SchemaFormat.ANTHROPIC:
            return {"name": tool.name, "description": tool.description, "input_schema": parameters}


def returns_schema(tool: _Tool) -> JsonObject:
    """Return the JSON Schema of a tool's `data`, as programs get it; empty where it returns none."""
    if tool.returns is None:
        return {}
    from pydantic import TypeAdapter  # only programs ask for this

    model = cast("type[ToolData]", tool.returns)  # a union is one for the adapter, too
    schema: JsonObject = TypeAdapter(model).json_schema(mode="serialization")
    _allow_absent(schema)
    return schema


def _allow_absent(node: JsonValue) -> None:
    """Remove nullable properties from `required`: null values are left out."""
    match node:
        case {"properties": dict(properties), "required": list(required)}:
            node["required"] = [name for name in required if not _is_nullable(properties.get(str(name)))]
        case _:
            pass
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _allow_absent(child)


def _is_nullable(schema: JsonValue) -> bool:
    choices = schema.get("anyOf") if isinstance(schema, dict) else None
    return isinstance(choices, list) and {"type": "null"} in choices


def parameters_in_words(model: type[BaseModel]) -> str:
    """Return the parameters as `path, n?: integer`, for models; no type means string."""
    return _members(compact_schema(model))


def _members(schema: JsonObject) -> str:
    properties, required = schema.get("properties"), schema.get("required")
    members = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    return ", ".join(
        f"{name}{'' if name in needed else '?'}{_kind_of(part)}"
        for name, part in members.items()
        if isinstance(part, dict)
    )


def _kind_of(part: JsonObject) -> str:
    choices, items = part.get("enum"), part.get("items")
    if isinstance(choices, list):
        return f": {' | '.join(map(str, choices))}"
    match part.get("type"):
        case "array" if isinstance(items, dict):
            inner = f"{{{_members(items)}}}" if "properties" in items else str(items.get("type", "anything"))
            return f": [{inner}]"
        case "string":
            return ""
        case kind:
            return f": {kind or 'anything'}"


@lru_cache(maxsize=256)
def compact_schema(model: type[BaseModel]) -> JsonObject:
    """Return the JSON Schema without `$defs`, titles, bounds and nulls; shared, so nobody changes it.

    Optional means "not required", which small models understand.
    """
    raw: JsonObject = model.model_json_schema(by_alias=True)
    if getattr(model, "given_schema", None) is not None:
        return raw  # a stranger's: what its words mean to its tool is not ours to say
    definitions = raw.get("$defs")
    defs = definitions if isinstance(definitions, dict) else {}
    schema = _compact(raw, defs, ())
    schema.pop("description", None)  # the class docstring: the tool's own description says it for models
    schema.setdefault("properties", {})
    return schema


def _compact(node: JsonObject, defs: JsonObject, inside: tuple[str, ...]) -> JsonObject:
    reference = node.get("$ref")
    if isinstance(reference, str):
        name = reference.rsplit("/", 1)[-1]
        if name in inside:
            raise ValueError(f"the schema refers to itself through {name}: no model can be offered it")
        target = defs.get(name)
        merged = {**(target if isinstance(target, dict) else {}), **{k: v for k, v in node.items() if k != "$ref"}}
        merged.pop("title", None)
        if "description" not in node:
            merged.pop("description", None)  # the docstring of a class: for readers of the code
        return _compact(merged, defs, (*inside, name))
    choices = node.get("anyOf")
    if isinstance(choices, list):
        real = [choice for choice in choices if isinstance(choice, dict) and choice.get("type") != "null"]
        rest = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
        if node.get("default") is not None:
            rest["default"] = node["default"]
        if len(real) == 1:
            return _compact({**real[0], **rest}, defs, inside)
        return {**_compact(rest, defs, inside), "anyOf": [_compact(choice, defs, inside) for choice in real]}
    compact: JsonObject = {}
    for key, value in node.items():
        if key in _NOISE or key in _BOUNDS or (key == "default" and _is_obvious(value)):
            continue
        if key == "properties" and isinstance(value, dict):
            compact[key] = {
                name: _compact(part, defs, inside) for name, part in value.items() if isinstance(part, dict)
            }
        elif key == "items" and isinstance(value, dict):
            compact[key] = _compact(value, defs, inside)
        else:
            compact[key] = value
    if "enum" in compact and "type" not in compact:
        compact["type"] = "string"
    return compact


def _is_obvious(default: JsonValue) -> bool:
    """Return whether a model would assume this default anyway."""
    return default in (None, "", ".", "utf-8") or default == 0  # False is 0, too
