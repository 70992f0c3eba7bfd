"""Time, ids and a model that do what they are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ollm_tui.agent.providers.provider import ChatRequest, TextDelta, ToolCallReady, UserMessage
from ollm_tui.agent.providers.scripted import ScriptError
from ollm_tui.core import AbortController
from ollm_tui.core.base.clock import Clock, IdSource
from ollm_tui.testing import FakeClock, SequentialIds, scripted_provider, tool_call

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_a_clock_stands_until_it_is_moved_and_both_its_times_move_together() -> None:
    clock = FakeClock(NOON)
    as_protocol: Clock = clock
    before = as_protocol.monotonic()
    assert as_protocol.now() == as_protocol.now() == NOON
    clock.advance(1.5)
    assert clock.monotonic() - before == 1.5 and clock.now() - NOON == timedelta(seconds=1.5)


def test_a_clock_with_a_step_never_shows_a_moment_twice() -> None:
    clock = FakeClock(NOON, step=1)
    assert [clock.now() - NOON for _ in range(2)] == [timedelta(seconds=1), timedelta(seconds=2)]


def test_ids_are_counted_by_kind() -> None:
    ids: IdSource = SequentialIds()
    assert [ids.new_id(kind) for kind in ("call", "confirm", "call")] == ["call-1", "confirm-1", "call-2"]


async def test_a_scripted_provider_gives_one_reply_a_request() -> None:
    provider = scripted_provider(tool_call("ls", path="."), "Done.")
    request, signal = ChatRequest((UserMessage("go"),)), AbortController().signal
    [first, *_] = [event async for event in provider.stream(request, signal)]
    assert isinstance(first, ToolCallReady) and (first.call.name, first.call.arguments) == ("ls", {"path": "."})
    said = [event.text async for event in provider.stream(request, signal) if isinstance(event, TextDelta)]
    assert "".join(said) == "Done."


def test_a_reply_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(ScriptError, match=r"reply 1: unknown key 'calls'"):
        scripted_provider("fine", {"calls": []})
