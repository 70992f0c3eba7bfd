"""Which provider is chosen where none is configured, and what is set for single models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from ollm_tui.config import Settings, effective_toml, load_settings
from ollm_tui.options import Options
from ollm_tui.runtime import ConfigurationError
from ollm_tui.runtime.model_provider import choose_provider, key_of
from tests.agent.providers.collecting import asking, collect
from tests.agent.providers.fake_server import FakeServer, json_reply, ndjson, sse, wire_fixture


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


OWN = """\
num_ctx = 9000
[models."qwen3:8b"]
num_ctx = 8192
temperature = 0.5
think = "low"
[models."llama3.2:3b"]
tools = "words"
think = true
[models]
plain = { tools = "none", think = false, num_ctx = 4096, seed = 1 }
"""


def own_settings(tmp_path: Path) -> Settings:
    (tmp_path / "c.toml").write_text(OWN)
    loaded = load_settings(Options(config_file=tmp_path / "c.toml"), None, {})
    told = [(error.line, error.message.split(":")[0]) for error in loaded.errors]
    assert told == [(7, "models.llama3.2"), (10, "unknown key models.plain.seed")]
    shown = effective_toml(loaded)
    assert f'[models."qwen3:8b"]\nnum_ctx = 8192  # {tmp_path}' in shown and 'tools = "none"' in shown
    return loaded.settings


async def test_what_is_set_for_a_model_goes_to_ollama(tmp_path: Path) -> None:
    settings = own_settings(tmp_path)
    async with FakeServer() as server:
        server.always("/api/show", json_reply({"capabilities": ["completion", "tools", "thinking"]}))
        server.always("/api/ps", json_reply({"models": []}))
        server.always("/api/chat", ndjson({"message": {"content": "Hello"}, "done": True}))
        own = settings.model_copy(update={"provider": "ollama", "model": "qwen3:8b", "base_url": server.url})
        provider = (await choose_provider(own, Options())).provider
        assert provider.describe().context_window == 8192
        await collect(provider, asking())
        await collect(provider, asking(model="other:1b", temperature=0.1))
        first, second = server.bodies("/api/chat")
        assert first["options"] == {"num_ctx": 8192, "temperature": 0.5} and first["think"] == "low"
        assert second["options"] == {"num_ctx": 9000, "temperature": 0.1} and "think" not in second
        await provider.aclose()


async def test_what_is_set_for_a_model_goes_to_servers_of_openais_kind(tmp_path: Path) -> None:
    settings, chat = own_settings(tmp_path), "/v1/chat/completions"
    async with FakeServer() as server:
        refusal = json_reply({"error": {"message": "Unknown parameter: chat_template_kwargs"}}, 400)
        hello = sse({"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}, "[DONE]")
        server.reply(chat, hello, refusal, hello)
        own = settings.model_copy(update={"provider": "openai", "model": "plain", "base_url": server.url})
        provider = (await choose_provider(own, Options())).provider
        assert provider.describe().context_window == 4096 and not provider.describe().takes_tools
        assert "offered no tools" in (await collect(provider, asking(tools=()))).notices[0]
        got = await collect(provider, asking())
        assert got.text == "Hello" and "no effect" in got.notices[0]
        first, _, third = server.bodies(chat)
        assert first["chat_template_kwargs"] == {"enable_thinking": False} and "tools" not in first
        assert "chat_template_kwargs" not in third
        await provider.aclose()


KEYRING = """
import os, sys
if sys.argv[1:3] != ["get", "ollm-tui"] or os.getcwd() != "/" or sys.stdin.read():
    sys.exit(2)
if not sys.argv[3].startswith("http://127.0.0.1"):
    sys.exit(1)
print("sk-from-ring")
"""


async def test_the_key_comes_from_the_keyring_for_the_server_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "keyring").mkdir()
    (tmp_path / "keyring" / "__init__.py").touch()
    (tmp_path / "keyring" / "__main__.py").write_text(KEYRING)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with FakeServer() as server:
        server.always("/v1/models", json_reply({"object": "list", "data": [{"id": "local"}]}))
        settings = Settings.model_validate({"provider": "openai", "base_url": server.url})
        provider = (await choose_provider(settings, Options())).provider
        await provider.list_models()
        assert server.requests[-1].headers["authorization"] == "Bearer sk-from-ring"
        await provider.aclose()
    assert await key_of(settings.model_copy(update={"base_url": "https://example.com/v1"})) is None
    assert await key_of(settings.model_copy(update={"api_key": SecretStr("own")})) == "own"
    assert "sk-from-ring" not in caplog.text
