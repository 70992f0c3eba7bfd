"""Connections to judged addresses alone: one look-up is judged and used. Imports httpcore, so imported late."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import cache
from typing import Protocol, cast

import httpcore

from ollm_tui.core.web.http_messages import HttpMethod, WebRequest
from ollm_tui.core.web.ip_addresses import IPAddress, parse_address
from ollm_tui.core.web.urls import DEFAULT_PORTS, WebUrl

PIECES_AT_ONCE = 16
"""Pieces of an answer taken before others have their turn; a piece takes about a tenth of a millisecond."""

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class Resolver(Protocol):
    """Looks a name up once; all answers, best first, as text. Raises OSError."""

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host."""
        ...


Judge = Callable[[str, int, IPAddress], None]
"""Raises where a host and port may not lead to an address."""


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Resolve a host with getaddrinfo, in a thread."""
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections to judged addresses only, whatever the name says the next time it is asked."""

    def __init__(self, resolver: Resolver, judge: Judge, inner: httpcore.AsyncNetworkBackend | None = None) -> None:
        self._resolver = resolver
        self._judge = judge
        # cast: httpcore types it as a stand-in where anyio is missing, which httpx never lets happen
        self._inner = inner or cast(httpcore.AsyncNetworkBackend, httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raise what the judge raises unless every answer passes; else tries the answers in turn."""
        try:
            async with asyncio.timeout(timeout):
                answers = await self._resolved(host, port)
                return await self._first_reachable(answers, port, timeout)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"no connection within {timeout:g} s") from None

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[SocketOption] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: no socket files."""
        raise httpcore.ConnectError("local sockets are not fetched from")

    async def sleep(self, seconds: float) -> None:
        """Sleep for some seconds."""
        await asyncio.sleep(seconds)

    async def _resolved(self, host: str, port: int) -> list[str]:
        literal = parse_address(host)
        try:
            answers = [host] if literal is not None else await self._resolver(host, port)
        except OSError as error:
            raise httpcore.ConnectError(f"the name {host} is not known: {error.strerror or error}") from None
        except UnicodeError as error:
            raise httpcore.ConnectError(f"the name {host} cannot be looked up: {error}") from None
        addresses = [parse_address(answer) for answer in answers]
        if not addresses or any(address is None for address in addresses):
            raise httpcore.ConnectError(f"the name {host} has no usable address")
        for address in addresses:
            if address is not None:
                self._judge(host, port, address)
        return [str(address) for address in addresses]

    async def _first_reachable(
        self, answers: list[str], port: int, timeout: float | None
    ) -> httpcore.AsyncNetworkStream:
        """Give each a share of the time, so that one dead address does not use up all of it."""
        failure: Exception | None = None
        for index, address in enumerate(answers):
            share = None if timeout is None else timeout / min(2, len(answers) - index)
            try:
                return await self._inner.connect_tcp(address, port, timeout=share)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError("no address")


def new_pool(backend: GuardedBackend, certificates: ssl.SSLContext) -> httpcore.AsyncConnectionPool:
    """Return connections by a guarded backend: no proxy, no local socket, HTTP/1.1."""
    return httpcore.AsyncConnectionPool(
        ssl_context=certificates, network_backend=backend, max_connections=4, keepalive_expiry=5.0
    )


def new_request(request: WebRequest, url: WebUrl, *, connect: float, read: float) -> httpcore.Request:
    """Return a request that goes to `url` as it is: no environment (proxies, .netrc), no cookies, no redirects."""
    content = None if request.body is None else request.body.encode("utf-8", "replace")
    headers = {"host": url.host_and_port.removesuffix(f":{DEFAULT_PORTS[url.scheme]}"), **request.sent_headers()}
    if content is not None or request.method in (HttpMethod.POST, HttpMethod.PUT):
        headers["content-length"] = str(len(content or b""))
    return httpcore.Request(
        request.method.value,
        httpcore.URL(scheme=url.scheme.encode(), host=url.host.encode(), port=url.port, target=url.target.encode()),
        headers=[(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()],
        content=content,
        extensions={"timeout": {"connect": connect, "read": read, "write": read, "pool": read}},
    )


async def pieces(answer: httpcore.Response) -> AsyncIterator[bytes]:
    """Yield the bytes of an answer as they come; a server may send them one by one, thousands at a time."""
    count = 0
    async for chunk in answer.aiter_stream():
        yield chunk
        count += 1
        if count % PIECES_AT_ONCE == 0:
            await asyncio.sleep(0)  # what has arrived already is handed out without a pause


def reason_phrase(answer: httpcore.Response) -> str:
    """Return what the server calls its status; empty where it says nothing."""
    phrase: bytes = answer.extensions.get("reason_phrase", b"")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # httpcore leaves its values untyped
    return str(phrase, "ascii", "ignore")  # pyright: ignore[reportUnknownArgumentType]  # as above


@cache
def new_ssl_context() -> ssl.SSLContext:
    """Create the usual TLS context; takes tens of milliseconds, so use a thread."""
    import httpx  # for its choice of certificates alone

    return httpx.create_ssl_context()
