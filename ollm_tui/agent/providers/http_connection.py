"""HTTP for providers: connect, retry before the first byte, time out, cancel at once.

httpx is imported with the first request, in a thread, so that start-up does not pay for it.
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
from ollm_tui.agent.providers.provider import ModelLoading, ProviderError, ProviderErrorKind, ProviderNotice
from ollm_tui.agent.providers.provider_errors import ServerErrorReply, error_from, read_error_body, shown
from ollm_tui.agent.providers.retry import RetryPolicy
from ollm_tui.agent.providers.server_address import ServerAddress
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject

if TYPE_CHECKING:
    import httpx

_ERROR_BODY_BYTES = 64 * 1024
_ANSWER_BYTES = 32 * 1024 * 1024
_SHORTEST_SECRET = 6
"""Shorter keys (`none`, `x`) are placeholders; hiding them would garble messages."""


@dataclass(frozen=True)
class Timeouts:
    """How long to wait, in seconds; there is no total, since a slow reply is a reply."""

    connect: float = 5.0
    first_byte: float = 300.0
    """Loading a model and reading a long prompt send nothing for minutes."""
    idle: float = 60.0
    """Between two pieces of a reply; what keeps the connection alive is none."""
    query: float = 10.0
    """For questions about models, in all."""


class HttpConnection:
    """Requests to one server; the API key goes into a header and nowhere else."""

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
        """Return a JSON answer to GET, or to POST with a body; raise ProviderError, without retries."""
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
            text = f"did not answer within {self.timeouts.query:g} s. See the log of the server, then try again."
            raise ProviderError(ProviderErrorKind.TIMEOUT, f"{url} {text}", url=url) from None
        except httpx.HTTPError as error:
            raise self._broken(url, error, answered=False) from None
        if not response.is_success:
            raise self.error_from(read_error_body(content), url=url, status=response.status_code)
        try:
            return parse_json(content)
        except ValueError:
            text = f"{url} did not answer with JSON; this is not a model server. {self._remedy}"
            raise ProviderError(ProviderErrorKind.BAD_REPLY, text, url=url) from None

    async def stream(
        self, path: str, body: JsonObject, *, model: str | None, signal: AbortSignal
    ) -> AsyncGenerator[bytes | ProviderNotice | ModelLoading, None]:
        """Yield the bytes of a streamed answer; before each new attempt a notice, and that the model is being loaded.

        Raises:
            OperationCancelled: The signal was aborted; the connection is closed.
            ProviderError: Everything else that went wrong.
        """
        url = self.address.at(path)
        attempt, waited = 0, 0.0
        while True:
            signal.throw_if_aborted()
            try:
                response, first, rest = await self._open(url, body, model, signal)
                break
            except ProviderError as failure:
                delay = self._retries.delay(failure, attempt, waited)
                if delay is None:
                    raise
                if failure.kind is not ProviderErrorKind.LOADING or not waited:
                    yield ProviderNotice(self._retries.notice(str(self.address), failure, delay, attempt))
                if failure.kind is ProviderErrorKind.LOADING:
                    yield ModelLoading(model or "")
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
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def error_from(
        self,
        error: ServerErrorReply,
        *,
        url: str,
        status: int | None,
        model: str | None = None,
        retry_after: float | None = None,
    ) -> ProviderError:
        """Return the typed error for one that the server reported, without the API key."""
        hidden = replace(error, message=self._hidden(error.message))
        return error_from(hidden, url=url, status=status, model=model, retry_after=retry_after)

    async def _open(
        self, url: str, body: JsonObject, model: str | None, signal: AbortSignal
    ) -> tuple[httpx.Response, bytes, AsyncIterator[bytes]]:
        """Send, and wait for the first bytes; until then the request may be sent again."""
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
                text = (
                    f"{url} accepted the request, but nothing came for {limit:g} s. "
                    "The model may be too large for the machine; see the log of the server, then try again."
                )
                raise ProviderError(ProviderErrorKind.TIMEOUT, text, url=url) from None
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
            raise stalled(url, self.timeouts.idle) from None
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
            # the idle and first-byte limits are watched by `stream`, which knows which of the two applies
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

    def _refusal(self, url: str, response: httpx.Response, content: bytes, model: str | None) -> ProviderError:
        error = read_error_body(content)
        if response.is_redirect:
            error = replace(error, message=f"redirects to {response.headers.get('location', 'nowhere')}")
        wait = _seconds(response.headers.get("retry-after"))
        return self.error_from(error, url=url, status=response.status_code, model=model, retry_after=wait)

    def _broken(self, url: str, error: httpx.HTTPError, *, answered: bool) -> ProviderError:
        """Return the error for a connection that failed, or ended too early."""
        import httpx

        reason = self._hidden(_root_reason(error))
        if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError | httpx.ProxyError | httpx.UnsupportedProtocol):
            if isinstance(error, httpx.ConnectTimeout):
                reason = f"no answer within {self.timeouts.connect:g} s"
            text = f"{url} cannot be reached: {reason}. {self._remedy}"
            return ProviderError(ProviderErrorKind.UNREACHABLE, text, url=url)
        if answered:
            return cut_off(url, reason)
        if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
            text = f"{url} closed the connection without an answer ({reason}). See its log, then try again."
            return ProviderError(ProviderErrorKind.CUT_OFF, text, retryable=True, url=url)
        text = f"{url} sent something that is not an HTTP answer ({reason}). {self._remedy}"
        return ProviderError(ProviderErrorKind.BAD_REPLY, text, url=url)


def cut_off(url: str, reason: str | None = None) -> ProviderError:
    """Return the error for a reply that ended early."""
    because = f" ({reason})" if reason else ""
    text = f"closed the connection early{because}; the answer is not complete. What came before is saved; try again."
    return ProviderError(ProviderErrorKind.CUT_OFF, f"{url} {text}", url=url)


def stalled(url: str, seconds: float) -> ProviderError:
    """Return the error for a reply that does not go on."""
    text = f"stopped in the middle of its answer: nothing came for {seconds:g} s. What came before is saved; try again."
    return ProviderError(ProviderErrorKind.TIMEOUT, f"{url} {text}", url=url)


def bad_reply(url: str, reason: str) -> ProviderError:
    """Return the error for a reply that a server of this kind does not send."""
    text = f"sent a reply that cannot be read: {shown(reason)}. Check that the base URL is a model server of this kind."
    return ProviderError(ProviderErrorKind.BAD_REPLY, f"{url} {text}", url=url)


def _checked_key(api_key: str | None) -> str | None:
    key = (api_key or "").strip()
    if any(not "!" <= character <= "~" for character in key):
        raise ValueError("the API key holds blanks or characters that cannot stand in a header; copy it again")
    return key or None


def _encoded(body: JsonObject | None) -> bytes | None:
    """Return the same bytes for the same message, so that servers can reuse their cache."""
    if body is None:
        return None
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


async def _sent(client: httpx.AsyncClient, request: httpx.Request, signal: AbortSignal) -> httpx.Response:
    """Send, and close an answer that arrives just as the task is cancelled."""
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
    """Return the operating system's reason where there is one, else the library's."""
    seen: BaseException | None = error
    reason = str(error) or type(error).__name__
    while seen is not None:
        if isinstance(seen, ConnectionRefusedError):
            return "nothing listens there"
        if isinstance(seen, OSError) and seen.strerror and not seen.strerror.startswith("All connection"):
            reason = seen.strerror
        seen = seen.__cause__ or seen.__context__
    return shown(reason)
