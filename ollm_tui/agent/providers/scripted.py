"""`ScriptedProvider`: replies from a file, for tests, demonstrations and the tour."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.agent.providers.call_assembly import CallIds
from ollm_tui.agent.providers.json_values import parse_json
from ollm_tui.agent.providers.provider import (
    ChatRequest,
    FinishReason,
    ModelInfo,
    ProviderDescription,
    ProviderError,
    ProviderErrorKind,
    StreamEvent,
    StreamFinished,
    TextDelta,
    ToolCall,
    ToolCallReady,
    ToolMessage,
    UserMessage,
)
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject

_REPLY_KEYS = ("text", "toolCalls", "pieceDelayMs", "expect")
_CALL_KEYS = ("name", "arguments")
_EXPECT_KEYS = ("lastToolResultContains", "lastUserMessageContains", "toolNames")
_PIECE = re.compile(r"\s*\S{1,24}|\s+")
_QUOTED_CHARACTERS = 200


class ScriptError(ValueError):
    """An invalid script; the message names the file, the reply's index (from 0) and the key."""


@dataclass(frozen=True)
class Expectation:
    """What a request must be like; None is what does not matter."""

    last_tool_result_contains: str | None = None
    last_user_message_contains: str | None = None
    tool_names: tuple[str, ...] | None = None
    """Exactly the tools offered, in any order."""

    def difference(self, request: ChatRequest) -> str | None:
        """Return how the request differs, naming the key of the script; None if it does not."""
        results = [message.content for message in request.messages if isinstance(message, ToolMessage)]
        asked = [message.whole for message in request.messages if isinstance(message, UserMessage)]
        return (
            _missing("lastToolResultContains", self.last_tool_result_contains, results, "tool result")
            or _missing("lastUserMessageContains", self.last_user_message_contains, asked, "user message")
            or self._other_tools({tool.name for tool in request.tools})
        )

    def _other_tools(self, offered: set[str]) -> str | None:
        if self.tool_names is None or offered == set(self.tool_names):
            return None
        missing, extra = sorted(set(self.tool_names) - offered), sorted(offered - set(self.tool_names))
        parts = [f"not offered: {', '.join(missing)}"] if missing else []
        parts += [f"offered beside them: {', '.join(extra)}"] if extra else []
        return f"expect.toolNames: the tools of the request are others ({'; '.join(parts)})"


@dataclass(frozen=True)
class ScriptedCall:
    """A call in a reply."""

    name: str
    arguments: JsonObject


@dataclass(frozen=True)
class ScriptedReply:
    """One answer of a script."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    piece_delay: float = 0.0
    """Seconds between two pieces of the text."""
    expect: Expectation = Expectation()


def load_script(path: Path) -> tuple[ScriptedReply, ...]:
    """Read a script file; raise ScriptError, also when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScriptError(f"the script {path} cannot be read: {error.strerror}; name another with --script") from error
    except UnicodeDecodeError as error:
        raise ScriptError(f"the script {path} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    try:
        return parse_script(parse_json(text))
    except ScriptError as error:
        raise ScriptError(f"the script {path}: {error}") from None
    except ValueError as error:
        raise ScriptError(f"the script {path} is not JSON: {error}") from error


def parse_script(value: JsonValue) -> tuple[ScriptedReply, ...]:
    """Read a list of replies; raise ScriptError naming index and key."""
    if not isinstance(value, list):
        raise ScriptError("must be a list of replies, e.g. [{'text': 'Hello.'}]")
    return tuple(_reply(entry, f"reply {index}") for index, entry in enumerate(value))


class ScriptedProvider:
    """Answers each request with the next reply; after the last one with an empty answer."""

    name = "scripted"

    def __init__(self, script: Iterable[ScriptedReply], *, model: str = "script") -> None:
        self._replies = tuple(script)
        self._next = 0
        self._model = model

    @classmethod
    def from_file(cls, path: Path) -> ScriptedProvider:
        """Read the script; raise ScriptError."""
        return cls(load_script(path), model=path.stem)

    @property
    def model(self) -> str | None:
        """The name of the script."""
        return self._model

    @property
    def used(self) -> int:
        """Replies given so far."""
        return min(self._next, len(self._replies))

    def describe(self) -> ProviderDescription:
        """Return the notice that a script answers."""
        return ProviderDescription(self.name, self._model, badge=f"script {self._model} - no AI model")

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return nothing."""
        return ()

    async def aclose(self) -> None:
        """Do nothing."""

    async def stream(self, request: ChatRequest, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Give the next reply; raise ProviderError (REFUSED) when it expects another request."""
        signal.throw_if_aborted()
        index, self._next = self._next, self._next + 1
        reply = self._replies[index] if index < len(self._replies) else ScriptedReply()
        if difference := reply.expect.difference(request):
            raise ProviderError(
                ProviderErrorKind.REFUSED,
                f"script {self._model}, reply {index}: {difference}. Correct the script or the request.",
            )
        for number, piece in enumerate(_PIECE.findall(reply.text)):
            await signal.guard(asyncio.sleep(reply.piece_delay if number else 0))
            yield TextDelta(piece)
        ids = CallIds(request.messages)
        for call in reply.calls:
            signal.throw_if_aborted()
            yield ToolCallReady(ToolCall(ids.take(), call.name, call.arguments))
        yield StreamFinished(FinishReason.TOOL_CALLS if reply.calls else FinishReason.STOP)


def _reply(value: JsonValue, where: str) -> ScriptedReply:
    members = _members(value, _REPLY_KEYS, where)
    calls = members.get("toolCalls", [])
    if not isinstance(calls, list):
        raise ScriptError(f"{where}: toolCalls must be a list")
    delay = members.get("pieceDelayMs", 0)
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= 60_000:
        raise ScriptError(f"{where}: pieceDelayMs must be a number from 0 to 60000 (milliseconds)")
    return ScriptedReply(
        text=_string(members, "text", where) or "",
        calls=tuple(_call(call, f"{where}, toolCalls {number}") for number, call in enumerate(calls)),
        piece_delay=delay / 1000,
        expect=_expectation(members.get("expect", {}), f"{where}, expect"),
    )


def _call(value: JsonValue, where: str) -> ScriptedCall:
    members = _members(value, _CALL_KEYS, where)
    name = _string(members, "name", where)
    arguments = members.get("arguments", {})
    if not name:
        raise ScriptError(f"{where}: name is missing")
    if not isinstance(arguments, dict):
        raise ScriptError(f"{where}: arguments must be an object")
    return ScriptedCall(name, arguments)


def _expectation(value: JsonValue, where: str) -> Expectation:
    members = _members(value, _EXPECT_KEYS, where)
    names = members.get("toolNames")
    if names is not None and not isinstance(names, list):
        raise ScriptError(f"{where}: toolNames must be a list of names")
    listed = tuple(name for name in names or () if isinstance(name, str))
    if len(listed) != len(names or ()):
        raise ScriptError(f"{where}: toolNames must be a list of names")
    return Expectation(
        _string(members, "lastToolResultContains", where),
        _string(members, "lastUserMessageContains", where),
        None if names is None else listed,
    )


def _members(value: JsonValue, known: tuple[str, ...], where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise ScriptError(f"{where}: must be an object with the keys {', '.join(known)}")
    for key in value:
        if key not in known:
            raise ScriptError(f"{where}: unknown key {key!r}; known are {', '.join(known)}")
    return value


def _string(members: JsonObject, key: str, where: str) -> str | None:
    value = members.get(key)
    if value is not None and not isinstance(value, str):
        raise ScriptError(f"{where}: {key} must be a string")
    return value


def _missing(key: str, wanted: str | None, texts: list[str], what: str) -> str | None:
    if wanted is None:
        return None
    if not texts:
        return f"expect.{key}: {wanted!r} was expected in the last {what}, but there is none"
    if wanted in texts[-1]:
        return None
    had = texts[-1] if len(texts[-1]) <= _QUOTED_CHARACTERS else texts[-1][:_QUOTED_CHARACTERS] + "..."
    return f"expect.{key}: {wanted!r} was expected in the last {what}, which is {had!r}"


TOUR = Path(__file__).with_name("tour.json")


def tour_script() -> tuple[ScriptedReply, ...]:
    """Return the replies of the tour; raise ScriptError when its file is damaged."""
    return load_script(TOUR)
