"""A reply of the model as it streams: bounded, published as events, kept as one message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ModelLoadingEvent,
    NoticeEvent,
    ProposedCall,
    ReasoningDeltaEvent,
    TextDeltaEvent,
)
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.providers.json_values import MAX_ARGUMENT_CHARACTERS, presentable, well_formed
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.abort import AbortSignal

MAX_REPLY_CHARACTERS = 1_000_000
"""Most characters of a reply's text, and of its reasoning."""

MAX_CALLS = 100
"""Most calls of one reply that run."""


REPEATED_CHARACTERS = 3_000
PERIOD = 300
"""A reply is ended when its last 3,000 characters are one piece of at most 300, over and over."""

CHECK_EVERY = 1_000
"""Characters between two looks for that."""


class ReplyTooLongError(Exception):
    """A reply reached a bound; the message says which."""


_CUT_SHORT = {
    wire.FinishReason.LENGTH: (
        "The answer ends here because its length limit was reached or the model's window is full. "
        "Ask for the rest; if nothing more comes, the window is full: quit and begin anew."
    ),
    wire.FinishReason.FILTERED: "The server's content filter ended the answer here. Ask in other words.",
}
"""What the person reads about replies that the model did not end itself."""


async def collect_reply(
    provider: wire.Provider,
    request: wire.ChatRequest,
    stream: EventStream,
    signal: AbortSignal,
    keep: Callable[[Reply], None],
) -> Reply:
    """Send one request; whatever came, also before an error, is published and given to `keep`."""
    reply = Reply(stream)
    whole = False
    events = provider.stream(request, signal)
    try:
        async for event in events:
            reply.take(event)
        signal.throw_if_aborted()
        whole = True
    except ReplyTooLongError as error:
        stream.publish(
            NoticeEvent(text=f"The reply was ended at {error}. What came is kept, none of its calls ran; go on.")
        )
    finally:
        await events.aclose()
        if not whole:
            reply.calls.clear()  # a call of a cut reply may be half of what was meant
        if whole or reply.text or reply.reasoning:
            reply.publish(provider.model or "", partial=not whole)
            keep(reply)
    return reply


@dataclass
class Reply:
    """A reply as far as it came."""

    stream: EventStream

    pieces: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    characters: dict[str, int] = field(default_factory=dict[str, int])
    calls: list[wire.ToolCall] = field(default_factory=list[wire.ToolCall])
    proposed: int = 0
    """How many calls came; those far beyond `MAX_CALLS` are not kept."""
    usage: wire.UsageReported | None = None
    end: wire.FinishReason | None = None
    event_id: int = 0
    """The event that tells of it, once it is published."""
    loading: str | None = None
    """The model that the server loads, until its first word."""
    _unchecked: int = 0
    """Characters since the last look for repetition."""

    @property
    def empty(self) -> bool:
        """Whether the model ended it without a word or a call."""
        return self.end is wire.FinishReason.STOP and not self.calls and not self.text.strip()

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(self.pieces)

    @property
    def reasoning(self) -> str:
        """The model's thinking."""
        return "".join(self.thoughts)

    def take(self, event: wire.StreamEvent) -> None:
        """Add what the provider sent and publish it. Raises ReplyTooLongError."""
        if self.loading is not None and not isinstance(event, wire.ProviderNotice | wire.ModelLoading):
            self.stream.publish(ModelLoadingEvent(model=self.loading, loaded=True))
            self.loading = None
        match event:
            case wire.TextDelta(text):
                text = well_formed(text)
                text = text[: self._count("a text", len(text), MAX_REPLY_CHARACTERS)]
                self.pieces.append(text)
                self.stream.publish(TextDeltaEvent(text=text))
                self._check("a text", MAX_REPLY_CHARACTERS)
                self._check_repetition(self.pieces)
            case wire.ReasoningDelta(text):
                text = well_formed(text)
                text = text[: self._count("reasoning", len(text), MAX_REPLY_CHARACTERS)]
                self.thoughts.append(text)
                self.stream.publish(ReasoningDeltaEvent(text=text))
                self._check("reasoning", MAX_REPLY_CHARACTERS)
                self._check_repetition(self.thoughts)
            case wire.ToolCallReady(call):
                self._propose(call)
            case wire.UsageReported():
                self.usage = event
            case wire.ProviderNotice(text):
                self.stream.publish(NoticeEvent(text=text))
            case wire.ModelLoading(model):
                if self.loading is None:
                    self.stream.publish(ModelLoadingEvent(model=model))
                self.loading = model
            case wire.StreamFinished(reason):
                self.end = reason
            case wire.ToolCallProgress(_, characters):
                self.characters["a call with arguments"] = characters
                self._check("a call with arguments", MAX_ARGUMENT_CHARACTERS)

    def message(self) -> wire.AssistantMessage | None:
        """Return the reply for the history; None where there is nothing in it."""
        if not self.text and not self.calls:
            return None
        return wire.AssistantMessage(self.text, tuple(self.calls), self.reasoning, self.event_id)

    def publish(self, model: str, *, partial: bool) -> None:
        """Publish the whole message with its calls, its usage, and why it ended early."""
        proposed = tuple(
            ProposedCall(
                id=call.id, name=call.name, arguments=call.arguments, origin=call.origin, text_before=call.text_before
            )
            for call in self.calls
        )
        published = self.stream.publish(
            AssistantMessageEvent(
                text=self.text, tool_calls=proposed, reasoning=self.reasoning, partial=partial, model=model
            )
        )
        self.event_id = published.id
        if self.proposed > MAX_CALLS and not partial:
            count = f"{self.proposed - MAX_CALLS:,} of the {self.proposed:,} calls in one reply are not run"
            self.stream.publish(NoticeEvent(text=f"{count}: {MAX_CALLS} are the most."))
        if self.end is not None and (text := _CUT_SHORT.get(self.end)):
            self.stream.publish(NoticeEvent(text=text))

    def _propose(self, call: wire.ToolCall) -> None:
        self.proposed += 1
        if self.proposed == MAX_CALLS + 1:
            # one refusal tells the model; hundreds would fill its window
            error = f"not run, nor what came after it: more than {MAX_CALLS} calls in one reply"
            call = replace(call, error=error)
        if self.proposed <= MAX_CALLS + 1:
            self.calls.append(presentable(call))

    def _count(self, what: str, characters: int, limit: int) -> int:
        """Count further characters; return how many of them there is room for."""
        before = self.characters.get(what, 0)
        self.characters[what] = before + characters
        return max(0, limit - before)

    def _check_repetition(self, pieces: list[str]) -> None:
        """Raise ReplyTooLongError where the end of the text is one piece over and over."""
        self._unchecked += len(pieces[-1])
        if self._unchecked < CHECK_EVERY:
            return
        self._unchecked = 0
        end = "".join(pieces[-CHECK_EVERY * 4 :])[-REPEATED_CHARACTERS:]
        period = end.find(end[:PERIOD], 1)
        if len(end) == REPEATED_CHARACTERS and 0 < period <= PERIOD and end[period:] == end[:-period]:
            raise ReplyTooLongError("a piece of text that repeats itself without end")

    def _check(self, what: str, limit: int) -> None:
        """Raise ReplyTooLongError where there were more."""
        if self.characters.get(what, 0) > limit:
            raise ReplyTooLongError(f"{what} of more than {limit:,} characters")
