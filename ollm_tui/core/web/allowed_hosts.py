"""The hosts a person allowed: `[web] allow_domains` (contract section 2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.ip_addresses import AddressReach, IPAddress, looks_numeric, parse_number_host, parse_v6, reach_of
from ollm_tui.core.web.urls import WebUrl, ascii_host, is_local_name

USUAL_PORTS = frozenset({80, 443, 8080, 8443})
"""What an entry without a port covers; other ports of the same host ask."""

_PORT = re.compile(r"(.*):([0-9]{1,5})")


@dataclass(frozen=True)
class AllowedDomain:
    """One entry. Without `port` it covers the usual ones; `below` means subdomains only."""

    host: str
    below: bool = False
    port: int | None = None

    def covers(self, url: WebUrl) -> bool:
        """Return whether the entry covers a URL."""
        if (url.port not in USUAL_PORTS) if self.port is None else (url.port != self.port):
            return False
        return url.host.endswith(f".{self.host}") if self.below else url.host == self.host

    def lists_local(self, url: WebUrl) -> bool:
        """Whether the entry opens a private or loopback address: by its exact host and port alone."""
        return self.port is not None and not self.below and self.covers(url)


class AllowedDomains:
    """All usable entries, and what is listed while the session lasts; `faults` says what is wrong with the others."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self.errors: list[str] = []
        self._domains: list[AllowedDomain] = []
        self._session: set[LocalServer] = set()
        for entry in entries:
            try:
                self._domains.append(parse_domain(entry))
            except ValueError as error:
                self.errors.append(str(error))

    def cover(self, url: WebUrl) -> bool:
        """Whether a GET of `url` runs unasked in the preset `balanced`."""
        if self.list_local(url):
            return True
        if url.has_local_name or (url.address is not None and reach_of(url.address) is not AddressReach.PUBLIC):
            return False
        return any(domain.covers(url) for domain in self._domains)

    def list_local(self, url: WebUrl, address: IPAddress | None = None) -> bool:
        """Whether the person lists this host and port, so that it may be at a private or loopback `address`."""
        if any(domain.lists_local(url) for domain in self._domains):
            return True
        return any(server.is_at(url, address) for server in self._session)

    def list_for_session(self, server: LocalServer) -> None:
        """Exactly this server, until the session ends."""
        self._session.add(server)

    def forget_session(self) -> None:
        """Unlist what was listed for the session: another one begins."""
        self._session.clear()


def parse_domain(entry: str) -> AllowedDomain:
    """Read `host`, `*.host` or `host:port`. Raises ValueError that says what is wrong with it."""
    text = entry.strip()
    shown = visible(entry)
    below = text.startswith("*.")
    rest = text[2:] if below else text
    host, port = _split(rest)
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"allow_domains: {shown}: {port} is no port")
    try:
        name, reach = _host(host)
    except ValueError as error:
        raise ValueError(f"allow_domains: {shown}: {error}. Write a host, *.host or host:port") from None
    if reach is AddressReach.NEVER:
        raise ValueError(f"allow_domains: {shown}: link-local, metadata and reserved addresses can never be listed")
    local = reach is AddressReach.LOCAL or (reach is None and is_local_name(name))
    if local and (port is None or below):
        raise ValueError(f"allow_domains: {shown}: a private or loopback address is listed with its port, as host:port")
    return AllowedDomain(name, below, port)


def _split(text: str) -> tuple[str, int | None]:
    bracketed = text.endswith("]")
    found = None if bracketed else _PORT.fullmatch(text)
    return (found[1], int(found[2])) if found else (text, None)


def _host(text: str) -> tuple[str, AddressReach | None]:
    if text.startswith("[") and text.endswith("]"):
        v6 = parse_v6(text[1:-1])
        return str(v6), reach_of(v6)
    host = ascii_host(text)
    if looks_numeric(host):
        number = parse_number_host(host)
        return str(number), reach_of(number)
    return host, None


_LOOPBACK: frozenset[IPAddress] = frozenset({IPv4Address("127.0.0.1"), IPv6Address("::1")})


@dataclass(frozen=True)
class LocalServer:
    """One host and port, and the addresses it may be connected to at: no other port, no wider range."""

    host: str
    port: int
    addresses: frozenset[IPAddress]

    @property
    def text(self) -> str:
        """As an entry of `allow_domains` is written."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def on_this_machine(self) -> bool:
        """Whether all its addresses are loopback."""
        return all(address.is_loopback for address in self.addresses)

    def is_at(self, url: WebUrl, address: IPAddress | None) -> bool:
        """Whether `url` names this server, and `address` (None before any look-up) is one that it was listed with."""
        return (url.host, url.port) == (self.host, self.port) and (address is None or address in self.addresses)


def local_server(url: WebUrl) -> LocalServer | None:
    """Return the server to list so that `url` may be fetched; None if it is public or never allowed.

    Only what is known without a look-up: a literal private or loopback address, and `localhost`. Any other name can
    mean another address the next time it is asked.
    """
    if url.address is not None:
        reaches = frozenset({url.address}) if reach_of(url.address) is AddressReach.LOCAL else None
    else:
        reaches = _LOOPBACK if url.host == "localhost" or url.host.endswith(".localhost") else None
    return None if reaches is None else LocalServer(url.host, url.port, reaches)
