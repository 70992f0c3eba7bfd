"""Tool calls for models that were not made for them: a written protocol, held to a JSON schema where the server can.

The model answers with one JSON object: `{"tool": NAME, "arguments": {...}}`, or `{"answer": TEXT}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from pydantic import JsonValue

from ollm_tui.agent.providers.json_values import as_list, as_object, as_text, well_formed
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    ChatRequest,
    Message,
    SystemMessage,
    ToolMessage,
    ToolSchema,
    UserMessage,
)
from ollm_tui.agent.providers.text_tool_calls import TextHoldback, TextToolCall, find_calls, folded_names
from ollm_tui.core.base.results import JsonObject

MAX_SUMMARY = 100
"""Characters of a tool's description in the protocol; more would fill a small window."""

_PROTOCOL = """\
You have tools. Answer with one JSON object and nothing else:
{{"tool": NAME, "arguments": {{...}}}} uses a tool; its result comes with the next message.
{{"answer": TEXT}} tells the person, and ends your turn.
Use one tool at a time, and only these:
{tools}"""

_ANSWER = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
_CALL = re.compile(r'\s*(?:```(?:json)?\s*)?\{\s*"tool"\s*:')
_UNDECIDED = 40
"""Characters within which a reply shows what it is."""

_HIGH = r"u[dD][89abAB][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf'\\(?:{_HIGH}\\u[dD][c-fC-F][0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|["\\/bfnrt])')
_UNFINISHED = re.compile(rf"\\(?:u[0-9a-fA-F]{{0,3}}|{_HIGH}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?)?\Z")
"""An escape whose end is still to come, or the first half of a pair."""
_PLAIN = re.compile(r'[^"\\]+')


def prompted_request(request: ChatRequest, messages: Iterable[Message]) -> ChatRequest:
    """Return the request with the protocol in its system message, and all calls and results as text.

    `messages` are in the order that servers take: one system message, each call followed by its result.
    """
    protocol = _PROTOCOL.format(tools="\n".join(map(signature, request.tools)))
    first, *rest = messages
    if isinstance(first, SystemMessage):
        protocol = f"{first.text}\n\n{protocol}"
    else:
        rest.insert(0, first)
    return replace(request, messages=(SystemMessage(protocol), *map(_as_text, rest)), tools=())


def reply_schema(tools: Iterable[ToolSchema]) -> JsonObject:
    """Return the JSON schema of a reply: one call of one of the tools, or the answer."""
    calls: list[JsonValue] = [_object({"tool": {"const": tool.name}, "arguments": tool.parameters}) for tool in tools]
    return {"anyOf": [*calls, _object({"answer": {"type": "string"}})]}


def signature(tool: ToolSchema) -> str:
    """Return a tool on one line: `ls(path?: string, recursive?: boolean) - List a directory`."""
    required = as_list(tool.parameters.get("required"))
    properties = as_object(tool.parameters.get("properties"))
    parameters = [f"{name}{'' if name in required else '?'}: {_type_of(schema)}" for name, schema in properties.items()]
    summary = tool.description.split("\n")[0].split(". ")[0][:MAX_SUMMARY]
    return f"- {tool.name}({', '.join(parameters)}) - {summary}"


class PromptedHoldback:
    """Passes an answer on as it is written, and holds a call back until it is whole."""

    def __init__(self, tool_names: Iterable[str]) -> None:
        self._names = folded_names(tool_names)
        self._other = TextHoldback(self._names.values())
        self._state = "undecided"
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add text; return what may be shown."""
        match self._state:
            case "other":
                return self._other.feed(piece)
            case "over":
                return ""
            case _:
                self._held += piece
        if self._state == "undecided":
            self._decide()
        match self._state:
            case "answer":
                return self._answered()
            case "other":
                held, self._held = self._held, ""
                return self._other.feed(held)
            case _:
                return ""

    def close(self) -> tuple[str, tuple[TextToolCall, ...]]:
        """Return the rest of the text, or the calls that it is."""
        if self._state == "other":
            return self._other.close()
        calls = find_calls(self._held, self._names) if self._state in ("call", "undecided") else ()
        return ("", calls) if calls else (self.release(), ())

    def release(self) -> str:
        """Return all text that was held back."""
        if self._state == "other":
            return self._other.release()
        rest, self._held = self._held, ""
        return "" if self._state in ("answer", "over") else rest

    def _decide(self) -> None:
        if found := _ANSWER.match(self._held):
            self._state, self._held = "answer", self._held[found.end() :]
        elif _CALL.match(self._held):
            self._state = "call"
        elif self._held.strip() and (self._held.lstrip()[0] not in "{`" or len(self._held) > _UNDECIDED):
            self._state = "other"

    def _answered(self) -> str:
        """Return what has come of the JSON string of the answer."""
        shown: list[str] = []
        at = 0
        while at < len(self._held):
            if self._held[at] == '"':
                self._state, self._held = "over", ""
                return "".join(shown)
            if plain := _PLAIN.match(self._held, at):
                shown.append(plain[0])
                at = plain.end()
            elif _UNFINISHED.match(self._held, at):
                break
            elif found := _ESCAPE.match(self._held, at):
                shown.append(well_formed(str(json.loads(f'"{found[0]}"'))))
                at = found.end()
            else:
                shown.append(self._held[at])
                at += 1
        self._held = self._held[at:]
        return "".join(shown)


def _as_text(message: Message) -> Message:
    """Return a message as the protocol writes it."""
    match message:
        case AssistantMessage(text, calls, reasoning):
            written: list[str] = [json.dumps({"answer": text}, ensure_ascii=False)] if text and not calls else []
            written += [
                json.dumps({"tool": call.name, "arguments": call.arguments}, ensure_ascii=False) for call in calls
            ]
            return AssistantMessage("\n".join(written), reasoning=reasoning)
        case ToolMessage(_, name, content):
            return UserMessage(f"Result of {name}:\n{content}")
        case _:
            return message


def _object(properties: JsonObject) -> JsonObject:
    required: list[JsonValue] = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _type_of(schema: JsonValue) -> str:
    written = as_object(schema)
    if choices := as_list(written.get("enum")):
        return "|".join(json.dumps(choice) for choice in choices)
    if options := [_type_of(option) for option in as_list(written.get("anyOf")) if option != {"type": "null"}]:
        return "|".join(options)
    kind = as_text(written.get("type")) or "object"
    return f"{_type_of(written.get('items'))}[]" if kind == "array" else kind
