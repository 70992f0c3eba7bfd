"""Read JSON that servers and models write, and keep out what no log, server or screen can take.

Of a call's arguments only the notation is repaired (quotes, trailing commas, Python's words); nothing is added.
Arguments that break off are an error: a call that was cut could run with a part of what was meant.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace
from typing import cast

from pydantic import JsonValue

from ollm_tui.agent.providers.provider import ToolCall
from ollm_tui.core.base.results import JsonObject

MAX_ARGUMENT_CHARACTERS = 4_000_000
"""Longest arguments of one call that are read."""

DEEPEST = 100
"""Levels of nesting in arguments; tools take three, JSON readers give up at about 200."""

_TOKEN = re.compile(
    r"""(?P<double>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<single>'[^'\\]*(?:\\.[^'\\]*)*')|(?P<open>["'])"""
    r"""|(?P<word>[A-Za-z_]+)|(?P<comma>,(?=\s*[}\]]))|(?P<other>[^"'A-Za-z_,]+|,)""",
    re.DOTALL,
)
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


def parse_json(text: str | bytes) -> JsonValue:
    """Return the value; raise ValueError for what is not JSON or nested too deeply."""
    try:
        # json.loads is typed to return Any; what it returns is JsonValue by its own definition
        return cast(JsonValue, json.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def member(value: JsonValue, key: str) -> JsonValue:
    """Return a member; None where there is no object or no such member."""
    return value.get(key) if isinstance(value, dict) else None


def as_object(value: JsonValue) -> JsonObject:
    """Return an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str | None:
    """Return a string that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def as_count(value: JsonValue) -> int | None:
    """Return a whole number that is not negative, else None; booleans do not count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


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
    arguments = as_object(well_formed_json(call.arguments))
    if arguments == call.arguments:
        return replace(call, name=name)
    half = "The arguments hold half of a surrogate pair: send whole characters."
    return replace(call, name=name, arguments=arguments, error=call.error or half)


def _is_deeper_than(value: JsonValue, levels: int) -> bool:
    """Return whether the value is nested deeper, without recursion."""
    layer: list[JsonValue] = [value]
    for _ in range(levels):
        layer = [inner for each in layer for inner in (each.values() if isinstance(each, dict) else as_list(each))]
    return bool(layer)


@dataclass(frozen=True)
class ParsedArguments:
    """Arguments as an object, or the `error` that keeps the call from running."""

    value: JsonObject = field(default_factory=dict[str, JsonValue])
    repaired: bool = False
    error: str | None = None


def read_arguments(raw: str | JsonObject | None, *, cut: bool = False) -> ParsedArguments:
    """Return what a model sent as an object; `cut` says that the reply reached a limit.

    Text is parsed, text that holds a JSON string is parsed once more, nothing is `{}`.
    """
    if raw is None or isinstance(raw, dict):
        return _checked(raw or {}, repaired=False)
    if len(raw) > MAX_ARGUMENT_CHARACTERS:
        text = f"the arguments are {len(raw):,} characters long; at most {MAX_ARGUMENT_CHARACTERS:,} are taken"
        return ParsedArguments(error=text)
    text = f"the arguments were cut off after {len(raw):,} characters; the call was not run: send it again, shorter"
    cut_off = ParsedArguments(error=text)
    if not raw.strip():
        return cut_off if cut else ParsedArguments()
    value, repaired, reason = _parse(raw)
    if isinstance(value, str) and reason is None:
        value, repaired_too, reason = _parse(value) if value.strip() else ({}, False, None)
        repaired = repaired or repaired_too
    if cut and (reason is not None or (repaired and isinstance(value, dict))):
        return cut_off
    if reason is not None:
        return ParsedArguments(error=f"the arguments are not valid JSON ({reason}); send them again")
    if value is None:
        return ParsedArguments()
    if not isinstance(value, dict):
        kind = {"list": "an array", "str": "a string", "bool": "true or false"}.get(type(value).__name__, "a number")
        return ParsedArguments(error=f"the arguments must be a JSON object, not {kind}; send them again")
    return _checked(value, repaired=repaired)


def is_whole_object(raw: str) -> bool:
    """Return whether the text is a complete JSON object, so that more belongs to another call."""
    if not raw.rstrip().endswith("}"):
        return False
    value, _, reason = _parse(raw)
    return reason is None and isinstance(value, dict)


def _parse(text: str) -> tuple[JsonValue, bool, str | None]:
    """Return the value, whether it was repaired, and why it could not be read."""
    try:
        return _loads(text), False, None
    except RecursionError:
        return None, False, "nested too deeply"
    except ValueError as error:
        reason = str(error)
    try:
        return _loads(_repaired(text)), True, None
    except (ValueError, RecursionError):
        return None, False, reason


def _loads(text: str) -> JsonValue:
    """Return the value or raise ValueError; raw line ends in strings are fine, NaN is not."""
    return cast(JsonValue, json.loads(text, strict=False, parse_constant=_no_constant, parse_float=_finite))


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


def _repaired(text: str) -> str:
    """Return the text with JSON's quotes and words, and without trailing commas."""
    pieces: list[str] = []
    for token in _TOKEN.finditer(text.strip()):
        match token.lastgroup:
            case "single":
                inner = token.group()[1:-1].replace("\\'", "'")
                pieces.append('"' + re.sub(r'(\\.)|"', lambda m: m.group(1) or '\\"', inner, flags=re.DOTALL) + '"')
            case "open":
                # nothing can repair a string without an end, and searching on from here would take quadratic time
                raise ValueError("a string has no end")
            case "word":
                pieces.append(_PYTHON_WORDS.get(token.group(), token.group()))
            case "comma":
                pass
            case _:
                pieces.append(token.group())
    return "".join(pieces)


def _checked(value: JsonObject, *, repaired: bool) -> ParsedArguments:
    if _has_lone_surrogate(value):
        return ParsedArguments(error="the arguments hold half a character (an unpaired surrogate); send them again")
    return ParsedArguments(value, repaired)


def _has_lone_surrogate(value: JsonValue) -> bool:
    """Return whether a text in the value is no valid Unicode, without recursion."""
    waiting: list[JsonValue] = [value]
    while waiting:
        match waiting.pop():
            case str() as text if well_formed(text) != text:
                return True
            case list() as items:
                waiting += items
            case dict() as members:
                waiting += [*members, *members.values()]
            case _:
                pass
    return False
