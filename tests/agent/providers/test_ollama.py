"""`OllamaProvider` against a server on this machine: the window, capabilities, and what is sent."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, asynccontextmanager

import pytest

from ollm_tui.agent.providers.ollama import ModelDetails, OllamaProvider, read_model_facts
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    ChatRequest,
    ModelInfo,
    ProviderErrorKind,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ollm_tui.agent.providers.retry import RetryPolicy
from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import OperationCancelled
from tests.agent.providers.collecting import TOOLS, asking, collect
from tests.agent.providers.fake_server import FakeReply, FakeServer, json_reply, ndjson, wire_fixture

CHAT = "/api/chat"


def said(text: str, **message: object) -> dict[str, object]:
    return {"message": {"role": "assistant", "content": text, **message}, "done": False}


def done(prompt: int | None = 10, **more: object) -> dict[str, object]:
    counts = {} if prompt is None else {"prompt_eval_count": prompt}
    return {"message": {"content": ""}, "done": True, "done_reason": "stop", "eval_count": 2, **counts, **more}


HELLO = ndjson(said("Hel"), said("lo"), done())


@asynccontextmanager
async def connected(model: str | None = "demo:1b", **options: object):
    """The server knows `demo:1b` as the fixtures describe it."""
    async with FakeServer() as server:
        for path in ("show", "ps", "tags"):
            server.always(f"/api/{path}", wire_fixture(f"ollama_{path}.json"))
        options.setdefault("retries", RetryPolicy(first_delay=0.01))
        provider = OllamaProvider(server.url, model, **options)  # type: ignore[arg-type]  # options by name
        yield server, provider
        await provider.aclose()


async def test_the_window_is_always_sent_and_a_cut_prompt_always_refused():
    async with connected(num_ctx=4096) as (server, provider):
        server.reply(CHAT, HELLO, HELLO)
        await collect(provider, asking(temperature=0.2, max_tokens=77))
        await collect(provider, asking())
        first, second = server.bodies(CHAT)
        assert first["options"] == {"num_ctx": 4096, "num_predict": 77, "temperature": 0.2}
        assert second["options"] == {"num_ctx": 4096}
        assert (first["truncate"], first["keep_alive"], first["stream"]) == (False, "30m", True)


async def test_the_conversation_is_sent_as_ollama_wants_it():
    async with connected() as (server, provider):
        server.reply(CHAT, HELLO)
        calls = (ToolCall("c1", "ls", {"path": "a"}), ToolCall("c2", "grep", {"path": "b"}))
        history = (
            SystemMessage("Be brief."),
            UserMessage("one"),
            AssistantMessage("1", reasoning="old thought"),
            UserMessage("two"),
            AssistantMessage("", calls, reasoning="new thought"),
            ToolMessage("c2", "grep", "second"),
            ToolMessage("c1", "ls", "first"),
        )
        await collect(provider, ChatRequest(history, TOOLS))
        assert server.bodies(CHAT)[0]["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": "two"},
            {
                "role": "assistant",
                "content": "",
                "thinking": "new thought",
                "tool_calls": [
                    {"function": {"name": "ls", "arguments": {"path": "a"}}},
                    {"function": {"name": "grep", "arguments": {"path": "b"}}},
                ],
            },
            {"role": "tool", "tool_name": "ls", "content": "first"},
            {"role": "tool", "tool_name": "grep", "content": "second"},
        ]


@pytest.mark.parametrize(
    ("asked", "show", "sent"),
    [
        (None, {"model_info": {"general.architecture": "x", "x.context_length": 131072}}, 16384),
        (None, {"model_info": {"general.architecture": "x", "x.context_length": 2048}}, 2048),
        (None, {"parameters": 'stop "x"\nnum_ctx 32768'}, 32768),
        (None, {}, 16384),
        (65536, {"model_info": {"general.architecture": "x", "x.context_length": 32768}}, 32768),
        (8192, {"model_info": {"general.architecture": "x", "x.context_length": 32768}}, 8192),
    ],
)
async def test_the_window_is_settled_from_what_was_asked_and_what_the_model_can_hold(asked, show, sent):
    async with connected(num_ctx=asked) as (server, provider):
        server.always("/api/show", json_reply(show))
        server.always("/api/ps", json_reply({"models": []}))
        server.reply(CHAT, HELLO)
        got = await collect(provider, asking())
        assert server.bodies(CHAT)[0]["options"] == {"num_ctx": sent}
        assert provider.describe().context_window == sent
        assert bool(got.notices) == (asked is not None and asked > sent)


async def test_a_window_the_server_did_not_give_is_noticed_and_used_from_then_on():
    async with connected(num_ctx=16384) as (server, provider):
        server.reply(CHAT, HELLO, HELLO)
        got = await collect(provider, asking())
        assert any("4,096 tokens, not the 16,384" in notice for notice in got.notices)
        assert provider.describe().context_window == 4096
        assert (await collect(provider, asking())).notices == []
        asked = [request for request in server.requests if request.path == "/api/ps"]
        assert len(asked) == 2, "before the first reply and behind it"


@pytest.mark.parametrize(
    ("count", "estimate", "cut"), [(4095, None, True), (3000, 9000, True), (2900, 3000, False), (500, 9000, False)]
)
async def test_a_prompt_cut_in_silence_is_noticed(count: int, estimate: int | None, cut: bool):
    async with connected(num_ctx=4096) as (server, provider):
        server.reply(CHAT, ndjson(said("x"), done(count)))
        got = await collect(provider, asking(estimated_tokens=estimate))
        assert any("probably cut" in notice for notice in got.notices) == cut


async def test_a_model_that_cannot_call_tools_is_told_of_them_in_words():
    async with connected() as (server, provider):
        server.always("/api/show", json_reply({"capabilities": ["completion"]}))
        server.reply(CHAT, HELLO, HELLO)
        got = await collect(provider, asking(think=True))
        assert "told of them in words" in got.notices[0]
        body = server.bodies(CHAT)[0]
        assert "tools" not in body
        assert "think" not in body
        assert (await collect(provider, asking())).notices == []


async def test_a_server_that_only_says_so_in_an_error_is_asked_once_more_without():
    async with connected() as (server, provider):
        server.always("/api/show", json_reply({}))
        server.reply(
            CHAT, wire_fixture("ollama_400_no_thinking.json"), wire_fixture("ollama_400_no_tools.json"), HELLO, HELLO
        )
        got = await collect(provider, asking(think=True))
        assert got.text == "Hello"
        assert ["cannot think" in got.notices[0], "told of them in words" in got.notices[1]] == [True, True]
        await collect(provider, asking(think=True))
        sent = [("think" in body, "tools" in body) for body in server.bodies(CHAT)]
        assert sent == [(True, True), (False, True), (False, False), (False, False)]


async def test_a_server_that_knows_only_chat_is_good_enough():
    async with FakeServer() as server:
        server.reply(CHAT, HELLO)
        provider = OllamaProvider(server.url, "demo:1b")
        got = await collect(provider, asking())
        assert (got.text, got.failure) == ("Hello", None)
        await provider.aclose()


async def test_a_model_that_is_not_there_is_named():
    async with connected("nope:1b") as (server, provider):
        server.always("/api/show", wire_fixture("ollama_404_model.json"))
        got = await collect(provider, asking())
        assert got.failure is not None
        assert got.failure.kind is ProviderErrorKind.NO_SUCH_MODEL
        assert "nope:1b" in got.failure.message
        assert server.bodies(CHAT) == []


async def test_nobody_listening_names_ollama_and_its_variable():
    async with FakeServer() as server:
        url = server.url
    got = await collect(OllamaProvider(url, "demo:1b"), asking())
    assert got.failure is not None
    assert got.failure.kind is ProviderErrorKind.UNREACHABLE
    assert "ollama serve" in got.failure.message
    assert "OLLAMA_HOST" in got.failure.message


async def test_without_a_model_the_only_one_is_taken_and_named():
    async with connected(None) as (server, provider):
        server.reply(CHAT, HELLO)
        got = await collect(provider, asking())
        assert "using demo:1b, the only model" in got.notices[0]
        assert server.bodies(CHAT)[0]["model"] == "demo:1b"


async def test_the_list_of_models_tells_what_the_server_knows():
    async with connected() as (_, provider):
        assert await provider.list_models() == (ModelInfo("demo:1b", 815319791, "1B", "Q4_K_M", "demo"),)


def test_the_facts_of_a_model_are_read_and_nonsense_is_survived():
    fixture = wire_fixture("ollama_show.json")
    assert read_model_facts(__import__("json").loads(fixture.body)) == ModelDetails(
        frozenset({"completion", "tools", "thinking"}), 32768, 8192
    )
    for nonsense in (None, [], {"capabilities": 5, "model_info": [], "parameters": {}}, {"model_info": {}}):
        assert read_model_facts(nonsense) == ModelDetails()


async def test_a_call_without_arguments_and_a_second_call_of_the_same_tool_stay_two():
    async with connected() as (server, provider):
        calls = [{"function": {"name": "ls"}}, {"function": {"name": "ls", "arguments": {"path": "b"}}}]
        server.reply(CHAT, ndjson(said("", tool_calls=calls), done()))
        got = await collect(provider, asking())
        assert got.called == [("ls", {}), ("ls", {"path": "b"})]


@pytest.mark.parametrize(
    "line", [[], 5, {"message": 5}, {"message": {"tool_calls": [None, {"function": 3}]}}, {"message": {"content": 5}}]
)
async def test_lines_of_a_wrong_shape_are_survived(line: object):
    async with connected(num_ctx=4096) as (server, provider):
        server.reply(CHAT, ndjson(line, said("ok"), done()))
        got = await collect(provider, asking())
        assert (got.text, got.failure) == ("ok", None)


async def test_aborting_closes_the_connection_at_once():
    async with connected(num_ctx=4096) as (server, provider):
        server.reply(CHAT, FakeReply(HELLO.pieces, content_type="application/x-ndjson", stall_after=1))
        controller = AbortController()

        async def read() -> None:
            async with aclosing(provider.stream(asking(), controller.signal)) as events:
                async for _ in events:
                    pass

        reading = asyncio.ensure_future(read())
        await asyncio.wait_for(server.stalled.wait(), 5)
        began = time.monotonic()
        controller.abort()
        with pytest.raises(OperationCancelled):
            await reading
        await asyncio.wait_for(server.client_left.wait(), 5)
        assert time.monotonic() - began < 5
