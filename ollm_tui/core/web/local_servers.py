"""Servers of this machine or the local network that a person may let be fetched from while a session lasts."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from ollm_tui.core.web.addresses import IPAddress, Reach, reach_of
from ollm_tui.core.web.urls import WebUrl

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
        return all(address.is_loopback for address in self.addresses)

    def is_at(self, url: WebUrl, address: IPAddress | None) -> bool:
        """Whether `url` names this server, and `address` (None before any look-up) is one that it was listed with."""
        return (url.host, url.port) == (self.host, self.port) and (address is None or address in self.addresses)


def local_server(url: WebUrl) -> LocalServer | None:
    """The server that a person could list to have `url` fetched; None where it is public, or may never be fetched.

    Only what is known without a look-up: a literal private or loopback address, and `localhost`. Any other name can
    mean another address the next time it is asked.
    """
    if url.address is not None:
        reaches = frozenset({url.address}) if reach_of(url.address) is Reach.LOCAL else None
    else:
        reaches = _LOOPBACK if url.host == "localhost" or url.host.endswith(".localhost") else None
    return None if reaches is None else LocalServer(url.host, url.port, reaches)
