"""The one way providers talk HTTP: connects, retries before the first byte, times out, cancels at once.

httpx is imported with the first request, in a thread, so that neither importing the providers nor starting the
screen pays for it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ollm_tui.agent.providers.json_values import parse_json
from ollm_tui.agent.providers.provider import JsonObject, ProviderError, ProviderErrorKind, ProviderNotice
from ollm_tui.agent.providers.provider_errors import ServerErrorReply, failure_from, read_error_body, shown
from ollm_tui.agent.providers.server_address import ServerAddress
from ollm_tui.core.base.abort import AbortSignal

if TYPE_CHECKING:
    import httpx

_ERROR_BODY_BYTES = 64 * 1024
_ANSWER_BYTES = 32 * 1024 * 1024
_SHORTEST_SECRET = 6
"""Shorter keys (`none`, `x`) are placeholders for servers that want one; hiding them would garble messages."""


@dataclass(frozen=True)
class Timeouts:
    """How long to wait, in seconds. There is no total: a slow reply is a reply."""

    connect: float = 5.0
    first_byte: float = 300.0
    """Loading a model and reading a long prompt send nothing for minutes."""
    idle: float = 120.0
    """Between two pieces of a reply."""
    query: float = 10.0
    """For questions about models, in all."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often to try again before anything of the answer was seen; never afterwards."""

    attempts: int = 3
    first_delay: float = 0.5
    """Seconds; doubles with each attempt unless the server says how long."""
    longest_wait: float = 60.0
    """A server that asks for more is not waited for."""
    loading: float = 300.0
    """How long to wait for a server that is loading its model, in seconds."""


class RetryRequestError(Exception):
    """The same request is worth sending once more with something left out; `notice` is for the person."""

    def __init__(self, notice: str | None) -> None:
        super().__init__(notice)
        self.notice = notice


class HttpConnection:
    """Requests to one server. The API key goes into a header and nowhere else."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        api_key: str | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
        remedy: str = "Start the server, or check its address.",
    ) -> None:
        self.address = address
        self.timeouts = timeouts or Timeouts()
        self._retries = retries or RetryPolicy()
        self._remedy = remedy
        self._key = _checked_key(api_key)
        self._client: httpx.AsyncClient | None = None

    async def query(self, path: str, body: JsonObject | None = None, *, signal: AbortSignal | None = None) -> JsonValue:
        """Ask for a JSON answer: GET, or POST with a body. Raises ProviderFailure; never tries again."""
        signal = signal or AbortSignal()
        url = self.address.at(path)
        client = await self._opened()
        import httpx

        try:
            async with asyncio.timeout(self.timeouts.query):
                request = client.build_request("GET" if body is None else "POST", url, content=_encoded(body))
                response = await _sent(client, request, signal)
                try:
                    content = await signal.guard(_read(response.aiter_bytes(), _ANSWER_BYTES))
                finally:
                    await response.aclose()
        except TimeoutError:
            raise ProviderError(
                ProviderErrorKind.TIMEOUT,
                f"{url} did not answer within {self.timeouts.query:g} s. "
                "Look at the log of the server, then try again.",
                url=url,
            ) from None
        except httpx.HTTPError as error:
            raise self._broken(url, error, answered=False) from None
        if not response.is_success:
            raise self.failure(read_error_body(content), url=url, status=response.status_code)
        try:
            return parse_json(content)
        except ValueError:
            raise self._no_model_server(url) from None

    async def stream(
        self, path: str, body: JsonObject, *, model: str | None, signal: AbortSignal
    ) -> AsyncGenerator[bytes | ProviderNotice, None]:
        """The bytes of a streamed answer, and a notice before each new attempt.

        Raises OperationCancelled on abort, with the connection closed, and ProviderFailure for all else.
        """
        url = self.address.at(path)
        attempt, waited = 0, 0.0
        while True:
            signal.throw_if_aborted()
            try:
                response, first, rest = await self._open(url, body, model, signal)
                break
            except ProviderError as failure:
                delay = self._delay(failure, attempt, waited)
                if delay is None:
                    raise
                if failure.kind is not ProviderErrorKind.LOADING or not waited:
                    yield ProviderNotice(self._again(failure, delay, attempt))
                attempt += failure.kind is not ProviderErrorKind.LOADING
            waited += delay
            await signal.guard(asyncio.sleep(delay))
        try:
            if first:
                yield first
            while chunk := await self._next(url, rest, signal):
                yield chunk
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def failure(
        self,
        error: ServerErrorReply,
        *,
        url: str,
        status: int | None,
        model: str | None = None,
        retry_after: float | None = None,
    ) -> ProviderError:
        """The typed failure for an error the server reported, without the API key should it repeat that."""
        hidden = replace(error, message=self._hidden(error.message))
        return failure_from(hidden, url=url, status=status, model=model, retry_after=retry_after)

    async def _open(
        self, url: str, body: JsonObject, model: str | None, signal: AbortSignal
    ) -> tuple[httpx.Response, bytes, AsyncIterator[bytes]]:
        """Send, and wait for the first bytes: until these are there, the request may be sent again."""
        client = await self._opened()
        import httpx

        limit = self.timeouts.first_byte
        response: httpx.Response | None = None
        try:
            async with asyncio.timeout(limit):
                request = client.build_request("POST", url, content=_encoded(body))
                response = await _sent(client, request, signal)
                rest = response.aiter_bytes()
                if response.is_success:
                    return response, await signal.guard(anext(rest, b"")), rest
                content = await signal.guard(_read(rest, _ERROR_BODY_BYTES))
        except BaseException as error:
            if response is not None:
                await response.aclose()
            if isinstance(error, TimeoutError):
                raise self._timed_out(url, limit) from None
            if isinstance(error, httpx.HTTPError):
                raise self._broken(url, error, answered=False) from None
            raise
        await response.aclose()
        raise self._refusal(url, response, content, model)

    async def _next(self, url: str, rest: AsyncIterator[bytes], signal: AbortSignal) -> bytes:
        import httpx

        try:
            async with asyncio.timeout(self.timeouts.idle):
                return await signal.guard(anext(rest, b""))
        except TimeoutError:
            raise ProviderError(
                ProviderErrorKind.TIMEOUT,
                f"{url} stopped in the middle of its answer: nothing came for {self.timeouts.idle:g} s. "
                "What came before is kept; try again.",
                url=url,
            ) from None
        except httpx.HTTPError as error:
            raise self._broken(url, error, answered=True) from None

    async def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            await asyncio.to_thread(importlib.import_module, "httpx")
            self._client = self._new_client()
        return self._client

    def _new_client(self) -> httpx.AsyncClient:
        import httpx

        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        return httpx.AsyncClient(
            auth=self._sign if self._key else self.address.credentials,
            headers=headers,
            # idle and first-byte limits are kept by `stream`, which knows which of the two applies
            timeout=httpx.Timeout(None, connect=self.timeouts.connect),
            follow_redirects=False,
            # certificates take tens of milliseconds to load, and nothing on this machine needs them
            verify=not self.address.loopback or self.address.url.startswith("https:"),
            # proxy variables are for the net beyond this machine; a local server is never reached through them
            trust_env=not self.address.loopback,
        )

    def _sign(self, request: httpx.Request) -> httpx.Request:
        request.headers["Authorization"] = f"Bearer {self._key}"
        return request

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key and len(self._key) >= _SHORTEST_SECRET else text

    def _delay(self, failure: ProviderError, attempt: int, waited: float) -> float | None:
        """Seconds until the next attempt, None where there is none."""
        if not failure.retryable:
            return None
        if failure.kind is ProviderErrorKind.LOADING:
            return min(self._retries.first_delay * 2, 2.0) if waited < self._retries.loading else None
        delay = failure.retry_after if failure.retry_after is not None else self._retries.first_delay * 2**attempt
        return delay if attempt < self._retries.attempts and delay <= self._retries.longest_wait else None

    def _again(self, failure: ProviderError, delay: float, attempt: int) -> str:
        if failure.kind is ProviderErrorKind.LOADING:
            return f"{self.address} is loading the model; waiting for it, {self._retries.loading:g} s at most."
        reason = f"HTTP {failure.status}" if failure.status else "the connection broke"
        return f"{self.address}: {reason}; trying again in {delay:g} s ({attempt + 1} of {self._retries.attempts})."

    def _refusal(self, url: str, response: httpx.Response, content: bytes, model: str | None) -> ProviderError:
        error = read_error_body(content)
        if response.is_redirect:
            error = replace(error, message=f"redirects to {response.headers.get('location', 'nowhere')}")
        wait = _seconds(response.headers.get("retry-after"))
        return self.failure(error, url=url, status=response.status_code, model=model, retry_after=wait)

    def _timed_out(self, url: str, limit: float) -> ProviderError:
        return ProviderError(
            ProviderErrorKind.TIMEOUT,
            f"{url} accepted the request, but nothing came for {limit:g} s. The model may be too large for the "
            "machine; look at the log of the server, then try again.",
            url=url,
        )

    def _broken(self, url: str, error: httpx.HTTPError, *, answered: bool) -> ProviderError:
        """The failure for a connection that could not be made, or ended where it should not."""
        import httpx

        reason = self._hidden(_root_reason(error))
        if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError | httpx.ProxyError | httpx.UnsupportedProtocol):
            if isinstance(error, httpx.ConnectTimeout):
                reason = f"no answer within {self.timeouts.connect:g} s"
            return ProviderError(
                ProviderErrorKind.UNREACHABLE, f"{url} cannot be reached: {reason}. {self._remedy}", url=url
            )
        if answered:
            return cut_off(url, reason)
        if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
            return ProviderError(
                ProviderErrorKind.CUT_OFF,
                f"{url} closed the connection without an answer ({reason}). "
                "Look at the log of the server, then try again.",
                retryable=True,
                url=url,
            )
        return ProviderError(
            ProviderErrorKind.BAD_REPLY, f"{url} sent what is no HTTP answer ({reason}). {self._remedy}", url=url
        )

    def _no_model_server(self, url: str) -> ProviderError:
        return ProviderError(
            ProviderErrorKind.BAD_REPLY,
            f"{url} did not answer with JSON; this is no model server. {self._remedy}",
            url=url,
        )


def cut_off(url: str, reason: str | None = None) -> ProviderError:
    """A reply that ended before its end; its part is kept by whoever collected it."""
    because = f" ({reason})" if reason else ""
    return ProviderError(
        ProviderErrorKind.CUT_OFF,
        f"{url} closed the connection early{because}; the answer is not complete. What came before is kept; try again.",
        url=url,
    )


def bad_reply(url: str, reason: str) -> ProviderError:
    """A reply that is not what a server of this kind sends."""
    return ProviderError(
        ProviderErrorKind.BAD_REPLY,
        f"{url} sent a reply that cannot be read: {shown(reason)}. "
        "Check that the base URL is a model server of this kind.",
        url=url,
    )


def _checked_key(api_key: str | None) -> str | None:
    key = (api_key or "").strip()
    if any(not "!" <= character <= "~" for character in key):
        raise ValueError("the API key holds blanks or characters that cannot stand in a header; copy it again")
    return key or None


def _encoded(body: JsonObject | None) -> bytes | None:
    """The same message always gives the same bytes, so that servers can reuse what they have read before."""
    if body is None:
        return None
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


async def _sent(client: httpx.AsyncClient, request: httpx.Request, signal: AbortSignal) -> httpx.Response:
    """Send, and close an answer that arrives just as the task is cancelled; it would stay open unseen."""
    sending = asyncio.ensure_future(client.send(request, stream=True))
    try:
        return await signal.guard(sending)
    except asyncio.CancelledError:
        if sending.done() and not sending.cancelled() and sending.exception() is None:
            await sending.result().aclose()
        raise


async def _read(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) >= limit:
            break
    return bytes(content[:limit])


def _seconds(header: str | None) -> float | None:
    with suppress(TypeError, ValueError):
        seconds = float(header or "")
        return seconds if 0 <= seconds < float("inf") else None
    return None


def _root_reason(error: BaseException) -> str:
    """The words of the operating system where it has some, else those of the library."""
    seen: BaseException | None = error
    reason = str(error) or type(error).__name__
    while seen is not None:
        if isinstance(seen, ConnectionRefusedError):
            return "nothing listens there"
        if isinstance(seen, OSError) and seen.strerror and not seen.strerror.startswith("All connection"):
            reason = seen.strerror
        seen = seen.__cause__ or seen.__context__
    return shown(reason)
