"""Summaries that stand for earlier messages: by rule, which loses no fact that it names, and in the model's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ollm_tui.agent.providers import provider as wire
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.output import OutputFormatter, TruncationConfig

HEADING = "# Summary of the conversation so far (earlier messages were left out to save room)"
FIRST = "## First request"
EARLIER = "## Requests after it"
LAST = "## Last request"
TODOS = "## Todo list"
FILES = "## Files that were changed"
DECISIONS = "## Calls that were denied"

REQUEST_CHARACTERS = 2_000
EARLIER_CHARACTERS = 200
MOST_EARLIER = 20
TOLD_CHARACTERS = 6_000
RESULT_CHARACTERS = 400
DEFAULT_CHARACTERS = 24_000

_ASK = """\
You sum up a conversation between a person and an agent, for the agent itself, which goes on with your summary alone.
Write in short lines: what the person wants and said, facts and names that were found, what was done and how it ended,
what is left to do. Keep names, paths, numbers and commands exactly. No introduction."""

_CHANGES = ("write_file", "edit_file", "delete_file", "move_file", "git_commit", "git_checkout")


def summary_by_rule(messages: Sequence[wire.Message]) -> str:
    """Return the summary that needs no model; the first message may be an earlier one, whose parts live on."""
    before = _sections(messages[0].text) if messages and isinstance(messages[0], wire.UserMessage) else {}
    requests = [message.text for message in messages if isinstance(message, wire.UserMessage) and message.text.strip()]
    if before:
        requests = requests[1:]
    first = before.get(FIRST) or (requests[0] if requests else "")
    others = requests if before else requests[1:]
    earlier = [*before.get(EARLIER, "").splitlines(), *_short([before.get(LAST, ""), *others[:-1]])]
    parts = {
        FIRST: _cut(first, REQUEST_CHARACTERS),
        EARLIER: "\n".join(earlier[-MOST_EARLIER:]),
        LAST: _cut(others[-1] if others else before.get(LAST, ""), REQUEST_CHARACTERS),
        TODOS: _last_todos(messages) or before.get(TODOS, ""),
        FILES: "\n".join(dict.fromkeys([*before.get(FILES, "").splitlines(), *_changed(messages)])),
        DECISIONS: "\n".join(dict.fromkeys([*before.get(DECISIONS, "").splitlines(), *_denied(messages)])),
    }
    return "\n\n".join([HEADING, *(f"{title}\n{text}" for title, text in parts.items() if text.strip())])


async def summary_by_model(
    provider: wire.Provider, messages: Sequence[wire.Message], hint: str, most: int | None, signal: AbortSignal
) -> str:
    """Return the model's own summary; empty where it says nothing.

    Args:
        provider: The model.
        messages: What is summed up.
        hint: What the person wants to be kept.
        most: Characters of the conversation that are sent; None for a usual number.
        signal: Stops it.

    Raises:
        ProviderError: The model cannot be asked.
        OperationCancelled: The signal was aborted.
    """
    told = _cut("\n\n".join(_told(messages)), most or DEFAULT_CHARACTERS)
    wish = f"\n\nThe person asks to keep above all: {hint}" if hint else ""
    request = wire.ChatRequest((wire.SystemMessage(_ASK), wire.UserMessage(f"{told}{wish}\n\nSum it up.")), think=False)
    pieces: list[str] = []
    size = 0
    events = provider.stream(request, signal)
    try:
        async for event in events:
            if isinstance(event, wire.TextDelta):
                pieces.append(event.text)
                size += len(event.text)
                if size > TOLD_CHARACTERS:
                    break
    finally:
        await events.aclose()
    signal.throw_if_aborted()
    # Headings of ours in it would be read as ours the next time.
    return re.sub(r"(?m)^#+ ", "", "".join(pieces).strip())[:TOLD_CHARACTERS]


def _told(messages: Sequence[wire.Message]) -> Iterator[str]:
    """Yield the messages as a model reads them to sum them up."""
    for message in messages:
        match message:
            case wire.UserMessage(text=text) if text:
                yield f"PERSON: {text}"
            case wire.AssistantMessage(text=text, tool_calls=calls):
                made = "".join(
                    f"\n  calls {call.name} {_cut(str(call.arguments), RESULT_CHARACTERS)}" for call in calls
                )
                if text or made:
                    yield f"AGENT: {text}{made}"
            case wire.ToolMessage(name=name, content=content):
                yield f"RESULT of {name}: {_cut(content, RESULT_CHARACTERS)}"
            case _:
                pass


def _sections(text: str) -> dict[str, str]:
    """Return the parts of an earlier summary by their headings; nothing where it is none."""
    if not text.startswith(HEADING):
        return {}
    pieces = re.split(r"(?m)^(## .+)$", text)
    return {title: body.strip() for title, body in zip(pieces[1::2], pieces[2::2], strict=True)}


def _short(requests: Sequence[str]) -> list[str]:
    return [f"- {_cut(' '.join(request.split()), EARLIER_CHARACTERS)}" for request in requests if request.strip()]


def _last_todos(messages: Sequence[wire.Message]) -> str:
    lists = [message.content for message in messages if isinstance(message, wire.ToolMessage) and _is_todos(message)]
    return _cut(lists[-1], REQUEST_CHARACTERS) if lists else ""


def _is_todos(message: wire.ToolMessage) -> bool:
    return message.name == "write_todos" and message.outcome is wire.ToolOutcome.DONE


def _changed(messages: Sequence[wire.Message]) -> Iterator[str]:
    done = {
        message.call_id
        for message in messages
        if isinstance(message, wire.ToolMessage) and message.outcome is wire.ToolOutcome.DONE
    }
    for call in _calls(messages):
        if call.name in _CHANGES and call.id in done:
            arguments = call.arguments
            named = next((arguments[key] for key in ("path", "to", "message", "revision") if key in arguments), "")
            yield f"- {call.name} {_cut(str(named), EARLIER_CHARACTERS)}"


def _denied(messages: Sequence[wire.Message]) -> Iterator[str]:
    calls = {call.id: call for call in _calls(messages)}
    for message in messages:
        if isinstance(message, wire.ToolMessage) and message.outcome is wire.ToolOutcome.DENIED:
            call = calls.get(message.call_id)
            arguments = "" if call is None else _cut(str(call.arguments), EARLIER_CHARACTERS)
            yield f"- {message.name} {arguments}: {_cut(' '.join(message.content.split()), EARLIER_CHARACTERS)}"


def _calls(messages: Sequence[wire.Message]) -> Iterator[wire.ToolCall]:
    for message in messages:
        if isinstance(message, wire.AssistantMessage):
            yield from message.tool_calls


def _cut(text: str, characters: int) -> str:
    return OutputFormatter.excerpt(text, TruncationConfig(max_chars=characters)).content
