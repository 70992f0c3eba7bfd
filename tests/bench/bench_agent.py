"""The agent's own share of a turn: a reply read from the socket, a round with a tool, a summary made by rule.

Run: python tests/bench/bench_agent.py. Bars: a byte on the socket is an event after <= 1 ms (median); 10 MB of a streamed
reply <= 4x of `json.loads` over its lines; a round of `ls` with an instant server <= 25 ms of processor time; a summary of
1,000 messages <= 50 ms.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx

from ollm_tui.agent.compaction import summary_by_rule
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, open_runtime
from tests.agent.providers.fake_server import FakeReply, FakeServer, json_reply, sse

CHAT = "/v1/chat/completions"
REQUEST = wire.ChatRequest((wire.UserMessage("go"),))
PIECES = 300
ROUNDS = 40
SIZE = 10_000_000


def chunk(text: str) -> dict[str, object]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
    }


def report(what: str, value: float, goal: float, unit: str) -> bool:
    print(f"{what}: {value:.2f} {unit} (goal {goal:g}{'' if value <= goal else ', MISSED'})")
    return value <= goal


async def latency() -> float:
    """Return the median milliseconds from a write on a socket to the event."""
    written: list[float] = []
    seen: list[float] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if b"POST" not in request:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for at in range(PIECES):
            written.append(time.perf_counter())
            writer.write(f"data: {json.dumps(chunk(f'{at} '))}\n\n".encode())
            await asyncio.sleep(0.002)
        writer.write(b"data: [DONE]\n\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    provider = OpenAIProvider(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "m", context_window=8_192)
    async for event in provider.stream(REQUEST, AbortSignal()):
        if isinstance(event, wire.TextDelta):
            seen.append(time.perf_counter())
    await provider.aclose()
    server.close()
    return statistics.median(1_000 * (after - before) for before, after in zip(written, seen, strict=True))


async def throughput() -> float:
    """Return how many times longer than `json.loads` of its lines a reply of 10 MB takes, but for its transport."""
    lines = [json.dumps(chunk("some words of an answer ")) for _ in range(SIZE // 170)]
    body = "".join(f"data: {line}\n\n" for line in lines).encode() + b"data: [DONE]\n\n"
    ratios: list[float] = []
    async with FakeServer() as server:
        server.always("/v1/models", json_reply({"data": [{"id": "m"}]}))
        server.always(
            CHAT,
            FakeReply(
                tuple(body[at : at + 65_536] for at in range(0, len(body), 65_536)), content_type="text/event-stream"
            ),
        )
        provider = OpenAIProvider(server.url, "m", context_window=8_192)
        for _ in range(3):
            began = time.process_time()
            for line in lines:
                json.loads(line)
            reference, began = time.process_time() - began, time.process_time()
            async with httpx.AsyncClient() as client, client.stream("POST", f"{server.url}{CHAT}") as reply:
                async for _bytes in reply.aiter_raw():
                    pass
            transport, began = time.process_time() - began, time.process_time()
            async for _event in provider.stream(REQUEST, AbortSignal()):
                pass
            ratios.append((time.process_time() - began - transport) / reference)
        await provider.aclose()
    return statistics.median(ratios)


async def rounds() -> float:
    """Return the milliseconds of processor time of a round: request, reply, `ls`, result; the server's share included."""
    call = {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": '{"path": "."}'}}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            FakeServer() as server,
            open_runtime(Options(workspace=Path(folder), provider="offline"), Attendance.NOBODY) as runtime,
        ):
            server.always("/v1/models", json_reply({"data": [{"id": "m"}]}))
            asks = [
                sse({"choices": [{"delta": {"tool_calls": [{**call, "id": f"c{at}"}]}, "finish_reason": "tool_calls"}]})
                for at in range(ROUNDS)
            ]
            server.reply(
                CHAT,
                *(
                    reply
                    for at in range(ROUNDS)
                    for reply in (asks[at], sse({"choices": [{"delta": {"content": "."}, "finish_reason": "stop"}]}))
                ),
            )
            runtime.agent.use(OpenAIProvider(server.url, "m", context_window=200_000))
            times: list[float] = []
            for at in range(ROUNDS):
                (Path(folder) / f"{at}.txt").touch()
                began = time.process_time()
                await runtime.agent.run_turn("look")
                times.append((time.process_time() - began) / 2)
            return 1_000 * statistics.median(times)


def summary() -> float:
    """Return the milliseconds of a summary of 1,000 messages by rule."""
    messages: list[wire.Message] = []
    for at in range(250):
        messages += [
            wire.UserMessage(f"Please change part {at} of the program. " * 5),
            wire.AssistantMessage("I will.", (wire.ToolCall(f"c{at}", "edit_file", {"path": f"src/{at}.py"}),)),
            wire.ToolMessage(f"c{at}", "edit_file", "Edited. " * 50),
            wire.AssistantMessage("Done. " * 40),
        ]
    times: list[float] = []
    for _ in range(9):
        began = time.process_time()
        summary_by_rule(messages)
        times.append(time.process_time() - began)
    return 1_000 * statistics.median(times)


def main() -> None:
    """Print each figure with its goal."""
    met = [
        report("a byte on the socket to its event", asyncio.run(latency()), 1, "ms"),
        report("10 MB of a streamed reply to json.loads of its lines", asyncio.run(throughput()), 4, "x"),
        report("a round with ls", asyncio.run(rounds()), 25, "ms of processor time"),
        report("a summary of 1,000 messages by rule", summary(), 50, "ms"),
    ]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
