"""Which network addresses may be connected to, embedded forms included (security rules for fetching)."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

IPAddress: TypeAlias = IPv4Address | IPv6Address


class AddressReach(StrEnum):
    """What may be done with an address."""

    PUBLIC = "public"
    LOCAL = "local"
    """Private or loopback: only where `allow_domains` lists it as host:port."""
    NEVER = "never"
    """Link-local, metadata, multicast, unspecified, reserved: never, and it cannot be listed."""


def _v4(blocks: str) -> tuple[IPv4Network, ...]:
    return tuple(map(IPv4Network, blocks.split()))


def _v6(blocks: str) -> tuple[IPv6Network, ...]:
    return tuple(map(IPv6Network, blocks.split()))


_LOCAL_V4 = _v4("10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.168.0.0/16")
_LOCAL_V6 = _v6("::1/128 fc00::/7")
# Metadata services outside the link-local blocks: at a shared, a public and two private addresses.
_METADATA_V4 = _v4("100.100.100.200/32 168.63.129.16/32")
_METADATA_V6 = _v6("fd00:ec2::254/128 fd20:ce::254/128")
_NEVER_V4 = _METADATA_V4 + _v4(
    "0.0.0.0/8 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
    "224.0.0.0/3"
)
_NEVER_V6 = _v6(
    "::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 fe80::/10 fec0::/10 ff00::/8"
)
_TRANSLATED = IPv6Network("64:ff9b::/96")

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def reach_of(address: IPAddress) -> AddressReach:
    """Judge an address. `is_global` alone is not enough: it is true for multicast and several embedded forms."""
    if isinstance(address, IPv6Address):
        return _reach_v6(address)
    if any(address in block for block in _NEVER_V4):
        return AddressReach.NEVER
    if any(address in block for block in _LOCAL_V4):
        return AddressReach.LOCAL
    return AddressReach.PUBLIC if address.is_global else AddressReach.NEVER


def parse_address(text: str) -> IPAddress | None:
    """Return the address that `text` (from a resolver) spells; None where it is none or carries a zone."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id else address


def looks_numeric(host: str) -> bool:
    """Whether the system's resolver would read `host` as a number instead of looking it up: its last part is one."""
    return _NUMBER.fullmatch(host.rstrip(".").rsplit(".", 1)[-1]) is not None


def parse_number_host(host: str) -> IPv4Address:
    """Return an IPv4 address in any spelling that resolvers take. Raises ValueError."""
    parts = host.rstrip(".").split(".")
    if not 1 <= len(parts) <= 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise ValueError(f"{host} is no IPv4 address")
    numbers = [_number(part, host) for part in parts]
    *leading, last = numbers
    if any(number > 255 for number in leading) or last >= 256 ** (5 - len(numbers)):
        raise ValueError(f"{host} is no IPv4 address: a part is too large")
    value = last + sum(number << 8 * (3 - index) for index, number in enumerate(leading))
    return IPv4Address(value)


def parse_v6(text: str) -> IPv6Address:
    """Return what stands between brackets in a URL. Raises ValueError, for a zone id too."""
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise ValueError(str(error)) from None
    if address.scope_id is not None:
        raise ValueError("a zone id is not accepted")
    return address


def _reach_v6(address: IPv6Address) -> AddressReach:
    if address.ipv4_mapped is not None:
        return reach_of(address.ipv4_mapped)
    if address in _TRANSLATED:
        # Networks without IPv4 reach the public one by this prefix; a private target behind it is an attack.
        embedded = reach_of(IPv4Address(int(address) & 0xFFFFFFFF))
        return AddressReach.PUBLIC if embedded is AddressReach.PUBLIC else AddressReach.NEVER
    if any(address in block for block in _METADATA_V6):
        return AddressReach.NEVER
    if any(address in block for block in _LOCAL_V6):
        return AddressReach.LOCAL
    if any(address in block for block in _NEVER_V6):
        return AddressReach.NEVER
    return AddressReach.PUBLIC if address.is_global else AddressReach.NEVER


def _number(part: str, host: str) -> int:
    if len(part) > 40:
        raise ValueError(f"{host} is no IPv4 address: a part is too long")
    try:
        if part[:2] in ("0x", "0X"):
            return int(part[2:] or "0", 16)
        return int(part, 8) if part.startswith("0") and len(part) > 1 else int(part)
    except ValueError:
        raise ValueError(f"{host} is no IPv4 address") from None
