"""Keeps half surrogate pairs and bottomless nesting out of the conversation: no log, server or screen can take them."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from ollm_tui.agent.providers.provider import ToolCall
from ollm_tui.core.base.results import JsonObject

DEEPEST = 100
"""Levels of nesting in a call's arguments; no tool takes more than three, and JSON readers give up at 200 or so."""


def well_formed(text: str) -> str:
    """The text as valid Unicode: pairs joined, and U+FFFD for each half that is alone."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_json(value: JsonValue) -> JsonValue:
    """The value with every text in it valid Unicode, names of members included."""
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
    """The call as it can be shown, logged and sent back; with a fault where that is not what the model meant."""
    name = well_formed(call.name)
    if _is_deeper_than(call.arguments, DEEPEST):
        return replace(call, name=name, arguments={}, fault=f"The arguments are nested over {DEEPEST} levels deep.")
    arguments: JsonObject = {well_formed(key): well_formed_json(item) for key, item in call.arguments.items()}
    if arguments == call.arguments:
        return call if name == call.name else replace(call, name=name)
    half = "The arguments hold half of a surrogate pair: send whole characters."
    return replace(call, name=name, arguments=arguments, raw_arguments=None, fault=call.fault or half)


def _is_deeper_than(value: JsonValue, levels: int) -> bool:
    """Without recursion: the depth is what is in question."""
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
