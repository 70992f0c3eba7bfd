"""Keep half surrogate pairs and deep nesting out, which no log, server or screen can take."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from ollm_tui.agent.providers.provider import ToolCall
from ollm_tui.core.base.results import JsonObject

DEEPEST = 100
"""Levels of nesting in arguments; tools take three, JSON readers give up at about 200."""


def well_formed(text: str) -> str:
    """Return the text as valid Unicode: pairs joined, U+FFFD for each lone half."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_json(value: JsonValue) -> JsonValue:
    """Return the value with every text in it valid Unicode, names of members included."""
    match value:
        case str():
            return well_formed(value)
        case list():
            return [well_formed_json(item) for item in value]
        case dict():
            return {well_formed(key): well_formed_json(item) for key, item in value.items()}
        case _:
            return value


def presentable(call: ToolCall) -> ToolCall:
    """Return the call as it can be shown and logged; with an error where that changes it."""
    name = well_formed(call.name)
    if _is_deeper_than(call.arguments, DEEPEST):
        return replace(call, name=name, arguments={}, error=f"The arguments are nested over {DEEPEST} levels deep.")
    arguments: JsonObject = {well_formed(key): well_formed_json(item) for key, item in call.arguments.items()}
    if arguments == call.arguments:
        return call if name == call.name else replace(call, name=name)
    half = "The arguments hold half of a surrogate pair: send whole characters."
    return replace(call, name=name, arguments=arguments, raw_arguments=None, error=call.error or half)


def _is_deeper_than(value: JsonValue, levels: int) -> bool:
    """Return whether the value is nested deeper, without recursion."""
    layer: list[JsonValue] = [value]
    for _ in range(levels):
        inner: list[JsonValue] = []
        for each in layer:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        if not inner:
            return False
        layer = inner
    return True
