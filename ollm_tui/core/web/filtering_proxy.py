"""A proxy on loopback that lets a browser reach what the web rules allow, and nothing else."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING

from ollm_tui.core.base.errors import FetchFailed, InvalidArguments, ToolFailure, UrlNotAllowed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.ip_addresses import IPAddress
from ollm_tui.core.web.urls import WebUrl, parse_url, refuse_address, refuse_literal

if TYPE_CHECKING:
    import httpcore

    from ollm_tui.core.web.client import WebAccess
    from ollm_tui.core.web.transport import GuardedBackend

MAX_HEAD = 64 * 1024
MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of one answer, or through one tunnel from the server."""

CONNECTIONS = 64
REFUSALS_KEPT = 100
HEAD_SECONDS = 20.0
SILENT_SECONDS = 300.0
PIECE = 64 * 1024

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host"})


class FilteringProxy:
    """Forwards http requests and tunnels to the site that was opened and to listed hosts.

    A name is looked up once, by us: the answer is judged and connected to. The browser looks nothing up.
    """

    def __init__(self, web: WebAccess) -> None:
        self._web = web
        self._site: WebUrl | None = None
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self.refusals: dict[str, str] = {}
        """Why a host and port was last refused; the newest last."""

    async def start(self) -> str:
        """Listen on a free port of loopback; return the address for the browser."""
        await asyncio.to_thread(importlib.import_module, "ollm_tui.core.web.transport")
        import httpcore

        self._backend: GuardedBackend = self._web.guarded_backend(self._judge_address)
        self._pool = httpcore.AsyncConnectionPool(
            network_backend=self._backend, max_connections=CONNECTIONS, keepalive_expiry=5.0
        )
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def aclose(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is None:
            return
        self._server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await self._pool.aclose()
        self._server = None

    def admit(self, site: WebUrl | None) -> None:
        """Let pages of `site` through from now on, in place of the one before. Raises UrlNotAllowed."""
        if site is not None:
            refuse_literal(site, listed=self._web.domains.list_local(site))
        self._site = site
        self.refusals.clear()

    def judge(self, url: WebUrl) -> None:
        """Raise UrlNotAllowed unless the page that is open may reach an address."""
        listed = self._web.domains.list_local
        refuse_literal(url, listed=listed(url))
        if listed(url):
            if self._site is not None and listed(self._site):
                return
            raise UrlNotAllowed(f"{url.host_and_port}: a page from elsewhere may not reach a machine nearby.")
        if (self._site is not None and self._site.is_same_site(url)) or self._web.allows(url):
            return
        raise UrlNotAllowed(
            f"{url.host}: is another site than the one that was opened. Open its address, "
            f'or the person lists it: [web] allow_domains = ["{url.host}"] in the policy.'
        )

    def _judge_address(self, host: str, port: int, address: IPAddress) -> None:
        url = self._url_of(host, port)
        refuse_address(url, address, listed=self._web.domains.list_local(url, address))

    def _url_of(self, host: str, port: int) -> WebUrl:
        site = self._site
        scheme = site.scheme if site is not None and site.port == port else "http" if port == 80 else "https"
        return parse_url(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/")

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._clients) >= 2 * CONNECTIONS:
            writer.close()
            return
        self._clients.add(task)
        try:
            await self._answer(reader, writer)
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            pass  # whoever broke off, the connection is over
        except asyncio.CancelledError:
            pass  # closing: nobody awaits a client but `aclose`
        finally:
            self._clients.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        where = target
        try:
            if method == "CONNECT":
                host, _, port = target.rpartition(":")
                url = self._url_of(host.strip("[]"), int(port))
            else:
                url = parse_url(target)
                if not target.startswith("http://"):
                    raise InvalidArguments(f"{visible(target[:200])}: only http is forwarded; https comes as a tunnel.")
            where = url.host_and_port
            self.judge(url)
            await self._guarded(
                self._tunnel if method == "CONNECT" else self._forwarder(method, headers), url, reader, writer
            )
        except ToolFailure as failure:
            self._refuse(where, failure.message)

    def _refuse(self, where: str, why: str) -> None:
        self.refusals.pop(where, None)
        self.refusals[where] = why
        if len(self.refusals) > REFUSALS_KEPT:
            self.refusals.pop(next(iter(self.refusals)))

    async def _guarded(
        self, exchange: Exchange, url: WebUrl, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Run one exchange; raises FetchFailed with the reason in words."""
        import httpcore

        try:
            await exchange(url, reader, writer)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            reason = visible(str(error))[:200] or "no answer"
            raise FetchFailed(f"{url.host_and_port}: {reason}.") from None

    def _forwarder(self, method: str, headers: list[tuple[str, str]]) -> Exchange:
        async def forward(url: WebUrl, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            import httpcore

            kept = [("Host", url.host_and_port.removesuffix(":80"))]
            kept += [each for each in headers if _is_forwarded(each[0])]
            length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
            request = httpcore.Request(
                method,
                httpcore.URL(scheme=b"http", host=url.host.encode(), port=url.port, target=url.target.encode()),
                headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept],
                content=_body(reader, length) if length else None,
                extensions={"timeout": {"connect": self._web.limits.connect, "read": SILENT_SECONDS, "write": 60.0}},
            )
            answer = await self._pool.handle_async_request(request)
            try:
                lines = [f"HTTP/1.1 {answer.status} -".encode(), b"Connection: close"]
                lines += [
                    name + b": " + value for name, value in answer.headers if _is_forwarded(name.decode("latin-1"))
                ]
                writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
                await _copy(answer.aiter_stream(), writer, url)
            finally:
                await answer.aclose()

        return forward

    async def _tunnel(self, url: WebUrl, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = await self._backend.connect_tcp(url.host, url.port, timeout=self._web.limits.connect)
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            sending = asyncio.ensure_future(_send(reader, stream))
            try:
                await _copy(_received(stream), writer, url)
            finally:
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending
        finally:
            await stream.aclose()


Exchange = Callable[[WebUrl, asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


def _is_forwarded(name: str) -> bool:
    folded = name.lower()
    return folded not in _HOP_BY_HOP and not folded.startswith("proxy-")


async def _body(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    while length > 0:
        piece = await reader.read(min(PIECE, length))
        if not piece:
            raise EOFError
        length -= len(piece)
        yield piece


async def _send(reader: asyncio.StreamReader, stream: httpcore.AsyncNetworkStream) -> None:
    import httpcore

    with suppress(OSError, httpcore.NetworkError, httpcore.TimeoutException):
        while piece := await reader.read(PIECE):
            await stream.write(piece, timeout=60.0)


async def _received(stream: httpcore.AsyncNetworkStream) -> AsyncIterator[bytes]:
    while piece := await stream.read(PIECE, timeout=SILENT_SECONDS):
        yield piece


async def _copy(pieces: AsyncIterator[bytes], writer: asyncio.StreamWriter, url: WebUrl) -> None:
    total = 0
    async for piece in pieces:
        total += len(piece)
        if total > MAX_ANSWER:
            raise FetchFailed(
                f"{url.host_and_port}: one answer has more than {MAX_ANSWER // 2**20} MB; it was cut off."
            )
        writer.write(piece)
        await writer.drain()
    await writer.drain()
