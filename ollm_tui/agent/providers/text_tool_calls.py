"""Find tool calls that a model wrote into its text and the server did not recognise.

A call counts only when tools were offered, its name is one of them, it is at the end of the reply, and the reply has no
proper call. Anything else is shown as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from pydantic import JsonValue

from ollm_tui.agent.providers.json_values import ParsedArguments, read_arguments
from ollm_tui.core.base.results import JsonObject

MAX_HELD_CHARACTERS = 8 * 1024
"""Most text held back while it could still become a call."""

_NAME_KEYS = ("name", "tool", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params")
_KNOWN_KEYS = (*_NAME_KEYS, *_ARGUMENT_KEYS, "tool_calls", "type", "id")
_TAGS = {"<tool_call>": "</tool_call>", "<function_call>": "</function_call>"}
_MARKS = (*_TAGS, "[TOOL_CALLS]", "<function=")
_FENCE_WORDS = ("", "json", "tool_call", "tool_code", "tool")

_OPENING = re.compile(r"[<\[`{]")
_JSON_HEAD = re.compile(r"\[?\s*(?:\{\s*(?:\"(\w*)(\"?)|\Z)|\Z)")
_HEAD_CHARACTERS = 200
"""Enough of a text to tell whether it begins like a call."""
_FENCE = re.compile(r"```(\w*)[ \t]*\r?\n(.*?)\n?[ \t]*```", re.DOTALL)
_FUNCTION = re.compile(r"<function=([\w.-]+)\s*>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)\s*>\n?(.*?)\n?</parameter>", re.DOTALL)
_MISTRAL = re.compile(r"\[TOOL_CALLS\]\s*([\w.-]+)\s*(?:\[CALL_ID\][\w-]*)?(?:\[ARGS\])?\s*")
_BETWEEN = re.compile(r"[\s,;]*")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class TextToolCall:
    """A call read from text."""

    name: str
    arguments: ParsedArguments


class TextHoldback:
    """Passes text on, holding back the part that could still become a call."""

    def __init__(self, tool_names: Iterable[str]) -> None:
        self._names = folded_names(tool_names)
        self._held = ""
        self._line_start = True

    def feed(self, piece: str) -> str:
        """Add text; return what may be shown."""
        if not self._names:
            return piece
        self._held += piece
        return self._show(self._certain())

    def close(self) -> tuple[str, tuple[TextToolCall, ...]]:
        """Return the rest of the text, or the calls that it is."""
        calls = find_calls(self._held, self._names)
        if calls:
            self._held = ""
            return "", calls
        return self._show(len(self._held)), ()

    def release(self) -> str:
        """Return all text that was held back."""
        return self._show(len(self._held))

    def _show(self, size: int) -> str:
        shown, self._held = self._held[:size], self._held[size:]
        self._line_start = _only_blanks_in_last_line(shown, before=self._line_start)
        return shown

    def _certain(self) -> int:
        """Return how many characters of the held text are certainly not part of a call."""
        held = self._held
        # what begins further back than the cap is shown in any case
        for opening in _OPENING.finditer(held, max(0, len(held) - MAX_HELD_CHARACTERS)):
            at = opening.start()
            line_start = _only_blanks_in_last_line(held[max(0, at - _HEAD_CHARACTERS) : at], before=self._line_start)
            if _begins_like_call(held[at : at + _HEAD_CHARACTERS], line_start) and _still_open_or_last(held[at:]):
                return at
        return len(held)


def folded_names(tool_names: Iterable[str]) -> dict[str, str]:
    """Return the names by their folded form, in which near-misses of a model are the same."""
    return {_folded(name): name for name in tool_names}


def find_calls(text: str, names: Mapping[str, str]) -> tuple[TextToolCall, ...]:
    """Return the calls that make up all of `text`, or none.

    Args:
        text: What a model wrote; closing tags and fences may be missing.
        names: Offered names by their folded form.
    """
    rest = _with_closings(text.strip())
    found: list[TextToolCall] = []
    while rest:
        block = _read_block(rest)
        if not isinstance(block, _Block):
            return ()
        for call in block.calls:
            name = names.get(_folded(call.name))
            if name is None:
                return ()
            found.append(TextToolCall(name, call.arguments))
        rest = block.rest
    return tuple(found)


def _begins_like_call(head: str, line_start: bool) -> bool:
    """Return whether text that begins so is, or may become, a call."""
    if any(head.startswith(mark) or mark.startswith(head) for mark in _MARKS):
        return True
    if not line_start:
        return False
    if not head.startswith("`"):
        return _begins_like_json_call(head)
    if not head.startswith("```"):
        return "```".startswith(head)
    word, line_end, inside = head[3:].partition("\n")
    word = word.strip().lower()
    if not line_end:
        return any(known.startswith(word) for known in _FENCE_WORDS)
    inside = inside.lstrip()
    return word in _FENCE_WORDS and (not inside or _begins_like_call(inside, True))


def _begins_like_json_call(head: str) -> bool:
    """Return whether the first key of the object, as far as it has come, is one that calls begin with."""
    found = _JSON_HEAD.match(head)
    if found is None:
        return False
    key: str | None = found.group(1)
    if key is None:
        return True
    if found.group(2):
        return key in _KNOWN_KEYS
    return found.end() == len(head) and any(known.startswith(key) for known in _KNOWN_KEYS)


def _still_open_or_last(text: str) -> bool:
    """Return whether nothing but calls follows; ordinary text after a call makes it an example, not a call."""
    rest = text
    while rest:
        block = _read_block(rest)
        if isinstance(block, _Block):
            rest = block.rest
        else:
            return block is _NoBlock.OPEN and (rest is text or _begins_like_call(rest[:_HEAD_CHARACTERS], True))
    return True


@dataclass(frozen=True)
class _Block:
    calls: list[TextToolCall]
    rest: str


class _NoBlock(StrEnum):
    OPEN = "open"
    """More text could make a call of it."""
    TEXT = "text"
    """Complete, and no call."""


def _read_block(text: str) -> _Block | _NoBlock:
    """Read the call or group of calls at the beginning of `text`."""
    for opening, closing in _TAGS.items():
        if text.startswith(opening):
            inside, closed, after = text.removeprefix(opening).partition(closing)
            return _inside(inside, after) if closed else _NoBlock.OPEN
    if text.startswith("```"):
        fence = _FENCE.match(text)
        return _inside(fence.group(2), text[fence.end() :]) if fence else _NoBlock.OPEN
    if text.startswith("[TOOL_CALLS]"):
        return _mistral(text)
    if text.startswith("<function="):
        function = _FUNCTION.match(text)
        return _block([_from_parameters(function)], text[function.end() :]) if function else _NoBlock.OPEN
    return _json(text)


def _inside(text: str, after: str) -> _Block | _NoBlock:
    """Read the content of a fence or tag, which must be calls alone."""
    calls: list[TextToolCall] = []
    rest = text.strip()
    while rest:
        block = _read_block(rest)
        if not isinstance(block, _Block):
            return _NoBlock.TEXT
        calls += block.calls
        rest = block.rest
    return _block(calls, after) if calls else _NoBlock.TEXT


def _mistral(text: str) -> _Block | _NoBlock:
    """Read `[TOOL_CALLS][{...}]`, or `[TOOL_CALLS]name[ARGS]{...}` as newer models write."""
    named = _MISTRAL.match(text)
    if named is None:
        return _json(text.removeprefix("[TOOL_CALLS]").lstrip())
    decoded = _decode(text[named.end() :])
    if decoded is None:
        return _NoBlock.OPEN
    arguments, size = decoded
    if not isinstance(arguments, dict):
        return _NoBlock.TEXT
    return _block([TextToolCall(named.group(1), read_arguments(arguments))], text[named.end() + size :])


def _json(text: str) -> _Block | _NoBlock:
    decoded = _decode(text)
    if decoded is None:
        return _NoBlock.OPEN
    value, size = decoded
    if isinstance(value, dict) and isinstance(inner := value.get("tool_calls"), list):
        value = inner
    read = [_from_object(member) for member in (value if isinstance(value, list) else [value])]
    calls = [call for call in read if call is not None]
    return _block(calls, text[size:]) if calls and len(calls) == len(read) else _NoBlock.TEXT


def _from_object(value: JsonValue) -> TextToolCall | None:
    """Return a call in one of the shapes models write; it needs a name and arguments."""
    if not isinstance(value, dict):
        return None
    if isinstance(inner := value.get("function"), dict):
        return _from_object(inner)
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    key = next((key for key in _ARGUMENT_KEYS if key in value), None)
    if not isinstance(name, str) or key is None:
        return None
    arguments = value[key]
    if not isinstance(arguments, dict | str) and arguments is not None:
        return None
    return TextToolCall(name, read_arguments(arguments))


def _from_parameters(function: re.Match[str]) -> TextToolCall:
    arguments: JsonObject = {found.group(1): found.group(2) for found in _PARAMETER.finditer(function.group(2))}
    return TextToolCall(function.group(1), read_arguments(arguments))


def _block(calls: list[TextToolCall], after: str) -> _Block:
    return _Block(calls, _BETWEEN.sub("", after, count=1))


def _decode(text: str) -> tuple[JsonValue, int] | None:
    try:
        # raw_decode is typed to return Any; what it returns is JsonValue by its own definition
        return cast("tuple[JsonValue, int]", _DECODER.raw_decode(text))
    except (ValueError, RecursionError):
        return None


def _with_closings(text: str) -> str:
    for opening, closing in _TAGS.items():
        if text.count(opening) > text.count(closing):
            text += closing
    return text + "\n```" if text.count("```") % 2 else text


def _only_blanks_in_last_line(text: str, *, before: bool) -> bool:
    """Return whether the last line of `text` is blank, `before` being so for the line it continues."""
    *earlier, last = text.rsplit("\n", 1)
    return not last.strip(" \t\r") and (bool(earlier) or before)


def _folded(name: str) -> str:
    return name.strip().casefold().replace("-", "_").removeprefix("functions.")
