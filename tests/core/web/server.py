"""A web server on 127.0.0.1 that says exactly what a test wants, byte by byte, and a net whose names a test makes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpcore

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.tools.base import AnyTool
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.web.client import WebAccess, WebLimits

PUBLIC = "93.184.216.34"
"""What `World` says that names resolve to, unless a test says otherwise; connections to it end at the local server."""

Handler = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


def reply(
    body: bytes | str = b"",
    *,
    status: str = "200 OK",
    kind: str | None = "text/html; charset=utf-8",
    headers: Iterable[tuple[str, str]] = (),
    length: int | None = None,
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data) if length is None else length}", "Connection: close"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


def moved(location: str, status: str = "302 Found") -> bytes:
    return reply("moved", status=status, headers=[("Location", location)])


@dataclass
class Server:
    port: int = 0
    answers: dict[str, bytes | Handler] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            exact = dict(line.split(": ", 1) for line in head[1:] if line)
            headers.update({name.lower(): value for name, value in exact.items()})
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request = Request(method, target, headers, body)
            self.requests.append(request)
            answer = self.answers.get(target, self.answers.get("*", reply("nothing here", status="404 Not Found")))
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(request, writer)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def running_server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


class World(httpcore.AnyIOBackend):
    """The net as a test makes it: names by `names` (each look-up takes the next answer), addresses lead to a server."""

    def __init__(self, server: Server, names: dict[str, list[Sequence[str]]] | None = None) -> None:
        self.server = server
        self.names = names or {}
        self.looked_up: list[str] = []
        self.connected: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        answers = self.names.get(host, [[PUBLIC]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        self.connected.append((host, port))
        return await super().connect_tcp("127.0.0.1", self.server.port, *args, **kwargs)


def access(server: Server, *domains: str, world: World | None = None, **options: Any) -> WebAccess:
    """Web access that may fetch from the server by its host:port; with a world also from names of that."""
    if world is not None:
        options |= {"resolver": world.resolve, "backend": world}
    return WebAccess((f"127.0.0.1:{server.port}", *domains), **options)


def quick(**limits: Any) -> WebLimits:
    return WebLimits(**{"connect": 1.0, "read": 1.0, **limits})


async def call(tool: AnyTool, web: WebAccess, signal: AbortSignal | None = None, **arguments: object) -> ToolResult:
    """Preconditions, then the act; raises ToolFailure as the tool does."""
    signal = signal or AbortController().signal
    invocation = tool.create_invocation(arguments, ToolContext(bus=MessageBus(), web=web))
    assert await invocation.check(signal) is None
    return await invocation.execute(signal)
