"""Addresses of model servers: OLLAMA_HOST and base URLs in one form, without credentials."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

OLLAMA_PORT = 11434
_SERVER_BINDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses a server listens on, and where its clients find it."""


class ServerAddressError(ValueError):
    """An invalid address of a model server; the message quotes it and shows the form."""


@dataclass(frozen=True)
class ServerAddress:
    """Where a model server is; `url` has no trailing slash and no credentials."""

    url: str
    loopback: bool
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    """User and password that stood in the address."""

    def __str__(self) -> str:
        return self.url

    def at(self, path: str) -> str:
        """Return the URL of a path below the address."""
        return f"{self.url}/{path.lstrip('/')}"


def ollama_address(text: str | None) -> ServerAddress:
    """Read an OLLAMA_HOST: `host`, `host:port`, `:port`, `http(s)://host[:port][/path]`, `[::1]`; empty is the default.

    As the Ollama client does it: port 11434 unless given, 80 or 443 where a scheme is written without a port. A bind
    address (0.0.0.0) becomes the loopback. A path of the API (`/api`, `/v1`) is taken off.

    Raises:
        ServerAddressError: It is not an address.
    """
    written = (text or "").strip().strip("'\"")
    if not written:
        return ServerAddress(f"http://127.0.0.1:{OLLAMA_PORT}", loopback=True)
    scheme, separator, _ = written.partition("://")
    if not separator:
        bare = f"[{written}]" if isinstance(_ip(written), ipaddress.IPv6Address) else written
        return _address(f"http://{bare}", OLLAMA_PORT, ("/api", "/v1"), written)
    default = 443 if scheme.lower() == "https" else 80
    return _address(written, default, ("/api", "/v1"), written)


def openai_address(text: str) -> ServerAddress:
    """Read the base URL of an OpenAI-compatible server; without a path it gets `/v1`.

    Raises:
        ServerAddressError: It is not an address.
    """
    written = text.strip().strip("'\"")
    address = _address(written if "://" in written else f"http://{written}", None, ("/chat/completions",), written)
    if urlsplit(address.url).path:
        return address
    return ServerAddress(f"{address.url}/v1", address.loopback, address.credentials)


def _address(url: str, default_port: int | None, endings: tuple[str, ...], written: str) -> ServerAddress:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _invalid(written, str(error)) from None
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https"):
        raise _invalid(written, f"the scheme is {parts.scheme!r}")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise _invalid(written, "it holds blanks or control characters")
    host = (parts.hostname or "127.0.0.1").lower()
    host = _SERVER_BINDS.get(host, host)
    port = port or default_port
    path = parts.path.rstrip("/")
    for ending in endings:
        path = path.removesuffix(ending)
    shown_host = f"[{host}]" if ":" in host else host
    standard = {"http": 80, "https": 443}[scheme]
    netloc = shown_host if port is None or port == standard else f"{shown_host}:{port}"
    address = _ip(host)
    loopback = address.is_loopback if address else host == "localhost" or host.endswith(".localhost")
    credentials = (parts.username, parts.password or "") if parts.username else None
    return ServerAddress(f"{scheme}://{netloc}{path}", loopback, credentials)


def _invalid(written: str, why: str) -> ServerAddressError:
    without_password = written.rsplit("@", 1)[-1]
    text = f"{without_password!r} is not an address of a model server ({why}); write http://host:port"
    return ServerAddressError(text)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
