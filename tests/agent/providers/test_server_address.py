"""What people write into OLLAMA_HOST and base URLs, and what is made of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.agent.providers.server_address import ServerAddressError, ollama_address, openai_address


@pytest.mark.parametrize(
    ("written", "url"),
    [
        (None, "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("box:5000", "http://box:5000"),
        (":5000", "http://127.0.0.1:5000"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:80", "http://127.0.0.1"),
        ("[::1]", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ("[::]:5000", "http://[::1]:5000"),
        ("http://box", "http://box"),
        ("http://box:11434/", "http://box:11434"),
        ("HTTPS://Box.Example/ollama/", "https://box.example/ollama"),
        ("https://box:443", "https://box"),
        ("box:5000/api", "http://box:5000"),
        ("http://box:11434/v1", "http://box:11434"),
        ("  'box:5000' ", "http://box:5000"),
    ],
)
def test_every_form_of_ollama_host_is_understood(written: str | None, url: str):
    assert ollama_address(written).url == url


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("http://127.0.0.1:1234", "http://127.0.0.1:1234/v1"),
        ("127.0.0.1:1234", "http://127.0.0.1:1234/v1"),
        ("http://box/v1/", "http://box/v1"),
        ("https://api.example.com/v1/chat/completions", "https://api.example.com/v1"),
        ("https://box/openai/deployments/x", "https://box/openai/deployments/x"),
        ("http://0.0.0.0:8000/v1", "http://127.0.0.1:8000/v1"),
    ],
)
def test_base_urls_of_openai_servers_are_understood(written: str, url: str):
    assert openai_address(written).url == url


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.2", True),
        ("[::1]", True),
        ("box", False),
        ("10.0.0.1", False),
        ("x.localhost", True),
    ],
)
def test_addresses_of_this_machine_are_told_from_others(host: str, loopback: bool):
    assert ollama_address(host).loopback is loopback


def test_credentials_in_an_address_are_kept_apart_and_never_shown():
    address = openai_address("http://ada:geheim@box:80/v1")
    assert (address.url, address.credentials) == ("http://box/v1", ("ada", "geheim"))
    assert "geheim" not in f"{address} {address!r}"
    with pytest.raises(ServerAddressError) as caught:
        openai_address("ftp://ada:geheim@box")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "written", ["ftp://box", "http://box:99999", "http://box:x", "http://[::1", "bo x", "http://bo\nx"]
)
def test_what_is_no_address_is_refused_with_the_forms_there_are(written: str):
    with pytest.raises(ServerAddressError, match="http://host:port"):
        ollama_address(written)


@given(st.text())
def test_any_text_is_an_address_or_a_fault(text: str):
    for read in (ollama_address, openai_address):
        try:
            address = read(text)
        except ServerAddressError:
            continue
        assert address.url.startswith(("http://", "https://"))
        assert address.url.isprintable()
