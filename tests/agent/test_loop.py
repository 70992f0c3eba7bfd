"""The conversation: a turn from the person's words to the last event, with real tools and a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    ErrorEvent,
    Event,
    NoticeEvent,
    TextDeltaEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
    read_event,
)
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.providers.scripted import ScriptedProvider
from ollm_tui.core import ConfirmationResponse
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, Runtime, open_runtime
from ollm_tui.testing import Answer, answer_confirmations


@asynccontextmanager
async def conversation(
    tmp_path: Path, script: list[JsonObject], attendance: Attendance = Attendance.PERSON
) -> AsyncGenerator[tuple[Runtime, list[Event]]]:
    workspace = tmp_path / "ws"
    workspace.mkdir(exist_ok=True)
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script))
    async with open_runtime(Options(workspace=workspace, provider="scripted", script=path), attendance) as runtime:
        events: list[Event] = []
        runtime.stream.subscribe(events.append)
        runtime.begin()
        yield runtime, events


def call(name: str, **arguments: object) -> JsonObject:
    return {"name": name, "arguments": arguments}


async def test_a_turn_reads_and_answers(tmp_path: Path) -> None:
    script: list[JsonObject] = [
        {"text": "I'll look.", "toolCalls": [call("ls", path=".")]},
        {"expect": {"lastToolResultContains": "- notes.txt"}, "text": "Done."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        (tmp_path / "ws" / "notes.txt").write_text("hello")
        assert await runtime.agent.run_turn("what is here?") is TurnStatus.COMPLETED
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    assert "".join(event.text for event in events if isinstance(event, TextDeltaEvent)) == "I'll look.Done."
    kinds = [event.type for event in events if event.type not in ("text_delta", "usage")]
    assert kinds == [
        "session_started", "user_message", "assistant_message", "tool_call", "tool_result", "assistant_message", "turn_finished",
    ]  # fmt: skip


async def test_each_call_has_exactly_one_result_also_when_it_is_nonsense(tmp_path: Path) -> None:
    calls = [call("nope"), call("read_file"), call("read_file", path="missing"), call("ls", path="../.."), call("ls")]
    async with conversation(tmp_path, [{"text": "", "toolCalls": calls}]) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        asked = [event.call_id for event in events if isinstance(event, ToolCallEvent)]
        returned = [event for event in events if isinstance(event, ToolResultEvent)]
        assert sorted(event.call_id for event in returned) == sorted(asked) and len(set(asked)) == 5
        by_id = {event.call_id: event.result for event in returned}
        types = [error.type if (error := by_id[call_id].error) else None for call_id in asked]
        assert types == ["ToolNotFoundError", "ValidationError", "FileNotFoundError", "InvalidPathError", None]
        results = [message for message in runtime.agent.history if isinstance(message, wire.ToolMessage)]
        assert [message.call_id for message in results] == asked


async def test_several_calls_wait_together_and_run_in_order(tmp_path: Path) -> None:
    script: list[JsonObject] = [
        {
            "text": "",
            "toolCalls": [
                call("write_file", path="a.txt", content="new", overwrite=True),
                call("shell", command="cat a.txt > b.txt"),
                call("delete_file", path="c.txt"),
            ],
        }
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        for name in ("a.txt", "c.txt"):
            (tmp_path / "ws" / name).write_text("old")
        turn = asyncio.ensure_future(runtime.agent.run_turn("go"))
        async with asyncio.timeout(10):
            while len(runtime.core.bus.pending()) < 3:
                await asyncio.sleep(0.01)
        requests = {request.details.tool_name: request for request in runtime.core.bus.pending()}
        runtime.core.bus.respond_to_confirmation(
            ConfirmationResponse(id=requests["delete_file"].id, approved=False, reason="keep it, please")
        )
        runtime.core.bus.respond_to_confirmation(ConfirmationResponse(id=requests["shell"].id, approved=True))
        async with asyncio.timeout(10):
            while len([event for event in events if isinstance(event, ConfirmationSettledEvent)]) < 2:
                await asyncio.sleep(0.01)
        assert not runtime.core.hub.list() and not (tmp_path / "ws" / "b.txt").exists()
        runtime.core.bus.respond_to_confirmation(ConfirmationResponse(id=requests["write_file"].id, approved=True))
        assert await turn is TurnStatus.COMPLETED
    assert (tmp_path / "ws" / "b.txt").read_text() == "new"
    assert (tmp_path / "ws" / "c.txt").read_text() == "old"
    last = [message for message in runtime.agent.history if isinstance(message, wire.ToolMessage)][-1]
    assert "keep it, please" in last.content


async def test_results_of_reads_that_run_together_come_in_the_order_of_their_calls(tmp_path: Path) -> None:
    calls = [call("read_file", path="long.txt"), call("nope"), *(call("ls", path=".") for _ in range(5))]
    async with conversation(tmp_path, [{"text": "", "toolCalls": calls}]) as (runtime, events):
        (tmp_path / "ws" / "long.txt").write_text("a line of some words\n" * 200_000)
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    reads = [event.call_id for event in events if isinstance(event, ToolCallEvent) and event.name != "nope"]
    returned = [event.call_id for event in events if isinstance(event, ToolResultEvent)]
    assert [call_id for call_id in returned if call_id in reads] == reads and len(returned) == 7


async def test_a_later_call_may_depend_on_an_earlier_one(tmp_path: Path) -> None:
    edit = call("edit_file", path="new.txt", edits=[{"target": "one", "replacement": "two"}])
    script: list[JsonObject] = [{"text": "", "toolCalls": [call("write_file", path="new.txt", content="one\n"), edit]}]
    async with conversation(tmp_path, script) as (runtime, _):
        answer_confirmations(runtime.core.bus, Answer(), Answer())
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    assert (tmp_path / "ws" / "new.txt").read_text() == "two\n"


async def test_nobody_there_means_denied_at_once(tmp_path: Path) -> None:
    script: list[JsonObject] = [{"text": "", "toolCalls": [call("delete_file", path="a.txt")]}, {"text": "Then not."}]
    async with conversation(tmp_path, script, Attendance.NOBODY) as (runtime, events):
        (tmp_path / "ws" / "a.txt").write_text("x")
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    asked = next(event for event in events if isinstance(event, ConfirmationRequestedEvent))
    settled = next(event for event in events if isinstance(event, ConfirmationSettledEvent))
    assert (settled.request_id, settled.outcome, settled.by) == (asked.request.id, "denied", "nobody")
    returned = next(event for event in events if isinstance(event, ToolResultEvent))
    assert returned.result.error is not None and returned.result.error.code == "POLICY_DENIED"
    assert (tmp_path / "ws" / "a.txt").exists()


async def test_an_interruption_keeps_what_was_said(tmp_path: Path) -> None:
    script: list[JsonObject] = [{"text": "word " * 200, "pieceDelayMs": 20}]
    async with conversation(tmp_path, script) as (runtime, events):
        turn = asyncio.ensure_future(runtime.agent.run_turn("talk"))
        while not any(isinstance(event, TextDeltaEvent) for event in events):
            await asyncio.sleep(0.01)
        assert runtime.agent.interrupt() is True
        assert await turn is TurnStatus.INTERRUPTED
        assert runtime.agent.interrupt() is False and not runtime.agent.busy
    message = next(event for event in events if isinstance(event, AssistantMessageEvent))
    assert message.partial and message.text.startswith("word") and len(message.text) < 1000
    assert isinstance(events[-1], TurnFinishedEvent) and events[-1].status is TurnStatus.INTERRUPTED


async def test_interrupting_ends_the_command_and_withdraws_the_questions(tmp_path: Path) -> None:
    script: list[JsonObject] = [
        {"text": "", "toolCalls": [call("shell", command="touch b; sleep 60"), call("delete_file", path="a.txt")]}
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        (tmp_path / "ws" / "a.txt").write_text("x")
        turn = asyncio.ensure_future(runtime.agent.run_turn("go"))
        async with asyncio.timeout(10):
            while len(runtime.core.bus.pending()) < 2:
                await asyncio.sleep(0.01)
            shell = next(each for each in runtime.core.bus.pending() if each.details.tool_name == "shell")
            runtime.core.bus.respond_to_confirmation(ConfirmationResponse(id=shell.id, approved=True))
            while not any(state.running for state in runtime.core.hub.list()):
                await asyncio.sleep(0.01)
            runtime.agent.interrupt()
            assert await turn is TurnStatus.INTERRUPTED
        assert not any(state.running for state in runtime.core.hub.list())
        assert runtime.core.bus.pending() == []
    returned = [event.result.error for event in events if isinstance(event, ToolResultEvent)]
    assert [error.code for error in returned if error] == ["CANCELLED", "CANCELLED"]


async def test_a_failed_turn_can_be_tried_again_without_asking_twice(tmp_path: Path) -> None:
    script: list[JsonObject] = [{"expect": {"lastUserMessageContains": "nobody says this"}}, {"text": "Now it works."}]
    async with conversation(tmp_path, script) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.FAILED
        failed = next(event for event in events if isinstance(event, ErrorEvent))
        assert failed.error.type and "nobody says this" in failed.error.message
        assert await runtime.agent.retry() is TurnStatus.COMPLETED
    assert len([event for event in events if isinstance(event, UserMessageEvent)]) == 1


async def test_a_model_that_never_comes_to_an_end_is_stopped(tmp_path: Path) -> None:
    script: list[JsonObject] = [{"text": "", "toolCalls": [call("ls", maxDepth=at)]} for at in range(60)]
    async with conversation(tmp_path, script) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.FAILED
    assert len([event for event in events if isinstance(event, ToolResultEvent)]) == 50


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (wire.FinishReason.STOP, None),
        (wire.FinishReason.OTHER, None),
        (wire.FinishReason.LENGTH, "length limit"),
        (wire.FinishReason.FILTERED, "content filter"),
    ],
)
async def test_an_answer_that_its_author_did_not_end_says_so(
    tmp_path: Path, reason: wire.FinishReason, said: str | None
) -> None:
    class Ending(ScriptedProvider):
        async def stream(self, request: wire.ChatRequest, signal: AbortSignal) -> AsyncGenerator[wire.StreamEvent]:
            yield wire.TextDelta("Half of what")
            yield wire.StreamFinished(reason)

    async with conversation(tmp_path, [{"text": "unused"}]) as (runtime, events):
        runtime.agent.provider = Ending([])
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
        assert runtime.agent.history[-1] == wire.AssistantMessage("Half of what")
    after_it = [event.text for event in events if isinstance(event, NoticeEvent)]
    assert [said in text for text in after_it if said] == ([True] if said else [])
    assert bool(after_it) == bool(said)


async def test_tools_that_the_policy_denies_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[tools]\ndeny = ["exec"]\n')
    (tmp_path / "ws").mkdir()
    options = Options(workspace=tmp_path / "ws", provider="offline", policy_file=tmp_path / "policy.toml")
    async with open_runtime(options, Attendance.PERSON) as runtime:
        offered = {schema["name"] for schema in runtime.core.executor.offered_schemas()}
    assert "read_file" in offered and not offered & {"shell", "shell_output", "shell_kill"}


async def test_the_log_holds_the_session_without_its_deltas(tmp_path: Path) -> None:
    async with conversation(tmp_path, [{"text": "Hello."}]) as (runtime, events):
        await runtime.agent.run_turn("hi")
        assert runtime.log is not None
        path = runtime.log.path
    logged = [read_event(line) for line in path.read_text().splitlines()]
    assert logged == [event for event in events if event.type not in ("text_delta", "reasoning_delta", "tool_output")]


async def test_secrets_do_not_reach_the_log(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with conversation(tmp_path, [{"text": f"your token is {secret}"}]) as (runtime, _):
        await runtime.agent.run_turn(f"remember {secret}")
        assert runtime.log is not None
        path = runtime.log.path
    assert secret not in path.read_text()


KILLED = """
import asyncio, os, sys
from pathlib import Path
from ollm_tui.runtime import Attendance, open_runtime
from ollm_tui.core.bus.notices import ConfirmationRequested
from ollm_tui.options import Options

async def main():
    options = Options(workspace=Path(sys.argv[1]), provider="scripted", script=Path(sys.argv[2]))
    async with open_runtime(options, Attendance.PERSON) as runtime:
        runtime.begin()
        print(runtime.log.path, flush=True)
        runtime.core.bus.subscribe(
            lambda notice: os.kill(os.getpid(), 9) if isinstance(notice, ConfirmationRequested) else None
        )
        await runtime.agent.run_turn("go")

asyncio.run(main())
"""


def test_a_process_killed_at_a_question_leaves_a_log_that_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": "now", "toolCalls": [call("delete_file", path="a.txt")]}]))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(script)],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    lines = Path(done.stdout.strip()).read_text().splitlines(keepends=True)
    assert all(line.endswith("\n") for line in lines)
    assert json.loads(lines[-1])["type"] == "confirmation_requested"


# -- bounds of a reply


VARIED = "".join(f"{number} " for number in range(3_000))[:10_000]
"""Text that does not repeat itself, for a while."""


class Endless(ScriptedProvider):
    """A model that repeats one event without end."""

    def __init__(self, event: wire.StreamEvent) -> None:
        super().__init__([])
        self.event = event
        self.sent = 0
        self.closed = False

    async def stream(self, request: wire.ChatRequest, signal: AbortSignal) -> AsyncGenerator[wire.StreamEvent, None]:
        try:
            while True:
                self.sent += 1
                match self.event:
                    case wire.ToolCallProgress(name):
                        yield wire.ToolCallProgress(name, self.sent * 10_000)
                    case _:
                        yield self.event
        finally:
            self.closed = True


@pytest.mark.parametrize(
    ("event", "sent", "words"),
    [
        (wire.TextDelta(VARIED), 101, "a text of more than 1,000,000 characters"),
        (wire.ReasoningDelta(VARIED), 101, "reasoning of more than 1,000,000 characters"),
        (wire.ToolCallProgress("shell", 1), 401, "a call with arguments of more than 4,000,000 characters"),
    ],
)
async def test_a_reply_without_end_is_closed_at_its_bound_kept_and_said(
    tmp_path: Path, event: wire.StreamEvent, sent: int, words: str
) -> None:
    async with conversation(tmp_path, []) as (runtime, events):
        provider = runtime.agent.provider = Endless(event)
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    assert (provider.sent, provider.closed) == (sent, True)
    [notice] = [each.text for each in events if isinstance(each, NoticeEvent)]
    assert words in notice
    messages = [each for each in events if isinstance(each, AssistantMessageEvent)]
    if isinstance(event, wire.ToolCallProgress):
        assert messages == []
    else:
        [message] = messages
        assert message.partial and len(message.text) + len(message.reasoning) == 1_000_000


async def test_of_more_calls_than_python_recurses_deep_a_hundred_run_and_the_rest_is_refused_once(
    tmp_path: Path,
) -> None:
    script: list[JsonObject] = [
        {"toolCalls": [call("ls", path=".") for _ in range(1_100)]},
        {"expect": {"lastToolResultContains": "not run, nor what came after it: more than 100 calls"}, "text": "Done."},
    ]
    async with conversation(tmp_path, script) as (runtime, events):
        assert await runtime.agent.run_turn("go") is TurnStatus.COMPLETED
    results = [each.result for each in events if isinstance(each, ToolResultEvent)]
    assert [result.ok for result in results].count(True) == 100 and len(results) == 101
    notices = [each.text for each in events if isinstance(each, NoticeEvent)]
    assert notices == ["1,000 of the 1,100 calls in one reply are not run: 100 are the most."]
