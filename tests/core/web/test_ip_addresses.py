"""Which addresses are ever connected to, in whatever form they are written."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.core.base.errors import InvalidArguments, ToolFailure, UrlNotAllowed
from ollm_tui.core.web.allowed_hosts import AllowedDomains, parse_domain
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.ip_addresses import AddressReach, parse_number_host, reach_of
from ollm_tui.core.web.urls import parse_url, resolve_redirect

v4 = st.integers(0, 2**32 - 1).map(IPv4Address)


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("93.184.216.34", AddressReach.PUBLIC),
        ("2606:2800:220:1::1", AddressReach.PUBLIC),
        ("64:ff9b::5db8:d822", AddressReach.PUBLIC),
        ("127.0.0.1", AddressReach.LOCAL),
        ("127.255.255.254", AddressReach.LOCAL),
        ("10.1.2.3", AddressReach.LOCAL),
        ("172.31.255.255", AddressReach.LOCAL),
        ("192.168.0.1", AddressReach.LOCAL),
        ("100.64.0.1", AddressReach.LOCAL),
        ("::1", AddressReach.LOCAL),
        ("fd12:3456::1", AddressReach.LOCAL),
        ("::ffff:127.0.0.1", AddressReach.LOCAL),
        ("0.0.0.0", AddressReach.NEVER),
        ("169.254.169.254", AddressReach.NEVER),
        ("::ffff:169.254.169.254", AddressReach.NEVER),
        ("100.100.100.200", AddressReach.NEVER),
        ("168.63.129.16", AddressReach.NEVER),
        ("192.0.0.192", AddressReach.NEVER),
        ("224.0.0.1", AddressReach.NEVER),
        ("255.255.255.255", AddressReach.NEVER),
        ("::", AddressReach.NEVER),
        ("::127.0.0.1", AddressReach.NEVER),
        ("64:ff9b::7f00:1", AddressReach.NEVER),
        ("64:ff9b::a9fe:a9fe", AddressReach.NEVER),
        ("64:ff9b:1::1", AddressReach.NEVER),
        ("2002:7f00:1::", AddressReach.NEVER),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", AddressReach.NEVER),
        ("fe80::1", AddressReach.NEVER),
        ("fec0::1", AddressReach.NEVER),
        ("ff02::1", AddressReach.NEVER),
        ("fd00:ec2::254", AddressReach.NEVER),
        ("2001:db8::1", AddressReach.NEVER),
    ],
)
def test_each_address_is_judged_by_what_it_reaches(address: str, reach: AddressReach) -> None:
    assert reach_of(ip_address(address)) is reach


@given(v4)
def test_an_embedded_address_never_reaches_more_than_the_address_itself(address: IPv4Address) -> None:
    itself = reach_of(address)
    assert reach_of(IPv6Address(0xFFFF << 32 | int(address))) is itself
    for prefix in ("64:ff9b::", "2002::", "::"):
        shift = 80 if prefix == "2002::" else 0
        embedded = reach_of(IPv6Address(int(IPv6Address(prefix)) | int(address) << shift))
        is_loopback = prefix == "::" and int(address) == 1
        assert embedded is AddressReach.NEVER or (embedded is itself is AddressReach.PUBLIC) or is_loopback


@given(v4, st.integers(1, 4), st.lists(st.sampled_from(["{}", "0{:o}", "0x{:x}", "0X{:X}", "0x00{:x}"]), min_size=4))
def test_every_spelling_of_a_number_is_the_address_that_resolvers_make_of_it(
    address: IPv4Address, parts: int, forms: list[str]
) -> None:
    value = int(address)
    numbers = [value >> 8 * (3 - index) & 0xFF for index in range(parts - 1)]
    numbers.append(value & (256 ** (5 - parts) - 1))
    spelled = ".".join(form.format(number) for form, number in zip(forms, numbers, strict=False))
    assert parse_number_host(spelled) == address
    url = parse_url(f"http://{spelled}/x")
    assert (url.address, url.host) == (address, str(address))


LOOPBACK = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://017700000001/",
    "http://127.0.0.1./",
    "http://[::1]/",
    "http://[::ffff:7f00:1]/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://a.localhost/",
    "http://intranet/",
    "http://printer.local/",
    "http://metadata.google.internal/",
    "http://10.0.0.1:8080/",
]


@pytest.mark.parametrize("url", [*LOOPBACK, "http://169.254.169.254/latest/meta-data/", "http://[fe80::1]/"])
def test_what_is_not_public_is_refused_unless_listed_with_its_port(url: str) -> None:
    with pytest.raises(UrlNotAllowed):
        WebAccess(["*.example.org"]).refuse(parse_url(url))


@pytest.mark.parametrize("url", LOOPBACK)
def test_local_addresses_are_fetched_where_host_and_port_are_listed(url: str) -> None:
    parsed = parse_url(url)
    web = WebAccess([parsed.host_and_port])
    web.refuse(parsed)
    assert web.allows(parsed)
    other_port = parse_url(f"http://{parsed.host_and_port.rsplit(':', 1)[0]}:{parsed.port + 1}/")
    with pytest.raises(UrlNotAllowed, match="allow_domains"):
        web.refuse(other_port)


@pytest.mark.parametrize(
    "entry",
    ["169.254.169.254:80", "[fe80::1]:80", "127.0.0.1", "localhost", "10.0.0.1", "*.local", "*.local:80", "*", "a b",
     "x:0", "x.org:70000", "[::1]", "168.63.129.16:80", "0.0.0.0:8000", ""],
)  # fmt: skip
def test_what_cannot_be_listed_is_a_fault_and_lists_nothing(entry: str) -> None:
    with pytest.raises(ValueError, match="allow_domains"):
        parse_domain(entry)
    domains = AllowedDomains([entry])
    assert len(domains.errors) == 1
    assert not domains.cover(parse_url("https://example.org/"))


@pytest.mark.parametrize(
    ("entry", "url", "covered"),
    [
        ("docs.python.org", "https://docs.python.org/3/", True),
        ("docs.python.org", "https://DOCS.Python.org./3/", True),
        ("docs.python.org", "https://docs.python.org:8443/", True),
        ("docs.python.org", "https://docs.python.org:22/", False),
        ("docs.python.org", "https://evil-docs.python.org/", False),
        ("docs.python.org", "https://docs.python.org.evil.net/", False),
        ("*.readthedocs.io", "https://pytest.readthedocs.io/", True),
        ("*.readthedocs.io", "https://a.b.readthedocs.io/", True),
        ("*.readthedocs.io", "https://readthedocs.io/", False),
        ("*.readthedocs.io", "https://evilreadthedocs.io/", False),
        ("example.org:8000", "http://example.org:8000/", True),
        ("example.org:8000", "http://example.org/", False),
        ("münchen.de", "https://xn--mnchen-3ya.de/", True),
    ],
)
def test_domains_cover_whole_labels(entry: str, url: str, covered: bool) -> None:
    assert WebAccess([entry]).allows(parse_url(url)) is covered


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("example.com", "https://example.com/"),
        ("//example.com/a", "https://example.com/a"),
        ("example.com:8080/a", "https://example.com:8080/a"),
        ("HTTP://Example.COM:80/a?b#c", "http://example.com/a?b"),
        ("https://example.com?q=1", "https://example.com/?q=1"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("http://[2606:2800:220:1:0:0:0:1]/", "http://[2606:2800:220:1::1]/"),
    ],
)
def test_addresses_are_read_as_people_write_them(text: str, expected: str) -> None:
    assert parse_url(text).text == expected


@pytest.mark.parametrize(
    "text",
    ["file:///etc/passwd", "ftp://x.org/", "httpshttps://x.org", "javascript:alert(1)", "data:text/html,x",
     "gopher://x.org/", "http://user@x.org/", "https://user:pw@x.org/", "https://a@b@x.org/", "mailto:a@x.org"],
)  # fmt: skip
def test_other_schemes_and_credentials_are_refused(text: str) -> None:
    with pytest.raises(UrlNotAllowed) as refusal:
        parse_url(text)
    assert "pw" not in refusal.value.message


@pytest.mark.parametrize(
    "text",
    ["", " ", "http://", "https:///path", "http:/x.org", "http://x.org:99999/", "http://x.org:/\\y", "http://x .org/",
     "http://x.org/a b", "http://x\n.org/", "http://%31/", "http://[::1", "http://[fe80::1%25eth0]/", "http://1.2.3.4.5/",
     "http://256.1.1.1/", "http://1.2.3.08/", "http://-a.org/", "http://a..org/", "http://" + "a" * 64 + ".org/",
     "http://x.org/" + "a" * 9000, "http://x.org\\@y.org/"],
)  # fmt: skip
def test_what_is_no_address_is_a_fault_of_the_arguments(text: str) -> None:
    with pytest.raises(InvalidArguments, match="url"):
        parse_url(text)


@given(st.text())
def test_any_text_is_an_address_or_a_named_failure(text: str) -> None:
    try:
        url = parse_url(text)
    except ToolFailure:
        return
    assert url.text.isascii()
    assert parse_url(url.text) == url


@given(st.text())
def test_any_location_is_judged_like_an_address(location: str) -> None:
    try:
        url = resolve_redirect(parse_url("https://example.org/a/b"), location)
    except ToolFailure:
        return
    assert url.scheme in ("http", "https")
    assert url.text.isascii()
