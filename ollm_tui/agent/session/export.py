"""A session as Markdown, for reading, and as JSON lines, for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    CompactedEvent,
    ConfirmationSettledEvent,
    ErrorEvent,
    Event,
    LoggedResult,
    NoticeEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
    as_line,
)
from ollm_tui.agent.session.catalogue import StoredSession
from ollm_tui.agent.session.log import sessions_folder
from ollm_tui.agent.session.reading import LoggedEvents
from ollm_tui.core.base.escape import visible, visible_block

MOST_EXPORTED = 4_000_000
"""Bytes of one result."""

_BACKTICKS = re.compile(r"`+")


def json_lines(logged: LoggedEvents) -> Iterator[str]:
    """Yield the events that could be read, a line each."""
    return map(as_line, logged.events)


def markdown(session: StoredSession, logged: LoggedEvents) -> Iterator[str]:
    """Yield the session as a text for people, block by block."""
    opening = session.opening
    yield f"# {_plain(session.title) or 'A session without a request'}\n"
    facts = [f"- Session: {session.id}", f"- Workspace: {_plain(opening.workspace) or 'unknown'}"]
    facts += [f"- Model: {_plain(f'{opening.provider} {opening.model}'.strip())}"] if opening.provider else []
    facts += [f"- Began: {_moment(opening.time)}"] if opening.time else []
    facts += [f"- Fork of: {_plain(opening.forked_from)}"] if opening.forked_from else []
    facts += [f"- Damaged lines left out: {logged.damaged}"] if logged.damaged else []
    yield "\n".join(facts) + "\n"
    calls: dict[str, ToolCallEvent] = {}
    for event in logged.events:
        match event:
            case ToolCallEvent():
                calls[event.call_id] = event
            case ToolResultEvent():
                yield _call(calls.pop(event.call_id, None), event.result)
            case _:
                if text := _said(event):
                    yield text
    for call in calls.values():
        yield _call(call, None)


def _said(event: Event) -> str:
    match event:
        case UserMessageEvent():
            return f"## You, {_moment(event.time)}\n\n{visible_block(event.text)}\n"
        case AssistantMessageEvent(text=text) if text.strip():
            cut = "\n\n*The answer was cut off here.*" if event.partial else ""
            by = f" of {_plain(event.model)}" if event.model else ""
            who = f"## Answer{by}, {_moment(event.time)}" if event.task is None else "### The sub-agent"
            return f"{who}\n\n{visible_block(text)}{cut}\n"
        case ConfirmationSettledEvent(outcome=outcome, by=by):
            why = f": {_plain(event.reason)}" if event.reason else ""
            return f"*{outcome.value.capitalize()} by {_plain(by)}{why}*\n"
        case NoticeEvent(text=text):
            return f"*{_plain(text)}*\n"
        case ErrorEvent(error=error):
            return f"**{_plain(error.type)}:** {_plain(error.message)}\n"
        case CompactedEvent():
            return f"*The conversation was compacted from {event.before} to {event.after} tokens.*\n"
        case TurnFinishedEvent(status=TurnStatus.INTERRUPTED):
            return "*Interrupted.*\n"
        case _:
            return ""


def _call(call: ToolCallEvent | None, result: LoggedResult | None) -> str:
    by = "" if call is None or call.task is None else "by a sub-agent, "
    name = "unknown" if call is None else visible(call.name).replace("`", "")
    ended = "without a result" if result is None else "ok" if result.error is None else result.error.type
    arguments = "" if call is None else _fenced(json.dumps(call.arguments, indent=2, ensure_ascii=False), "json")
    content = "" if result is None else _fenced(_full_text(result))
    return f"### `{name}`: {by}{_plain(ended)}\n\n{arguments}{content}".rstrip() + "\n"


def _full_text(result: LoggedResult) -> str:
    """Return the whole text of a result that was cut, as far as it is still kept."""
    for artifact in result.artifacts:
        path = Path(str(artifact.get("path", "")))
        # A log may be another person's: it names no file but those that sessions keep.
        if artifact.get("kind") != "full-text" or path.parent.parent.parent != sessions_folder():
            continue
        with suppress(OSError), path.open("rb") as file:
            text = file.read(MOST_EXPORTED).decode("utf-8", "replace")
            return text if len(text) < MOST_EXPORTED else f"{text}\n[cut here: the rest is in {path}]"
    return result.llm_content


def _fenced(text: str, language: str = "") -> str:
    """Return the text as a code block, whose fence is longer than any in it."""
    fence = "`" * max(3, *(len(run) + 1 for run in _BACKTICKS.findall(text)), 3)
    return f"{fence}{language}\n{visible_block(text).rstrip()}\n{fence}\n\n"


def _plain(text: str) -> str:
    """Return a text on one line in which Markdown sees nothing."""
    return re.sub(r"([\\`*_\[\]<>#])", r"\\\1", visible(text))


def _moment(time: str) -> str:
    try:
        return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return "at an unknown time"
