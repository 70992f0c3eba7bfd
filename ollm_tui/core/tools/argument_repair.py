"""Repair of near-miss arguments before validation, each with a note (contract section 1, "Mending").

Nothing is guessed: a parameter is renamed only by the tables below, and only where the right one is missing
and required, or says where the call is to act.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from functools import lru_cache

from pydantic import JsonValue
from pydantic.alias_generators import to_snake as _to_snake

from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.tools.base import AnyTool
from ollm_tui.core.tools.schema import compact_schema

to_snake = lru_cache(maxsize=1024)(_to_snake)
"""pydantic's, four expressions for each name: remembered, since every call asks for all names of its tool."""

NEAR_MISSES: dict[str, tuple[str, ...]] = {
    "path": ("file_path", "filename", "file", "filepath", "file_name"),
    "paths": ("files", "file_paths", "filenames"),
    "target": ("old_string", "old", "old_text", "old_str", "search"),
    "replacement": ("new_string", "new", "new_text", "new_str", "replace"),
    "command": ("cmd", "command_line"),
    "content": ("contents", "text", "file_text"),
    "pattern": ("regex", "query", "glob"),
    "from": ("source", "src", "from_path"),
    "to": ("destination", "dest", "dst", "to_path"),
    "id": ("job_id", "jobId"),
    "url": ("uri", "link"),
    "query": ("q", "search"),
    "task": ("content", "text", "title", "description", "todo"),
}

_FOLDER = ("dir", "folder", "dir_path", "directory_path")
DIRECTORY_NAMES: dict[str, tuple[str, ...]] = {
    "path": ("directory", *_FOLDER),
    "directory": ("path", *_FOLDER),
    "cwd": ("workdir", "working_directory", "working_dir", "directory", *_FOLDER),
}
"""Names repaired even if optional, or a command would run elsewhere."""


@dataclass
class RepairedArguments:
    """Arguments ready for validation, with notes on what was repaired."""

    arguments: JsonValue
    notes: list[str] = field(default_factory=list[str])


def repair(tool: AnyTool, arguments: JsonValue) -> RepairedArguments:
    """Repair `arguments` to fit the tool's schema; validation reports the rest."""
    schema = compact_schema(tool.parameters)
    repaired = RepairedArguments(arguments)
    decoded = _decoded(arguments, "object") if isinstance(arguments, str) else arguments
    if isinstance(decoded, list):
        decoded = _wrapped(decoded, schema, repaired.notes)
    if arguments is None:
        decoded = {}
    if isinstance(decoded, dict):
        repaired.arguments = _repair_object(decoded, schema, repaired.notes, where="")
    return repaired


def _repair_object(arguments: JsonObject, schema: JsonObject, notes: list[str], where: str) -> JsonObject:
    properties = _objects(schema.get("properties"))
    required = _required(schema)
    named = dict(arguments)
    if not named.keys() <= properties.keys():
        wire_names = {to_snake(name): name for name in properties}
        named = {wire_names.get(key, key): value for key, value in arguments.items()}
    for name in properties:
        if name not in named and (name in required or name in DIRECTORY_NAMES):
            stray = _near_miss(name, named, properties, optional=name not in required)
            if stray is not None:
                named[name] = named.pop(stray)
                notes.append(f"{where}{stray} was read as {name}")
    _gather_lone_item(named, schema, notes, where)
    result: JsonObject = {}
    for name, value in named.items():
        if name in properties:
            result[name] = _repair_value(value, properties[name], notes, f"{where}{name}")
        elif schema.get("additionalProperties"):  # of a stranger's schema: ours take none
            result[name] = value
        else:
            notes.append(f"unknown parameter {where}{name} was dropped")
    return result


def _gather_lone_item(named: JsonObject, schema: JsonObject, notes: list[str], where: str) -> None:
    """Gather an item's top-level parts into the required list that is missing."""
    properties = _objects(schema.get("properties"))
    for name in _required(schema):
        items = properties.get(name, {}).get("items")
        if name in named or not isinstance(items, dict) or "properties" not in items:
            continue
        item_notes: list[str] = []
        strays = {key: value for key, value in named.items() if key not in properties}
        item = _repair_object(strays, items, item_notes, where)
        if all(part in item for part in _required(items)):
            for key in strays:
                del named[key]
            named[name] = [item]
            notes += [*item_notes, f"{where}{' and '.join(item)} were read as one of {name}"]


def _near_miss(name: str, named: JsonObject, properties: dict[str, JsonObject], *, optional: bool) -> str | None:
    known = (DIRECTORY_NAMES if optional else NEAR_MISSES).get(name, ())
    for stray, value in named.items():
        if stray in properties or (optional and not (isinstance(value, str) and value)):
            continue  # models send null for what they leave out
        if stray in known or to_snake(stray) in known or _folded(stray) == _folded(name):
            return stray
    return None


def _repair_value(value: JsonValue, schema: JsonObject, notes: list[str], where: str) -> JsonValue:
    kind = schema.get("type")
    match kind:
        case "integer":
            return _as_integer(value, notes, where)
        case "boolean" if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            notes.append(f"{where}: the text {value!r} was read as a boolean")
            return value.strip().lower() == "true"
        case "array" | "object" if isinstance(value, str):
            decoded = _decoded(value, str(kind))
            if decoded is not value:
                notes.append(f"{where}: a JSON text was read as an {kind}")
                return _repair_value(decoded, schema, notes, where)
            if kind == "array" and value and _item_kind(schema) == "string":
                notes.append(f"{where}: one text was read as a list of one")
                return [value]
            return value
        case "string" if where == "command" and isinstance(value, list) and all(isinstance(one, str) for one in value):
            notes.append("command: a list of words was read as the line they make")
            return shlex.join(str(one) for one in value)
        case "array" if isinstance(value, dict) and _item_kind(schema) == "object":
            notes.append(f"{where}: one object was read as a list of one")
            return _repair_value([value], schema, notes, where)
        case "array" if isinstance(value, list):
            items = schema.get("items")
            if not isinstance(items, dict) or items.get("type") != "object":
                return value
            return [
                _repair_object(item, items, notes, f"{where}[{index}].") if isinstance(item, dict) else item
                for index, item in enumerate(value)
            ]
        case "object" if isinstance(value, dict) and "properties" in schema:
            return _repair_object(value, schema, notes, f"{where}.")
        case _:
            return value


def _as_integer(value: JsonValue, notes: list[str], where: str) -> JsonValue:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        digits = value.strip()
        if digits.lstrip("-").isascii() and digits.lstrip("-").isdigit() and len(digits) <= 18:
            notes.append(f"{where}: the text {value!r} was read as a number")
            return int(digits)
    return value


def _decoded(text: str, kind: str) -> JsonValue:
    """Return the array or object that a text spells, else the text."""
    try:
        value: JsonValue = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list if kind == "array" else dict) else text


def _wrapped(items: list[JsonValue], schema: JsonObject, notes: list[str]) -> JsonValue:
    """Wrap a bare array as the tool's only required parameter."""
    properties, required = _objects(schema.get("properties")), _required(schema)
    if len(required) == 1 and properties.get(required[0], {}).get("type") == "array":
        notes.append(f"a bare array was read as {required[0]}")
        return {required[0]: items}
    return items


def _required(schema: JsonObject) -> list[str]:
    names = schema.get("required")
    return [str(name) for name in names] if isinstance(names, list) else []


def _item_kind(schema: JsonObject) -> JsonValue:
    items = schema.get("items")
    return items.get("type") if isinstance(items, dict) else None


def _objects(value: JsonValue) -> dict[str, JsonObject]:
    return {key: part for key, part in value.items() if isinstance(part, dict)} if isinstance(value, dict) else {}


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()
