"""Sub-agents: a context and tools of their own; the policy, the questions and the limits of the turn that began them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ConfirmationRequestedEvent,
    Event,
    ToolCallEvent,
    ToolResultEvent,
    TurnStatus,
)
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.providers.scripted import ScriptedProvider
from ollm_tui.agent.session.history import restore_history
from ollm_tui.agent.session.reading import read_log
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject
from ollm_tui.testing import Answer, answer_confirmations
from tests.agent.test_loop import call, conversation


def task(prompt: str = "look", **more: object) -> JsonObject:
    return call("task", description="Find it", prompt=prompt, **more)


def results(events: list[Event]) -> dict[str, ToolResultEvent]:
    """Return the results by call, each of which has exactly one."""
    calls = [event.call_id for event in events if isinstance(event, ToolCallEvent)]
    found = [event for event in events if isinstance(event, ToolResultEvent)]
    assert sorted(calls) == sorted(event.call_id for event in found)
    assert len(set(calls)) == len(calls)
    return {event.call_id: event for event in found}


async def test_a_task_works_with_a_context_of_its_own_and_its_last_text_is_the_result(tmp_path: Path) -> None:
    script: list[JsonObject] = [
        {"text": "Somebody else looks.", "toolCalls": [task("what is in the folder?")]},
        {"expect": {"lastUserMessageContains": "what is in the folder?"}, "toolCalls": [call("ls")]},
        {"expect": {"lastToolResultContains": "ws.txt"}, "text": "There is ws.txt."},
        {"expect": {"lastToolResultContains": "There is ws.txt."}, "text": "Found."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        (tmp_path / "ws" / "ws.txt").write_text("x")
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        history = runtime.agent.history
        kinds = [type(message) for message in history[1:]]
        assert kinds == [wire.UserMessage, wire.AssistantMessage, wire.ToolMessage, wire.AssistantMessage]
        logged = read_log(runtime.log.path).events
        assert restore_history(logged, ask_again=True).messages == history[1:]
    assert [event.result.ok for event in results(events).values()] == [True, True]
    (outer,) = [event for event in events if isinstance(event, ToolCallEvent) and event.task is None]
    (inner,) = [event for event in events if isinstance(event, ToolCallEvent) and event.task is not None]
    assert inner.task == outer.call_id and inner.name == "ls"


async def test_its_questions_name_it_and_a_no_is_for_it_alone(tmp_path: Path) -> None:
    script: list[JsonObject] = [
        {"toolCalls": [task()]},
        {"toolCalls": [call("delete_file", path="a.txt")]},
        {"expect": {"lastToolResultContains": "denied"}, "text": "I may not."},
        {"text": "So be it."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        (tmp_path / "ws" / "a.txt").write_text("x")
        answer_confirmations(runtime.core.bus, Answer(approved=False))
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        assert (tmp_path / "ws" / "a.txt").exists()
    (asked,) = [event for event in events if isinstance(event, ConfirmationRequestedEvent)]
    assert asked.request.origin == "task:Find it"
    assert asked.task is not None and asked.task != asked.call_id


async def test_it_has_no_tasks_plans_or_todos_and_only_the_tools_it_was_given(tmp_path: Path) -> None:
    script: list[JsonObject] = [
        {"toolCalls": [task(tools=["read_file", "ls"])]},
        {
            "expect": {"toolNames": ["ls", "read_file"]},
            "toolCalls": [call("write_file", path="b", content="x"), task("deeper"), call("ls")],
        },
        {"text": "Only ls worked."},
        {"toolCalls": [task(tools=["task"])]},
        {"expect": {"lastToolResultContains": "cannot have task"}, "text": "No."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        assert not (tmp_path / "ws" / "b").exists()
    inner = [event.result for event in results(events).values() if event.task is not None]
    assert [None if result.error is None else result.error.type for result in inner].count(None) == 1
    assert {result.error.type for result in inner if result.error is not None} == {"ToolNotFoundError"}


async def test_its_rounds_count_as_rounds_of_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLM_AGENT__MAX_ROUNDS", "6")
    script: list[JsonObject] = [
        {"toolCalls": [task()]},
        *({"toolCalls": [call("ls", maxDepth=depth)]} for depth in range(9)),
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.FAILED
    assert sum(isinstance(event, AssistantMessageEvent) for event in events) == 6
    (outer,) = [event.result for event in results(events).values() if event.task is None]
    assert outer.error is not None and outer.error.type == "TaskError"


class ManyAtOnce(ScriptedProvider):
    """Answers the person with tasks, and each task when `go_on` is set."""

    def __init__(self, tasks: int) -> None:
        super().__init__([])
        self.tasks = tasks
        self.running = self.most = 0
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def stream(self, request: wire.ChatRequest, signal: AbortSignal) -> AsyncGenerator[wire.StreamEvent, None]:
        if isinstance(request.messages[-1], wire.ToolMessage):
            yield wire.TextDelta("All came back.")
        elif request.messages[-1] == wire.UserMessage("look"):
            self.running += 1
            self.most = max(self.most, self.running)
            self.begun.set()
            try:
                await signal.guard(self.go_on.wait())
            finally:
                self.running -= 1
            yield wire.TextDelta("seen")
        else:
            for number in range(self.tasks):
                yield wire.ToolCallReady(wire.ToolCall(f"c{number}", "task", {"description": "d", "prompt": "look"}))
        yield wire.StreamFinished(wire.FinishReason.STOP)


async def test_three_run_at_once(tmp_path: Path) -> None:
    async with conversation(tmp_path, []) as (runtime, events):
        provider = ManyAtOnce(7)
        runtime.agent.use(provider)
        turn = asyncio.create_task(runtime.agent.run_turn("go"))
        await provider.begun.wait()
        while provider.running < 3:
            await asyncio.sleep(0)
        provider.go_on.set()
        assert await turn is TurnStatus.COMPLETED
        assert provider.most == 3
    assert [event.result.llm_content for event in results(events).values()] == ["seen"] * 7


@pytest.mark.parametrize("whole_turn", [False, True])
async def test_one_is_stopped_alone_and_all_with_the_turn(tmp_path: Path, whole_turn: bool) -> None:
    async with conversation(tmp_path, []) as (runtime, events):
        provider = ManyAtOnce(2)
        runtime.agent.use(provider)
        turn = asyncio.create_task(runtime.agent.run_turn("go"))
        await provider.begun.wait()
        while provider.running < 2:
            await asyncio.sleep(0)
        if whole_turn:
            runtime.agent.interrupt()
        else:
            assert runtime.agent.tasks.stop("c0")
            while provider.running > 1:
                await asyncio.sleep(0)
            provider.go_on.set()
        assert await turn is (TurnStatus.INTERRUPTED if whole_turn else TurnStatus.COMPLETED)
        assert not runtime.agent.tasks.stop("c0")
    errors = [event.result.error for event in results(events).values()]
    assert [error is None or error.type for error in errors].count("OperationCancelled") == (2 if whole_turn else 1)


async def test_without_an_agent_there_is_no_sub_agent(tmp_path: Path) -> None:
    async with conversation(tmp_path, []) as (runtime, _):
        result = await runtime.core.executor.execute("task", {"description": "d", "prompt": "p", "tools": ["nope"]})
        assert result.error is not None and "nope" in result.error.message


async def test_a_log_cut_in_a_task_closes_its_calls_and_keeps_the_history(tmp_path: Path) -> None:
    script: list[JsonObject] = [{"toolCalls": [task()]}, {"toolCalls": [call("ls")]}, {"text": "seen"}, {"text": "ok"}]
    async with conversation(tmp_path, script) as (runtime, events):
        await runtime.agent.run_turn("go")
        kept = [event for event in events if event.type not in ("text_delta", "reasoning_delta")]
    for end in range(1, len(kept) + 1):
        restored = restore_history(kept[:end], ask_again=True)
        results([*kept[:end], *restored.closing])
        assert sum(isinstance(message, wire.UserMessage) for message in restored.messages) <= 1
