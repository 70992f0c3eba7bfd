"""The messages of the context one by one: how much each takes, and what stands for one that the person dropped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ollm_tui.agent.providers import provider as wire

MOST_ITEMS = 12
LEAST_TOKENS = 20
SHOWN_CHARACTERS = 60
DROPPED = "[left out by the person]"


@dataclass(frozen=True)
class ContextItem:
    """A message that can be dropped, or what is attached to it, with the tokens that it takes."""

    name: str
    tokens: int
    message: int
    """The event of the message; of a result, that of the answer with its call."""
    call_id: str | None = None
    """The call, for a result."""


def items_of(history: Sequence[wire.Message], estimate: Callable[[wire.Message], int]) -> list[ContextItem]:
    """Return the largest items that can be dropped, the largest first."""
    found: list[ContextItem] = []
    answer = wire.AssistantMessage("")
    for message in history:
        match message:
            case wire.AssistantMessage():
                answer, name, target = message, f"answer: {message.text}", (message.event_id, None)
            case wire.ToolMessage(call_id, tool):
                call = next((call for call in answer.tool_calls if call.id == call_id), None)
                arguments = json.dumps(call.arguments, ensure_ascii=False) if call else ""
                name, target = f"result of {tool} {arguments}", (answer.event_id, call_id)
            case wire.UserMessage(text, preface):
                kind = "attached to" if preface or message.images else "message"
                name, target = f"{kind}: {text}", (message.event_id, None)
            case wire.SystemMessage():
                continue
        tokens = estimate(message)
        if target[0] and tokens >= LEAST_TOKENS and without(message) != message:
            found.append(ContextItem(_on_one_line(name), tokens, *target))
    return sorted(found, key=lambda item: -item.tokens)[:MOST_ITEMS]


def without(message: wire.Message) -> wire.Message:
    """Return what stands for a message that was dropped: first what is attached goes, then the text."""
    match message:
        case wire.ToolMessage():
            return replace(message, content=DROPPED)
        case wire.UserMessage(_, preface) if preface or message.images:
            return replace(message, preface="", images=())
        case wire.UserMessage():
            return replace(message, text=DROPPED)
        case wire.AssistantMessage(text):
            return replace(message, text=DROPPED if text else "", reasoning="")
        case wire.SystemMessage():
            return message


def position_of(messages: Iterable[tuple[int, wire.Message]], event_id: int, call_id: str | None) -> int | None:
    """Return where the item is among messages with the ids of their events; None where it is not."""
    owner = 0
    for at, (own, message) in enumerate(messages):
        if isinstance(message, wire.ToolMessage):
            if call_id == message.call_id and owner == event_id:
                return at
            continue
        owner = own
        if own == event_id and call_id is None:
            return at
    return None


def event_of(message: wire.Message) -> int:
    """Return the event that tells of a message; 0 where none does."""
    return message.event_id if isinstance(message, wire.UserMessage | wire.AssistantMessage) else 0


def _on_one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 3]}..."
