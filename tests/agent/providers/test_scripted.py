"""`ScriptedProvider`: the script format of contract section 4, and clear words where a script is none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    ChatRequest,
    FinishReason,
    ProviderErrorKind,
    TextDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ollm_tui.agent.providers.scripted import ScriptedProvider, ScriptError, load_script, parse_script
from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.bus.states import Origin
from tests.agent.providers.collecting import TOOLS, asking, collect


def scripted(*replies: object) -> ScriptedProvider:
    return ScriptedProvider(parse_script(json.loads(json.dumps(replies))))


async def test_replies_come_in_order_one_a_request_and_then_empty_answers():
    provider = scripted({"text": "one"}, {"text": "two"})
    got = [await collect(provider, asking()) for _ in range(4)]
    assert [reply.text for reply in got] == ["one", "two", "", ""]
    assert [reply.finish for reply in got] == [FinishReason.STOP] * 4


async def test_the_example_of_the_contract_works():
    provider = scripted(
        {"text": "I'll look.", "toolCalls": [{"name": "ls", "arguments": {"path": "."}}], "pieceDelayMs": 0},
        {"expect": {"lastToolResultContains": "README"}, "text": "Done."},
    )
    first = await collect(provider, asking())
    assert (first.text, first.called, first.finish) == ("I'll look.", [("ls", {"path": "."})], FinishReason.TOOL_CALLS)
    call = first.calls[0]
    assert call.origin is Origin.MODEL
    history = (UserMessage("x"), AssistantMessage(first.text, (call,)), ToolMessage(call.id, "ls", "- README.md"))
    assert (await collect(provider, ChatRequest(history))).text == "Done."


@given(st.text())
async def test_text_is_streamed_in_small_pieces_that_add_up(text: str):
    got = await collect(ScriptedProvider(parse_script([{"text": text}])), asking())
    pieces = [event.text for event in got.events if isinstance(event, TextDelta)]
    assert "".join(pieces) == text
    assert all(len(piece.strip()) <= 24 for piece in pieces)


async def test_pieces_wait_for_each_other_and_the_wait_can_be_aborted():
    provider = scripted({"text": "a b c d e", "pieceDelayMs": 20}, {"text": "a b", "pieceDelayMs": 60000})
    began = time.monotonic()
    await collect(provider, asking())
    assert 0.08 <= time.monotonic() - began < 5
    controller = AbortController()
    with pytest.raises(OperationCancelled):
        async for _ in provider.stream(asking(), controller.signal):
            controller.abort()


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ({"lastToolResultContains": "y"}, "reply 0: expect.lastToolResultContains: 'y' was expected"),
        ({"lastUserMessageContains": "y"}, "the last user message, which is 'first words'"),
        ({"toolNames": ["ls", "fly"]}, "not offered: fly; offered beside them: grep, read_file, shell, write_file"),
    ],
)
async def test_an_expectation_that_is_not_met_fails_the_turn_and_says_what_was_there(expect: object, words: str):
    provider = scripted({"expect": expect, "text": "no"}, {"text": "next"})
    got = await collect(provider, asking("first words"))
    assert got.failure is not None
    assert got.failure.kind is ProviderErrorKind.REFUSED
    assert not got.failure.retryable
    assert words in got.failure.message
    assert got.text == ""
    assert (await collect(provider, asking())).text == "next"


async def test_expectations_look_at_the_last_message_of_their_kind():
    call = ToolCall("a", "ls", {})
    history = (
        UserMessage("old"),
        AssistantMessage("", (call,)),
        ToolMessage("a", "ls", "old result"),
        UserMessage("new"),
    )
    expect = {
        "lastUserMessageContains": "new",
        "lastToolResultContains": "old result",
        "toolNames": [tool.name for tool in reversed(TOOLS)],
    }
    assert (await collect(scripted({"expect": expect, "text": "ok"}), ChatRequest(history, TOOLS))).text == "ok"
    wrong = {"lastUserMessageContains": "old"}
    assert (await collect(scripted({"expect": wrong, "text": "ok"}), ChatRequest(history, TOOLS))).failure is not None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"text": "x"}, "must be a list"),
        ([{"text": "x"}, 5], "reply 1: must be an object"),
        ([{}, {"txt": "x"}], "reply 1: unknown key 'txt'; known are text"),
        ([{"toolCalls": [{"name": "ls", "args": {}}]}], "reply 0, toolCalls 0: unknown key 'args'"),
        ([{"expect": {"contains": "x"}}], "reply 0, expect: unknown key 'contains'"),
        ([{"text": 5}], "text must be a string"),
        ([{"toolCalls": {}}], "toolCalls must be a list"),
        ([{"toolCalls": [{"arguments": {}}]}], "name is missing"),
        ([{"toolCalls": [{"name": "ls", "arguments": "{}"}]}], "arguments must be an object"),
        ([{"pieceDelayMs": -1}], "pieceDelayMs must be a number"),
        ([{"pieceDelayMs": True}], "pieceDelayMs must be a number"),
        ([{"expect": {"toolNames": [1]}}], "toolNames must be a list of names"),
        ([{"expect": []}], "reply 0, expect: must be an object"),
    ],
)
def test_a_fault_of_the_script_is_named_with_index_and_key(tmp_path: Path, script: object, words: str):
    path = tmp_path / "story.json"
    path.write_text(json.dumps(script))
    with pytest.raises(ScriptError) as caught:
        load_script(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read: No such file"), (b"[{", "is not JSON"), (b"\xff", "is not UTF-8")]
)
def test_a_file_that_is_no_script_is_said_to_be_none(tmp_path: Path, content: bytes | None, words: str):
    path = tmp_path / "story.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ScriptError, match=words):
        ScriptedProvider.from_file(path)
