"""`/model`: what the servers have, and taking another one; with real servers and the real runtime."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.protocol.models import ModelRow, ModelsUpdate
from ollm_tui.tui.screens.models_screen import ModelsScreen
from tests.agent.providers.fake_server import FakeServer, json_reply, ndjson
from tests.runtime.test_models import SHOW, TAGS


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[FakeServer]:
    async with FakeServer() as server:
        monkeypatch.setenv("OLLM_PROBE", "0")
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        monkeypatch.setattr("ollm_tui.runtime.models.ASKED_SECONDS", 20.0)  # a busy machine answers late
        server.always("/api/tags", json_reply(TAGS))
        server.always("/api/ps", json_reply({"models": [{"name": "qwen3:8b"}]}))
        server.always("/api/show", json_reply(SHOW))
        server.always("/api/version", json_reply({"version": "0.9"}))
        yield server


async def opened(here: DashboardHarness) -> ModelsScreen:
    await here.send("/model")
    await here.wait_until(lambda: isinstance(here.app.screen, ModelsScreen))
    screen = here.app.screen
    assert isinstance(screen, ModelsScreen)
    return screen


async def test_a_model_is_looked_at_and_taken(tmp_path: Path, server: FakeServer) -> None:
    end = {"message": {"content": "Hello."}, "done": True, "done_reason": "stop", "eval_count": 1}
    server.always("/api/chat", ndjson(end))
    async with open_dashboard(tmp_path, [{"text": "Scripted."}]) as here:
        screen = await opened(here)
        await here.wait_for("8B  5.2 GB  40k window  loaded")
        assert "Models  2" in here.text and "tiny:1b" in here.text
        await here.wait_for("It can call tools")
        await here.press("enter")
        await here.wait_until(lambda: here.app.screen is not screen)
        await here.wait_for("The model is now qwen3:8b")
        await here.send("go")
        await here.wait_for("Hello.")
        again = await opened(here)
        await here.wait_for("* qwen3:8b")
        await here.press("tab", "tab", "j")
        await here.wait_for("─ tiny:1b ─")
        await here.press("escape")
        await here.wait_until(lambda: here.app.screen is not again)
        await here.send("/model tiny")
        await here.wait_for("The model is now tiny:1b")


async def test_without_a_server_it_says_what_to_do_and_looks_again(
    tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    async with open_dashboard(tmp_path, [], size=(80, 24)) as here:
        screen = await opened(here)
        await here.wait_for("No model server answers")
        assert screen.has_class("-narrow")
        await here.press("enter")  # there is nothing to take
        assert here.app.screen is screen
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        await here.press("r")
        await here.wait_for("qwen3:8b")


async def test_hostile_names_are_made_visible(tmp_path: Path, server: FakeServer) -> None:
    async with open_dashboard(tmp_path, []) as here:
        screen = await opened(here)
        await here.wait_for("qwen3:8b")
        hostile = "[red]x[/] \x1b]0;t\x07 \u202eabc"
        screen.take(ModelsUpdate((ModelRow(hostile, hostile, hostile, hostile),)))
        await here.wait_for("[red]x[/]")
        assert "\x1b" not in here.text and "\u202e" not in here.text
