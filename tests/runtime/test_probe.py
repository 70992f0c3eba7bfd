"""Probing finds model servers on this machine quickly, and is not taken in by anything else that listens."""

from __future__ import annotations

import asyncio
import time

import pytest

from ollm_tui.runtime.model_provider import USUAL_TARGETS, FoundServer, ProbeTarget, ServerKind, probe_servers
from tests.agent.providers.fake_server import FakeReply, FakeServer, json_reply, wire_fixture


def test_the_usual_targets_are_those_of_the_usual_servers():
    assert [(target.label, target.address.url) for target in USUAL_TARGETS] == [
        ("Ollama", "http://127.0.0.1:11434"),
        ("LM Studio", "http://127.0.0.1:1234/v1"),
        ("llama.cpp", "http://127.0.0.1:8080/v1"),
        ("vLLM", "http://127.0.0.1:8000/v1"),
    ]


async def test_every_server_that_answers_is_found_with_its_models():
    async with FakeServer() as ollama, FakeServer() as studio, FakeServer() as gone:
        await gone.__aexit__(None, None, None)
        ollama.always("/api/tags", wire_fixture("ollama_tags.json"))
        studio.always("/v1/models", json_reply({"object": "list", "data": [{"id": "a"}, {"id": "b"}]}))
        found = await probe_servers(
            2.0,
            [
                ProbeTarget("O", ServerKind.OLLAMA, ollama.port),
                ProbeTarget("G", ServerKind.OPENAI, gone.port),
                ProbeTarget("S", ServerKind.OPENAI, studio.port),
            ],
        )
        assert found == (
            FoundServer("O", ServerKind.OLLAMA, ollama.url, ("demo:1b",)),
            FoundServer("S", ServerKind.OPENAI, f"{studio.url}/v1", ("a", "b")),
        )


@pytest.mark.parametrize("kind", [ServerKind.OLLAMA, ServerKind.OPENAI])
@pytest.mark.parametrize(
    "reply",
    [
        FakeReply((b"<html>It works</html>",), content_type="text/html"),
        FakeReply((b"not json",)),
        json_reply({"status": "ok"}),
        json_reply([]),
        json_reply({"data": [], "models": "none"}),
        json_reply({"data": [{"title": "x"}], "models": [{"title": "x"}]}),
        json_reply({"data": [{"id": "x"}], "models": [{"name": "x"}]}, status=401),
        FakeReply((b"",), 302, headers=(("Location", "/login"),)),
        FakeReply((b'{"data": [', b"]}"), stall_after=1),
        FakeReply((), silent=True),
    ],
)
async def test_whatever_else_listens_is_no_model_server(kind: ServerKind, reply: FakeReply):
    async with FakeServer() as server:
        server.always("/api/tags", reply)
        server.always("/v1/models", reply)
        assert await probe_servers(0.2, [ProbeTarget("x", kind, server.port)]) == ()
        assert len(server.requests) == 1


async def test_all_targets_are_asked_at_once_and_given_up_together():
    await probe_servers(0.2, [])
    async with FakeServer() as server:
        server.always("/v1/models", FakeReply((), silent=True))
        targets = [ProbeTarget(str(number), ServerKind.OPENAI, server.port) for number in range(8)]
        began = time.monotonic()
        assert await probe_servers(1.0, targets) == ()
        assert time.monotonic() - began < 5, "one after the other they take eight seconds"
        assert len(server.requests) == 8


async def test_probing_can_be_cancelled():
    async with FakeServer() as server:
        server.always("/v1/models", FakeReply((), silent=True))
        probing = asyncio.ensure_future(probe_servers(30, [ProbeTarget("x", ServerKind.OPENAI, server.port)]))
        await asyncio.wait_for(server.stalled.wait(), 5)
        probing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probing
        await asyncio.wait_for(server.client_left.wait(), 5)
