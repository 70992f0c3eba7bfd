"""How a turn runs its calls, takes in what the person says meanwhile, and comes to an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from ollm_tui.agent.events import (
    ConfirmationRequestedEvent,
    ErrorEvent,
    Event,
    NoticeEvent,
    ToolResultEvent,
    TurnStatus,
    UserMessageEvent,
)
from ollm_tui.agent.guard import TurnLimitError, TurnLimits, TurnMeter
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.providers.scripted import ScriptedProvider
from ollm_tui.core import Effect, Parameters, Risk, Tool, ToolGroup, ToolInvocation, ToolResult
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject, UpdateOutput
from ollm_tui.core.policy.rules import Mode
from ollm_tui.runtime import Attendance
from ollm_tui.testing import Answer, FakeClock, answer_confirmations
from tests.agent.test_loop import call, conversation


class MeetParameters(Parameters):
    others: int


class MeetInvocation(ToolInvocation[MeetParameters]):
    """Ends once so many calls of it run at the same time."""

    def get_description(self) -> str:
        return "Meet the others"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        MEETING.append(self)
        async with asyncio.timeout(10):
            while len(MEETING) < self.params.others:
                await asyncio.sleep(0.01)
        return ToolResult.of_text(f"{len(MEETING)} met")


MEETING: list[MeetInvocation] = []


def meeting_tool(effect: Effect = Effect.READS) -> Tool[MeetParameters]:
    MEETING.clear()
    return Tool(
        name="meet",
        display_name="Meet",
        description="Meets",
        group=ToolGroup.FS,
        effect=effect,
        parameters=MeetParameters,
        invocation=MeetInvocation,
        risk=Risk.LOW,
    )


def results(events: list[Event]) -> list[str]:
    return [event.result.llm_content for event in events if isinstance(event, ToolResultEvent)]


async def test_calls_that_only_read_run_together_and_changes_in_their_order(tmp_path: Path) -> None:
    reads = [call("read_file", path="a.txt"), call("meet", others=2), call("meet", others=2)]
    script: list[JsonObject] = [
        {"toolCalls": [*reads, call("write_file", path="b.txt", content="new"), call("read_file", path="b.txt")]},
        {"text": "Done."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        (tmp_path / "ws" / "a.txt").write_text("first")
        runtime.core.executor.registry.register(meeting_tool())
        runtime.core.executor.mode = Mode.YOLO
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        told = [message.content for message in runtime.agent.history if isinstance(message, wire.ToolMessage)]
    assert [text.split()[0] for text in told[1:3]] == ["2", "2"], "each waited for the other"
    assert "first" in told[0] and told[4].strip() == "new", "what is read last is what was written before it"
    assert len(results(events)) == 5


async def test_a_message_typed_during_a_turn_goes_with_its_next_request(tmp_path: Path) -> None:
    script: list[JsonObject] = [
        {"toolCalls": [call("ls")]},
        {"expect": {"lastUserMessageContains": "the short list"}, "text": "Done."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        queue = runtime.agent.queue
        runtime.stream.subscribe(lambda event: queue.add("the short list") if event.type == "tool_call" else None)
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        assert queue.messages == ()
    kinds = [event.type for event in events if event.type in ("user_message", "tool_result", "turn_finished")]
    assert kinds == ["user_message", "tool_result", "user_message", "turn_finished"]
    assert [event.text for event in events if isinstance(event, UserMessageEvent)] == ["go", "the short list"]


async def test_the_third_equal_result_brings_a_remark_and_the_fifth_call_a_question(tmp_path: Path) -> None:
    script: list[JsonObject] = [{"toolCalls": [call("ls")]} for _ in range(5)]
    async with conversation(tmp_path, [*script, {"text": "I stop."}]) as (runtime, events):
        answer_confirmations(runtime.core.bus, Answer(approved=False, reason="enough"))
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    logged = [event.result for event in events if isinstance(event, ToolResultEvent)]
    assert [bool(result.notes) for result in logged] == [False, False, True, True, False]
    assert "3 times" in logged[2].notes[0]
    [asked] = [event.request for event in events if isinstance(event, ConfirmationRequestedEvent)]
    assert "going in circles" in asked.reason
    assert "enough" in logged[4].llm_content


async def test_a_call_that_the_person_lets_go_on_is_counted_anew(tmp_path: Path) -> None:
    script: list[JsonObject] = [{"toolCalls": [call("ls")]} for _ in range(8)]
    async with conversation(tmp_path, [*script, {"text": "Done."}]) as (runtime, events):
        answer_confirmations(runtime.core.bus, Answer(approved=True))
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    assert len([event for event in events if isinstance(event, ConfirmationRequestedEvent)]) == 1
    assert len(results(events)) == 8


async def test_where_nobody_is_there_a_call_in_circles_ends_the_turn(tmp_path: Path) -> None:
    script: list[JsonObject] = [{"toolCalls": [call("ls")]} for _ in range(9)]
    async with conversation(tmp_path, script, Attendance.NOBODY) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.FAILED
    assert len(results(events)) == 5
    [error] = [event.error for event in events if isinstance(event, ErrorEvent)]
    assert error.code == "TURN_LIMIT" and "ls" in error.message and "4 times" in error.message


class Replies(ScriptedProvider):
    """Answers with each list of events in turn."""

    def __init__(self, *replies: list[wire.StreamEvent]) -> None:
        super().__init__([])
        self.replies = list(replies)

    async def stream(self, request: wire.ChatRequest, signal: AbortSignal) -> AsyncGenerator[wire.StreamEvent]:
        for event in self.replies.pop(0):
            yield event


STOPPED = wire.StreamFinished(wire.FinishReason.STOP)


async def test_an_empty_answer_is_asked_for_once_more(tmp_path: Path) -> None:
    async with conversation(tmp_path, []) as (runtime, events):
        runtime.agent.provider = Replies([STOPPED], [wire.TextDelta("Here."), STOPPED])
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        assert runtime.agent.history[-1] == wire.AssistantMessage("Here.")
        runtime.agent.provider = Replies([STOPPED], [wire.ReasoningDelta("hm"), STOPPED])
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    notices = [event.text for event in events if isinstance(event, NoticeEvent)]
    assert notices[0] == notices[1] == "The model answered nothing. It is asked once more."
    assert "another model" in notices[2] and len(notices) == 3


async def test_an_answer_that_repeats_itself_without_end_is_ended(tmp_path: Path) -> None:
    pieces: list[wire.StreamEvent] = [wire.TextDelta("and so it goes on, ") for _ in range(2_000)]
    async with conversation(tmp_path, []) as (runtime, events):
        runtime.agent.provider = Replies([wire.TextDelta("Well: "), *pieces, STOPPED])
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        [answer] = [message for message in runtime.agent.history if isinstance(message, wire.AssistantMessage)]
    assert 3_000 < len(answer.text) < 5_000
    assert any("repeats itself" in event.text for event in events if isinstance(event, NoticeEvent))


def test_a_turn_ends_at_its_rounds_its_tokens_and_its_time() -> None:
    clock = FakeClock()
    meter = TurnMeter(TurnLimits(rounds=2), clock)
    meter.begin_round()
    meter.begin_round()
    with pytest.raises(TurnLimitError, match="2 times in a row"):
        meter.begin_round()
    meter = TurnMeter(TurnLimits(tokens=100), clock)
    meter.begin_round()
    meter.used(wire.UsageReported(90, 20))
    with pytest.raises(TurnLimitError, match="110 of 100 tokens"):
        meter.begin_round()
    meter = TurnMeter(TurnLimits(seconds=60), clock)
    clock.seconds += 100
    meter.waited([ToolResult.of_text("done").model_copy(update={"waited_ms": 50_000})])
    meter.begin_round()
    clock.seconds += 20
    with pytest.raises(TurnLimitError, match="70 of 60 seconds"):
        meter.begin_round()
