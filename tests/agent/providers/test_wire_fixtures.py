"""Every recorded shape of an answer is understood: whole, byte by byte, and cut at every byte."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.agent.providers.http_connection import HttpConnection
from ollm_tui.agent.providers.ollama import OllamaProvider
from ollm_tui.agent.providers.ollama import OllamaReplyReader as OllamaReader
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.openai import OpenAIReplyReader as OpenAIReader
from ollm_tui.agent.providers.provider import (
    FinishReason,
    ProviderError,
    ProviderErrorKind,
    StreamEvent,
    TextDelta,
)
from ollm_tui.agent.providers.provider_errors import error_from, read_error_body
from ollm_tui.agent.providers.retry import RetryPolicy
from ollm_tui.agent.providers.server_address import ServerAddress
from ollm_tui.core.bus.states import Origin
from tests.agent.providers.collecting import Collected, asking, collect
from tests.agent.providers.fake_server import WIRE, FakeReply, FakeServer, json_reply, lines_of, wire_fixture

LS = ("ls", {"path": "src"})
NO_RETRIES = RetryPolicy(attempts=0, loading=0)


@dataclass(frozen=True)
class Expected:
    """The outcome of a fixture; only what is named is compared, calls and failure always."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, object], ...] = ()
    usage: tuple[int | None, int | None] | None = None
    finish: FinishReason | None = FinishReason.STOP
    failure: ProviderErrorKind | None = None
    notice: str | None = None
    check: Callable[[Collected], bool] = lambda got: True


def salvaged(got: Collected) -> bool:
    return all(call.origin is Origin.SALVAGED for call in got.calls)


STREAMS = {
    "ollama_text.ndjson": Expected("Hello, wörld ✓", usage=(31, 7)),
    "ollama_thinking_then_text.ndjson": Expected("Hi!", reasoning="I should greet.", usage=(31, 7)),
    "ollama_tool_call.ndjson": Expected(calls=(LS,), usage=(31, 7)),
    "ollama_two_tool_calls_text_first.ndjson": Expected(
        "Looking. ",
        calls=(("read_file", {"path": "a.py", "startLine": 1}), ("grep", {"pattern": "TODO"})),
        check=lambda got: [call.id for call in got.calls] == ["call_k1", "call_k2"],
    ),
    "ollama_tool_call_in_done_chunk.ndjson": Expected(calls=(("ls", {}),)),
    "ollama_tool_args_as_string.ndjson": Expected(calls=(LS,)),
    "ollama_tool_call_as_text.ndjson": Expected(calls=(LS,), check=salvaged),
    "ollama_tool_call_as_fenced_text.ndjson": Expected(
        "I'll look.\n", calls=(("read_file", {"path": "a.py"}),), check=salvaged
    ),
    "ollama_tool_call_as_xml_text.ndjson": Expected(calls=(("grep", {"pattern": "TODO"}),), check=salvaged),
    "ollama_length_stop.ndjson": Expected("The first part of", usage=(31, 16), finish=FinishReason.LENGTH),
    "ollama_error_midstream.ndjson": Expected("Part", finish=None, failure=ProviderErrorKind.REFUSED),
    "ollama_cut_no_done.ndjson": Expected("Partial", finish=None, failure=ProviderErrorKind.CUT_OFF),
    "ollama_cut_half_line.ndjson": Expected("ok", finish=None, failure=ProviderErrorKind.CUT_OFF),
    "ollama_blank_and_junk_lines.ndjson": Expected(
        "ab", notice="lines of the reply could not be read and were skipped: 1."
    ),
    "ollama_load_only.ndjson": Expected(""),
    "ollama_usage_missing_prompt_count.ndjson": Expected("hi", usage=(None, 2)),
    "ollama_200_silently_truncated.json": Expected("short", usage=(4095, 1), notice="The prompt was probably cut"),
    "openai_text.sse": Expected("Hello ✓", usage=(31, 7)),
    "openai_text_crlf_comment.sse": Expected("hi"),
    "openai_multiline_data.sse": Expected("hi"),
    "openai_no_space_no_done.sse": Expected("hi"),
    "openai_reasoning_content.sse": Expected("Hi", reasoning="Think more.", usage=(31, 7)),
    "openai_reasoning_field.sse": Expected("Hi", reasoning="Think."),
    "openai_think_tags_in_content_split.sse": Expected("Hi", reasoning="plan"),
    "openai_tool_fragments.sse": Expected(
        calls=(("read_file", {"path": "a.py"}),), usage=(31, 7), finish=FinishReason.TOOL_CALLS
    ),
    "openai_two_tools_interleaved.sse": Expected(
        calls=(LS, ("grep", {"pattern": "TODO"})), finish=FinishReason.TOOL_CALLS
    ),
    "openai_tools_no_index.sse": Expected(calls=(LS, ("ls", {"path": "tests"})), finish=FinishReason.TOOL_CALLS),
    "openai_tools_same_index_new_id.sse": Expected(
        calls=(LS, ("ls", {"path": "tests"})), finish=FinishReason.TOOL_CALLS
    ),
    "openai_tool_no_id.sse": Expected(calls=(("ls", {}),), check=lambda got: got.calls[0].id == "call_1"),
    "openai_tool_name_repeated.sse": Expected(calls=(LS,), finish=FinishReason.TOOL_CALLS),
    "openai_tool_finish_stop.sse": Expected(calls=(LS,)),
    "openai_tool_args_object.sse": Expected(calls=(LS,), finish=FinishReason.TOOL_CALLS),
    "openai_tool_args_double_encoded.sse": Expected(calls=(LS,), finish=FinishReason.TOOL_CALLS),
    "openai_tool_args_malformed.sse": Expected(
        calls=(LS,), finish=FinishReason.TOOL_CALLS, check=lambda got: got.calls[0].repaired
    ),
    "openai_tool_args_truncated_length.sse": Expected(
        calls=(("write_file", {}),),
        finish=FinishReason.LENGTH,
        check=lambda got: "cut off after 30 characters" in (got.calls[0].error or ""),
    ),
    "openai_legacy_function_call.sse": Expected(calls=(LS,), finish=FinishReason.TOOL_CALLS),
    "openai_usage_on_last_choice.sse": Expected("hi", usage=(31, 7)),
    "openai_usage_every_chunk.sse": Expected("hi", usage=(31, 2)),
    "openai_error_in_stream.sse": Expected("Par", finish=None, failure=ProviderErrorKind.CONTEXT_OVERFLOW),
    "openai_error_event_llamacpp.sse": Expected(finish=None, failure=ProviderErrorKind.CONTEXT_OVERFLOW),
}

REFUSALS = {
    "llamacpp_400_context.json": (ProviderErrorKind.CONTEXT_OVERFLOW, ["5,000", "4,096"]),
    "llamacpp_503_loading.json": (ProviderErrorKind.LOADING, ["Loading model"]),
    "ollama_400_context_nested.json": (ProviderErrorKind.CONTEXT_OVERFLOW, ["351", "256"]),
    "ollama_404_model.json": (ProviderErrorKind.NO_SUCH_MODEL, ["model 'nope:1b' not found"]),
    "openai_401.json": (ProviderErrorKind.AUTH, ["Incorrect API key", "Check the API key"]),
    "openai_404_model.json": (ProviderErrorKind.NO_SUCH_MODEL, ["`nope` does not exist"]),
    "openai_429.json": (ProviderErrorKind.RATE_LIMITED, ["Rate limit reached"]),
}

ANSWERED_ELSEWHERE = {
    "ollama_400_no_tools.json",
    "ollama_400_no_thinking.json",
    "vllm_400_tool_choice.json",
    "ollama_ps.json",
    "ollama_show.json",
    "ollama_tags.json",
}
"""Fixtures that tests of the providers use: they are half of an exchange."""


def test_every_fixture_has_an_expected_outcome():
    files = {path.name for path in WIRE.iterdir()} - {"README.md"}
    assert files == STREAMS.keys() | REFUSALS.keys() | ANSWERED_ELSEWHERE


@asynccontextmanager
async def serving(name: str):
    """A server and a provider of the kind the fixture was recorded for, and the path it asks."""
    async with FakeServer() as server:
        if name.startswith("ollama"):
            server.always("/api/show", json_reply({"capabilities": ["completion", "tools", "thinking"]}))
            server.always("/api/ps", json_reply({"models": []}))
            provider = OllamaProvider(server.url, "demo:1b", num_ctx=4096, retries=NO_RETRIES)
            path = "/api/chat"
        else:
            provider = OpenAIProvider(server.url, "demo", retries=NO_RETRIES)
            path = "/v1/chat/completions"
        yield server, provider, path
        await provider.aclose()


async def reply_to(name: str, reply: FakeReply) -> Collected:
    async with serving(name) as (server, provider, path):
        server.reply(path, reply)
        return await collect(provider, asking())


def matches(got: Collected, expected: Expected) -> None:
    assert got.text == expected.text
    assert got.reasoning == expected.reasoning
    assert tuple(got.called) == expected.calls
    assert got.finish is expected.finish
    assert (got.failure.kind if got.failure else None) is expected.failure
    if expected.usage:
        assert got.usage == [expected.usage]
    if expected.notice:
        assert any(expected.notice in notice for notice in got.notices)
    else:
        assert got.notices == []
    assert expected.check(got)


@pytest.mark.parametrize("name", STREAMS)
async def test_a_recorded_reply_is_understood_whole(name: str):
    matches(await reply_to(name, wire_fixture(name)), STREAMS[name])


def joined(events: list[StreamEvent]) -> list[StreamEvent]:
    """Neighbouring pieces of text as one: how text is cut into pieces may differ, nothing else."""
    result: list[StreamEvent] = []
    for event in events:
        if isinstance(event, TextDelta) and result and isinstance(last := result[-1], TextDelta):
            result[-1] = TextDelta(last.text + event.text)
        else:
            result.append(event)
    return result


@pytest.mark.parametrize("name", STREAMS)
async def test_a_recorded_reply_is_understood_byte_by_byte(name: str):
    matches(await reply_to(name, wire_fixture(name).byte_by_byte()), STREAMS[name])


def read_chunks(name: str, chunks: list[bytes]) -> Collected:
    """The events of a reply in these chunks, and the failure it ended with; no network is needed for that."""
    got = Collected()
    connection = HttpConnection(ServerAddress("http://127.0.0.1:1", loopback=True))
    reader = (
        OllamaReader(asking(), connection, "demo", 4096)
        if name.startswith("ollama")
        else OpenAIReader(asking(), connection, "demo")
    )
    try:
        for chunk in chunks:
            got.events += reader.feed(chunk)
        got.events += reader.read_rest()
        got.events += reader.close()
    except ProviderError as failure:
        got.events += reader.cut_off()
        got.failure = failure
    return got


@settings(max_examples=100)
@given(st.sampled_from(sorted(STREAMS)), st.lists(st.floats(0, 1), max_size=12))
def test_any_chunking_of_a_recorded_reply_gives_the_same_events(name: str, places: list[float]):
    body = wire_fixture(name).body
    cuts = sorted(int(place * len(body)) for place in places)
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    got, whole = read_chunks(name, chunks), read_chunks(name, [body])
    assert (joined(got.events), str(got.failure)) == (joined(whole.events), str(whole.failure))


@pytest.mark.parametrize("name", STREAMS)
def test_a_reply_cut_at_any_byte_runs_no_call_by_halves_and_says_what_happened(name: str):
    body, expected = wire_fixture(name).body, STREAMS[name]
    for at in range(len(body)):
        got = read_chunks(name, [body[:at]])
        if got.failure is None:
            # only what follows the reply proper was lost: usage, [DONE], a line end
            assert (got.text, got.reasoning) == (expected.text, expected.reasoning), at
            assert tuple(got.called) == expected.calls, at
            assert got.finish is expected.finish, at
        else:
            assert (got.calls, got.finish) == ([], None), at
            assert got.failure.kind in (ProviderErrorKind.CUT_OFF, expected.failure), at
            assert "http://127.0.0.1:1" in got.failure.message, at
            assert expected.reasoning.startswith(got.reasoning), at


@pytest.mark.parametrize("name", sorted(REFUSALS.keys() | ANSWERED_ELSEWHERE))
def test_a_refusal_cut_at_any_byte_is_an_error_with_a_kind_and_a_message(name: str):
    reply, url = wire_fixture(name), "http://127.0.0.1:1"
    for at in range(len(reply.body) + 1):
        error = error_from(read_error_body(reply.body[:at]), url=url, status=reply.status, model="demo")
        assert isinstance(error.kind, ProviderErrorKind)
        assert error.message.startswith(f"{url} answered HTTP {reply.status}: "), at
        assert error.message.isprintable(), at


@pytest.mark.parametrize("name", STREAMS)
async def test_a_reply_cut_after_any_line_keeps_its_part_and_says_so(name: str):
    whole, expected = wire_fixture(name), STREAMS[name]
    async with serving(name) as (server, provider, path):
        for at in [0, *lines_of(whole.body)]:
            if at == len(whole.body) and expected.failure is None:
                continue
            server.reply(path, whole.cut_at(at))
            got = await collect(provider, asking())
            # half a tag, or half a call written as text, is text when nothing more comes
            assert expected.text.startswith(got.text) or expected.calls or got.text == "<th"
            assert expected.reasoning.startswith(got.reasoning)
            if got.failure is None:
                # cut behind the end of the reply proper: usage or [DONE] may be missing, nothing else
                assert (got.text, tuple(got.called)) == (expected.text, expected.calls)
            else:
                assert got.calls == []
                assert server.url in got.failure.message


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_becomes_a_typed_failure_that_names_address_and_reason(name: str):
    kind, words = REFUSALS[name]
    async with serving(name) as (server, provider, path):
        server.reply(path, wire_fixture(name))
        got = await collect(provider, asking())
        assert got.failure is not None
        assert got.failure.kind is kind
        assert got.failure.status == wire_fixture(name).status
        for word in [server.url, *words]:
            assert word in got.failure.message
        if kind is ProviderErrorKind.CONTEXT_OVERFLOW:
            assert str(got.failure.context_window) in words[1].replace(",", "")


PAGE = b"<!DOCTYPE html>\n<html><body>Sign in to the proxy</body></html>"
CUT, WRONG = ProviderErrorKind.CUT_OFF, ProviderErrorKind.BAD_REPLY


@pytest.mark.parametrize(
    ("name", "body", "kind", "words"),
    [
        ("openai_text.sse", b'data: {"choices": [{"del', CUT, "closed the connection early"),
        ("openai_text.sse", b"da", CUT, "closed the connection early"),
        ("openai_text.sse", b"", CUT, "closed the connection early"),
        ("openai_text.sse", PAGE, WRONG, "it is a web page, maybe a login. Check that the base URL"),
        ("openai_text.sse", b"data: words\n\n", WRONG, "none of its events is JSON. Check that the base URL"),
        ("openai_text.sse", b"It works!", WRONG, "none of its events is JSON. Check that the base URL"),
        ("ollama_text.ndjson", b'{"message": {"content": "Hel', CUT, "closed the connection early"),
        ("ollama_text.ndjson", b"", CUT, "closed the connection early"),
        ("ollama_text.ndjson", PAGE.replace(b"\n", b""), WRONG, "it is a web page, maybe a login. Check that the base"),
        ("ollama_text.ndjson", b"{words}\n", WRONG, "none of its lines is JSON. Check that the base URL"),
    ],
)
async def test_a_reply_that_broke_off_and_one_of_another_kind_are_different_errors(
    name: str, body: bytes, kind: ProviderErrorKind, words: str
):
    async with serving(name) as (server, provider, path):
        for reply in (FakeReply((body,)), FakeReply((body,)).byte_by_byte()):
            server.reply(path, reply)
            got = await collect(provider, asking())
            assert got.failure is not None and got.failure.kind is kind
            assert words in got.failure.message and (got.text, got.calls) == ("", [])
