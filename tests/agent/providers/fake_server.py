"""A model server on 127.0.0.1 for tests: real sockets, queued replies, stalls and cuts, requests recorded."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType

from tests import DATA_DIR

WIRE = DATA_DIR / "wire"


@dataclass(frozen=True)
class FakeReply:
    """One answer: its pieces are sent one after the other, each as a chunk of its own."""

    pieces: tuple[bytes, ...]
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    stall_after: int | None = None
    """After this many pieces nothing more is sent until the client goes away."""
    pause: float = 0.0
    """Seconds before each piece."""
    cut: bool = False
    """Break the connection at the end instead of ending the body."""
    silent: bool = False
    """Take the request and never answer."""

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def byte_by_byte(self) -> FakeReply:
        return replace(self, pieces=tuple(bytes([byte]) for byte in self.body))

    def cut_at(self, size: int) -> FakeReply:
        return replace(self, pieces=(self.body[:size],), cut=True)


def json_reply(value: object, status: int = 200, **headers: str) -> FakeReply:
    pairs = tuple((name.replace("_", "-"), text) for name, text in headers.items())
    return FakeReply((json.dumps(value).encode(),), status, headers=pairs)


def ndjson(*lines: object) -> FakeReply:
    return FakeReply(tuple(json.dumps(line).encode() + b"\n" for line in lines), content_type="application/x-ndjson")


def sse(*chunks: object) -> FakeReply:
    """Events with one JSON chunk each; text is sent as it is (`[DONE]`)."""
    texts = (chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks)
    return FakeReply(tuple(f"data: {text}\n\n".encode() for text in texts), content_type="text/event-stream")


def wire_fixture(name: str) -> FakeReply:
    """The reply that a file in tests/data/wire describes."""
    content = (WIRE / name).read_bytes()
    if name.endswith(".sse"):
        return FakeReply((content,), content_type="text/event-stream")
    if name.endswith(".ndjson"):
        return FakeReply((content,), content_type="application/x-ndjson")
    described = json.loads(content)
    body = described["body"]
    return json_reply(body, described["status"], **body.pop("_headers", {}))


@dataclass(frozen=True)
class FakeRequest:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> dict[str, object]:
        return json.loads(self.raw)


@dataclass
class FakeServer:
    """`async with FakeServer() as server`, then `server.reply("/api/chat", ...)`; replies of a path are used in order.

    The last reply of a path is repeated with `always`; a path without a reply answers 404.
    """

    requests: list[FakeRequest] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._queued: defaultdict[str, deque[FakeReply]] = defaultdict(deque)
        self._always: dict[str, FakeReply] = {}
        self._open: set[asyncio.Task[None]] = set()
        self.client_left = asyncio.Event()
        """Set when a client closes its connection while a reply is stalled."""
        self.stalled = asyncio.Event()
        """Set when a reply has come to its stall."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reply(self, path: str, *replies: FakeReply) -> None:
        self._queued[path].extend(replies)

    def always(self, path: str, reply: FakeReply) -> None:
        self._always[path] = reply

    def bodies(self, path: str) -> list[dict[str, object]]:
        return [request.json for request in self.requests if request.path == path]

    async def __aenter__(self) -> FakeServer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while request := await _read_request(reader):
                    self.requests.append(request)
                    if not await self._answer(self._reply_for(request), reader, writer):
                        break
        finally:
            writer.close()

    def _reply_for(self, request: FakeRequest) -> FakeReply:
        queued = self._queued[request.path]
        if queued:
            return queued.popleft()
        return self._always.get(request.path, FakeReply((b"404 page not found",), 404, "text/plain"))

    async def _answer(self, reply: FakeReply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if reply.silent:
            await self._stall(reader)
            return False
        writer.write(_head(reply))
        for number, piece in enumerate(reply.pieces):
            if reply.stall_after == number:
                break
            if reply.pause:
                await asyncio.sleep(reply.pause)
            if piece:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
        if reply.stall_after is not None:
            await self._stall(reader)
            return False
        if reply.cut:
            # an ordinary close in the middle of a chunked body: what was written still arrives
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _stall(self, reader: asyncio.StreamReader) -> None:
        self.stalled.set()
        with suppress(ConnectionError):
            await reader.read()
        self.client_left.set()


def _head(reply: FakeReply) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} Fake", f"Content-Type: {reply.content_type}", "Transfer-Encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read_request(reader: asyncio.StreamReader) -> FakeRequest | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *rest = head.decode().rstrip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return FakeRequest(method, path, headers, raw)


def lines_of(content: bytes) -> Iterable[int]:
    """The ends of the lines of `content`: where a connection may be cut between two lines."""
    return (at + 1 for at, byte in enumerate(content) if byte == 0x0A)
