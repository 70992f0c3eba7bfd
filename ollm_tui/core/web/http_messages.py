"""What is sent to a web server and what comes back, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus

from ollm_tui import __version__
from ollm_tui.core.base.errors import InvalidArguments
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.secrets import variable_looks_secret
from ollm_tui.core.web.response_body import ACCEPT_ENCODING, media_type
from ollm_tui.core.web.urls import WebUrl

MAX_TIMEOUT = 120.0
"""Seconds a request may ask for."""

MAX_REQUEST_BODY = 1_000_000
"""Characters."""

_GIVEN_HEADERS_BYTES = 16 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

_OWN_HEADERS = {
    "user-agent": f"ollm-tui/{__version__}",
    "accept": "text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5",
    "accept-language": "en, *;q=0.5",
}

_CONNECTION = (
    "accept-encoding connection content-length expect host keep-alive te trailer transfer-encoding upgrade via"
)
_NEVER_GIVEN = frozenset(_CONNECTION.split())
"""Headers that say how the connection works; they are set by us."""


class HttpMethod(StrEnum):
    """What a request asks of the server."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    DELETE = "DELETE"


@dataclass(frozen=True)
class WebRequest:
    """One request; `timeout` in seconds, for everything from the look-up to the last byte."""

    url: WebUrl
    method: HttpMethod = HttpMethod.GET
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str | None = None
    timeout: float = 30.0

    def sent_headers(self) -> dict[str, str]:
        """Our own fixed set, and over it those that were given."""
        headers = dict(_OWN_HEADERS)
        if self.body is not None:
            headers["content-type"] = "application/json" if _looks_json(self.body) else "text/plain; charset=utf-8"
        headers.update({name.lower(): value for name, value in self.headers.items()})
        headers["accept-encoding"] = ACCEPT_ENCODING
        return headers


@dataclass(frozen=True)
class WebResponse:
    """A whole answer; header names are lower-case, repeated ones joined by commas."""

    url: WebUrl
    """Where it came from, after redirects."""
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    fetched_at: float
    """By the clock's `monotonic`."""
    redirect: WebUrl | None = None
    """A redirect to another host that was not followed."""
    left_site: bool = False
    """Whether a redirect to another (allowed) host was followed."""

    @property
    def content_type(self) -> str:
        """The Content-Type header."""
        return self.headers.get("content-type", "")

    @property
    def media_type(self) -> str:
        """The media type without parameters."""
        return media_type(self.content_type)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise InvalidArguments for headers that are malformed, too many, or ours to set."""
    size = 0
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise InvalidArguments(f"headers: {visible(name[:100])!r} is no header name.")
        if not _VALUE.fullmatch(value):
            raise InvalidArguments(f"headers: the value of {name} holds characters that may not stand in a header.")
        if name.lower() in _NEVER_GIVEN or name.lower().startswith(("proxy-", "sec-")):
            raise InvalidArguments(f"headers: {name} is set by the program itself. Leave it out.")
        size += len(name) + len(value)
    if size > _GIVEN_HEADERS_BYTES:
        raise InvalidArguments(f"headers: {size} bytes; at most {_GIVEN_HEADERS_BYTES} are sent.")


def carries_credentials(header: str) -> bool:
    """Whether a header of that name is there to say who one is."""
    return header.lower() in ("authorization", "cookie") or variable_looks_secret(header.replace("-", "_"))


def reason_of(status: int, phrase: str = "") -> str:
    """Return what a status means in words: the server's own, else the standard's."""
    said = visible(phrase.strip())[:100]
    if said:
        return said
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


def _looks_json(body: str) -> bool:
    return body.lstrip()[:1] in ("{", "[")
