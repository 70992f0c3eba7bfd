"""`http_fetch`: send one HTTP request and return the raw response (004)."""

from __future__ import annotations

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import Artifact, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.base import Effect, Tool, ToolGroup
from ollm_tui.core.tools.web_request import (
    MAX_SHOWN_BODY,
    FetchData,
    RequestInvocation,
    RequestParameters,
    flat_headers,
)
from ollm_tui.core.web.http_messages import HttpMethod
from ollm_tui.core.web.readable import read_raw
from ollm_tui.core.web.untrusted_text import UNTRUSTED_NOTE, WebResult


class HttpFetchParameters(RequestParameters):
    """What to send, and where."""

    method: HttpMethod = Field(HttpMethod.GET)
    body: str | None = None


class HttpFetchInvocation(RequestInvocation[HttpFetchParameters]):
    """Sends one request."""

    @property
    def method(self) -> HttpMethod:
        """Return the method to send."""
        return self.params.method

    @property
    def body(self) -> str | None:
        """Return the body to send; None for none."""
        return self.params.body

    def get_description(self) -> str:
        """Return one line about the call."""
        return f"{self.params.method} {visible(self.params.url)}"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Send the request; any status is a result.

        Raises FetchFailed, FetchTimeout, UrlNotAllowed.
        """
        signal.throw_if_aborted()
        response = await self.web.fetch(self.request(), signal, approved=self.approved_server)
        reading = await read_raw(response, self.web.downloads, signal)
        omitted = max(0, len(reading.text) - MAX_SHOWN_BODY)
        text = f"HTTP {response.status}\n{reading.text[:MAX_SHOWN_BODY]}"
        if omitted:
            text += f"\n\n[Content truncated: {omitted} characters omitted]"
        notes = [UNTRUSTED_NOTE]
        if response.redirect is not None:
            notes.insert(0, f"redirects to another host, which was not followed: {response.redirect.text}")
        return WebResult(
            source=response.url.text,
            llm_content=text,
            return_display=f"HTTP {response.status} {response.reason}, {len(response.body)} bytes",
            data=FetchData(
                status=response.status,
                headers=flat_headers(response),
                body=reading.body,
                url=response.url.text,
                encoding="base64" if reading.is_base64 else "text",
                path=None if reading.path is None else str(reading.path),
            ),
            notes=tuple(notes),
            truncated=omitted > 0,
            artifacts=() if reading.path is None else (Artifact(kind="download", path=str(reading.path)),),
        )


HTTP_FETCH = Tool(
    name="http_fetch",
    display_name="HTTP Request",
    description="Send one HTTP request; returns status and body.",
    group=ToolGroup.NET,
    effect=Effect.SENDS,
    parameters=HttpFetchParameters,
    invocation=HttpFetchInvocation,
    risk=Risk.MEDIUM,
    risk_of_call=lambda arguments: Risk.MEDIUM if arguments.get("method", "GET") == "GET" else Risk.HIGH,
    returns=FetchData,
)
