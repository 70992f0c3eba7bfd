"""Which provider is chosen where none is configured."""

from __future__ import annotations

import pytest

from ollm_tui.config import Settings
from ollm_tui.options import Options
from ollm_tui.runtime import ConfigurationError
from ollm_tui.runtime.model_provider import choose_provider
from tests.agent.providers.fake_server import FakeServer, wire_fixture


@pytest.fixture(autouse=True)
def probing_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLM_PROBE", raising=False)


async def test_ollama_host_is_probed_without_being_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeServer() as server:
        server.always("/api/tags", wire_fixture("ollama_tags.json"))
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        chosen = await choose_provider(Settings(), Options(), usual=())
        assert chosen.provider.name == "ollama" and chosen.notice == f"Found Ollama at {server.url}."
        await chosen.provider.aclose()


async def test_an_ollama_host_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
    chosen = await choose_provider(Settings(), Options(), usual=())
    assert chosen.provider.name == "offline" and server.url in (chosen.notice or "")


async def test_an_ollama_host_that_is_no_address_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "ftp://there")
    with pytest.raises(ConfigurationError, match="there"):
        await choose_provider(Settings(), Options(), usual=())
