"""Reads the arguments of a tool call, which models write as JSON, nearly JSON, or half of it.

Only the writing is mended (quotes, trailing commas, Python's words); nothing is added. Arguments that break
off are a fault: a call that was cut could run with a part of what was meant.
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
"""Longest arguments of one call that are read at all."""

_TOKEN = re.compile(
    r"""(?P<double>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<single>'[^'\\]*(?:\\.[^'\\]*)*')|(?P<open>["'])"""
    r"""|(?P<word>[A-Za-z_]+)|(?P<comma>,(?=\s*[}\]]))|(?P<other>[^"'A-Za-z_,]+|,)""",
    re.DOTALL,
)
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class ParsedArguments:
    """Arguments as an object, or the `fault` that keeps the call from running."""

    value: JsonObject = field(default_factory=dict[str, JsonValue])
    repaired: bool = False
    fault: str | None = None


def read_arguments(raw: str | JsonObject | None, *, cut: bool = False) -> ParsedArguments:
    """Make an object of what a model sent; `cut` says that the reply ended before the model did.

    An object is taken as it is, text is parsed, text holding a JSON string is parsed once more, nothing is `{}`.
    """
    if raw is None or isinstance(raw, dict):
        return _checked(raw or {}, repaired=False)
    if len(raw) > MAX_ARGUMENT_CHARACTERS:
        return _fault(f"the arguments are {len(raw):,} characters long; at most {MAX_ARGUMENT_CHARACTERS:,} are taken")
    if not raw.strip():
        return _fault(_cut_text(raw)) if cut else ParsedArguments()
    value, repaired, problem = _parse(raw)
    if isinstance(value, str) and problem is None:
        value, mended, problem = _parse(value) if value.strip() else ({}, False, None)
        repaired = repaired or mended
    if problem is not None:
        return _fault(_cut_text(raw) if cut else f"the arguments are not valid JSON ({problem}); send them again")
    if value is None:
        return ParsedArguments()
    if not isinstance(value, dict):
        return _fault(f"the arguments must be a JSON object, not {_kind(value)}; send them again")
    if repaired and cut:
        return _fault(_cut_text(raw))
    return _checked(value, repaired=repaired)


def is_whole_object(raw: str) -> bool:
    """Whether the text is a complete JSON object already, so that what follows belongs to another call."""
    if not raw.rstrip().endswith("}"):
        return False
    value, _, problem = _parse(raw)
    return problem is None and isinstance(value, dict)


def _parse(text: str) -> tuple[JsonValue, bool, str | None]:
    """The value, whether it had to be mended, and the problem if it could not be read."""
    try:
        return _loads(text), False, None
    except RecursionError:
        return None, False, "nested too deeply"
    except ValueError as error:
        problem = str(error)
    try:
        return _loads(_mended(text)), True, None
    except (ValueError, RecursionError):
        return None, False, problem


def _loads(text: str) -> JsonValue:
    """Raises ValueError; raw line ends inside strings are taken, NaN and Infinity are not JSON."""
    # json.loads is typed to return Any; what it returns is JsonValue by its own definition
    return cast(JsonValue, json.loads(text, strict=False, parse_constant=_no_constant, parse_float=_finite))


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


def _mended(text: str) -> str:
    """The same text with JSON's quotes and words, without trailing commas; strings keep their content."""
    pieces: list[str] = []
    for token in _TOKEN.finditer(text.strip()):
        match token.lastgroup:
            case "single":
                inner = token.group()[1:-1].replace("\\'", "'")
                pieces.append('"' + re.sub(r'(\\.)|"', lambda m: m.group(1) or '\\"', inner, flags=re.DOTALL) + '"')
            case "open":
                # nothing can mend a string without an end, and looking on from here would take quadratic time
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
        return _fault("the arguments hold half a character (an unpaired surrogate); send them again")
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


def _fault(text: str) -> ParsedArguments:
    return ParsedArguments(fault=text)


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
