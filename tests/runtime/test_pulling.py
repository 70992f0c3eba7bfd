"""Pulling a model: progress of all its files, errors in words, a stop that reaches the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from ollm_tui.agent.providers.provider import ProviderError
from ollm_tui.cli import main
from ollm_tui.config import Settings
from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.runtime.pulling import PULL_PATH, PullProgress, pull_model
from ollm_tui.tui.controllers.models_controller import ModelsController
from ollm_tui.tui.protocol.intents import ChooseModel, PullModel
from ollm_tui.tui.protocol.updates import ConversationUpdate, ToastUpdate, Update
from ollm_tui.tui.values import EntriesChanged
from tests.agent.providers.fake_server import FakeReply, FakeServer, json_reply, ndjson
from tests.agent.test_loop import conversation

PATH = f"/{PULL_PATH}"
FILE, OTHER = "sha256:aaaaaaaaaaaaaaaa", "sha256:bbbbbbbbbbbbbbbb"
LINES = (
    {"status": "pulling manifest"},
    {"status": "pulling aaaa", "digest": FILE, "total": 4_000_000_000},
    {"status": "pulling aaaa", "digest": FILE, "total": 4_000_000_000, "completed": 1_000_000_000},
    {"status": "pulling bbbb", "digest": OTHER, "total": 1_000_000_000, "completed": 1_000_000_000},
    {"status": "verifying sha256 digest"},
    {"status": "success"},
)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[FakeServer]:
    async with FakeServer() as server:
        monkeypatch.setenv("OLLM_PROBE", "0")
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        yield server


async def steps(name: str = "qwen3:8b") -> list[PullProgress]:
    return [progress async for progress in pull_model(Settings(), name)]


async def failure() -> str:
    with pytest.raises(ProviderError) as caught:
        await steps()
    return str(caught.value)


async def test_progress_counts_the_bytes_of_all_files(server: FakeServer) -> None:
    server.reply(PATH, ndjson(*LINES).byte_by_byte())
    seen = await steps()
    assert server.bodies(PATH) == [{"model": "qwen3:8b", "stream": True}]
    assert [step.percent for step in seen] == [0, 0, 25, 40, 40, 40]
    assert str(seen[3]) == "40 %  2.0 GB of 5.0 GB  pulling bbbbbbbbbbbb"
    assert seen[-1].status == "success"


async def test_what_goes_wrong_is_said_in_words(server: FakeServer) -> None:
    server.reply(PATH, ndjson(LINES[0], {"error": "pull model manifest: file does not exist\x1b[31m"}))
    assert "did not load qwen3:8b: pull model manifest: file does not exist" in (words := await failure())
    assert "ollama.com/library" in words and "\x1b" not in words
    server.reply(PATH, ndjson(*LINES[:3]))
    assert "closed the connection early" in await failure()
    server.reply(PATH, FakeReply((b"<html>",)))
    assert "cannot be read: a line is not JSON" in await failure()
    server.reply(PATH, ndjson({"status": "pulling", "digest": FILE, "total": "many", "completed": -5}, LINES[-1]))
    assert (await steps())[-1].status == "success"


async def test_no_server_is_an_error_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    assert "start it (`ollama serve`)" in await failure()


async def test_a_stop_closes_the_connection(server: FakeServer) -> None:
    server.reply(PATH, FakeReply(ndjson(*LINES).pieces, stall_after=3))
    stop = AbortController()
    with pytest.raises(OperationCancelled):
        async for progress in pull_model(Settings(), "qwen3:8b", stop.signal):
            if progress.percent:
                stop.abort()
    await asyncio.wait_for(server.client_left.wait(), 5)


async def test_the_command_shows_progress_and_the_end(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.reply(PATH, ndjson(*LINES))
    assert await asyncio.to_thread(main, ["models", "pull", "qwen3:8b"]) == 0
    said = capsys.readouterr()
    assert said.out == "qwen3:8b is there.\n" and "25 %  1.0 GB of 4.0 GB" in said.err
    server.reply(PATH, json_reply({"error": "invalid model name"}, 400))
    assert await asyncio.to_thread(main, ["models", "pull", "../x"]) == 1
    assert "invalid model name" in capsys.readouterr().err


async def test_the_command_shows_one_model(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.always("/api/tags", json_reply({"models": [{"name": "evil\x1b[31m:1b", "size": 5}]}))
    server.always("/api/show", json_reply({"capabilities": ["completion", "vision"]}))
    server.always("/api/ps", json_reply({"models": []}))
    assert await asyncio.to_thread(main, ["models", "show", "evil"]) == 0
    out = capsys.readouterr().out
    assert "completion, vision" in out and "\x1b" not in out
    assert await asyncio.to_thread(main, ["models", "show", "evil", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["callsTools"] is False
    assert await asyncio.to_thread(main, ["models", "show", "nope"]) == 1
    assert "`ollm-tui models pull nope`" in capsys.readouterr().err


async def test_the_dashboard_offers_a_pull_shows_it_and_stops_it(server: FakeServer, tmp_path: Path) -> None:
    seen: list[Update] = []

    def line() -> str:
        changes = [update.change for update in seen if isinstance(update, ConversationUpdate)]
        entries = [entry for change in changes if isinstance(change, EntriesChanged) for entry in change.entries]
        return getattr(entries[-1], "text", "") if entries else ""

    async with conversation(tmp_path, []) as (runtime, _):
        controller = ModelsController(runtime, seen.append, lambda: None, {})
        await controller.handle(ChooseModel("qwen3:8b"))
        assert isinstance(seen[-1], ToastUpdate) and "/pull qwen3:8b has Ollama load it" in seen[-1].text
        server.reply(PATH, FakeReply(ndjson(*LINES).pieces, stall_after=3))
        pulling = asyncio.create_task(controller.handle(PullModel("qwen3:8b")))
        await asyncio.wait_for(server.stalled.wait(), 5)
        while "25 %" not in line():
            await asyncio.sleep(0)
        await controller.handle(PullModel("other"))
        assert isinstance(seen[-1], ToastUpdate) and "A model is being loaded" in seen[-1].text
        await controller.handle(PullModel())
        await asyncio.wait_for(pulling, 5)
        await asyncio.wait_for(server.client_left.wait(), 5)
        assert "was stopped" in line()
        server.reply(PATH, ndjson(*LINES))
        await controller.handle(PullModel("qwen3:8b"))
        assert line() == "qwen3:8b is there. /model qwen3:8b takes it."
