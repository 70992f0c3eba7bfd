"""URLs as they are judged and requested: one parser, so that what is checked is what is fetched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from urllib.parse import quote, urljoin

from pydantic import JsonValue

from ollm_tui.core.base.errors import InvalidArguments, ToolFailure, UrlNotAllowed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.ip_addresses import AddressReach, IPAddress, looks_numeric, parse_number_host, parse_v6, reach_of

MAX_URL = 8_192
"""Characters; longer addresses are refused by most servers, and are a way to carry data out."""

DEFAULT_PORTS = {"http": 80, "https": 443}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BARE_WITH_PORT = re.compile(r"[^/?#:@]+:[0-9]+(?:[/?#]|\Z)")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\x9f\\\s\ud800-\udfff]")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_LOCAL_SUFFIXES = (".localhost", ".internal", ".local", ".localdomain", ".home.arpa", ".lan", ".intranet")
_ASCII_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))


@dataclass(frozen=True)
class WebUrl:
    """A checked http or https address. `text` is canonical ASCII without fragment."""

    text: str
    scheme: str
    host: str
    """Lower-case ASCII without trailing dot; IPv4 dotted, IPv6 without brackets."""
    port: int
    target: str
    """Path and query."""
    address: IPAddress | None
    """Where the host is a literal address."""

    @property
    def host_and_port(self) -> str:
        """The host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def has_local_name(self) -> bool:
        """Whether the name can only mean a machine nearby."""
        return self.address is None and is_local_name(self.host)

    def is_same_site(self, other: WebUrl) -> bool:
        """Whether a redirect from here to `other` stays where it was approved.

        The same host, or that with or without `www.`; the same port, or from http's to https's; never less encrypted.
        """
        same_host = self.host.removeprefix("www.") == other.host.removeprefix("www.")
        upgraded = (self.scheme, self.port, other.scheme, other.port) == ("http", 80, "https", 443)
        return same_host and (upgraded or (self.scheme == other.scheme and self.port == other.port))


def is_local_name(host: str) -> bool:
    """Return whether a host name is of the local network."""
    return "." not in host or host.endswith(_LOCAL_SUFFIXES)


def parse_url(text: str) -> WebUrl:
    """Read an address; without a scheme it is https. Raises InvalidArguments, UrlNotAllowed."""
    given = text.strip(" \t\r\n")
    if not given:
        raise InvalidArguments("url: is empty. Give an address such as https://example.org/page.")
    if len(given) > MAX_URL:
        raise InvalidArguments(f"url: has {len(given)} characters; at most {MAX_URL} are accepted.")
    bad = _FORBIDDEN.search(given)
    if bad:
        raise _malformed(given, f"{visible(bad[0])} (U+{ord(bad[0]):04X}) may not stand in it; percent-encode it")
    scheme, rest = _split_scheme(given)
    authority, target = _split_authority(rest)
    if "@" in authority:
        shown = f"{scheme}://...@{visible(authority.rsplit('@', 1)[1])}"
        raise UrlNotAllowed(
            f"{shown}: a name or password in the address is not accepted. Leave it out.", {"reason": "credentials"}
        )
    host_text, port = _split_port(given, scheme, authority)
    host, address = _parse_host(given, host_text)
    port_shown = "" if port == DEFAULT_PORTS[scheme] else f":{port}"
    host_shown = f"[{host}]" if isinstance(address, IPv6Address) else host
    return WebUrl(f"{scheme}://{host_shown}{port_shown}{target}", scheme, host, port, target, address)


def resolve_redirect(base: WebUrl, location: str) -> WebUrl:
    """Where a Location header leads. Raises what `parse_url` raises."""
    given = location.strip(" \t\r\n")
    if _FORBIDDEN.search(given):
        given = quote(given, safe=_ASCII_PRINTABLE, errors="replace")  # servers send blanks and raw UTF-8 here
    try:
        return parse_url(urljoin(base.text, given))
    except ValueError as error:
        raise _malformed(given, str(error)) from None


def refuse_literal(url: WebUrl, *, listed: bool) -> None:
    """Raise UrlNotAllowed for a host that may not be reached; `listed` lifts this for private ones."""
    if url.address is not None:
        refuse_address(url, url.address, listed=listed)
    elif url.has_local_name and not listed:
        raise UrlNotAllowed(
            f"{url.text}: {url.host} names a machine of the local network. {listing_hint(url)}", _details(url)
        )


def refuse_address(url: WebUrl, address: IPAddress, *, listed: bool) -> None:
    """Raise UrlNotAllowed for an address that this URL may not lead to."""
    reach = reach_of(address)
    if reach is AddressReach.PUBLIC or (reach is AddressReach.LOCAL and listed):
        return
    where = f"{url.host} is {address}, " if url.address is None else f"{address} is "
    if reach is AddressReach.LOCAL:
        raise UrlNotAllowed(f"{url.text}: {where}a private or loopback address. {listing_hint(url)}", _details(url))
    raise UrlNotAllowed(
        f"{url.text}: {where}a link-local, metadata or reserved address. These are never fetched.", _details(url)
    )


def listing_hint(url: WebUrl) -> str:
    """Return how to list a server."""
    return (
        "It is fetched only where the person lists it with its port: "
        f'[web] allow_domains = ["{url.host_and_port}"] in the policy.'
    )


def _details(url: WebUrl) -> dict[str, JsonValue]:
    return {"url": url.text, "host": url.host}


def _malformed(given: str, reason: str) -> ToolFailure:
    return InvalidArguments(f"url: {visible(given[:200])} is no usable address: {reason}.")


def _split_scheme(given: str) -> tuple[str, str]:
    """Return the scheme, and what follows its `//`."""
    if given.startswith("//"):
        return "https", given[2:]
    if _BARE_WITH_PORT.match(given):
        return "https", given
    found = _SCHEME.match(given)
    if found is None:
        return "https", given
    scheme = found[1].lower()
    if scheme not in DEFAULT_PORTS:
        raise UrlNotAllowed(
            f"{visible(given[:200])}: only http and https addresses are fetched, not {scheme}.", {"scheme": scheme}
        )
    rest = given[found.end() :]
    if not rest.startswith("//"):
        raise _malformed(given, f"write {scheme}://HOST/PATH")
    return scheme, rest[2:]


def _split_authority(rest: str) -> tuple[str, str]:
    end = min((found for mark in "/?#" if (found := rest.find(mark)) >= 0), default=len(rest))
    target = quote(rest[end:].split("#", 1)[0], safe=_ASCII_PRINTABLE)
    return rest[:end], target if target.startswith("/") else f"/{target}"


def _split_port(given: str, scheme: str, authority: str) -> tuple[str, int]:
    host, digits = authority, ""
    if authority.startswith("["):
        end = authority.find("]")
        if end < 0:
            raise _malformed(given, "a bracket is not closed")
        host, behind = authority[: end + 1], authority[end + 1 :]
        if behind and not behind.startswith(":"):
            raise _malformed(given, "only a port may follow the bracket")
        digits = behind[1:]
    elif ":" in authority:
        host, digits = authority.split(":", 1)
    if not digits:
        return host, DEFAULT_PORTS[scheme]
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and 1 <= int(digits) <= 65535):
        raise _malformed(given, f"{visible(digits[:20])} is no port (1 to 65535)")
    return host, int(digits)


def _parse_host(given: str, text: str) -> tuple[str, IPAddress | None]:
    try:
        if text.startswith("["):
            address = parse_v6(text[1:-1])
            return str(address), address
        host = ascii_host(text)
        if looks_numeric(host):
            number = parse_number_host(host)
            return str(number), number
    except ValueError as error:
        raise _malformed(given, str(error)) from None
    return host, None


def ascii_host(text: str) -> str:
    """Return a host name as it is looked up: lower-case, IDNA-encoded, without trailing dot. Raises ValueError."""
    if not text.isascii():
        import idna  # only for names that need it

        try:
            text = idna.encode(text, uts46=True).decode("ascii")
        except UnicodeError as error:
            raise ValueError(f"{visible(text)} is no host name: {error}") from None
    host = text.lower().removesuffix(".")
    if not host:
        raise ValueError("the host is missing")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{visible(text[:100])} is no host name")
    return host
