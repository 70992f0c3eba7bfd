"""A conversation that is longer than the model's window: never sent too large, and nothing of it forgotten."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.agent.compaction import FILES, FIRST, HEADING, LAST, summary_by_rule
from ollm_tui.agent.context import FEW_TOOLS, ContextKeeper
from ollm_tui.agent.events import CompactedEvent, ContextDroppedEvent, ErrorEvent, Event, NoticeEvent, UsageEvent
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.provider import ProviderDescription
from ollm_tui.agent.session.history import restore_history
from ollm_tui.agent.session.reading import read_log
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, open_runtime
from tests.agent.providers.fake_server import FakeServer, json_reply, sse
from tests.agent.test_loop import conversation


class SmallModel:
    """A model with a window; it reads a file in each turn, refuses what is too large, and sums up what it is given."""

    name = "small"
    model = "small"

    def __init__(self, window: int, told: int | None, *, counts: bool = True, sums_up: bool = True) -> None:
        self.window = window
        self.told = told
        self.counts = counts
        self.sums_up = sums_up
        self.requests: list[wire.ChatRequest] = []
        self.refused = 0
        self.last_read = "big.txt"
        self.killed = False

    def describe(self) -> ProviderDescription:
        return ProviderDescription(self.name, self.model, context_window=self.told)

    def size(self, request: wire.ChatRequest) -> int:
        """As its tokenizer counts: about three bytes a token."""
        schemas = sum(len(json.dumps(tool.parameters)) + len(tool.description) for tool in request.tools)
        return (sum(len(text_of(message)) for message in request.messages) + schemas) // 3

    async def stream(self, request: wire.ChatRequest, signal: AbortSignal) -> AsyncGenerator[wire.StreamEvent, None]:
        size = self.size(request)
        if size > self.window:
            self.refused += 1
            raise wire.ProviderError(
                wire.ProviderErrorKind.CONTEXT_OVERFLOW, "too large", prompt_tokens=size, context_window=self.window
            )
        self.requests.append(request)
        last = request.messages[-1]
        if not request.tools:
            if not self.sums_up:
                raise wire.ProviderError(wire.ProviderErrorKind.TIMEOUT, "no answer")
            yield wire.TextDelta("- files were read")
        elif self.killed:
            os.kill(os.getpid(), SIGKILL)
        elif isinstance(last, wire.UserMessage):
            call = wire.ToolCall(f"c{len(self.requests)}", "read_file", {"path": self.last_read})
            yield wire.ToolCallReady(call)
        else:
            yield wire.TextDelta("It was read.")
        if self.counts:
            yield wire.UsageReported(size, 10)
        yield wire.StreamFinished(wire.FinishReason.STOP)

    async def list_models(self) -> tuple[wire.ModelInfo, ...]:
        return ()

    async def aclose(self) -> None:
        pass


def text_of(message: wire.Message) -> str:
    match message:
        case wire.SystemMessage(text):
            return text
        case wire.UserMessage():
            return message.whole
        case wire.AssistantMessage(text, calls):
            return text + "".join(call.name + json.dumps(call.arguments) for call in calls)
        case wire.ToolMessage(content=content):
            return content


def check_order(messages: Sequence[wire.Message]) -> None:
    """Each result stands behind its call, and no call is without one."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, wire.ToolMessage):
            assert message.call_id in open_calls
            open_calls.remove(message.call_id)
        else:
            assert not open_calls
            open_calls = [call.id for call in message.tool_calls] if isinstance(message, wire.AssistantMessage) else []
    assert not open_calls


def of(events: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


async def test_a_small_window_gets_the_tools_that_it_has_room_for(tmp_path: Path) -> None:
    for window, few in ((4_096, True), (32_768, False)):
        model = SmallModel(window, window)
        (tmp_path / str(window)).mkdir()
        async with conversation(tmp_path / str(window), []) as (runtime, events):
            (tmp_path / str(window) / "ws" / "big.txt").write_text("words\n")
            runtime.agent.provider = model
            await runtime.agent.run_turn("Read it.")
            names = {tool.name for tool in model.requests[0].tools}
            assert (names <= set(FEW_TOOLS)) == few and "read_file" in names
            said = [event.text for event in of(events, NoticeEvent) if isinstance(event, NoticeEvent)]
            assert any("is offered only" in text for text in said) == few
            assert all(request.tools == model.requests[0].tools for request in model.requests)
            schemas = json.dumps([tool.parameters for tool in model.requests[0].tools])
            assert ("description" not in schemas) == few == any("described in few words" in text for text in said)


FACTS = "The launch code is 4711-KAPPA and the owner is Zsófia."
WORDS = "and this is what I think about it " * 12


async def live(workspace: Path, turns: Sequence[int], model: SmallModel, *, killed: bool = False) -> list[Event]:
    """Go on with the session of the workspace for some turns; `killed` in the middle of the last one."""
    script = workspace.parent / "script.json"
    script.write_text("[]")
    options = Options(workspace=workspace, provider="scripted", script=script, continue_last=turns[0] > 1)
    events: list[Event] = []
    async with open_runtime(options, Attendance.PERSON) as runtime:
        runtime.stream.subscribe(events.append)
        runtime.begin()
        runtime.agent.use(model)
        for number in turns:
            if killed and number == turns[-1]:
                model.killed = True
            await runtime.agent.run_turn(f"{FACTS} Read big.txt." if number == 1 else f"Turn {number}: again, {WORDS}")
        # The log alone leads to the same conversation.
        restored = restore_history(read_log(runtime.log.path).events, ask_again=False)
        assert texts(restored.messages) == texts(runtime.agent.history[1:])
    return events


def texts(messages: Sequence[wire.Message]) -> list[str]:
    return [text_of(message) for message in messages if not isinstance(message, wire.ToolMessage)]


@pytest.mark.parametrize("sums_up", [True, False])
async def test_a_day_of_sixty_turns_two_restarts_and_a_kill_keeps_the_first_facts(
    tmp_path: Path, sums_up: bool
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "big.txt").write_text("a line of words\n" * 300)
    models = [SmallModel(8_000, 8_000, sums_up=sums_up) for _ in range(3)]
    events = await live(workspace, range(1, 21), models[0])
    code = f"""
import asyncio
from pathlib import Path
from tests.agent.test_context import SmallModel, live
asyncio.run(live(Path({str(workspace)!r}), range(21, 36), SmallModel(8_000, 8_000, sums_up={sums_up}), killed=True))
"""
    root = Path(__file__).parents[2]
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert killed.returncode == -SIGKILL, killed.stderr
    events += await live(workspace, range(36, 50), models[1])
    events += await live(workspace, range(50, 61), models[2])
    assert not of(events, ErrorEvent) and sum(model.refused for model in models) <= 1
    compacted = of(events, CompactedEvent)
    assert len(compacted) >= 2
    assert all(isinstance(event, CompactedEvent) and event.after < event.before for event in compacted)
    last = "\n".join(map(text_of, models[-1].requests[-1].messages))
    assert "4711-KAPPA" in last and "Zsófia" in last and "Turn 60" in last
    assert ("files were read" in last) == sums_up
    for request in (request for model in models for request in model.requests):
        check_order(request.messages)


async def test_a_server_that_refuses_tells_the_window(tmp_path: Path) -> None:
    model = SmallModel(7_000, None)
    async with conversation(tmp_path, []) as (runtime, events):
        (tmp_path / "ws" / "big.txt").write_text("a line of words\n" * 300)
        runtime.agent.provider = model
        for number in range(12):
            await runtime.agent.run_turn(f"Turn {number}: read it.")
        assert model.refused == 1 and not of(events, ErrorEvent)
        usage = of(events, UsageEvent)[-1]
        assert isinstance(usage, UsageEvent) and usage.context_limit == 7_000 and not usage.estimated


async def test_a_result_larger_than_the_window_is_cut(tmp_path: Path) -> None:
    model = SmallModel(8_000, 8_000)
    async with conversation(tmp_path, []) as (runtime, events):
        (tmp_path / "ws" / "big.txt").write_text("a line of words\n" * 5_000)
        runtime.agent.provider = model
        await runtime.agent.run_turn("Read it.")
        assert not of(events, ErrorEvent) and model.refused == 0
        assert "cut to fit the window" in text_of(model.requests[-1].messages[-1])


async def test_what_cannot_fit_is_never_sent_and_says_so(tmp_path: Path) -> None:
    model = SmallModel(8_000, 8_000)
    async with conversation(tmp_path, []) as (runtime, events):
        runtime.agent.provider = model
        await runtime.agent.run_turn("word " * 20_000)
        assert not model.requests and model.refused == 0
        (error,) = of(events, ErrorEvent)
        assert isinstance(error, ErrorEvent) and "Nothing was sent" in error.error.message


async def test_a_server_that_counts_nothing_leaves_an_estimate(tmp_path: Path) -> None:
    model = SmallModel(8_000, 8_000, counts=False)
    async with conversation(tmp_path, []) as (runtime, events):
        (tmp_path / "ws" / "big.txt").write_text("words\n")
        runtime.agent.provider = model
        await runtime.agent.run_turn("Read it.")
        usage = of(events, UsageEvent)[-1]
        assert isinstance(usage, UsageEvent) and usage.estimated and usage.prompt_tokens is None
        assert usage.context_used is not None and abs(usage.context_used - model.size(model.requests[-1])) < 800


async def test_the_person_compacts_with_a_wish(tmp_path: Path) -> None:
    model = SmallModel(50_000, 50_000)
    async with conversation(tmp_path, []) as (runtime, events):
        (tmp_path / "ws" / "big.txt").write_text("a line of words\n" * 600)
        runtime.agent.provider = model
        assert not await runtime.agent.compact()
        for number in range(6):
            await runtime.agent.run_turn(f"Turn {number}")
        assert await runtime.agent.compact("the name of the file")
        assert "the name of the file" in text_of(model.requests[-1].messages[-1])
        assert len(of(events, CompactedEvent)) == 1
        rows = runtime.agent.context_parts()
        assert sum(row.tokens for row in rows) > 0 and any("tools" in row.name for row in rows)


async def test_the_first_request_is_made_for_the_window_that_the_server_tells(tmp_path: Path) -> None:
    """Else the second one has other tools, and the server reads the whole prompt anew."""
    chat = "/v1/chat/completions"
    async with FakeServer() as server, conversation(tmp_path, []) as (runtime, _):
        server.always("/v1/models", json_reply({"object": "list", "data": [{"id": "local", "meta": {"n_ctx": 3072}}]}))
        server.always(chat, sse({"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}, "[DONE]"))
        runtime.agent.use(OpenAIProvider(server.url))
        for ask in ("One.", "Two."):
            await runtime.agent.run_turn(ask)
        first, second = ([tool["function"]["name"] for tool in body["tools"]] for body in server.bodies(chat))
        assert first == second and set(first) == set(FEW_TOOLS)


async def test_the_person_drops_items_and_a_resumed_session_agrees(tmp_path: Path) -> None:
    model = SmallModel(50_000, 50_000)
    async with conversation(tmp_path, []) as (runtime, events):
        (tmp_path / "ws" / "big.txt").write_text("a line of words\n" * 600)
        runtime.agent.provider = model
        for ask in ("Read it.", "And @big.txt again."):
            await runtime.agent.run_turn(ask)
        items = runtime.agent.context_items()
        result, other = [item for item in items if item.call_id is not None]
        attached = next(item for item in items if item.name == "attached to: And @big.txt again.")
        assert items == sorted(items, key=lambda item: -item.tokens) and result.name.startswith("result of read_file {")
        before = runtime.agent.context.estimate(runtime.agent.history)
        assert all(map(runtime.agent.drop, (result, other, attached)))
        assert not runtime.agent.drop(replace(attached, message=10_000))
        assert runtime.agent.context.estimate(runtime.agent.history) < before - result.tokens - attached.tokens + 50
        assert len(of(events, ContextDroppedEvent)) == 3
        await runtime.agent.run_turn("What did it say?")
        sent = model.requests[-2].messages
        assert "a line of words" not in str(sent) and text_of(sent[-1]) == "What did it say?"
        assert runtime.agent.history[1:] == restore_history(events, ask_again=False).messages


MESSAGES = st.lists(
    st.builds(wire.UserMessage, st.text(max_size=50))
    | st.builds(wire.AssistantMessage, st.text(max_size=50))
    | st.builds(wire.ToolMessage, st.just("c"), st.sampled_from(["write_todos", "edit_file"]), st.text(max_size=50)),
    max_size=12,
)


@given(MESSAGES, st.lists(MESSAGES, max_size=3))
@settings(max_examples=100, deadline=None)
def test_the_first_request_and_the_last_outlive_any_number_of_summaries(
    start: list[wire.Message], later: list[list[wire.Message]]
) -> None:
    first = wire.UserMessage("the FIRST request")
    summary = summary_by_rule([first, *start])
    for number, messages in enumerate(later):
        summary = summary_by_rule([wire.UserMessage(summary), *messages, wire.UserMessage(f"request {number}")])
        assert f"request {number}" in summary.split(LAST)[1]
    assert summary.startswith(HEADING) and "the FIRST request" in summary.split(FIRST)[1].split("##")[0]


def test_changed_files_and_denials_are_named() -> None:
    calls = (
        wire.ToolCall("1", "edit_file", {"path": "a.py"}),
        wire.ToolCall("2", "shell", {"command": "rm -rf x"}),
        wire.ToolCall("3", "write_file", {"path": "failed.py"}),
    )
    summary = summary_by_rule(
        [
            wire.UserMessage("do it"),
            wire.AssistantMessage("", calls),
            wire.ToolMessage("1", "edit_file", "ok"),
            wire.ToolMessage("2", "shell", "denied: not now", wire.ToolOutcome.DENIED),
            wire.ToolMessage("3", "write_file", "no", wire.ToolOutcome.FAILED),
        ]
    )
    assert "edit_file a.py" in summary.split(FILES)[1] and "failed.py" not in summary
    assert "not now" in summary


async def test_digits_that_a_server_counted_do_not_make_prose_look_larger() -> None:
    keeper = ContextKeeper(lambda: SmallModel(8_000, None), EventStream(MessageBus()))
    digits: wire.Message = wire.UserMessage("3f9a7c21" * 750)
    prose: wire.Message = wire.UserMessage("The quick brown fox jumps over the lazy dog. " * 60)
    fresh = keeper.estimate([prose])
    await keeper.make_room([digits], (), AbortController().signal)
    keeper.answered(wire.UsageReported(5_714, 1), None)  # a token for each 1.05 characters, as tokenizers count hex
    assert keeper.estimate([prose]) <= 1.3 * fresh
    for _ in range(3):  # a server whose counts are far off moves the estimate, but not without end
        await keeper.make_room([digits], (), AbortController().signal)
        keeper.answered(wire.UsageReported(100_000, 1), None)
    assert keeper.estimate([prose]) <= 1.7 * fresh
