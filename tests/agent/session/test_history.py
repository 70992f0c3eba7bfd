"""A session goes on from its log alone: the same history, whatever was cut off or damaged, and nothing asked in vain."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    CompactedEvent,
    Event,
    LoggedResult,
    ProposedCall,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
    as_line,
)
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.session.history import restore_history
from ollm_tui.agent.session.log import sessions_folder
from ollm_tui.agent.session.reading import event_in, fork_log, read_log, read_opening
from ollm_tui.cli import main
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Origin
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, ConfigurationError, Runtime, SessionError, SessionWish, open_runtime
from ollm_tui.testing import Answer, answer_confirmations


def call(name: str, **arguments: object) -> JsonObject:
    return {"name": name, "arguments": arguments}


@asynccontextmanager
async def runtime_of(
    tmp_path: Path, script: list[JsonObject], attendance: Attendance = Attendance.PERSON, **options: object
) -> AsyncGenerator[tuple[Runtime, list[Event]]]:
    workspace = tmp_path / "ws"
    workspace.mkdir(exist_ok=True)
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script))
    chosen = Options(workspace=workspace, provider="scripted", script=path, **options)  # type: ignore[arg-type]  # by name
    async with open_runtime(chosen, attendance) as runtime:
        events: list[Event] = []
        runtime.stream.subscribe(events.append)
        runtime.begin()
        yield runtime, events


SCRIPT: list[JsonObject] = [
    {"text": "I'll look.", "toolCalls": [call("ls"), call("read_file", path="missing"), call("nope")]},
    {"text": "", "toolCalls": [call("delete_file", path="a.txt")]},
    {"text": "You \u00e9 did not want that."},
    {"text": "", "toolCalls": [call("write_file", path="b.txt", content="b\u2028\n")]},
    {"text": "Done."},
]


async def recorded(tmp_path: Path) -> tuple[Path, tuple[wire.Message, ...]]:
    """A session of two turns, with errors, a denied call and a note from memory: its log, and its history."""
    async with runtime_of(tmp_path, SCRIPT) as (runtime, _):
        (tmp_path / "ws" / "a.txt").write_text("x")
        runtime.core.memory.set("build", "make all")
        answer_confirmations(runtime.core.bus, Answer(approved=False))
        await runtime.agent.run_turn("tidy up \u0001")
        await runtime.agent.run_turn("and write")
        return runtime.log.path, runtime.agent.history


def is_whole(messages: Iterable[wire.Message]) -> bool:
    """Whether each call is followed by its one result, as servers want it."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, wire.ToolMessage):
            if open_calls.pop(0) != message.call_id:
                return False
        elif open_calls:
            return False
        elif isinstance(message, wire.AssistantMessage):
            open_calls = [each.id for each in message.tool_calls]
    return not open_calls


async def test_the_history_from_the_log_is_the_one_that_was_sent(tmp_path: Path) -> None:
    path, history = await recorded(tmp_path)
    restored = restore_history(read_log(path).events, ask_again=True)
    assert restored.messages == history[1:] and is_whole(restored.messages)
    assert not restored.waiting and not restored.closing


async def test_a_log_cut_at_any_byte_goes_on(tmp_path: Path) -> None:
    path, history = await recorded(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for line in lines:  # half a line is damage wherever it ends, so that only where whole ones end makes a difference
        assert all(event_in(line[:length]) is True for length in range(1, len(line) - 1))
        assert event_in(line[:-1]) == event_in(line)
    cut = tmp_path / "cut" / "events.jsonl"
    cut.parent.mkdir()
    for count in range(len(lines) + 1):
        for half in (b"", *(line[: len(line) // 2] for line in lines[count : count + 1])):
            cut.write_bytes(b"".join(lines[:count]) + half)
            logged = read_log(cut)
            assert logged.damaged == bool(half) and len(logged.events) == count
            restored = restore_history(logged.events, ask_again=False)
            assert is_whole(restored.messages), count
            after = [*logged.events, *restored.closing]
            asked = [event.call_id for event in after if isinstance(event, ToolCallEvent)]
            returned = [event.call_id for event in after if isinstance(event, ToolResultEvent)]
            assert sorted(asked) == sorted(returned), count
            again = restore_history(after, ask_again=False)
            assert (again.messages, again.closing) == (restored.messages, ()), count
    assert restored.messages == history[1:]


@pytest.mark.parametrize(
    ("line", "damaged"),
    [
        (b"\n", 0),
        (b"\0" * 4096 + b"\n", 1),
        (b"\xff\xfe{\n", 1),
        (b'{"type":"user_message","id":1\n', 1),
        (b'{"type":"user_message","id":"many","text":1}\n', 1),
        (b"[" * 100_000 + b"\n", 1),
        (b'"text"\n', 1),
        (b'{"type":"weather","id":7,"sun":true}\n', 0),
        (b'{"id":7,"time":"now"}\n', 1),
    ],
    ids=["empty", "zeros", "no text", "cut", "wrong types", "too deep", "no object", "another version's", "no type"],
)
async def test_damage_is_left_out_and_counted(tmp_path: Path, line: bytes, damaged: int) -> None:
    path, history = await recorded(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(part for whole in lines for part in (line, whole)))
    logged = read_log(path)
    assert logged.damaged == damaged * len(lines)
    assert restore_history(logged.events, ask_again=True).messages == history[1:]
    async with runtime_of(tmp_path, [], resume=path.parent.name) as (runtime, _):
        assert runtime.agent.history[1:] == history[1:]
        told = [text for text in runtime.session.now.notices if "damaged and left out" in text]
        assert len(told) == bool(damaged) and all(str(path) in text for text in told)


def test_a_newer_versions_members_are_left_out_not_the_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    result = {"ok": True, "llmContent": "x", "returnDisplay": "x", "mood": "good", "artifacts": [{"kind": "a"}]}
    path.write_text(
        '{"type":"user_message","id":1,"text":"hi","tone":"kind"}\n'
        f'{{"type":"tool_result","id":2,"callId":"c","result":{json.dumps(result)}}}\n'
    )
    logged = read_log(path)
    assert not logged.damaged and [event.type for event in logged.events] == ["user_message", "tool_result"]


def said(number: int, text: str) -> AssistantMessageEvent:
    return AssistantMessageEvent(id=number, text=text)


def test_a_retried_answer_counts_once() -> None:
    events = [UserMessageEvent(id=1, text="go"), said(2, "half").model_copy(update={"partial": True}), said(3, "whole")]
    assert restore_history(events, ask_again=True).messages[1:] == (wire.AssistantMessage("whole"),)


def test_a_compaction_leaves_its_summary_and_what_it_kept() -> None:
    asks = AssistantMessageEvent(id=4, text="", tool_calls=(ProposedCall(id="c", name="ls", arguments={}),))
    result = LoggedResult(ok=True, llm_content="a.txt", return_display="a.txt", notes=("sorted",))
    events: list[Event] = [
        UserMessageEvent(id=1, text="one"),
        said(2, "first"),
        UserMessageEvent(id=3, text="two"),
        asks,
        ToolCallEvent(id=5, call_id="c", name="ls", arguments={}, origin=Origin.MODEL),
        ToolResultEvent(id=6, call_id="c", result=result),
        CompactedEvent(id=7, before=900, after=100, summary="What was: one.", kept_from=3),
        said(8, "done"),
        TurnFinishedEvent(id=9, status=TurnStatus.COMPLETED),
    ]
    messages = restore_history(events, ask_again=True).messages
    assert [message for message in messages if isinstance(message, wire.UserMessage)] == [
        wire.UserMessage("What was: one."),
        wire.UserMessage("two"),
    ]
    assert messages[3] == wire.ToolMessage("c", "ls", "a.txt\n[note: sorted]")
    assert messages[4] == wire.AssistantMessage("done") and len(messages) == 5


# -- through the whole runtime


async def at_a_question(tmp_path: Path) -> str:
    """Leave a session as a kill at a question leaves it; return its id."""
    script = [{"text": "now", "toolCalls": [call("ls"), call("delete_file", path="a.txt")]}]
    async with runtime_of(tmp_path, script) as (runtime, events):
        (tmp_path / "ws" / "a.txt").write_text("x")
        turn = runtime.agent.run_turn("clean")
        copied = sessions_folder() / "19990101-000000-killed"

        def copy(_: Event) -> None:
            kinds = {event.type for event in events}
            if {"tool_result", "confirmation_requested"} <= kinds and not copied.exists():
                shutil.copytree(runtime.session.folder, copied)
                runtime.agent.interrupt()

        runtime.stream.subscribe(copy)
        await turn
        shutil.rmtree(runtime.session.folder)
    assert read_log(copied / "events.jsonl").events[-1].type in ("tool_result", "confirmation_requested")
    return copied.name


async def test_a_question_that_waited_is_asked_again_and_its_call_answered_once(tmp_path: Path) -> None:
    killed = await at_a_question(tmp_path)
    script: list[JsonObject] = [{"expect": {"lastToolResultContains": "a.txt"}, "text": "It is gone."}]
    async with runtime_of(tmp_path, script, resume=killed) as (runtime, events):
        assert any(
            "ended unexpectedly" in text and "delete_file waited" in text for text in runtime.session.now.notices
        )
        assert not [event for event in events if event.type == "tool_result"]
        answer_confirmations(runtime.core.bus, Answer())
        assert await runtime.agent.retry() is TurnStatus.COMPLETED
        path, history = runtime.log.path, runtime.agent.history
        assert is_whole(history[1:]) and not (tmp_path / "ws" / "a.txt").exists()
    kinds = [event.type for event in read_log(path).events]
    assert kinds.count("tool_call") == kinds.count("tool_result") == 2
    assert kinds.count("confirmation_requested") == 2 and kinds[-1] == "turn_finished"
    assert restore_history(read_log(path).events, ask_again=True).messages == history[1:]


async def test_without_a_person_it_is_closed_as_not_run(tmp_path: Path) -> None:
    killed = await at_a_question(tmp_path)
    async with runtime_of(tmp_path, [{"text": "ok"}], Attendance.NOBODY, resume=killed[:13]) as (runtime, events):
        (closed,) = [event for event in events if isinstance(event, ToolResultEvent)]
        assert "ended before it ran" in closed.result.llm_content
        assert await runtime.agent.run_turn("and now?") is TurnStatus.COMPLETED
        assert is_whole(runtime.agent.history[1:])
    ids = [event.id for event in read_log(sessions_folder() / killed / "events.jsonl").events]
    assert ids == sorted(set(ids))


async def test_the_last_session_of_the_workspace_goes_on_in_the_same_log(tmp_path: Path) -> None:
    path, history = await recorded(tmp_path)
    async with runtime_of(tmp_path, []) as (empty, _):
        assert empty.log.path != path
    async with runtime_of(tmp_path, [{"text": "More."}], continue_last=True) as (runtime, events):
        assert (runtime.log.path, runtime.agent.history[1:]) == (path, history[1:])
        await runtime.agent.run_turn("again")
        assert events[0].type == "session_started" and events[0].id > 10
    assert len(restore_history(read_log(path).events, ask_again=True).messages) == len(history) - 1 + 2


async def test_a_session_is_gone_on_with_once_and_forked_meanwhile(tmp_path: Path) -> None:
    path, history = await recorded(tmp_path)
    session = path.parent.name
    before = path.read_bytes()
    async with runtime_of(tmp_path, [], resume=session):
        with pytest.raises(ConfigurationError, match=f"{session} is open in another window"):
            async with runtime_of(tmp_path, [], resume=session):
                pass
        async with runtime_of(tmp_path, [{"text": "x"}], resume=session, fork=True) as (fork, _):
            assert fork.agent.history[1:] == history[1:] and fork.session_id != session
            await fork.agent.run_turn("aside")
            assert read_opening(fork.log.path).forked_from == session
            first = json.loads(fork.log.path.read_text().splitlines()[0])
            assert (first["sessionId"], first["forkedFrom"]) == (fork.session_id, session)
    assert path.read_bytes().startswith(before)


def test_a_fork_ends_before_the_chosen_message_and_leaves_damage_behind(tmp_path: Path) -> None:
    source = tmp_path / "old" / "events.jsonl"
    source.parent.mkdir()
    events = [UserMessageEvent(id=1, text="one"), said(2, "first"), UserMessageEvent(id=3, text="two")]
    source.write_text("\n{half\n".join(map(as_line, events)))
    fork_log(source, tmp_path / "new", before=3)
    logged = read_log(tmp_path / "new" / "events.jsonl")
    assert [event.type for event in logged.events] == ["session_started", "user_message", "assistant_message"]
    assert not logged.damaged and logged.started is not None and logged.started.forked_from == "old"


async def test_another_session_takes_the_place_of_the_one_that_is_recorded(tmp_path: Path) -> None:
    path, history = await recorded(tmp_path)
    async with runtime_of(tmp_path, [{"text": "a"}, {"text": "b"}]) as (runtime, events):
        first = runtime.log.path
        await runtime.agent.run_turn("hello")
        with pytest.raises(SessionError, match="There is no session x"):
            await runtime.open_session(SessionWish("x"))
        await runtime.open_session(SessionWish(path.parent.name))
        runtime.begin()
        assert (runtime.log.path, runtime.agent.history[1:]) == (path, history[1:])
        await runtime.agent.run_turn("go on")
        await runtime.open_session(SessionWish())
        runtime.begin()
        assert len(runtime.agent.history) == 1 and events[-1].id == 1
        assert runtime.core.outputs.folder == runtime.log.folder / "output"
    assert "hello" in first.read_text() and "go on" not in first.read_text() and "go on" in path.read_text()
    assert not list(sessions_folder().glob("*/running"))


async def test_another_workspaces_session_says_where_it_worked(tmp_path: Path) -> None:
    path, _ = await recorded(tmp_path)
    (tmp_path / "ws").rename(tmp_path / "elsewhere")
    async with runtime_of(tmp_path, [], resume=path.parent.name) as (runtime, _):
        assert not any("paths in it may mean" in text for text in runtime.session.now.notices)
    path.write_text(path.read_text().replace(str(tmp_path / "ws"), "/home/ann/project"))
    async with runtime_of(tmp_path, [], resume=path.parent.name) as (runtime, _):
        assert any("It worked in /home/ann/project and goes on in" in text for text in runtime.session.now.notices)
    with pytest.raises(ConfigurationError, match="no earlier session in"):
        async with runtime_of(tmp_path, [], continue_last=True):
            pass


async def test_a_fork_reads_and_exports_what_was_cut_in_its_origin(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "ws").mkdir(exist_ok=True)
    command = "seq 1 30000"
    async with runtime_of(tmp_path, [{"toolCalls": [call("shell", command=command)]}, {"text": "Counted."}]) as (
        first,
        _,
    ):
        await first.agent.run_turn("count")
        origin = first.session_id
        (full,) = (first.log.folder / "output").iterdir()
        look = call("read_file", path=str(full), startLine=29_999)
    async with runtime_of(tmp_path, [{"toolCalls": [look]}, {"text": "x"}], resume=origin, fork=True) as (fork, _):
        await fork.agent.run_turn("its end?")
        assert any(
            "30000" in message.content for message in fork.agent.history if isinstance(message, wire.ToolMessage)
        )
        await fork.open_session(SessionWish(fork.session_id, fork=True))
        again = await fork.core.executor.execute("read_file", look["arguments"])
        assert again.error is None
        fork.begin()
        last = fork.session_id
    capfdbinary.readouterr()
    assert main(["sessions", "export", last]) == 0
    assert b"\n15000\n" in capfdbinary.readouterr().out
    assert main(["sessions", "export", last, "--format", "cast"]) == 0
    assert capfdbinary.readouterr().out.count(b'"m"') == 1
