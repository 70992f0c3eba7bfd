"""Models of several servers: listed with what is known of them, and taken in the middle of a session."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ollm_tui.agent.events import ErrorEvent, Event, ModelLoadingEvent, NoticeEvent, TextDeltaEvent
from ollm_tui.cli import main
from ollm_tui.config import Settings
from ollm_tui.core.base.results import JsonObject
from ollm_tui.runtime.model_provider import ProbeTarget, ServerKind
from ollm_tui.runtime.models import ModelNotFoundError, choose, gguf_files, offered_models, switch_model
from tests.agent.providers.fake_server import FakeServer, json_reply, ndjson, sse
from tests.agent.test_loop import conversation

TAGS = {
    "models": [{"name": "qwen3:8b", "size": 5_200_000_000, "details": {"parameter_size": "8B"}}, {"name": "tiny:1b"}]
}
SHOW = {
    "capabilities": ["completion", "tools"],
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
}


@pytest.fixture(autouse=True)
def probing_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLM_PROBE", "1")
    monkeypatch.delenv("OLLAMA_HOST", raising=False)


def ollama(server: FakeServer) -> ProbeTarget:
    server.always("/api/tags", json_reply(TAGS))
    server.always("/api/ps", json_reply({"models": [{"name": "qwen3:8b"}]}))
    server.reply("/api/show", json_reply(SHOW), json_reply({"capabilities": ["completion"]}))
    server.always("/api/show", json_reply(SHOW))
    return ProbeTarget("Ollama", ServerKind.OLLAMA, server.port)


def openai(server: FakeServer) -> ProbeTarget:
    server.always("/v1/models", json_reply({"object": "list", "data": [{"id": "local", "meta": {"n_ctx": 8192}}]}))
    return ProbeTarget("llama.cpp", ServerKind.OPENAI, server.port)


async def test_models_of_all_servers_are_listed_with_what_they_can_do() -> None:
    async with FakeServer() as one, FakeServer() as other:
        models = await offered_models(Settings(), [ollama(one), openai(other)])
        assert {model.info.name for model in models} == {"qwen3:8b", "tiny:1b", "local"}
        by_name = {model.info.name: model for model in models}
        assert by_name["qwen3:8b"].loaded and not by_name["tiny:1b"].loaded
        assert {by_name["qwen3:8b"].calls_tools, by_name["tiny:1b"].calls_tools} == {True, False}
        assert "8B  5.2 GB" in str(by_name["qwen3:8b"]) and one.url in str(by_name["qwen3:8b"])
        assert any(model.info.context_window == 40_960 for model in models)


async def test_a_name_may_be_cut_but_must_mean_one() -> None:
    async with FakeServer() as one, FakeServer() as other:
        models = await offered_models(Settings(), [ollama(one), openai(other)])
        assert choose(models, "qwen").info.name == "qwen3:8b"
        with pytest.raises(ModelNotFoundError, match=r"no model nope: qwen3:8b"):
            choose(models, "nope")
        with pytest.raises(ModelNotFoundError, match="Several"):
            choose(models, "")


async def test_the_session_goes_on_with_the_other_model(tmp_path: Path) -> None:
    async with (
        FakeServer() as one,
        FakeServer() as other,
        conversation(tmp_path, [{"text": "Noted."}]) as (runtime, events),
    ):
        await runtime.agent.run_turn("The name is Kappa.")
        models = await offered_models(Settings(), [ollama(one), openai(other)])
        other.always(
            "/v1/chat/completions",
            sse({"choices": [{"delta": {"content": "Kappa."}, "finish_reason": "stop"}]}, "[DONE]"),
        )
        await switch_model(runtime, choose(models, "local"))
        await runtime.agent.run_turn("What is the name?")
        body = json.dumps(other.bodies("/v1/chat/completions")[-1])
        assert "The name is Kappa." in body and "Noted." in body
        assert not [event for event in events if isinstance(event, ErrorEvent)]
        assert runtime.agent.provider.describe().model == "local" and runtime.agent.context.limit == 8192
        one.always(
            "/api/chat",
            ndjson(
                {
                    "message": {"content": "Kappa"},
                    "done": True,
                    "done_reason": "stop",
                    "prompt_eval_count": 9,
                    "eval_count": 1,
                }
            ),
        )
        await switch_model(runtime, choose(models, "qwen3"))
        await runtime.agent.run_turn("Again?")
        assert one.bodies("/api/chat") and "The model is now qwen3:8b" in notices(events)
        one.always("/api/ps", json_reply({"models": []}))
        await switch_model(runtime, choose(models, "qwen3"))
        events.clear()
        await runtime.agent.run_turn("And now?")
        told = [event.loaded for event in events if isinstance(event, ModelLoadingEvent) and event.model == "qwen3:8b"]
        begun = next(at for at, event in enumerate(events) if isinstance(event, TextDeltaEvent))
        assert told == [False, True] and isinstance(events[begun - 1], ModelLoadingEvent)


def notices(events: list[Event]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, NoticeEvent))


async def test_the_key_goes_to_the_server_it_was_given_for_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeServer() as own, FakeServer() as other:
        openai(own)
        settings = Settings.model_validate({"provider": "openai", "base_url": f"{own.url}/v1", "api_key": "sk-secret"})
        models = await offered_models(settings, [openai(other)])
        assert len(models) == 2
        assert "sk-secret" in str([request.headers for request in own.requests])
        assert "sk-secret" not in str([request.headers for request in other.requests])


def test_the_command_line_says_where_no_server_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OLLM_PROBE", "0")
    assert main(["models", "list"]) == 1
    assert "ollama serve" in capsys.readouterr().err


async def test_the_command_line_prints_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeServer() as server:
        ollama(server)
        monkeypatch.setenv("OLLM_PROBE", "0")
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        assert await asyncio.to_thread(main, ["models", "list", "--json"]) == 0
        rows: list[JsonObject] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["name"] for row in rows] == ["qwen3:8b", "tiny:1b"] and rows[0]["loaded"] is True


def test_files_are_found_where_people_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    studio, own, ollama_folder = tmp_path / ".lmstudio/models/a/b", tmp_path / "models", tmp_path / ".ollama/models"
    manifest = ollama_folder / "manifests/registry.ollama.ai/library/qwen3/8b"
    for folder in (studio, own, ollama_folder / "blobs", manifest.parent):
        folder.mkdir(parents=True)
    files = ("tiny.Q4.gguf", "mmproj-tiny.gguf", "big-00002-of-00003.gguf")
    for path in (*(studio / name for name in files), own / "mine.GGUF", ollama_folder / "blobs/sha256-ab"):
        path.write_bytes(b"GGUF and more")
    (own / "linked.gguf").symlink_to(own / "mine.GGUF")
    (own / "text.gguf").write_text("words")
    layers = [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:ab"}, {"digest": "sha256:../x"}]
    manifest.write_text(json.dumps({"layers": layers}))
    (manifest.parent / "broken").write_text("{")
    found = gguf_files(tmp_path)
    assert [(file.name, file.size) for file in found] == [("tiny.Q4", 13), ("linked", 13), ("qwen3:8b", 13)]


async def test_files_are_offered_where_they_can_be_run_and_taken_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `embedded`")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OLLM_PROBE", "0")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.gguf").write_bytes(b"GGUF and more")
    models = await offered_models(Settings())
    [mine] = [model for model in models if model.info.name == "mine"]
    assert str(mine) == f"mine  0.0 GB  (file at {tmp_path}/models/mine.gguf)"
    async with conversation(tmp_path, []) as (runtime, _):
        await switch_model(runtime, mine)
        described = runtime.agent.provider.describe()
        assert (described.provider, described.model, described.context_window) == ("embedded", "mine", 8192)
