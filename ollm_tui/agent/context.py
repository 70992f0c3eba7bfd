"""What fits into the model's window: how full it is, and what gives way when it gets full."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from ollm_tui.agent.compaction import summary_by_model, summary_by_rule
from ollm_tui.agent.events import CompactedEvent, NoticeEvent, UsageEvent
from ollm_tui.agent.hooks.hooks import TurnHooks
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.stream import EventStream
from ollm_tui.agent.token_estimate import MESSAGE_TOKENS, estimated_tokens, message_tokens, texts_of, within
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.output import OutputFormatter, TruncationConfig
from ollm_tui.core.base.results import JsonObject

STUB_AT, STUB_TO = 0.70, 0.50
"""Parts of the window: from there on old results give way, down to there, so that it is seldom."""
COMPACT_AT = 0.80
KEPT_SHARE, SUMMARY_SHARE = 0.35, 0.45
"""Of what system prompt and tools leave of the window: what the last messages and the summary may take."""
NEWEST_SHARE = 0.40
"""The most that the results of the last reply may take."""
RESERVE_SHARE, MOST_RESERVE = 8, 1_024
"""Tokens that are left for the answer: an eighth of the window, at most so many."""

TOOLS_SHARE = 0.35
"""The most of the window that the tools may take; with less room the model is offered the few that it needs most."""
BRIEF_WINDOW = 8_192
"""Up to so many tokens tools are described in few words."""
MCP_SHARE = 0.25
"""The most of it that tools of MCP servers may take; more of them are looked for with `tool_search`."""
TOOL_SEARCH = "tool_search"
_MCP_NAME = re.compile(r"^(mcp__[\w-]+)\(", re.MULTILINE)

LEAST_SAVED = 100
"""Tokens that a summary must save to be worth it."""
FEW_TOOLS = ("read_file", "ls", "grep", "glob", "write_file", "edit_file", "shell")

LEAST_FACTOR, MOST_FACTOR = 0.7, 1.6
"""How far a server's counts may move the estimate: what is farther off is one odd text, and not the tokenizer."""
MOST_AFTER_REFUSAL = 4.0
SHORT_RESULT = 240
"""Characters of a result that is not worth giving way."""


@dataclass(frozen=True)
class ContextPart:
    """A part of the next request: what it is, and how many tokens it takes by our estimate."""

    name: str
    tokens: int


class ContextKeeper:
    """Measures each request, and makes room in the history before it gets too large."""

    def __init__(
        self, provider: Callable[[], wire.Provider], stream: EventStream, hooks: TurnHooks | None = None
    ) -> None:
        """Take how to get the provider in use."""
        self._provider = provider
        self._stream = stream
        self._hooks = hooks
        self._factor = 1.0
        """The server's count of a prompt by our estimate."""
        self._told_limit: int | None = None
        """The window as a server told it by refusing a request."""
        self._sent = 0
        self._searches = False
        """Whether tools of MCP servers are looked for; it stays so: a request's beginning must not change."""
        self._found: set[str] = set()
        """Tools that were found so far, and those that were called."""
        self._brief = False
        """Whether tools are described in few words."""
        self._few: bool | None = None
        """Whether the window is too small for all tools; decided once it is known, and for the whole session."""

    @property
    def limit(self) -> int | None:
        """The window in tokens; None where nobody told."""
        return self._told_limit or self._provider().describe().context_window

    def estimate(self, messages: Iterable[wire.Message], tools: Sequence[wire.ToolSchema] = ()) -> int:
        """Return about how many tokens a request takes, as the server would count them."""
        return round(self._factor * (sum(map(message_tokens, messages)) + sum(map(_tool_tokens, tools))))

    def affordable(
        self, tools: tuple[wire.ToolSchema, ...], messages: Sequence[wire.Message] = ()
    ) -> tuple[wire.ToolSchema, ...]:
        """Return the tools that the window has room for, all of them where it is not known."""
        limit = self.limit
        tools = self._searched(tools, messages)
        if self._few is None and limit is not None:
            self._brief = limit <= BRIEF_WINDOW
            self._few = self.estimate((), _in_brief(tools) if self._brief else tools) > TOOLS_SHARE * limit
            if self._few or self._brief:
                names = ", ".join(tool.name for tool in tools if tool.name in FEW_TOOLS)
                offer = f"it is offered only {names}" if self._few else "it is offered all tools"
                offer += ", described in few words" if self._brief else ""
                words = f"The model's window of {limit:,} tokens is small: {offer}."
                self._stream.publish(NoticeEvent(text=f"{words} A larger num_ctx has room for all of it."))
        if self._brief:
            tools = _in_brief(tools)
        return tuple(tool for tool in tools if tool.name in FEW_TOOLS or _is_mcp(tool)) if self._few else tools

    def _searched(
        self, tools: tuple[wire.ToolSchema, ...], messages: Sequence[wire.Message]
    ) -> tuple[wire.ToolSchema, ...]:
        """Return the tools without those of MCP servers that the model can look for, where these take too much."""
        further = [tool for tool in tools if _is_mcp(tool) and tool.name != TOOL_SEARCH]
        if not self._searches and self.limit is not None:
            tokens = self.estimate((), further)
            self._searches = tokens > MCP_SHARE * self.limit
            if self._searches:
                words = f"The {len(further)} tools of MCP servers would take about {tokens:,} of {self.limit:,} tokens"
                self._stream.publish(NoticeEvent(text=f"{words}: the model looks for them with {TOOL_SEARCH}."))
        if not self._searches:
            return tuple(tool for tool in tools if tool.name != TOOL_SEARCH)
        for message in messages:
            if isinstance(message, wire.ToolMessage) and message.name == TOOL_SEARCH:
                self._found.update(_MCP_NAME.findall(message.content))
            elif isinstance(message, wire.ToolMessage):
                self._found.add(message.name)
        hidden = {tool.name for tool in further} - self._found
        return tuple(tool for tool in tools if tool.name not in hidden)

    def parts(self, messages: Sequence[wire.Message], tools: Sequence[wire.ToolSchema]) -> list[ContextPart]:
        """Return what the next request is made of."""
        kinds: dict[str, int] = {}
        for message in messages:
            match message:
                case wire.SystemMessage():
                    name = "system prompt and instructions"
                case wire.UserMessage(preface=preface) if preface:
                    name = "your messages with what was attached"
                case wire.UserMessage():
                    name = "your messages"
                case wire.AssistantMessage():
                    name = "answers and calls"
                case wire.ToolMessage(name=tool):
                    name = f"results of {tool}"
            kinds[name] = kinds.get(name, 0) + self.estimate([message])
        rows = [
            ContextPart(f"{len(tools)} tools", self.estimate((), tools)),
            *(ContextPart(*kind) for kind in kinds.items()),
        ]
        return sorted(rows, key=lambda part: -part.tokens)

    async def make_room(
        self, history: list[wire.Message], tools: Sequence[wire.ToolSchema], signal: AbortSignal
    ) -> int:
        """Shorten the history in place where it gets too large; return the estimate of the request.

        Raises:
            ProviderError: It cannot be made to fit.
        """
        limit = self.limit
        size = self.estimate(history, tools)
        if limit is not None and size >= STUB_AT * limit:
            self._cut_newest(history, limit)
            size = self._leave_out_old(history, tools, limit)
            if size >= COMPACT_AT * limit:
                await self.compact(history, tools, signal)
                size = self.estimate(history, tools)
            if size > limit - _reserve(limit):
                raise wire.ProviderError(
                    wire.ProviderErrorKind.CONTEXT_OVERFLOW,
                    f"The request would take about {size:,} tokens, and the window of the model has {limit:,}. Nothing "
                    "was sent. Give the model a larger window (num_ctx), or begin anew with /new.",
                    prompt_tokens=size,
                    context_window=limit,
                )
        self._sent = size
        return size

    def answered(self, usage: wire.UsageReported | None, reply: wire.Message | None) -> None:
        """Learn from the server's count, and tell how full the window is."""
        prompt = None if usage is None else usage.prompt_tokens
        limit = self.limit
        if prompt:
            if self._sent:
                self._factor = min(MOST_FACTOR, max(LEAST_FACTOR, self._factor * prompt / self._sent))
            used = prompt + ((usage.completion_tokens if usage else None) or 0)
        elif limit is None:
            return
        else:
            used = self._sent + (0 if reply is None else self.estimate([reply]))
        self._stream.publish(
            UsageEvent(
                prompt_tokens=prompt,
                completion_tokens=usage.completion_tokens if usage else None,
                context_used=used,
                context_limit=limit,
                estimated=not prompt,
            )
        )

    def refused(self, error: wire.ProviderError) -> None:
        """Take the window from a server that found the request too large."""
        self._told_limit = error.context_window or round(0.8 * (self.limit or self._sent))
        self._few = None  # the tools were chosen for a window that is not there
        if error.prompt_tokens and self._sent:
            grown = self._factor * error.prompt_tokens / self._sent
            self._factor = min(MOST_AFTER_REFUSAL, max(self._factor, grown))

    async def compact(
        self,
        history: list[wire.Message],
        tools: Sequence[wire.ToolSchema],
        signal: AbortSignal,
        hint: str | None = None,
    ) -> bool:
        """Put a summary in the place of the earlier messages; return whether there was anything to shorten.

        `hint` are the person's words where they asked for it.
        """
        at = self._first_kept(history, tools)
        earlier = history[1:at]
        facts = summary_by_rule(earlier)
        if self.estimate(earlier) <= self.estimate([wire.UserMessage(facts)]) + LEAST_SAVED:
            return False
        if self._hooks is not None:
            await self._hooks.before_compaction(hint, signal)
        before = self.estimate(history, tools)
        told = await self._told_by_model(earlier, hint or "", signal)
        summary = f"{facts}\n\n## What happened, in the model's words\n{told}" if told else facts
        if (room := self._free(history, tools)) is not None:
            summary = within(summary, round(SUMMARY_SHARE * room / self._factor))
        kept = history[at] if at < len(history) else None
        history[1:at] = [wire.UserMessage(summary)]
        after = self.estimate(history, tools)
        kept_from = kept.event_id if isinstance(kept, wire.UserMessage | wire.AssistantMessage) else None
        self._stream.publish(CompactedEvent(before=before, after=after, summary=summary, kept_from=kept_from))
        return True

    async def _told_by_model(self, earlier: Sequence[wire.Message], hint: str, signal: AbortSignal) -> str:
        if self._provider().name == "offline":
            return ""
        most = None if self.limit is None else round(self.limit / 2 * self._characters_a_token(earlier))
        try:
            return await summary_by_model(self._provider(), earlier, hint, most, signal)
        except wire.ProviderError as error:
            self._stream.publish(NoticeEvent(text=f"The model could not sum up the conversation: {error.message}"))
            return ""

    def _characters_a_token(self, messages: Sequence[wire.Message]) -> float:
        characters = sum(len(text) for message in messages for text in texts_of(message))
        return characters / max(1, self.estimate(messages))

    def _free(self, history: Sequence[wire.Message], tools: Sequence[wire.ToolSchema]) -> int | None:
        """Return the tokens that the conversation may take beside system prompt, tools and answer."""
        limit = self.limit
        return None if limit is None else max(0, limit - _reserve(limit) - self.estimate(history[:1], tools))

    def _first_kept(self, history: Sequence[wire.Message], tools: Sequence[wire.ToolSchema]) -> int:
        """Return where the kept messages begin: never between a call and its result."""
        free = self._free(history, tools)
        room = KEPT_SHARE * (self.estimate(history[1:]) if free is None else free)
        first = len(history)
        size = 0
        for at in range(len(history) - 1, 0, -1):
            message = history[at]
            size += self.estimate([message])
            if isinstance(message, wire.UserMessage | wire.AssistantMessage) and message.event_id:
                if size > room and first < len(history):
                    break
                first = at
                if size > room:
                    break
        return first

    def _cut_newest(self, history: list[wire.Message], limit: int) -> None:
        """Cut the results of the last reply where they alone would fill the window."""
        last = next((at for at in range(len(history) - 1, 0, -1) if isinstance(history[at], wire.AssistantMessage)), 0)
        results = [at for at in range(last + 1, len(history)) if isinstance(history[at], wire.ToolMessage)]
        newest = [history[at] for at in results]
        if not results or self.estimate(newest) <= NEWEST_SHARE * limit:
            return
        room = NEWEST_SHARE * limit * self._characters_a_token(newest)
        most = max(SHORT_RESULT, round(room / len(results)))
        for at in results:
            message = history[at]
            if isinstance(message, wire.ToolMessage) and len(message.content) > most:
                cut = OutputFormatter.excerpt(message.content, TruncationConfig(max_chars=most)).content
                history[at] = replace(message, content=f"{cut}\n[cut to fit the window of the model]")

    def _leave_out_old(self, history: list[wire.Message], tools: Sequence[wire.ToolSchema], limit: int) -> int:
        """Put a line in the place of old results, the oldest first; return the size after that."""
        size = self.estimate(history, tools)
        calls: dict[str, wire.ToolCall] = {}
        last = max((at for at, message in enumerate(history) if isinstance(message, wire.AssistantMessage)), default=0)
        for at, message in enumerate(history[:last]):
            if size < STUB_TO * limit:
                break
            if isinstance(message, wire.AssistantMessage):
                calls.update((call.id, call) for call in message.tool_calls)
            elif isinstance(message, wire.ToolMessage) and len(message.content) > SHORT_RESULT:
                short = replace(message, content=_stub(message, calls.get(message.call_id)))
                size -= self.estimate([message]) - self.estimate([short])
                history[at] = short
        return size


def _stub(message: wire.ToolMessage, call: wire.ToolCall | None) -> str:
    arguments = "" if call is None else json.dumps(call.arguments, ensure_ascii=False)
    shown = arguments if len(arguments) <= 120 else f"{arguments[:117]}..."
    count = f"{len(message.content):,} characters"
    return f"[{count} of {message.name} {shown} left out to save room; call it again if they are needed]"


def _tool_tokens(tool: wire.ToolSchema) -> int:
    return estimated_tokens(f"{tool.name}{tool.description}{json.dumps(tool.parameters)}") + MESSAGE_TOKENS


def _is_mcp(tool: wire.ToolSchema) -> bool:
    return tool.name.startswith("mcp__") or tool.name == TOOL_SEARCH


def _in_brief(tools: tuple[wire.ToolSchema, ...]) -> tuple[wire.ToolSchema, ...]:
    """Return tools with the first sentence of what they do, and names and types of what they take."""
    return tuple(
        replace(
            tool, description=_SENTENCE.split(tool.description, 1)[0], parameters=_without_descriptions(tool.parameters)
        )
        for tool in tools
    )


_SENTENCE = re.compile(r"(?<=[.;])\s|\n")


def _without_descriptions(schema: JsonObject) -> JsonObject:
    """Return a schema without descriptions; a parameter of that name stays."""
    brief: JsonObject = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            brief[key] = {name: _brief_part(part) for name, part in value.items()}
        elif key != "description":
            brief[key] = _brief_part(value)
    return brief


def _brief_part(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_brief_part(part) for part in value]
    return _without_descriptions(value) if isinstance(value, dict) else value


def _reserve(limit: int) -> int:
    """Return the tokens of a window that are left for the answer."""
    return min(limit // RESERVE_SHARE, MOST_RESERVE)
