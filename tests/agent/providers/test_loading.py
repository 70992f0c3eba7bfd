"""A model that a server has yet to load is said to be loading, where the server tells it, and only there."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from ollm_tui.agent.providers.ollama import OllamaProvider
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.provider import ModelLoading
from ollm_tui.agent.providers.retry import RetryPolicy
from tests.agent.providers.collecting import asking, collect
from tests.agent.providers.fake_server import FakeReply, FakeServer, json_reply, ndjson, sse, wire_fixture

CHAT = "/v1/chat/completions"
HELLO = sse({"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}, "[DONE]")
OLLAMA_HELLO = ndjson({"message": {"content": "Hello"}, "done": True, "done_reason": "stop"})


def listed(owner: str, **more: object) -> FakeReply:
    return json_reply({"data": [{"id": "demo", "owned_by": owner, **more}]})


def running(state: str, model: str = "demo") -> dict[str, object]:
    return {"running": [{"model": model, "state": state}]}


def studio(state: str) -> dict[str, object]:
    return {"data": [{"id": "other", "state": "loaded"}, {"id": "demo", "state": state}]}


LLAMA, SWAP, STUDIO = "llamacpp", "llama-swap", "organization_owner"
META = {"meta": {"n_ctx": 4096}}
CASES = [
    (listed(LLAMA), "/props", None, True),
    (listed(LLAMA, **META), "/props", {"is_sleeping": True}, True),
    (listed(LLAMA, **META), "/props", {"is_sleeping": False}, False),
    (listed(LLAMA, **META), "/props", None, False),
    (listed(LLAMA, status={"value": "unloaded"}), "/props", None, True),
    (listed(LLAMA, status={"value": "loaded"}), "/props", None, False),
    (listed(SWAP), "/running", {"running": []}, True),
    (listed(SWAP), "/running", running("starting"), True),
    (listed(SWAP), "/running", running("ready", "other"), True),
    (listed(SWAP), "/running", running("ready"), False),
    (listed(SWAP), "/running", None, False),
    (listed(STUDIO), "/api/v0/models", studio("not-loaded"), True),
    (listed(STUDIO), "/api/v0/models", studio("loaded"), False),
    (listed(STUDIO), "/api/v0/models", None, False),
    (listed("vllm"), "/running", {"running": []}, False),
]


@pytest.mark.parametrize(("models", "path", "answer", "loads"), CASES)
async def test_a_server_that_loads_without_a_word_is_asked_before_the_first_request(models, path, answer, loads):
    async with FakeServer() as server, aclosing(OpenAIProvider(f"{server.url}/v1", "demo")) as provider:
        server.always("/v1/models", models)
        server.reply(CHAT, HELLO, HELLO)
        if answer is not None:
            server.always(path, json_reply(answer))
        got = await collect(provider, asking())
        assert got.text == "Hello" and (ModelLoading("demo") in got.events) == loads
        assert ModelLoading("demo") not in (await collect(provider, asking())).events, "it has just answered"


async def test_what_llama_cpp_tells_of_a_model_only_once_it_is_loaded_is_asked_again():
    async with FakeServer() as server, aclosing(OpenAIProvider(server.url, "any")) as provider:
        server.always("/v1/models", listed("llamacpp"))
        server.reply(CHAT, HELLO, HELLO)
        await collect(provider, asking())
        assert provider.describe().context_window is None
        server.always("/v1/models", listed("llamacpp", **META))
        server.always("/props", json_reply({"chat_template_caps": {"supports_tools": False}}))
        got = await collect(provider, asking())
        assert provider.describe().context_window == 4096
        assert any("told of them in words" in notice for notice in got.notices)


async def test_a_server_that_refuses_while_it_loads_is_waited_for():
    retries = RetryPolicy(attempts=3, first_delay=0.01, loading=5)
    async with FakeServer() as server, aclosing(OpenAIProvider(server.url, "demo", retries=retries)) as provider:
        server.reply(CHAT, *[wire_fixture("llamacpp_503_loading.json")] * 6, HELLO)
        got = await collect(provider, asking())
        assert got.text == "Hello" and ModelLoading("demo") in got.events
        assert len(got.notices) == 1 and "loading the model" in got.notices[0]


@pytest.mark.parametrize(
    ("ps", "loads"), [({"models": []}, True), ({"models": [{"name": "demo:1b"}]}, False), ({"error": "what?"}, False)]
)
async def test_a_model_that_ollama_has_not_in_memory_is_said_to_be_loaded(ps: object, loads: bool):
    async with FakeServer() as server, aclosing(OllamaProvider(server.url, "demo:1b")) as provider:
        server.always("/api/show", wire_fixture("ollama_show.json"))
        server.always("/api/ps", json_reply(ps))
        server.reply("/api/chat", OLLAMA_HELLO, OLLAMA_HELLO)
        assert (ModelLoading("demo:1b") in (await collect(provider, asking())).events) == loads
        assert ModelLoading("demo:1b") not in (await collect(provider, asking())).events
