"""`OpenAIProvider` against a server on this machine: requests, retries, failures, cancelling."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing, asynccontextmanager

import pytest

from ollm_tui.agent.providers.http_connection import Timeouts
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    ChatRequest,
    ProviderErrorKind,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ollm_tui.agent.providers.retry import RetryPolicy
from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import OperationCancelled
from tests.agent.providers.collecting import TOOLS, asking, collect
from tests.agent.providers.fake_server import FakeReply, FakeServer, json_reply, sse, wire_fixture

CHAT = "/v1/chat/completions"
FAST = RetryPolicy(attempts=3, first_delay=0.01, loading=5)
SECRET = "sk-very-secret-0123456789"


def said(text: str, finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


HELLO = sse(said("Hello"), said("", "stop"), "[DONE]")


@asynccontextmanager
async def connected(model: str | None = "demo", **options: object):
    async with FakeServer() as server:
        options.setdefault("retries", FAST)
        provider = OpenAIProvider(server.url, model, **options)  # type: ignore[arg-type]  # options by name
        yield server, provider
        await provider.aclose()


async def test_the_request_carries_messages_tools_and_key_as_servers_want_them():
    async with connected(api_key=SECRET) as (server, provider):
        server.reply(CHAT, HELLO)
        call = ToolCall("c1", "ls", {"path": "ü"})
        request = ChatRequest(
            (
                SystemMessage("Be brief."),
                UserMessage("Look"),
                AssistantMessage("", (call,), reasoning="hm"),
                ToolMessage("c1", "ls", "- a.py"),
            ),
            TOOLS[:1],
            temperature=0.5,
            max_tokens=99,
        )
        assert (await collect(provider, request)).text == "Hello"
        assert server.requests[-1].headers["authorization"] == f"Bearer {SECRET}"
        assert server.bodies(CHAT)[0] == {
            "model": "demo",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "ü"}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "- a.py"},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "ls", "description": "Tool ls", "parameters": dict(TOOLS[0].parameters)},
                }
            ],
            "temperature": 0.5,
            "max_tokens": 99,
        }


async def test_the_same_history_is_sent_as_the_same_bytes_with_new_turns_at_its_end():
    async with connected() as (server, provider):
        server.reply(CHAT, HELLO, HELLO)
        history = (SystemMessage("S"), UserMessage("one"), AssistantMessage("two"))
        await collect(provider, ChatRequest(history, TOOLS))
        await collect(provider, ChatRequest((*history, UserMessage("three")), TOOLS))
        first, second = (request.raw for request in server.requests if request.path == CHAT)
        stable = first[: first.index(b"two") + 3]
        assert second.startswith(stable)


async def test_without_a_model_the_first_one_that_can_talk_is_taken_and_named():
    async with connected(None) as (server, provider):
        server.always("/v1/models", json_reply({"data": [{"id": "nomic-embed"}, {"id": "talker"}, {"id": "other"}]}))
        server.reply(CHAT, HELLO, HELLO)
        got = await collect(provider, asking())
        assert "using talker" in got.notices[0]
        assert provider.model == "talker"
        assert (await collect(provider, asking())).notices == []
        assert [body["model"] for body in server.bodies(CHAT)] == ["talker", "talker"]


async def test_a_server_without_models_is_a_failure_that_says_so():
    async with connected(None) as (server, provider):
        server.always("/v1/models", json_reply({"data": []}))
        got = await collect(provider, asking())
        assert got.failure is not None
        assert got.failure.kind is ProviderErrorKind.NO_SUCH_MODEL
        assert server.url in got.failure.message


async def test_stream_options_are_left_out_once_a_server_refuses_them():
    async with connected() as (server, provider):
        refusal = json_reply({"error": {"message": "Unrecognized request argument supplied: stream_options"}}, 400)
        server.reply(CHAT, refusal, HELLO, HELLO)
        assert (await collect(provider, asking())).text == "Hello"
        assert (await collect(provider, asking())).text == "Hello"
        assert ["stream_options" in body for body in server.bodies(CHAT)] == [True, False, False]


async def test_a_server_that_takes_no_tools_is_asked_once_more_in_words_and_the_person_is_told():
    async with connected() as (server, provider):
        server.reply(CHAT, wire_fixture("vllm_400_tool_choice.json"), HELLO, HELLO)
        got = await collect(provider, asking())
        assert got.text == "Hello"
        assert "told of them in words" in got.notices[0]
        assert (await collect(provider, asking())).notices == []
        assert ["tools" in body for body in server.bodies(CHAT)] == [True, False, False]


async def test_a_busy_server_is_asked_again_before_the_first_byte():
    async with connected() as (server, provider):
        server.reply(CHAT, json_reply({"error": "busy"}, 500), json_reply({"error": "busy"}, 502), HELLO)
        got = await collect(provider, asking())
        assert got.text == "Hello"
        assert [notice.rsplit("(")[-1] for notice in got.notices] == ["1 of 3).", "2 of 3)."]


async def test_retries_come_to_an_end():
    async with connected() as (server, provider):
        server.always(CHAT, json_reply({"error": "busy"}, 500))
        got = await collect(provider, asking())
        assert got.failure is not None
        assert got.failure.retryable
        assert len(server.bodies(CHAT)) == 4


async def test_a_connection_closed_without_a_word_is_tried_again():
    async with connected() as (server, provider):
        server.reply(CHAT, FakeReply((), cut=True), HELLO)
        got = await collect(provider, asking())
        assert got.text == "Hello"


async def test_nothing_is_sent_again_once_text_was_shown():
    async with connected() as (server, provider):
        server.reply(CHAT, FakeReply(sse(said("Hel")).pieces, content_type="text/event-stream", cut=True), HELLO)
        got = await collect(provider, asking())
        assert (got.text, len(server.bodies(CHAT))) == ("Hel", 1)
        assert got.failure is not None
        assert got.failure.kind is ProviderErrorKind.CUT_OFF


async def test_a_rate_limit_waits_as_long_as_the_server_asks_but_not_for_minutes():
    async with connected() as (server, provider):
        server.reply(CHAT, json_reply({"error": "slow down"}, 429, retry_after="0.05"), HELLO)
        began = time.monotonic()
        assert (await collect(provider, asking())).text == "Hello"
        assert time.monotonic() - began >= 0.05
        server.reply(CHAT, json_reply({"error": "slow down"}, 429, retry_after="3600"))
        got = await collect(provider, asking())
        assert got.failure is not None
        assert (got.failure.kind, got.failure.retry_after) == (ProviderErrorKind.RATE_LIMITED, 3600)
        assert "Wait 3600 s" in got.failure.message


async def test_a_model_too_large_for_the_machine_is_not_asked_for_again():
    async with connected() as (server, provider):
        reason = "model requires more system memory (8.4 GiB) than is available (3.1 GiB)"
        server.always(CHAT, json_reply({"error": reason}, 500))
        got = await collect(provider, asking())
        assert got.failure is not None
        assert reason in got.failure.message
        assert "smaller" in got.failure.message
        assert len(server.bodies(CHAT)) == 1


async def test_nobody_listening_is_said_with_the_address_and_what_to_do():
    async with FakeServer() as server:
        url = server.url
    got = await collect(OpenAIProvider(url, "demo"), asking())
    assert got.failure is not None
    assert got.failure.kind is ProviderErrorKind.UNREACHABLE
    assert f"{url}/v1/models cannot be reached: nothing listens there" in got.failure.message
    assert "Start the server" in got.failure.message


async def test_a_server_that_takes_the_request_and_is_silent_is_a_time_out():
    async with connected(timeouts=Timeouts(first_byte=0.1)) as (server, provider):
        server.reply(CHAT, FakeReply((), silent=True))
        got = await collect(provider, asking())
        assert got.failure is not None
        assert got.failure.kind is ProviderErrorKind.TIMEOUT
        assert "0.1 s" in got.failure.message


async def test_a_stream_that_stops_in_the_middle_is_a_time_out_that_keeps_its_part():
    async with connected(timeouts=Timeouts(idle=0.1)) as (server, provider):
        server.reply(CHAT, FakeReply(sse(said("Hel"), said("lo")).pieces, stall_after=1))
        got = await collect(provider, asking())
        assert got.text == "Hel"
        assert got.failure is not None
        assert got.failure.kind is ProviderErrorKind.TIMEOUT
        await asyncio.wait_for(server.client_left.wait(), 5)


async def test_comments_that_keep_the_connection_alive_are_no_progress():
    async with connected(timeouts=Timeouts(idle=0.5)) as (server, provider):
        pieces = (*sse(said("Hel")).pieces, *[b": alive\n\n"] * 150)
        server.reply(CHAT, FakeReply(pieces, pause=0.02))
        got = await collect(provider, asking())
        assert got.text == "Hel"
        assert got.failure is not None and got.failure.kind is ProviderErrorKind.TIMEOUT
        assert "nothing came for 0.5 s" in got.failure.message


async def test_a_complete_reply_counts_even_if_the_server_never_ends_it():
    async with connected(timeouts=Timeouts(idle=0.1)) as (server, provider):
        server.reply(CHAT, FakeReply(sse(said("Hi"), said("", "stop"), "[DONE]").pieces, stall_after=2))
        got = await collect(provider, asking())
        assert (got.text, got.failure) == ("Hi", None)


async def test_a_reply_that_is_not_streamed_is_read_all_the_same():
    async with connected() as (server, provider):
        message = {
            "content": "Looking.",
            "tool_calls": [{"id": "a", "function": {"name": "ls", "arguments": '{"path": "src"}'}}],
        }
        usage = {"prompt_tokens": 5, "completion_tokens": 6}
        answer = json_reply({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage})
        server.reply(CHAT, answer.byte_by_byte())
        got = await collect(provider, asking())
        assert (got.text, got.called, got.usage) == ("Looking.", [("ls", {"path": "src"})], [(5, 6)])


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (FakeReply((b"<html>Hello</html>",), content_type="text/html"), ProviderErrorKind.BAD_REPLY),
        (FakeReply((b"data: <html>\n\n",), content_type="text/event-stream"), ProviderErrorKind.BAD_REPLY),
        (FakeReply((b"",), 302, headers=(("Location", "http://elsewhere/"),)), ProviderErrorKind.REFUSED),
        (FakeReply((b"<html>Not here</html>",), 404, "text/html"), ProviderErrorKind.REFUSED),
        (json_reply({"detail": [{"msg": "field required"}]}, 422), ProviderErrorKind.REFUSED),
        (json_reply([1, 2], 400), ProviderErrorKind.REFUSED),
    ],
)
async def test_what_is_no_model_server_becomes_a_failure_not_a_crash(reply: FakeReply, kind: ProviderErrorKind):
    async with connected() as (server, provider):
        server.reply(CHAT, reply)
        got = await collect(provider, asking())
        assert got.failure is not None
        assert got.failure.kind is kind
        assert server.url in got.failure.message


@pytest.mark.parametrize(
    "body",
    [
        {"choices": "x"},
        {"choices": [None]},
        {"choices": [{"delta": None, "finish_reason": 5}]},
        {"choices": [{"delta": {"content": 5, "tool_calls": [None, 5, {"function": None}]}}]},
        {"choices": [{"delta": {"content": [{"type": "text", "text": "x"}, 7]}}]},
        {"usage": {"prompt_tokens": "many"}},
        [],
        None,
    ],
)
async def test_chunks_of_a_wrong_shape_are_survived(body: object):
    async with connected() as (server, provider):
        server.reply(CHAT, sse(body, said("ok", "stop"), "[DONE]"))
        got = await collect(provider, asking())
        assert got.failure is None
        assert got.text.endswith("ok")


@pytest.mark.parametrize(
    ("row", "window"),
    [
        ({"id": "demo", "max_model_len": 32768}, 32768),
        ({"id": "path/of/demo.gguf", "meta": {"n_ctx": 4096, "n_ctx_train": 8192}}, 4096),
        ({"id": "demo"}, None),
        ({"id": "demo", "meta": 5, "max_model_len": "many"}, None),
    ],
)
async def test_the_window_is_known_where_the_list_of_models_tells_it(row: dict[str, object], window: int | None):
    async with connected() as (server, provider):
        server.always("/v1/models", json_reply({"data": [row]}))
        server.reply(CHAT, HELLO, HELLO)
        await collect(provider, asking())
        await collect(provider, asking())
        assert provider.describe().context_window == window
        assert [request.path for request in server.requests] == ["/v1/models", CHAT, CHAT]


async def test_what_a_model_writes_is_no_call_when_it_was_offered_no_tools():
    async with connected() as (server, provider):
        text = '{"name": "shell", "arguments": {"path": "x"}}'
        server.reply(CHAT, sse(said(text, "stop"), "[DONE]"))
        got = await collect(provider, asking(tools=()))
        assert (got.text, got.calls) == (text, [])


@pytest.mark.parametrize("stall_after", [0, 2])
async def test_aborting_closes_the_connection_at_once_and_keeps_the_part(stall_after: int):
    """Within 200 ms, whether nothing has come yet or the reply is half way."""
    async with connected() as (server, provider):
        pieces = sse(said("Hel"), said('lo {"name'), said("!")).pieces
        server.reply(CHAT, FakeReply(pieces, content_type="text/event-stream", stall_after=stall_after))
        controller, seen = AbortController(), []

        async def read() -> None:
            async with aclosing(provider.stream(asking(), controller.signal)) as events:
                async for event in events:
                    seen.append(event)

        reading = asyncio.ensure_future(read())
        await asyncio.wait_for(server.stalled.wait(), 5)
        expected = 'Hello {"name' if stall_after else ""

        def text() -> str:
            return "".join(event.text for event in seen if isinstance(event, TextDelta))

        async with asyncio.timeout(5):
            # what may still become a call is held back until the end
            while not expected.startswith(text()) or (stall_after and not text()):
                await asyncio.sleep(0.01)
        began = time.monotonic()
        controller.abort("Esc")
        with pytest.raises(OperationCancelled):
            await reading
        await asyncio.wait_for(server.client_left.wait(), 5)
        assert time.monotonic() - began < 5
        assert text() == expected


async def test_cancelling_the_task_closes_the_connection_too():
    async with connected() as (server, provider):
        server.reply(CHAT, FakeReply(sse(said("Hel")).pieces * 2, stall_after=1))
        reading = asyncio.ensure_future(collect(provider, asking()))
        await asyncio.wait_for(server.stalled.wait(), 5)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(server.client_left.wait(), 5)


async def test_an_aborted_signal_sends_nothing():
    async with connected() as (server, provider):
        controller = AbortController()
        controller.abort()
        with pytest.raises(OperationCancelled):
            await collect(provider, asking(), controller.signal)
        assert server.requests == []


async def test_aborting_while_waiting_for_the_next_attempt_ends_the_wait():
    async with connected(retries=RetryPolicy(first_delay=30)) as (server, provider):
        server.always(CHAT, json_reply({"error": "busy"}, 500))
        controller = AbortController()
        asyncio.get_running_loop().call_later(0.2, controller.abort)
        began = time.monotonic()
        with pytest.raises(OperationCancelled):
            await collect(provider, asking(), controller.signal)
        assert time.monotonic() - began < 5


async def test_the_key_is_in_no_message_and_no_representation():
    async with connected(api_key=SECRET) as (server, provider):
        server.always(CHAT, json_reply({"error": {"message": f"Incorrect API key provided: {SECRET}"}}, 401))
        got = await collect(provider, asking())
        assert got.failure is not None
        assert got.failure.kind is ProviderErrorKind.AUTH
        shown = [str(got.failure), repr(got.failure), repr(provider), repr(vars(provider)), repr(provider.describe())]
        assert not any(SECRET in text for text in shown)
        server.always(CHAT, sse({"error": {"message": f"bad key {SECRET}"}}))
        got = await collect(provider, asking())
        assert SECRET not in str(got.failure)


def test_a_key_that_cannot_stand_in_a_header_is_refused_without_repeating_it():
    with pytest.raises(ValueError, match="API key") as caught:
        OpenAIProvider("http://127.0.0.1:1", "m", "geheim\nX-Evil: 1")
    assert "geheim" not in str(caught.value)


async def test_control_characters_of_a_server_do_not_reach_the_screen():
    async with connected() as (server, provider):
        server.reply(CHAT, json_reply({"error": "\x1b[2Jgone\x07\u202e" + "x" * 5000}, 400))
        got = await collect(provider, asking())
        assert got.failure is not None
        assert got.failure.message.isprintable()
        assert len(got.failure.message) < 1000


async def test_proxies_are_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with connected() as (server, provider):
        server.reply(CHAT, HELLO)
        assert (await collect(provider, asking())).text == "Hello"


async def test_file_names_that_are_no_text_can_be_sent():
    async with connected() as (server, provider):
        server.reply(CHAT, HELLO)
        await collect(provider, asking("read \udcff.txt"))
        assert json.loads(server.requests[-1].raw)["messages"][0]["content"] == "read ?.txt"


async def test_the_list_of_models_is_read():
    async with connected() as (server, provider):
        server.always("/v1/models", json_reply({"object": "list", "data": [{"id": "a"}, {"id": 5}, {}, {"id": "b"}]}))
        assert [model.name for model in await provider.list_models()] == ["a", "b"]
