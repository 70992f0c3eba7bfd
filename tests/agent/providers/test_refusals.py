"""What a person reads when a server refuses a request or asks for far too much, for both kinds of servers."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from ollm_tui.agent.providers.ollama import OllamaProvider
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.provider import ProviderErrorKind
from ollm_tui.agent.providers.retry import RetryPolicy
from tests.agent.providers.collecting import Collected, asking, collect
from tests.agent.providers.fake_server import FakeReply, FakeServer, json_reply, ndjson, sse

PATHS = {"ollama": ("/api/show", "/api/chat"), "openai": ("/v1/models", "/v1/chat/completions")}
KINDS = pytest.mark.parametrize("kind", PATHS)

AUTH, REFUSED, RATE = ProviderErrorKind.AUTH, ProviderErrorKind.REFUSED, ProviderErrorKind.RATE_LIMITED
LOG = "Try again; the log of the server says more."
MAY = "Check the API key in the settings, and that it may use model 'demo'."
TEXTS = {
    401: (AUTH, "Check the API key in the settings."),
    403: (AUTH, MAY),
    408: (REFUSED, LOG),
    429: (RATE, "Wait a moment, then try again."),
    500: (REFUSED, LOG),
    501: (REFUSED, "The server cannot do this: check the base URL, or use a newer server."),
    502: (REFUSED, LOG),
    503: (REFUSED, LOG),
    504: (REFUSED, LOG),
}
TRIED_AGAIN = (408, 429, 500, 502, 503, 504)
BODIES = {
    "no reason given": FakeReply(()),
    "an HTML page": FakeReply((b"<html><body>Oops</body></html>",), content_type="text/html"),
    "backend gave up": json_reply({"error": {"message": "backend gave up"}}),
}


async def ask(kind: str, server: FakeServer) -> Collected:
    retries = RetryPolicy(attempts=1, first_delay=0.01)
    if kind == "ollama":
        provider = OllamaProvider(server.url, "demo", retries=retries)
    else:
        provider = OpenAIProvider(f"{server.url}/v1", "demo", retries=retries)
    async with aclosing(provider):
        return await collect(provider, asking())


@KINDS
@pytest.mark.parametrize("everywhere", [False, True], ids=["chat", "everywhere"])
@pytest.mark.parametrize("status", TEXTS)
async def test_a_refusal_says_what_was_answered_and_what_to_do(kind: str, everywhere: bool, status: int):
    (facts, chat), (error, remedy) = PATHS[kind], TEXTS[status]
    for reason, body in BODIES.items():
        async with FakeServer() as server:
            refusal = FakeReply(body.pieces, status, body.content_type)
            server.always(chat, refusal)
            if everywhere:
                server.always(facts, refusal)
            got = await ask(kind, server)
        assert got.failure is not None and got.failure.kind is error
        path = facts if everywhere and kind == "ollama" and error is AUTH else chat
        named = remedy if path == chat else remedy.replace("model 'demo'", "the model")
        assert got.failure.message == f"{server.url}{path} answered HTTP {status}: {reason}. {named}"
        sent = sum(request.path == chat for request in server.requests)
        assert (sent, len(got.notices)) == ((2, 1) if status in TRIED_AGAIN else (int(path == chat), 0))
        assert all(f"HTTP {status}; trying again in 0.01 s (1 of 1)." in notice for notice in got.notices)


@KINDS
@pytest.mark.parametrize("count", [1_000, 1_500])
async def test_a_reply_that_asks_for_a_thousand_calls_is_read_and_what_lies_beyond_is_said(kind: str, count: int):
    calls = [
        {"index": at, "id": f"c{at}", "function": {"name": "ls", "arguments": {"path": str(at)}}} for at in range(count)
    ]
    async with FakeServer() as server:
        server.reply(
            PATHS[kind][1],
            ndjson(*({"message": {"tool_calls": [call]}} for call in calls), {"done": True})
            if kind == "ollama"
            else sse(*({"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls), "[DONE]"),
        )
        got = await ask(kind, server)
    assert got.failure is None
    assert [arguments for _, arguments in got.called] == [{"path": str(at)} for at in range(1_000)]
    beyond = ["The reply asks for more than 1,000 tool calls; those after them were not read."]
    assert got.notices == (beyond if count > 1_000 else [])
