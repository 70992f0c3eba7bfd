"""`ScriptedProvider`: replies from a file, for tests, demonstrations and the tour."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, JsonValue, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

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

_WANTED = {
    "text": "text must be a string",
    "toolCalls": "toolCalls must be a list",
    "pieceDelayMs": "pieceDelayMs must be a number from 0 to 60000 (milliseconds)",
    "name": "name is missing",
    "arguments": "arguments must be an object",
    "toolNames": "toolNames must be a list of names",
    "lastToolResultContains": "lastToolResultContains must be a string",
    "lastUserMessageContains": "lastUserMessageContains must be a string",
}
"""What stands wrong under each key, as errors say it."""
_PIECE = re.compile(r"\s*\S{1,24}|\s+")
_QUOTED_CHARACTERS = 200


class ScriptError(ValueError):
    """An invalid script; the message names the file, the reply's index (from 0) and the key."""


_Text: TypeAlias = InstanceOf[str]


class _ScriptModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)


class Expectation(_ScriptModel):
    """What a request must be like; None is what does not matter."""

    last_tool_result_contains: _Text | None = None
    last_user_message_contains: _Text | None = None
    tool_names: list[_Text] | None = None
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


class ScriptedCall(_ScriptModel):
    """A call in a reply."""

    name: Annotated[_Text, Field(min_length=1)]
    arguments: dict[Any, Any] = {}
    """As read from JSON: validation goes less deep than models nest, and takes no half characters."""


class ScriptedReply(_ScriptModel):
    """One answer of a script; `piece_delay_ms` is between two pieces of the text."""

    text: _Text = ""
    tool_calls: list[ScriptedCall] = []
    piece_delay_ms: Annotated[float, Field(ge=0, le=60_000)] = 0
    expect: Expectation = Expectation()


_SCRIPT = TypeAdapter(list[ScriptedReply])


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
    try:
        return tuple(_SCRIPT.validate_python(value))
    except ValidationError as error:
        raise ScriptError(_in_words(error.errors()[0])) from None


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
            await signal.guard(asyncio.sleep(reply.piece_delay_ms / 1000 if number else 0))
            yield TextDelta(piece)
        ids = CallIds(request.messages)
        for call in reply.tool_calls:
            signal.throw_if_aborted()
            yield ToolCallReady(ToolCall(ids.take(), call.name, call.arguments))
        yield StreamFinished(FinishReason.TOOL_CALLS if reply.tool_calls else FinishReason.STOP)


def _in_words(error: ErrorDetails) -> str:
    """Return an error of a script with the index of the reply and the key."""
    names = [f"reply {part}" if at == 0 else str(part) for at, part in enumerate(error["loc"])]
    where = re.sub(r", (\d+)", r" \1", ", ".join(names))
    holder, _, key = where.rpartition(", ")
    if not names:
        return "must be a list of replies, e.g. [{'text': 'Hello.'}]"
    if error["type"] == "model_type":
        return f"{where}: must be an object"
    if error["type"] == "extra_forbidden":
        model = Expectation if holder.endswith("expect") else ScriptedCall if "toolCalls" in holder else ScriptedReply
        known = ", ".join(to_camel(name) for name in model.model_fields)
        return f"{holder}: unknown key {key!r}; known are {known}"
    wanted = next(_WANTED[name] for name in reversed(names) if name in _WANTED)
    return f"{holder}: {wanted}"


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
