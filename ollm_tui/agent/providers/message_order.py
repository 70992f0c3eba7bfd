"""The order in which servers take the messages of a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    Image,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

NO_RESULT = "[no result: the call was interrupted]"
"""What a model reads instead of a missing result."""


def ordered(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return one system message, then alternating turns; each call has one result, in order.

    Chat templates refuse system messages in the middle, two messages of one role in a row, empty content, calls without
    a result and results without a call. History grows at its end, so servers can reuse what they have read before.
    """
    history = list(messages)
    leading: list[str] = []
    turns: list[Message] = []
    for at, message in enumerate(history):
        match message:
            case SystemMessage(text) if all(isinstance(earlier, SystemMessage) for earlier in history[:at]):
                leading += [text] if text else []
            case SystemMessage(text):
                _append_user(turns, text)
            case UserMessage():
                _append_user(turns, message.whole, message.images)
            case AssistantMessage():
                _append_assistant(turns, message)
                turns += [_result_of(call, history, at) for call in message.tool_calls]
            case ToolMessage():
                pass  # results follow the call they belong to
    return (SystemMessage("\n\n".join(leading)), *turns) if leading else tuple(turns)


def without_old_reasoning(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Drop the model's thinking before the last user message, which only fills the window."""
    last_user = max((at for at, message in enumerate(messages) if isinstance(message, UserMessage)), default=-1)
    return tuple(
        replace(message, reasoning="") if isinstance(message, AssistantMessage) and at < last_user else message
        for at, message in enumerate(messages)
    )


def _append_user(turns: list[Message], text: str, images: tuple[Image, ...] = ()) -> None:
    if not text and not images:
        return
    if turns and isinstance(last := turns[-1], UserMessage):
        turns[-1] = UserMessage(f"{last.text}\n\n{text}", images=(*last.images, *images))
    else:
        turns.append(UserMessage(text, images=images))


def _append_assistant(turns: list[Message], message: AssistantMessage) -> None:
    if not message.text and not message.tool_calls:
        return
    last = turns[-1] if turns else None
    if isinstance(last, AssistantMessage) and not last.tool_calls:
        turns[-1] = replace(message, text=f"{last.text}\n\n{message.text}".strip("\n"))
    else:
        turns.append(message)


def _result_of(call: ToolCall, history: list[Message], at: int) -> ToolMessage:
    """Return the first result behind `at` with the call's id before another call takes that id."""
    for index in range(at + 1, len(history)):
        match history[index]:
            case ToolMessage(call.id, name, content, outcome):
                return ToolMessage(call.id, name or call.name, content or "(empty)", outcome)
            case AssistantMessage(tool_calls=calls) if any(other.id == call.id for other in calls):
                break
            case _:
                pass
    return ToolMessage(call.id, call.name, NO_RESULT)
