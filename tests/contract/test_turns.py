"""A turn told as events: whole, in order, one result a call, whatever the model sends (contract sections 0 and 5)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from ollm_tui.agent.events import Event, ToolCallEvent, ToolResultEvent, TurnFinishedEvent, as_line, read_event
from ollm_tui.agent.providers.json_values import DEEPEST, presentable, well_formed, well_formed_json
from ollm_tui.agent.providers.provider import ToolCall
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, open_runtime


async def told(folder: Path, script: JsonValue, prompt: str = "go") -> list[Event]:
    """The events of one headless turn."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    (folder / "script.json").write_text(json.dumps(script))
    options = Options(workspace=workspace, provider="scripted", script=folder / "script.json")
    events: list[Event] = []
    async with open_runtime(options, Attendance.NOBODY) as runtime:
        runtime.stream.subscribe(events.append)
        runtime.begin()
        await runtime.agent.run_turn(prompt)
        assert runtime.log is not None
        logged = [read_event(line) for line in runtime.log.path.read_text().splitlines()]
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    assert [event.id for event in logged] == [
        event.id for event in events if not event.type.endswith(("delta", "tool_output"))
    ]
    return events


def results(events: list[Event]) -> dict[str, list[str]]:
    """How each call ended: every result that names it."""
    ends: dict[str, list[str]] = {event.call_id: [] for event in events if isinstance(event, ToolCallEvent)}
    for event in events:
        if isinstance(event, ToolResultEvent):
            ends[event.call_id].append(event.result.error.type if event.result.error else "ok")
    return ends


def nested(levels: int) -> dict[str, JsonValue]:
    value: dict[str, JsonValue] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


async def test_every_call_has_exactly_one_result(tmp_path: Path) -> None:
    calls: list[JsonValue] = [
        {"name": "ls", "arguments": {}},
        {"name": "no_such_tool", "arguments": {}},
        {"name": "read_file", "arguments": {}},
        {"name": "shell", "arguments": {"command": "touch x"}},
        {"name": "write_file", "arguments": {"path": "half.txt", "content": "\ud800"}},
        {"name": "ls", "arguments": nested(400)},
        {"name": "l\udfffs", "arguments": {"\ud800": "\ud800"}},
    ]
    events = await told(tmp_path, [{"toolCalls": calls}, {"text": "done \ud800"}], prompt="go \udcff")
    kinds = ["ok", "ToolNotFoundError", "ValidationError", "PolicyDeniedError", *["ValidationError"] * 3]
    assert list(results(events).values()) == [[kind] for kind in kinds]
    assert isinstance(events[-1], TurnFinishedEvent) and events[-1].status == "completed"
    assert not (tmp_path / "workspace" / "half.txt").exists()
    for event in events:
        assert read_event(as_line(event).encode()) is not None


async def test_after_the_last_reply_the_turn_ends_with_an_empty_answer(tmp_path: Path) -> None:
    events = await told(tmp_path, [{"toolCalls": [{"name": "ls", "arguments": {}}]}])
    kinds = [event.type for event in events if event.type != "notice"]  # which says that nothing was answered
    assert kinds[-2:] == ["assistant_message", "turn_finished"]


async def test_a_result_in_an_event_is_what_stands_on_stdout(tmp_path: Path) -> None:
    events = await told(
        tmp_path, [{"toolCalls": [{"name": "ls", "arguments": {}}, {"name": "ls", "arguments": {"x": 1}}]}]
    )
    answers = [event for event in events if isinstance(event, ToolResultEvent)]  # in the order in which the reads ended
    plain, noted = (json.loads(as_line(event))["result"] for event in sorted(answers, key=lambda one: one.call_id))
    assert not {"notes", "artifacts", "error"} & plain.keys() and noted["notes"]
    assert plain.keys() >= {"ok", "llmContent", "returnDisplay", "data", "truncated", "durationMs", "waitedMs"}


async def test_times_are_utc_with_milliseconds(tmp_path: Path) -> None:
    import re

    for event in await told(tmp_path, [{"text": "hi"}]):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event.time)


texts = st.text(st.characters(), max_size=30)
"""Halves of surrogate pairs included."""


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=10,
    )
)
def test_what_is_well_formed_can_be_written_and_what_was_stays_as_it_is(value: JsonValue) -> None:
    clean = well_formed_json(value)
    written = json.dumps(clean, ensure_ascii=False).encode()
    assert json.loads(written) == clean and well_formed_json(clean) == clean
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert clean == value


def test_a_pair_in_two_halves_becomes_its_character() -> None:
    assert well_formed("\ud83d\ude42 \ud83d") == "🙂 \ufffd"


@pytest.mark.parametrize(("levels", "faulty"), [(3, False), (DEEPEST - 2, False), (DEEPEST + 2, True), (100_000, True)])
def test_arguments_without_bottom_are_a_fault(levels: int, faulty: bool) -> None:
    arguments: dict[str, JsonValue] = {}
    deepest: dict[str, JsonValue] = arguments
    for _ in range(levels):
        inner: dict[str, JsonValue] = {}
        deepest["a"] = inner
        deepest = inner
    assert (presentable(ToolCall("c1", "ls", arguments)).error is not None) is faulty


def test_a_reader_that_leaves_ends_the_turn_in_silence(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps([{"text": "word " * 2000, "pieceDelayMs": 20}]))
    process = subprocess.Popen(
        [sys.executable, "-m", "ollm_tui", "run", "go", "--provider", "scripted", "--script", "s.json", "--output", "jsonl"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(20) == 130
    assert process.stderr.read() == b""


async def test_the_full_texts_of_a_session_can_be_read_in_it_and_no_other_sessions(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    options = Options(workspace=tmp_path / "workspace", provider="offline")
    async with open_runtime(options, Attendance.YES) as runtime:
        kept = await runtime.core.outputs.save("call_1", "one\ntwo\n")
        read = await runtime.core.executor.execute("read_file", {"path": str(kept), "startLine": 2})
        found = await runtime.core.executor.execute("grep", {"pattern": "two", "directory": str(kept)})
        assert read.llm_content == "two\n" and found.llm_content == f"{kept}:2: two"
    async with open_runtime(options, Attendance.YES) as runtime:
        foreign = await runtime.core.executor.execute("read_file", {"path": str(kept)})
        assert foreign.error is not None and foreign.error.type == "InvalidPathError"
