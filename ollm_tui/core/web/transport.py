"""Connections that go only to addresses that were checked: one look-up is both judged and used.

Imports httpx, so it is itself imported with the first request, in a thread.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, cast

import httpcore
import httpx

from ollm_tui.core.web.ip_addresses import IPAddress, parse_address

HEADERS_LIMIT = 64 * 1024
"""Bytes of response headers; httpcore itself gives up at 100 KiB of an unfinished head."""

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


class GuardedTransport(httpx.AsyncBaseTransport):
    """httpx over a pool with a guarded backend; no proxy, no local socket, HTTP/1.1."""

    def __init__(self, backend: GuardedBackend, ssl_context: ssl.SSLContext | None) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context, network_backend=backend, max_connections=4, keepalive_expiry=5.0
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=PiecewiseBody(answer),
            extensions=answer.extensions,  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # httpcore leaves its values untyped
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()


class PiecewiseBody(httpx.AsyncByteStream):
    """The bytes of an answer as they come; a server may send them one by one, thousands at a time."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._answer.aiter_stream():
            yield chunk
            count += 1
            if count % PIECES_AT_ONCE == 0:
                await asyncio.sleep(0)  # what has arrived already is handed out without a pause

    async def aclose(self) -> None:
        """Close the connections."""
        await self._answer.aclose()


def new_request(
    method: str, url: str, headers: Mapping[str, str], content: bytes | None, *, connect: float, read: float
) -> httpx.Request:
    """Return a request that the transport sends as it is: no environment (proxies, .netrc), no cookies, no redirects.

    An httpx client would read each Location by itself, and fail by its own lights on one that we refuse.
    """
    limits = {"connect": connect, "read": read, "write": read, "pool": read}
    return httpx.Request(method, url, headers=headers, content=content, extensions={"timeout": limits})


@cache
def new_ssl_context() -> ssl.SSLContext:
    """Create the usual TLS context; takes tens of milliseconds, so use a thread."""
    return httpx.create_ssl_context()
