"""Read the arguments of a tool call, which models write as JSON, nearly JSON, or half of it.

Only the notation is repaired (quotes, trailing commas, Python's words); nothing is added. Arguments that break off are
an error: a call that was cut could run with a part of what was meant.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from ollm_tui.agent.providers.provider import JsonObject

MAX_ARGUMENT_CHARACTERS = 4_000_000
"""Longest arguments of one call that are read."""

_TOKEN = re.compile(
    r"""(?P<double>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<single>'[^'\\]*(?:\\.[^'\\]*)*')|(?P<open>["'])"""
    r"""|(?P<word>[A-Za-z_]+)|(?P<comma>,(?=\s*[}\]]))|(?P<other>[^"'A-Za-z_,]+|,)""",
    re.DOTALL,
)
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


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
        return _error(f"the arguments are {len(raw):,} characters long; at most {MAX_ARGUMENT_CHARACTERS:,} are taken")
    if not raw.strip():
        return _error(_cut_text(raw)) if cut else ParsedArguments()
    value, repaired, reason = _parse(raw)
    if isinstance(value, str) and reason is None:
        value, repaired_too, reason = _parse(value) if value.strip() else ({}, False, None)
        repaired = repaired or repaired_too
    if reason is not None:
        return _error(_cut_text(raw) if cut else f"the arguments are not valid JSON ({reason}); send them again")
    if value is None:
        return ParsedArguments()
    if not isinstance(value, dict):
        return _error(f"the arguments must be a JSON object, not {_kind(value)}; send them again")
    if repaired and cut:
        return _error(_cut_text(raw))
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
    # json.loads is typed to return Any; what it returns is JsonValue by its own definition
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
                # nothing can repair a string without an end, and looking on from here would take quadratic time
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
        return _error("the arguments hold half a character (an unpaired surrogate); send them again")
    return ParsedArguments(value, repaired)


def _has_lone_surrogate(value: JsonValue) -> bool:
    waiting: list[JsonValue] = [value]
    while waiting:
        match waiting.pop():
            case str() as text if _LONE_SURROGATE.search(text):
                return True
            case list() as items:
                waiting.extend(items)
            case dict() as members:
                waiting.extend(members)
                waiting.extend(members.values())
            case _:
                pass
    return False


def _error(text: str) -> ParsedArguments:
    return ParsedArguments(error=text)


def _cut_text(raw: str) -> str:
    return f"the arguments were cut off after {len(raw):,} characters; the call was not run: send it again, shorter"


def _kind(value: JsonValue) -> str:
    match value:
        case list():
            return "an array"
        case str():
            return "a string"
        case bool():
            return "true or false"
        case _:
            return "a number"
