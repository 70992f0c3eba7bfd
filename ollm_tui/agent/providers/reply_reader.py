"""Turn the parts of one reply, in either wire format, into stream events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ollm_tui.agent.providers.call_assembly import CallAssembler, CallFragment, CallIds
from ollm_tui.agent.providers.provider import (
    CallOrigin,
    ChatRequest,
    FinishReason,
    ReasoningDelta,
    StreamEvent,
    StreamFinished,
    TextDelta,
    ToolCall,
    ToolCallProgress,
    ToolCallReady,
)
from ollm_tui.agent.providers.text_tool_calls import TextHoldback

_THINK_OPENINGS = ("<think>", "<thinking>")
_THINK_CLOSINGS = ("</think>", "</thinking>")
_PROGRESS_STEP = 200
"""Characters of arguments between two `ToolCallProgress` events of a call."""


class SurrogateRepair:
    """Joins halves of a character that a server split; a lone half becomes U+FFFD."""

    def __init__(self) -> None:
        self._high = ""

    def feed(self, piece: str) -> str:
        """Return the whole characters so far."""
        text = self._high + piece
        self._high = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return _whole_characters(text.removesuffix(self._high) if self._high else text)

    def close(self) -> str:
        """Return what is left."""
        rest, self._high = self._high, ""
        return _whole_characters(rest)


class ThinkTags:
    """Splits `<think>...</think>` at the beginning of the content from the answer."""

    def __init__(self) -> None:
        self._state = "before"
        self._held = ""

    def feed(self, piece: str) -> Iterator[StreamEvent]:
        """Yield the text and thinking that are certain so far."""
        self._held += piece
        if self._state == "before":
            self._look_for_opening()
        if self._state == "inside":
            yield from self._think()
        if self._state == "behind":
            self._held = self._held.lstrip()
            self._state = "text" if self._held else "behind"
        if self._state == "text":
            yield from self._rest(TextDelta)

    def close(self) -> Iterator[StreamEvent]:
        """Yield what is left."""
        if self._state == "inside":
            # half a closing tag is no thought
            self._held = self._held[: len(self._held) - _overlap(self._held, _THINK_CLOSINGS)]
            yield from self._rest(ReasoningDelta)
        else:
            yield from self._rest(TextDelta)

    def _look_for_opening(self) -> None:
        start = self._held.lstrip()
        for tag in _THINK_OPENINGS:
            if start.startswith(tag):
                self._state, self._held = "inside", start.removeprefix(tag).removeprefix("\n")
                return
        if not any(tag.startswith(start) for tag in _THINK_OPENINGS):
            self._state = "text"

    def _think(self) -> Iterator[StreamEvent]:
        closings = [(at, tag) for tag in _THINK_CLOSINGS if (at := self._held.find(tag)) >= 0]
        if closings:
            at, tag = min(closings)
            thought, self._held = self._held[:at], self._held[at + len(tag) :]
            self._state = "behind"
        else:
            keep = _overlap(self._held, _THINK_CLOSINGS)
            cut = len(self._held) - keep
            thought, self._held = self._held[:cut], self._held[cut:]
        if thought:
            yield ReasoningDelta(thought)

    def _rest(self, kind: type[TextDelta] | type[ReasoningDelta]) -> Iterator[StreamEvent]:
        rest, self._held = self._held, ""
        if rest:
            yield kind(rest)


class ReplyReader:
    """Collects one reply until `finish` or `cut_off`; each method yields what may be shown."""

    def __init__(self, request: ChatRequest) -> None:
        self._ids = CallIds(request.messages)
        self._calls = CallAssembler(self._ids)
        self._tags = ThinkTags()
        self._text_repair, self._thought_repair = SurrogateRepair(), SurrogateRepair()
        self._hold = TextHoldback(tool.name for tool in request.tools)
        self._reported: dict[str, int] = {}

    def text(self, piece: str) -> Iterator[StreamEvent]:
        """Add text of the answer."""
        yield from self._shown(self._tags.feed(self._text_repair.feed(piece)))

    def reasoning(self, piece: str) -> Iterator[StreamEvent]:
        """Add thinking."""
        if thought := self._thought_repair.feed(piece):
            yield ReasoningDelta(thought)

    def call_fragment(self, fragment: CallFragment) -> Iterator[StreamEvent]:
        """Add a fragment of a call."""
        yield from self._progress(self._calls.add(fragment))

    def whole_call(self, fragment: CallFragment) -> Iterator[StreamEvent]:
        """Add a whole call."""
        yield from self._progress(self._calls.add_whole(fragment))

    def finish(self, reason: FinishReason, raw_reason: str | None) -> Iterator[StreamEvent]:
        """Yield the rest of the text, the calls in order, and the end."""
        yield from self._flush()
        text, found = ("", ()) if not self._calls.empty else self._hold.close()
        if not self._calls.empty:
            text = self._hold.release()
        if text:
            yield TextDelta(text)
        for call in self._calls.finish(cut=reason is FinishReason.LENGTH):
            yield ToolCallReady(call)
        for salvaged in found:
            read = salvaged.arguments
            yield ToolCallReady(
                ToolCall(
                    self._ids.take(),
                    salvaged.name,
                    read.value,
                    raw_arguments=salvaged.raw,
                    origin=CallOrigin.SALVAGED,
                    error=read.error,
                    repaired=read.repaired,
                )
            )
        yield StreamFinished(reason, raw_reason)

    def cut_off(self) -> Iterator[StreamEvent]:
        """Yield the rest of the text of a reply that broke off; its calls do not run."""
        yield from self._flush()
        if text := self._hold.release():
            yield TextDelta(text)

    def _flush(self) -> Iterator[StreamEvent]:
        if thought := self._thought_repair.close():
            yield ReasoningDelta(thought)
        yield from self._shown(self._tags.feed(self._text_repair.close()))
        yield from self._shown(self._tags.close())

    def _shown(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        for event in events:
            if not isinstance(event, TextDelta):
                yield event
            elif text := self._hold.feed(event.text):
                yield TextDelta(text)

    def _progress(self, state: tuple[str, int] | None) -> Iterator[StreamEvent]:
        if state is None:
            return
        name, characters = state
        last = self._reported.get(name)
        if last is None or characters < last or characters - last >= _PROGRESS_STEP:
            self._reported[name] = characters
            yield ToolCallProgress(name, characters)


def _overlap(text: str, tags: Iterable[str]) -> int:
    """Return how many characters at the end of `text` could begin one of `tags`."""
    longest = 0
    for tag in tags:
        for size in range(min(len(tag) - 1, len(text)), longest, -1):
            if text.endswith(tag[:size]):
                longest = size
                break
    return longest


_HALF = re.compile("[\ud800-\udfff]")


def _whole_characters(text: str) -> str:
    if not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
