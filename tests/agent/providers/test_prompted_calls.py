"""Calls of models that have no tools of their own: told in words, held to a schema, read back, judged stricter."""

from __future__ import annotations

import json

import pytest

from ollm_tui.agent.providers.ollama import OllamaProvider
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.prompted_calls import PromptedHoldback, signature
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    ChatRequest,
    ModelOptions,
    ProviderErrorKind,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSchema,
    ToolsMode,
    UserMessage,
)
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Origin
from tests.agent.providers.collecting import TOOLS, asking, collect
from tests.agent.providers.fake_server import FakeReply, FakeServer, json_reply, ndjson, sse

CHAT = "/v1/chat/completions"
CALL = '{"tool": "write_file", "arguments": {"path": "a\\nb"}}'
ANSWER = '{"answer": "He said \\"\\u00e9t\\u00e9\\" \\ud83d\\ude00,\\nand left."}'


def streamed(text: str) -> FakeReply:
    pieces: list[JsonObject] = [{"choices": [{"delta": {"content": letter}}]} for letter in text]
    return sse(*pieces, {"choices": [{"delta": {}, "finish_reason": "stop"}]}, "[DONE]")


def options(tools: ToolsMode) -> dict[str, ModelOptions]:
    return {"plain": ModelOptions(tools=tools)}


def fed(text: str, size: int) -> tuple[str, list[tuple[str, object]]]:
    hold = PromptedHoldback(["ls", "write_file"])
    shown = "".join(hold.feed(text[at : at + size]) for at in range(0, len(text), size))
    rest, calls = hold.close()
    return shown + rest, [(call.name, call.arguments.value) for call in calls]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "shown", "calls"),
    [
        (CALL, "", [("write_file", {"path": "a\nb"})]),
        (f"```json\n{CALL}\n```", "", [("write_file", {"path": "a\nb"})]),
        (f' \n{CALL}\n{{"tool": "ls", "arguments": {{}}}}', "", [("write_file", {"path": "a\nb"}), ("ls", {})]),
        ('{"tool": "ls", "arguments": {"path": "' + "x" * 50_000 + '"}}', "", [("ls", {"path": "x" * 50_000})]),
        ('{"answer": "Two\\nlines \\"so\\""} and more', 'Two\nlines "so"', []),
        ('{"answer": "cut in the mid', "cut in the mid", []),
        ("Just words, no JSON.", "Just words, no JSON.", []),
        ('{"tool": "rm_all", "arguments": {}}', '{"tool": "rm_all", "arguments": {}}', []),
        ('{"tool": "ls", "argum', '{"tool": "ls", "argum', []),
        ("", "", []),
    ],
)
def test_a_reply_is_a_call_an_answer_or_words_in_whatever_pieces(
    text: str, shown: str, calls: list[tuple[str, object]], size: int
) -> None:
    assert fed(text, size) == (shown, calls)


def test_an_answer_is_shown_as_it_comes() -> None:
    hold = PromptedHoldback(["ls"])
    assert [hold.feed(piece) for piece in ('{"ans', 'wer": "Hel', "lo\\", 'n"}')] == ["", "Hel", "lo", "\n"]


def test_a_tool_stands_on_one_line() -> None:
    parameters: JsonObject = {
        "type": "object",
        "required": ["path"],
        "properties": {
            "path": {"type": "string"},
            "mode": {"enum": ["a", "b"]},
            "lines": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        },
    }
    shown = signature(ToolSchema("look", "Look at it. At length.", parameters))
    assert shown == '- look(path: string, mode?: "a"|"b", lines?: integer[]) - Look at it'


async def test_the_protocol_takes_the_place_of_tools_and_holds_the_reply_to_a_schema() -> None:
    async with FakeServer() as server:
        server.reply(CHAT, streamed(CALL), streamed(ANSWER))
        provider = OpenAIProvider(server.url, "plain", context_window=4096, options=options(ToolsMode.PROMPTED))
        got = await collect(provider, asking("Write it."))
        [call] = got.calls
        assert (call.name, call.arguments, call.origin) == ("write_file", {"path": "a\nb"}, Origin.SALVAGED)
        assert got.text == ""
        history = (
            SystemMessage("You are an agent."),
            UserMessage("Write it."),
            AssistantMessage("", (ToolCall("1", "write_file", {"path": "a"}),)),
            ToolMessage("1", "write_file", "Written."),
        )
        got = await collect(provider, ChatRequest(history, TOOLS))
        assert got.text == 'He said "été" 😀,\nand left.' and not got.calls
        first, second = server.bodies(CHAT)
        assert "tools" not in first and first["response_format"]["type"] == "json_schema"
        consts = [each["properties"].get("tool") for each in first["response_format"]["json_schema"]["schema"]["anyOf"]]
        assert consts == [*({"const": tool.name} for tool in TOOLS), None]
        system, asked, called, result = second["messages"]
        assert system["content"].startswith("You are an agent.\n\n") and "- ls(path?: string)" in system["content"]
        assert json.loads(called["content"]) == {"tool": "write_file", "arguments": {"path": "a"}}
        assert (result["role"], result["content"]) == ("user", "Result of write_file:\nWritten.")
        assert asked["content"] == "Write it."
        await provider.aclose()


async def test_a_server_that_knows_no_schema_is_asked_without_and_the_person_is_told() -> None:
    async with FakeServer() as server:
        refusal = json_reply({"error": {"message": "response_format is not supported"}}, 400)
        server.reply(CHAT, refusal, streamed(CALL), streamed("Words."))
        provider = OpenAIProvider(server.url, "plain", context_window=4096, options=options(ToolsMode.PROMPTED))
        got = await collect(provider, asking())
        assert len(got.calls) == 1 and "no schema" in got.notices[0]
        assert (await collect(provider, asking())).text == "Words."
        assert ["response_format" in body for body in server.bodies(CHAT)] == [True, False, False]
        await provider.aclose()


async def test_ollama_gets_the_schema_as_format() -> None:
    async with FakeServer() as server:
        server.always("/api/show", json_reply({"capabilities": ["completion"]}))
        server.always("/api/ps", json_reply({"models": []}))
        line = {"message": {"role": "assistant", "content": CALL}, "done": True, "done_reason": "stop"}
        server.reply("/api/chat", ndjson(line))
        provider = OllamaProvider(server.url, "plain:1b")
        got = await collect(provider, asking())
        assert [call.name for call in got.calls] == ["write_file"] and "told of them in words" in got.notices[0]
        [body] = server.bodies("/api/chat")
        assert "tools" not in body and len(body["format"]["anyOf"]) == len(TOOLS) + 1
        await provider.aclose()


async def test_tools_can_be_native_only_or_none() -> None:
    async with FakeServer() as server:
        refusal = json_reply({"error": {"message": "plain does not support tools"}}, 400)
        server.reply(CHAT, refusal)
        native = OpenAIProvider(server.url, "plain", context_window=4096, options=options(ToolsMode.NATIVE))
        got = await collect(native, asking())
        assert got.failure is not None and got.failure.kind is ProviderErrorKind.NO_TOOLS
        server.reply(CHAT, streamed("Hello"))
        none = OpenAIProvider(server.url, "plain", context_window=4096, options=options(ToolsMode.NONE))
        got = await collect(none, asking())
        assert got.text == "Hello" and "plain is offered no tools" in got.notices[0]
        assert not none.describe().takes_tools
        assert "tools" not in server.bodies(CHAT)[-1] and len(server.bodies(CHAT)[-1]["messages"]) == 1
        await native.aclose()
        await none.aclose()
