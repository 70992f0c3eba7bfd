"""Fetching: judged addresses, judged redirects, bounded time and size (001 R6, 000 Property 29)."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.errors import FetchFailed, FetchTimeout, InvalidArguments, ToolFailure, UrlNotAllowed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.allowed_hosts import AllowedDomains, LocalServer, local_server
from ollm_tui.core.web.http_messages import HttpMethod, WebRequest, WebResponse, reason_of
from ollm_tui.core.web.ip_addresses import IPAddress
from ollm_tui.core.web.response_body import BodyTooLargeError, BoundedBody, ResponseBodyError
from ollm_tui.core.web.server_load import HostThrottle, PageCache
from ollm_tui.core.web.urls import WebUrl, refuse_address, refuse_literal, resolve_redirect

if TYPE_CHECKING:
    import httpcore

    from ollm_tui.core.web.transport import GuardedBackend, Judge, Resolver


SEARCH_SECONDS = 20.0
"""How long one search may take."""


class AllowList(Protocol):
    """Whether a URL may lead to a private or loopback address: to `address`, or to any while none is known."""

    def __call__(self, url: WebUrl, address: IPAddress | None = None) -> bool:
        """Return whether it may."""
        ...


@dataclass(frozen=True)
class SearchHit:
    """One search result as its provider wrote it; cleaned by `normalised`."""

    title: str
    url: str
    snippet: str = ""


class SearchProvider(Protocol):
    """Finds pages by words."""

    @property
    def name(self) -> str:
        """What people call it: "SearXNG at http://127.0.0.1:8888"."""
        ...

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[SearchHit]:
        """Return about `count` results, best first. Raises SearchFailed, UrlNotAllowed."""
        ...


@dataclass(frozen=True)
class WebLimits:
    """Bounds of one fetch: seconds, bytes after unpacking, redirects."""

    connect: float = 5.0
    read: float = 15.0
    """Between two pieces of an answer."""
    body_bytes: int = 5 * 1024 * 1024
    header_bytes: int = 64 * 1024
    redirects: int = 5


class WebAccess:
    """What the web tools share: who may be fetched, the search provider, pages already read.

    `downloads` is a folder that `read_file` may read, for bodies that are no text; None keeps them in the result.
    `resolver` and `backend` stand in for the system's look-up and for real connections.
    """

    def __init__(
        self,
        allow_domains: Iterable[str] = (),
        *,
        search: SearchProvider | None = None,
        downloads: Path | None = None,
        clock: Clock | None = None,
        limits: WebLimits | None = None,
        resolver: Resolver | None = None,
        backend: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self.domains = AllowedDomains(allow_domains)
        self.search = search
        self.downloads = downloads
        self.clock = clock or SystemClock()
        self.limits = limits or WebLimits()
        self.cache = PageCache(self.clock)
        self.throttle = HostThrottle(self.clock)
        self._resolver = resolver
        self._backend = backend

    def allows(self, url: WebUrl) -> bool:
        """Whether the person's list covers the address; what rules see as `$allowed_domain`."""
        return self.domains.cover(url)

    def refuse(self, url: WebUrl) -> None:
        """Raise UrlNotAllowed where the address alone shows that nobody can approve it."""
        refuse_literal(url, listed=self.domains.list_local(url))

    def guarded_backend(self, judge: Judge) -> GuardedBackend:
        """Return connections to judged addresses alone; `transport` has been imported in a thread before."""
        from ollm_tui.core.web import transport

        return transport.GuardedBackend(self._resolver or transport.system_resolver, judge, self._backend)

    async def fetch(
        self,
        request: WebRequest,
        signal: AbortSignal,
        *,
        use_cache: bool = False,
        own: WebUrl | None = None,
        approved: LocalServer | None = None,
    ) -> WebResponse:
        """Send a request and read its answer, whatever the status.

        `own` is a server that the person's settings name, `approved` one that they allowed for this request.

        Raises UrlNotAllowed, FetchTimeout, FetchFailed, OperationCancelled.
        """
        signal.throw_if_aborted()
        listed = self._listed(own, approved)
        refuse_literal(request.url, listed=listed(request.url))
        cacheable = use_cache and request.method is HttpMethod.GET and not request.headers and request.body is None
        # What a server under development says changes with each edit.
        cacheable = cacheable and local_server(request.url) is None
        if cacheable and (page := self.cache.get(request.url.text)) is not None:
            return page
        response = await self._fetch_in_time(request, signal, listed)
        if cacheable:
            self.cache.put(request.url.text, response)
        return response

    async def _fetch_in_time(self, request: WebRequest, signal: AbortSignal, listed: AllowList) -> WebResponse:
        started = self.clock.monotonic()
        exchange = _Exchange(self, request, listed)
        try:
            async with asyncio.timeout(request.timeout):
                return await signal.guard(exchange.make())
        except TimeoutError:
            elapsed = self.clock.monotonic() - started
            raise timed_out(exchange.url, request.timeout, elapsed) from None

    def _listed(self, own: WebUrl | None, approved: LocalServer | None) -> AllowList:
        def listed(url: WebUrl, address: IPAddress | None = None) -> bool:
            is_own = own is not None and (url.scheme, url.host, url.port) == (own.scheme, own.host, own.port)
            is_approved = approved is not None and approved.is_at(url, address)
            return is_own or is_approved or self.domains.list_local(url, address)

        return listed


class _Exchange:
    """One request with its redirects."""

    def __init__(self, web: WebAccess, request: WebRequest, listed: AllowList) -> None:
        self.url = request.url
        self._web = web
        self._request = request
        self._listed = listed
        self._left_site = False

    async def make(self) -> WebResponse:
        await asyncio.to_thread(importlib.import_module, "ollm_tui.core.web.transport")
        from ollm_tui.core.web import transport

        certificates = await asyncio.to_thread(transport.new_ssl_context)
        backend = self._web.guarded_backend(self._judge)
        limits = self._web.limits
        async with transport.new_pool(backend, certificates) as connections:
            for _ in range(limits.redirects + 1):
                response = await self._once(connections)
                target = self._redirect_target(response)
                if target is None:
                    return response
                if not self._may_follow(target):
                    return replace(response, redirect=target)
                self._turn_to(target, response.status)
        raise _failed(self._request.url, f"it redirects more than {limits.redirects} times", "Try another address.")

    def _judge(self, host: str, port: int, address: IPAddress) -> None:
        refuse_address(self.url, address, listed=self._listed(self.url, address))

    async def _once(self, connections: httpcore.AsyncConnectionPool) -> WebResponse:
        import httpcore

        url = self.url
        throttle = self._web.throttle
        listed = self._listed(url)
        server = url.host_and_port if listed else url.host  # each port of a machine nearby is a server of its own
        try:
            async with throttle.turn(server, spaced=not listed):
                response = await self._exchange(connections)
        except httpcore.TimeoutException as error:
            raise _too_slow(url, error, self._web.limits) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
            raise _failed(url, _network_reason(error)) from None
        except BodyTooLargeError as error:
            raise _failed(url, str(error), "Ask for a smaller part of it.") from None
        except ResponseBodyError as error:
            raise _failed(url, str(error)) from None
        throttle.note_answer(server, response.status, response.headers)
        return response

    async def _exchange(self, connections: httpcore.AsyncConnectionPool) -> WebResponse:
        from ollm_tui.core.web import transport

        limits = self._web.limits
        sent = transport.new_request(self._request, self.url, connect=limits.connect, read=limits.read)
        answer = await connections.handle_async_request(sent)
        try:
            headers = _joined(answer.headers)
            if sum(len(name) + len(value) for name, value in answer.headers) > limits.header_bytes:
                raise ResponseBodyError(f"its headers have more than {limits.header_bytes:,} bytes")
            body = BoundedBody(limits.body_bytes, headers.get("content-encoding", ""), headers.get("content-length"))
            async for chunk in transport.pieces(answer):
                body.feed(chunk)
            return WebResponse(
                url=self.url,
                status=answer.status,
                reason=reason_of(answer.status, transport.reason_phrase(answer)),
                headers=headers,
                body=body.finish(),
                fetched_at=self._web.clock.monotonic(),
                left_site=self._left_site,
            )
        finally:
            await answer.aclose()

    def _redirect_target(self, response: WebResponse) -> WebUrl | None:
        """Where an answer sends us, judged; None where it does not."""
        location = response.headers.get("location")
        if response.status not in (301, 302, 303, 307, 308) or not location:
            return None
        try:
            target = resolve_redirect(self.url, location)
            refuse_literal(target, listed=self._listed(target))
        except UrlNotAllowed as refusal:
            raise UrlNotAllowed(f"{self.url.text} redirects to {refusal.message}", refusal.details) from None
        except InvalidArguments as fault:
            raise _failed(self.url, f"it redirects to {visible(location[:200])}: {fault.message}") from None
        return target

    def _may_follow(self, target: WebUrl) -> bool:
        """Within the approved site, yes; elsewhere a listed host by GET, never into the local network."""
        if self._request.url.is_same_site(target):
            return True
        return self._request.method is HttpMethod.GET and self._web.allows(target) and not self._listed(target)

    def _turn_to(self, target: WebUrl, status: int) -> None:
        request = self._request
        if status == 303 or (status in (301, 302) and request.method is HttpMethod.POST):
            request = replace(request, method=HttpMethod.GET, body=None)
        if (target.scheme, target.host, target.port) != (self.url.scheme, self.url.host, self.url.port):
            request = replace(request, headers={})  # what was meant for one server is not for the next
        self._left_site = self._left_site or not request.url.is_same_site(target)
        self._request = request
        self.url = target


def timed_out(url: WebUrl, limit: float, elapsed: float) -> FetchTimeout:
    """Return the error of a request over its time limit; both times in seconds."""
    details: dict[str, JsonValue] = {"url": url.text, "limitSeconds": limit, "elapsedSeconds": round(elapsed, 3)}
    return FetchTimeout(
        f"{url.text}: no complete answer within the limit of {limit:g} s (gave up after {elapsed:.1f} s). "
        "Try again with a larger timeout, or another address.",
        details,
    )


def _too_slow(url: WebUrl, error: Exception, limits: WebLimits) -> FetchTimeout:
    connecting = type(error).__name__ == "ConnectTimeout"
    limit = limits.connect if connecting else limits.read
    what = "no connection" if connecting else "it went silent"
    details: dict[str, JsonValue] = {"url": url.text, "limitSeconds": limit, "elapsedSeconds": limit}
    return FetchTimeout(
        f"{url.text}: {what} for the limit of {limit:g} s (gave up after {limit:.1f} s). "
        "Try again, or another address.",
        details,
    )


def _failed(url: WebUrl, reason: str, remedy: str = "Check the address, or try again later.") -> ToolFailure:
    return FetchFailed(f"{url.text}: {reason}. {remedy}", {"url": url.text, "reason": reason})


def _network_reason(error: Exception) -> str:
    said = visible(str(error).strip().rstrip("."))[:300]
    return said or {"ConnectError": "no connection", "ReadError": "the connection broke"}.get(
        type(error).__name__, f"the exchange failed ({type(error).__name__})"
    )


def _joined(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1").lower(), visible(raw_value.decode("latin-1"))
        # Of a repeated Location or Content-Type the first counts; lists may go on.
        if name in headers and name in ("location", "content-type", "content-length"):
            continue
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
